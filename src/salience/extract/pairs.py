"""Pairs: what the words of a newer and an older statement say about how the two are related.

Subject first: a statement about my brother, about Bob or about another system changes nothing that is said of me, of
Alice or of this one. Then the attribute, then the value. English; in other languages the figures, identifiers and
shared words still count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import chain, pairwise
from typing import Final, Literal

from salience import text
from salience.extract.answers import DENIALS, SECOND_CLAUSE, only_denies
from salience.extract.conflicts import (
    NEGATORS,
    Rule,
    Wording,
    has_figure,
    opposites,
    read,
    terms,
)
from salience.extract.facts import fact
from salience.extract.owners import LISTS, MAX_OPENING, VERBS, any_language, is_verb, opening, verbs_of
from salience.extract.wordlists import MONTHS, WEEKDAYS

_IDENTIFIER: Final = re.compile(
    r"[^\W_][^\s,;:!?()\"'`]*(?:[\d_./#@\\-]+[^\s,;:!?()\"'`]*)+|\b[a-z]+[A-Z]\w*|\b[A-Z][a-z]+[A-Z]\w*|\b[A-Z]{2,}\w*"
)
_TRIM: Final = ".-/"
_CLAUSE_END: Final = re.compile(r"[,:](?!\d)|[;!?(—–]|\.\s|\s-\s")
_PERIOD: Final = re.compile(rf"\b(?:for|from|of) ({'|'.join((*MONTHS, *WEEKDAYS))}|20\d\d)\b", re.IGNORECASE)
_KIN: Final = {
    "mum": "mother", "mom": "mother", "dad": "father", "gran": "grandmother", "granny": "grandmother",
    "grandma": "grandmother", "nan": "grandmother", "grandpa": "grandfather", "grandad": "grandfather",
}  # fmt: skip
_OWN: Final = LISTS["selves"] & LISTS["possessives"]
_MAX_OWNER: Final = 3
"""Words of a text in which its owner is looked for."""
_FORMER: Final = frozenset(stem for word in ("old", "former", "previous") for stem in terms(word))
_OTHER_WAY: Final = {"to": "from", "from": "to"}
_HEDGES: Final = LISTS["plans"] | LISTS["guesses"] | LISTS["conditions"]
_INDEFINITE: Final = ("a", "an", "any", "no")
"""Words before what there is none of at all."""
About = Literal["self", "relative", "other", "thing", "unknown"]
"""Whose state a statement tells: of the speaker or user, of a relative or somebody or something with a name, of a thing
without one, or of nothing that is named."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A text as a statement about something.

    Attributes:
        wording: its words, terms and distinctions.
        about: the kind of its subject.
        subject: the stems of the words that name its subject.
        verb: the stem of its first verb, `be` for a copula; empty if none is known.
        stems: the stems of all its words.
        content: the stems of its content words.
        language: the detected language.
        names: its names and identifiers in lower case.
        figures: its numbers, dates and times.
        is_question: whether it only asks.
    """

    wording: Wording
    about: About
    subject: frozenset[str]
    verb: str
    stems: frozenset[str]
    content: frozenset[str]
    language: str
    names: frozenset[str]
    figures: frozenset[str]
    is_question: bool


@lru_cache(maxsize=4096)
def statement(content: str, speaker: str | None = None, user_id: str | None = None) -> Statement:
    """Return a text as a statement of its speaker, or of the user without one."""
    wording, language = read(content), any_language().language_of(content)
    names = {value.removesuffix("'s") for value in wording.names}
    names |= {found.strip(_TRIM).lower() for found in _IDENTIFIER.findall(wording.content)}
    names = {name for name in names if not name.isdigit() and not name.replace(":", "").replace(".", "").isdigit()}
    selves = {word for one in (speaker, user_id) if one for word in text.words(one)}
    first = text.words(_CLAUSE_END.split(wording.content, maxsplit=1)[0])
    verbs = verbs_of(language)
    by_words = _subject(first if len(first) > 1 else wording.words, names, selves, verbs)
    about, subject, verb = _of_chinese(wording.content) or by_words
    return Statement(
        wording,
        about,
        subject,
        verb,
        frozenset(stem for word in wording.words for stem in terms(word.removesuffix("'s"))),
        wording.stems if language == text.ENGLISH else frozenset(any_language().terms(wording.content, language)),
        language,
        frozenset(names),
        frozenset((*wording.numbers, *wording.dates)),
        wording.content.rstrip().endswith(("?", "？")),
    )


_CHINESE: Final = re.compile(
    r"(?P<other>(?:我|我们|他|她)的?(?:妈|爸|母|父|哥|姐|弟|妹|爷|奶|外公|外婆|老公|老婆|丈夫|妻|同事|朋友|邻居|表|堂|叔|姑|舅|姨|儿|女儿"
    r"|孩子|嫂|室友|男友|女友|公公|婆婆|岳)[妈爸哥姐弟妹爷奶叔姑舅姨亲子婆公嫂父母]{0,2}|他们?|她们?)|我"
)


def _of_chinese(content: str) -> tuple[About, frozenset[str], str] | None:
    """Return the subject of a Chinese text that opens with a pronoun or somebody's relative; None for another one."""
    found = _CHINESE.match(content)
    if found is None:
        return None
    return (
        ("relative", frozenset({found["other"].replace("的", "")}), "") if found["other"] else ("self", frozenset(), "")
    )


