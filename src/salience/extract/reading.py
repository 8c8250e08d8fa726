"""Reading: what the rules find in a question, read once and used by the search and by the ranking."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Final

from salience.extract import speakers as speaker_names
from salience.extract import when
from salience.extract.answers import asked_kind, asks_value
from salience.extract.distinctions import details, numbered
from salience.extract.phrases import detect_intent
from salience.extract.rivals import Rivals, of_self, rivals
from salience.extract.roles import reversed_role
from salience.extract.tense import QuestionTense, question_tense
from salience.ports import SessionSpan
from salience.records import PERIOD, Intent, TimeCue
from salience.text import ENGLISH, Tokeniser, normalise, phrases

MOST_CORRECTED: Final = 8
"""Terms of a question that are corrected: one with more unknown words is not misspelt, and each takes time."""
NO_VALUE: Final = "lacks:value"
"""The distinction of a text that only denies."""
MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A question as the rules read it; the default of each field is what a question says nothing about.

    Attributes:
        now: the instant of the question.
        texts: the question, and the question in the first person if it names a speaker ("What did I paint?" for "What
            did Caroline paint?"): speakers say "I" and not their own name, so this text is nearer to their words.
        terms: its distinct index terms; of a question for everything in a window of time, only those that fit some
            memories of that time better.
        every_term: all its index terms, by which memories without a vector are found in any case.
        correctable: terms that may be misspelt.
        names: names that it may contain, in normal form, without those of speakers.
        speakers: names and roles of the speakers that it means, in normal form.
        is_of_user: whether it is about the user.
        names_user: whether it names the user of the scope, who says "I" in what is stored.
        specifics: the terms of its numbers, dates, names and identifiers; for the stage `replaced`.
        distinctions: its numbers and names, as distinctions.
        named: the terms of its names if it is in English, without those of speakers and the user.
        numbered: the terms of things that a number names: "pr" in "Was PR 89 merged?".
        rivals: its words that say which of several things is meant.
        lacking: the distinction of memories without an answer of the kind that it asks for; empty for any kind.
        reversed: the distinction of memories that say it the other way round; empty for most questions.
        asks_value: whether a memory that only denies what it asks for is no answer.
        anchor: the terms that name the event which bounds its time (see `TimeCue`).
        intent: its intent, with the time that it names.
        tense: whether it asks for a present state, for something past, or for a state that is over.
    """

    now: datetime
    texts: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    every_term: tuple[str, ...] = ()
    correctable: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()
    is_of_user: bool = False
    names_user: bool = False
    specifics: tuple[str, ...] = ()
    distinctions: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    numbered: tuple[str, ...] = ()
    rivals: tuple[Rivals, ...] = ()
    lacking: str = ""
    reversed: str = ""
    asks_value: bool = False
    anchor: tuple[str, ...] = ()
    intent: Intent = Intent()
    tense: QuestionTense = "present"

    @property
    def rival_words(self) -> tuple[str, ...]:
        """The distinct terms and distinctions of the members of `rivals`, and those of memories that lack an answer."""
        words = [word for one in self.rivals for member in one.members for word in member]
        lacking = (self.lacking, self.reversed, NO_VALUE if self.asks_value else "")
        return tuple(dict.fromkeys(filter(None, (*words, *lacking))))