def _subject(
    words: Sequence[str], names: Set[str], selves: Set[str], verbs: Set[str]
) -> tuple[About, frozenset[str], str]:
    """Return the kind and the stems of the subject of a text, and its verb; `selves` are names of the first person."""
    at, end = opening(words, verbs)
    verb = "" if end is None else _verb(words[end])
    found = [word.removesuffix("'s") for word in words[at : at + MAX_OPENING if end is None else end]]
    if not found:  # "Deployed build 77", "Moved to Lisbon"
        return ("self" if at < len(words) else "unknown"), frozenset(), verb
    is_possessive = found[0] in LISTS["others"] and len(found) > 1  # "her sister"
    if not verb or (found[0] in LISTS["pronouns"] and not is_possessive):
        return "unknown", frozenset(), verb
    empty = LISTS["fillers"] | LISTS["selves"]
    named = [_KIN.get(word, word) for word in found if word not in empty]
    if named and (named[0] in selves or named[0] == "user"):
        named = named[1:]
    stems = frozenset(stem for word in named for stem in terms(word))
    if not stems:
        return "self", frozenset(), verb
    if found[0] in LISTS["others"] or not _kin().isdisjoint(stems):
        return "relative", stems, verb
    has_article = not LISTS["articles"].isdisjoint(words[max(at - 1, 0) : at + 1])  # a German noun is no name
    is_name = not has_article and any(set(text.words(name)) <= {*found} for name in names)
    return ("other" if is_name else "thing"), stems, verb


@cache
def _kin() -> frozenset[str]:
    """Return the stems of the words for relatives."""
    return frozenset(stem for word in LISTS["kin"] for stem in terms(_KIN.get(word, word)))


def _verb(word: str) -> str:
    if word in LISTS["copulas"] or "'" in word:
        return "be"
    return terms(word)[0] if terms(word) else word


FEATURES: Final = (
    "cosine", "margin",
    "both_self", "same_subject", "part_subject", "other_subject", "other_thing", "self_and_other", "self_and_thing",
    "unknown",
    "shared_of_older", "shared_of_newer", "shared", "own_older", "own_newer", "length",
    "names_differ", "names_lost", "names_kept", "identifiers_differ", "figures_differ", "figures_kept", "same_figures",
    "before_differs", "after_differs", "opposite_before", "opposite_after", "days_before",
    "later", "ended", "for_now", "past_newer", "past_older", "future_newer", "negation",
    "same_fact", "duplicate", "update", "contradiction", "single", "additive", "taste", "event_both", "question",
    "speaker_differs", "turns",
    "another", "same_verb", "both_be", "common_start", "same_frame", "after_only",
)  # fmt: skip
"""What `features` returns, in order."""


def features(
    newer: Statement, older: Statement, rule: Rule, *, cosine: float, margin: float,
    speakers: tuple[str | None, str | None], turns: bool, user_id: str | None, another: bool,
) -> list[float]:  # fmt: skip
    """Return the values of `FEATURES` for a pair.

    Args:
        newer: the new statement.
        older: the one that was stored before.
        rule: what the rules of `conflicts` say of them.
        cosine: relatedness of the two, [0, 1], on the calibrated scale.
        margin: how much more related the older one is than the other neighbours of the newer one, [-1, 1].
        speakers: of the newer and of the older one.
        turns: whether one of them is a turn of a conversation.
        user_id: whose memories they are.
        another: the result of `is_about_another`.
    """
    mine, theirs = newer.wording, older.wording
    one, other = newer.content, older.content
    shared = one & other
    before, after = differences(mine.words, theirs.words)
    pairs = zip(mine.words, theirs.words, strict=False)
    start = next(
        (at for at, (here, there) in enumerate(pairs) if here != there), min(len(mine.words), len(theirs.words))
    )
    names_lost = older.names - newer.names
    names_new = newer.names - older.names
    label = rule.label
    facts = [
        fact(wording.content, speaker=speaker, user_id=user_id)
        for wording, speaker in zip((mine, theirs), speakers, strict=True)
    ]
    abouts = {newer.about, older.about}
    apart_subjects = bool(newer.subject - older.subject and older.subject - newer.subject)
    return [
        cosine, margin,
        abouts == {"self"}, newer.subject == older.subject != frozenset(),
        newer.subject != older.subject and bool(newer.subject & older.subject) and not apart_subjects,
        abouts <= {"other", "relative", "thing"} and abouts != {"thing"} and apart_subjects,
        abouts == {"thing"} and apart_subjects, "self" in abouts and not abouts.isdisjoint({"other", "relative"}),
        abouts == {"self", "thing"},
        "unknown" in abouts,
        len(shared) / max(len(other), 1), len(shared) / max(len(one), 1), min(len(shared), 6) / 6,
        min(len(other - one), 8) / 8, min(len(one - other), 8) / 8, min(len(mine.words), 40) / 40,
        bool(names_lost and names_new), len(names_lost) / max(len(older.names), 1),
        len(newer.names & older.names) / max(len(older.names), 1),
        any(map(has_figure, names_lost)) and any(map(has_figure, names_new)),
        bool(newer.figures - older.figures and older.figures - newer.figures),
        len(newer.figures & older.figures) / max(len(older.figures), 1),
        bool(older.figures) and newer.figures == older.figures,
        min(len(before), 3) / 3, min(len(after), 3) / 3,
        any(any(opposites(*pair)) for pair in before), any(any(opposites(*pair)) for pair in after),
        any(_are_days(*pair) for pair in before),
        bool(mine.later), bool(mine.ended), bool(theirs.for_now),
        mine.is_event, theirs.is_event, not LISTS["plans"].isdisjoint(mine.words),
        (mine.denies != theirs.denies),
        facts[0] is not None and facts[1] is not None and facts[0].key == facts[1].key,
        label == "duplicate", label == "update", label == "contradiction",
        bool(mine.single_verbs and theirs.single_verbs),
        not LISTS["additive"].isdisjoint(mine.words) and not LISTS["additive"].isdisjoint(theirs.words),
        not LISTS["taste"].isdisjoint(mine.words) and not LISTS["taste"].isdisjoint(theirs.words),
        mine.is_event and theirs.is_event, newer.is_question or older.is_question,
        speakers[0] != speakers[1], turns,
        another, newer.verb == older.verb != "", newer.verb == older.verb == "be",
        min(start, 5) / 5,
        newer.verb == older.verb != "" and newer.subject == older.subject and (start >= 3 or len(newer.subject) > 0),
        bool(after) and not before,
    ]  # fmt: skip