def read(
    text: str,
    now: datetime,
    tokeniser: Tokeniser,
    *,
    intents: Mapping[str, Sequence[str]],
    reads_time: bool,
    first_person: bool,
    speakers: Callable[[Sequence[str]], Iterable[str]] | None,
    user_id: str | None,
    sessions: Callable[[], Sequence[SessionSpan]],
    session_id: str | None,
) -> Reading:
    """Return the reading of a question.

    Args:
        text: the question.
        now: its instant.
        tokeniser: splits it into terms.
        intents: words of each intent.
        reads_time: whether the time that it names matters.
        first_person: whether to put it into the first person of a speaker that it names.
        speakers: the known speakers among some names; None if speakers do not matter.
        user_id: the user of its scope.
        sessions: the sessions that it can count, in the order of their time.
        session_id: the session of its scope, which is none of the last ones.
    """
    language = tokeniser.language_of(text)
    every_term, names = tokeniser.query_terms(text, language), phrases(text)
    terms = every_term
    known: tuple[str, ...] = ()
    meant: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    first_person_text, names_user = text, False
    if speakers is not None:
        named = speaker_names.named(text, speakers(names))
        known = speaker_names.forms(named)
        meant = (*known, *speaker_names.roles(text))
        names = tuple([name for name in names if name not in known]) if known else names
        own = speaker_names.named(text, dict.fromkeys((user_id, user_id.title()))) if user_id is not None else ()
        names_user = bool(own)
        if names_user:
            named, meant = (*named, *own), (*meant, *speaker_names.USER)
        if named and first_person and language == speaker_names.LANGUAGE:
            first_person_text = speaker_names.first_person(text, named)
    intent = detect_intent(text, intents)
    cue = when.read(text, now) if reads_time else None
    if cue is not None and cue.sessions is not None:
        cue = _with_window(cue, sessions(), now, session_id)
    if cue is not None:
        intent = replace(intent, time=cue)
        if PERIOD in intents and when.asks_only_time(text, cue, known):
            intent = replace(intent, name=PERIOD, words=cue.words)
            preferred = tokeniser.terms(when.preferences(text, cue), language)
            terms = tuple([term for term in terms if term in preferred])
    correctable = tokeniser.correctable(text, language)
    found = details(text)
    specific = [value for kind, _, value in [one.partition(":") for one in found] if kind != "claim"]
    specifics = tokeniser.terms(" ".join(specific), language)
    kinds = tokeniser.terms(" ".join(numbered(text)), language)
    selves = {"name:" + normalise(name) for name in (*known, *own)}
    is_english = language == ENGLISH  # in German, every noun looks like a name
    others = [one[5:] for one in found if is_english and one.startswith("name:") and one not in selves]
    anchor = tokeniser.terms(cue.anchor, language) if cue is not None else ()
    has_window = cue is not None and (cue.start is not None or cue.end is not None)
    terms_of = partial(tokeniser.terms, language=language)
    return Reading(
        now=now,
        texts=(text,) if first_person_text == text else (text, first_person_text),
        terms=terms,
        every_term=every_term,
        correctable=frozenset(islice(filter(correctable.__contains__, terms), MOST_CORRECTED)),
        names=names,
        speakers=meant,
        is_of_user=not set(meant).isdisjoint(speaker_names.USER),
        names_user=names_user,
        specifics=tuple([term for term in specifics if term in terms]),
        distinctions=tuple([one for one in found if one.startswith(("number:", "name:"))]),
        named=tuple([term for term in tokeniser.terms(" ".join(others), language) if term in terms]),
        numbered=tuple([term for term in kinds if term in terms]),
        rivals=(
            *rivals(text, found, language, terms_of, searched=terms, has_window=has_window),
            *of_self(first_person_text, terms_of, searched=terms),
        ),
        lacking=f"lacks:{kind}" if (kind := asked_kind(text, language)) else "",
        reversed=reversed_role(text, language),
        asks_value=asks_value(text, language),
        anchor=tuple([term for term in anchor if term in terms]),
        intent=intent,
        tense=question_tense(text),
    )


def _with_window(
    cue: TimeCue, sessions: Sequence[SessionSpan], now: datetime, session_id: str | None
) -> TimeCue | None:
    """Return the cue with the time of the sessions that it counts; None if there are no such sessions.

    Sessions that begin after `now` do not count, and the question's own session is none of the last ones.
    """
    first, last = cue.sessions or (1, 1)
    sessions = [one for one in sessions if one.start <= now and (first > 0 or one.id != session_id)]
    chosen = sessions[first - 1 : last] if first > 0 else sessions[first : last + 1 or None]
    if not chosen or (first < 0 and len(sessions) < -last):
        return None
    end = max([one.end for one in chosen]) + MICROSECOND
    return replace(cue, start=min([one.start for one in chosen]), end=end)