def is_about_another(newer: Statement, older: Statement) -> bool:
    """Return whether two statements are about different subjects, so that neither changes what the other says.

    That is so of the speaker and somebody else, of a relative and anything else, of two people or systems with
    different names, and of two things of one kind ("the wifi at home", "the wifi at the office"), unless one text
    mentions the subject of the other: "Ann left, Bob runs it now" changes "Ann runs it". With one verb, that is its
    object: "Bob reports to Cleo" leaves "Ann reports to Bob" true. Of a former thing with a value of its own ("The old
    server at AWS is off"), and of things that opposites or periods tell apart ("my left knee", "my right knee"; "the
    rent for May", "for June"; "the flight to Oslo", "from Oslo"), it is so in any case.
    """
    periods = {_period(newer), _period(older)}
    if len(periods) == 2 and "" not in periods:
        return True
    is_former = not (newer.subject - older.subject).isdisjoint(_FORMER)
    has_own_value = not newer.names | newer.figures <= older.names | older.figures
    if is_former and has_own_value and not SECOND_CLAUSE.search(newer.wording.content):
        return True
    before, _ = differences(newer.wording.words, older.wording.words)
    for mine, theirs in before:
        are_opposite = any(opposites(mine, theirs))
        if are_opposite and _opens(newer.wording.words, mine[0]) and _opens(older.wording.words, theirs[0]):
            return True
    if any((_OTHER_WAY[preposition], place) in _ways(older) for preposition, place in _ways(newer)):
        return True
    own_newer, own_older = newer.subject - older.subject, older.subject - newer.subject
    kinds = {newer.about, older.about}
    if kinds in ({"self", "relative"}, {"thing", "relative"}):
        relative, other = (newer, older) if newer.about == "relative" else (older, newer)
        people = relative.subject & _kin()  # of "my brother's dog", "brother" and "dog"
        return not people <= other.stems if people else relative.subject.isdisjoint(other.stems)
    if kinds == {"self", "other"} or (kinds == {"thing", "other"} and _have_two_owners(newer, older)):
        is_apart = True
    elif kinds <= {"relative", "other"}:
        is_apart = bool(own_newer and own_older)
    else:
        is_apart = kinds == {"thing"} and bool(own_newer and own_older and newer.subject & older.subject)
    mentions_none = own_newer.isdisjoint(older.stems) and own_older.isdisjoint(newer.stems)
    is_object = newer.verb == older.verb not in ("", "be") and not newer.wording.later
    return is_apart and (mentions_none or is_object)


def _have_two_owners(one: Statement, other: Statement) -> bool:
    """Return whether one statement opens with "my" and the other one with "Paul's"."""
    mine, named = (one, other) if one.about == "thing" else (other, one)
    possessors = {word.removesuffix("'s") for word in named.wording.words[:_MAX_OWNER] if word.endswith("'s")}
    return not _OWN.isdisjoint(mine.wording.words[:_MAX_OWNER]) and not possessors.isdisjoint(named.names)


def _ways(one: Statement) -> set[tuple[str, str]]:
    """Return each preposition of a way in the subject and the word after it: ("to", "oslo") of "the flight to Oslo"."""
    words = one.wording.words
    return {pair for pair in pairwise(words) if pair[0] in _OTHER_WAY and _opens(words, pair[0])}


def _period(one: Statement) -> str:
    """Return the month, weekday or year of which a statement tells, such as "may" of "the rent for May"; else ""."""
    found, words = _PERIOD.search(one.wording.content), one.wording.words
    word = found[1].lower() if found else ""
    if word not in words:
        return ""
    is_heading = words.index(word) == 2 and not words[0].endswith("ed")  # "Rent for May was 900"
    return word if is_heading or _opens(words, word) else ""


def _opens(words: Sequence[str], word: str) -> bool:
    """Return whether a word of a text comes before its first verb; after an article, "rent" is none."""
    before = ("", *words[: words.index(word)])
    return not any(is_verb(other, VERBS) for article, other in pairwise(before) if article not in LISTS["articles"])


def repeats_event(newer: Statement, older: Statement) -> bool:
    """Return whether two statements tell of events of one kind: "deployed to eu" happened, whatever came after.

    A word of change in the newer one ("now", "no longer") makes it more than an event.
    """
    both = newer.wording, older.wording
    same = newer.verb == older.verb not in ("", "be") and all(wording.is_event for wording in both)
    return same and not newer.wording.later and not newer.wording.ended


def denies_another_value(one: Statement, other: Statement) -> bool:
    """Return whether a statement only denies, or says is over, a value that the other one does not tell.

    "We never deploy on Fridays" and "We no longer deploy on Fridays" leave "We deploy on Tuesdays" and "We deploy from
    main" true. The first one has figures that the other one lacks, or other words in the same place, and no other word
    of content that the other one lacks. Of the words of change it has "no longer" or the like: the day in "We stopped
    on Friday" can be that of the change.
    """
    wording, terms_of = one.wording, partial(any_language().terms, language=one.language)
    denies = bool(wording.ended) or (_denies(one) and not _denies(other))
    if not denies or wording.ended != wording.later or SECOND_CLAUSE.search(wording.content):
        return False
    denials = NEGATORS.union(DENIALS.get(one.language, ()), *map(text.words, wording.ended))
    saying = denials.intersection(wording.words)
    added = one.content - other.content - {one.verb} - {*terms_of(" ".join(saying))}
    if one.figures:
        is_apart = one.figures.isdisjoint(other.figures) and "every day" not in other.figures
        can_begin = wording.ended != () and "from" in wording.words  # "from Monday we no longer use Jenkins"
        return is_apart and not added and not can_begin
    values, words = set[str](), ("", *wording.words)
    for mine, _ in chain(*differences(wording.words, other.wording.words)):
        own = [word for word in mine if word not in saying and not other.stems.issuperset(terms(word))]
        if own and words[words.index(own[0]) - 1] not in (*saying, *_INDEFINITE):  # "is not ready" can deny "is up"
            values.update(own)
    return bool(values) and added.issubset(terms_of(" ".join(values)))


def hedges(newer: Statement, older: Statement) -> bool:
    """Return whether a newer statement tells only a plan, a guess or a condition, unlike the older one.

    "Maybe the meeting is at ten" leaves "The meeting is at nine" true. A text of several clauses can state more, unless
    it begins with a condition; so can one with a word of change, such as "now".
    """
    wording = newer.wording
    if wording.later or not _hedges(wording) or _hedges(older.wording):
        return False
    is_conditional = not LISTS["conditions"].isdisjoint(wording.words[:1])
    return is_conditional or _CLAUSE_END.search(wording.content.rstrip(".")) is None


def _hedges(wording: Wording) -> bool:
    found = _HEDGES & wording.vocabulary
    return bool(found - {"may"} if wording.dates else found)


def _denies(one: Statement) -> bool:
    is_foreign = one.language != text.ENGLISH and one.language in DENIALS
    return only_denies(one.wording.content, one.language) if is_foreign else one.wording.denies


Difference = tuple[list[str], list[str]]
"""Words of the newer and of the older text in the same place."""


@lru_cache(maxsize=64)  # of one pair after the other: it is asked for twice
def differences(newer: tuple[str, ...], older: tuple[str, ...]) -> tuple[list[Difference], list[Difference]]:
    """Return the places where two texts have different words: before a shared word, and at the end.

    What differs before the shared words says which thing is meant ("the wifi password at home is"), what differs after
    them is its value.
    """
    before: list[Difference] = []
    after: list[Difference] = []
    blocks = shared_blocks(newer, older)
    said = [any(word not in LISTS["determiners"] for word in newer[at : at + size]) for at, _, size in blocks]
    start = first = 0
    for place, (end, last, size) in enumerate(blocks):
        if start < end and first < last:
            mine, theirs = _content(newer[start:end]), _content(older[first:last])
            if mine and theirs:
                (before if any(said[place:]) else after).append((mine, theirs))
        start, first = end + size, last + size
    return before, after


def shared_blocks(newer: Sequence[str], older: Sequence[str]) -> list[tuple[int, int, int]]:
    """Return where two texts have the same words: place in each, and number of words; an empty block ends the list.

    These are the matching blocks of `difflib.SequenceMatcher`: the longest one, then those on either side of it. It
    looks at the shared words alone, which makes it several times as fast.
    """
    places: dict[str, list[int]] = {}
    for place, word in enumerate(older):
        places.setdefault(word, []).append(place)
    shared = [(at, places[word]) for at, word in enumerate(newer) if word in places]
    found, rest = [(len(newer), len(older), 0)], [(0, len(newer), 0, len(older))]
    while rest:
        start, end, first, last = rest.pop()
        longest, before, ends = (0, 0, 0), -1, dict[int, int]()  # `ends`: place in `older` -> words that end there
        for at, others in shared:
            if at < start:
                continue
            if at >= end:
                break
            known, before, ends = ends if at == before + 1 else {}, at, {}
            for other in others:
                if first <= other < last:
                    ends[other] = size = known.get(other - 1, 0) + 1
                    if size > longest[2]:
                        longest = at - size + 1, other - size + 1, size
        at, other, size = longest
        if size:
            found.append(longest)
            rest += (start, at, first, other), (at + size, end, other + size, last)
    return sorted(found)


def _content(words: Sequence[str]) -> list[str]:
    return [word for word in words if word not in LISTS["fillers"]]


def _are_days(one: Sequence[str], other: Sequence[str]) -> bool:
    return all(any(word.removesuffix("s") in WEEKDAYS for word in words) for words in (one, other))
