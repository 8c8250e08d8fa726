"""Conflicts: label a new text against a similar older one as duplicate, update, contradiction or related.

A cosine says that two texts are about the same thing; the words in which they differ say whether both can be true. A
pair that the words do not decide is `related`. The word lists are English; the rules were fitted on SICK train.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib import resources
from itertools import pairwise
from typing import Final

from salience import text
from salience.extract.distinctions import (
    BASES,
    CARDINALS,
    CONTRASTS,
    HUNDREDS,
    MOMENTS,
    MULTIPLES,
    ORDINALS,
    RELATIVE,
    UNITS,
    details,
    only_asks,
)
from salience.extract.facts import fact
from salience.extract.owners import owner
from salience.extract.phrases import Phrasebook
from salience.extract.wordlists import MONTHS, WEEKDAYS, load
from salience.ports import EDGE
from salience.records import Label

MAX_LENGTH: Final = 1000
"""Characters read of a text; a longer one is about many things."""
MAX_QUOTE: Final = 60
"""Longest quotation, in characters."""
EACH_DIFFERS: Final = 0.7
"""Share of the way from the paraphrase threshold to 1 that duplicates need if each text has a word of its own."""
MIN_SHARE: Final = 0.5
"""Share of the paraphrase threshold below which two texts are about different things."""
DENIED: Final = 0.75
"""Share of the content words of a denial that the other text must contain."""
ADDED: Final = 1
"""Content words that one of two texts may add; one more if their cosine reaches the paraphrase threshold."""

_PHRASES: Final = load("conflicts")
_LISTS: Final = {name: frozenset(words) for name, words in _PHRASES.items()}
TRANSITIONS: Final[Mapping[str, str]] = {
    "from": r"\bfrom (?P<old>[^.,;]+?) (?:in)?to \S",
    "replaced": r"\breplac(?:ed|es|ing) (?!by\b|with\b)(?P<old>[^.,;]+?)(?: (?:with|by) \S|[.,;]|\Z)"
    r"|(?P<old2>[^.,;]+?) (?:was|were|is|are|has been|have been|got) replaced (?:with|by) \S",
    "instead": r"\b(?:instead of|rather than|in place of) (?P<old>[^.,;]+)",
    "took over": r"\b(?:supersedes|superseded|(?:takes|took) over (?:[^.,;]+ )?from) (?P<old>[^.,;]+)",
}
"""Patterns of the replaced value."""
_TELLS_WHEN: Final = re.compile(r"(?:19|20)\d\d|rank \d+")
"""A year or an ordinal."""

Own = tuple[list[str], list[str]]
"""The words that only the newer, and only the older text contains, in order."""
Evidence = tuple[str, ...]
"""Reasons such as `number: 30 -> 40`; empty for none."""
NEGATORS: Final = frozenset(phrase for phrase in CONTRASTS["not"] if " " not in phrase)
"""Single words that negate."""
NUMERALS: Final = frozenset(
    word for table in (UNITS, MOMENTS) for spellings in (*table.values(), *table) for word in spellings.split()
) | frozenset(
    {*CARDINALS, *HUNDREDS, *MULTIPLES, *ORDINALS, *RELATIVE, *MONTHS, *(month[:3] for month in MONTHS), *WEEKDAYS}
    | {"am", "pm", *(f"{day}s" for day in WEEKDAYS)}
)
"""Words of numbers, dates and units."""
_CUES: Final = frozenset(" ".join((*_PHRASES["later"], *_PHRASES["ended"], *_PHRASES["for_now"])).split())
EMPTY: Final = text.ENGLISH_STOPWORDS | _LISTS["light"] | NUMERALS | (NEGATORS - BASES.keys()) | _CUES
"""Words without content."""
_SMALL: Final = _LISTS["light"] | NUMERALS
_PAST_FORMS: Final = frozenset(load("time")["past_forms"])
_PASSIVE: Final = frozenset({"is", "are", "be", "been", "being"})
_BETWEEN: Final = frozenset({"now", "currently", "still", "also", "not", "only", "always", "no", "longer"})


@dataclass(frozen=True, slots=True)
class Rule:
    """The label of a new text against an older one.

    Attributes:
        label: `duplicate`: both say the same; `update`: the new text states a later value of the same thing;
            `contradiction`: both cannot be true, and nothing says which is later; `related`: none of these.
        because: reasons such as `negation: not` or `number: 30 -> 40`, the older value first. They quote the texts, so
            show them only to readers of both.
    """

    label: Label
    because: tuple[str, ...] = ()

    @property
    def kinds(self) -> str:
        """The kinds of evidence, without the words of the texts: `number, time`."""
        return ", ".join(dict.fromkeys([reason.partition(":")[0] for reason in self.because]))


@lru_cache(maxsize=64)  # of one pair after the other: relations and conflicts both ask for it
def relation(
    new: str,
    old: str,
    *,
    similarity: float,
    paraphrase: float,
    new_speaker: str | None = None,
    old_speaker: str | None = None,
) -> Rule:
    """Return the label of the text `new` against the text `old`, which was stored before.

    Args:
        new: any text.
        old: any text.
        similarity: raw cosine of the two, [-1, 1].
        paraphrase: the embedder's raw cosine of texts that say the same.
        new_speaker: speaker of the new text, if known.
        old_speaker: speaker of the old text, if known.
    """
    speakers = [text.normalise(speaker) if speaker else "nobody" for speaker in (old_speaker, new_speaker)]
    is_one = speakers[0] == speakers[1]
    mine, theirs = read(new), read(old)
    if is_one and mine.normal == theirs.normal:
        return Rule("duplicate", ("same words",))
    if is_one and (stated := _same_fact(new, old, new_speaker)):
        return stated
    if similarity < paraphrase * MIN_SHARE - EDGE:
        return Rule("related")
    if not is_one and not _LISTS["first_person"].isdisjoint((*mine.words, *theirs.words)):
        return Rule("related", (f"speaker: {quoted(speakers[0])} -> {quoted(speakers[1])}",))
    if over := _over(mine, theirs) or _replaced(mine, theirs):
        return Rule("update", over)
    if reasons := conflict(mine, theirs, similarity >= paraphrase - EDGE):
        later = tuple(f"time: {found}" for found in (*mine.later, *theirs.for_now)[:1])
        return Rule("update" if later else "contradiction", (*reasons, *later))
    is_whole = max(len(new), len(old)) <= MAX_LENGTH
    if is_one and is_whole and _says_the_same(mine, theirs, similarity, paraphrase):
        return Rule("duplicate", ("same meaning",))
    return Rule("related")


def _same_fact(new: str, old: str, speaker: str | None) -> Rule | None:
    """Return the label of two plain statements of one fact; None if they are not."""
    mine = fact(new, speaker=speaker)
    theirs = fact(old, speaker=speaker) if mine else None
    if mine is None or theirs is None or mine.key != theirs.key:
        return None
    one, other = set(text.words(mine.value)), set(text.words(theirs.value))
    if one == other:
        return Rule("duplicate", (f"fact: {mine.key}", f"value: {quoted(mine.value)}"))
    if one < other or other < one:  # "Berlin" and "Berlin, Germany"
        return None
    return Rule("update", (f"fact: {mine.key}", f"value: {quoted(theirs.value)} -> {quoted(mine.value)}"))


def _over(mine: Wording, theirs: Wording) -> Evidence:
    """Return the phrase by which the new text says that the older state is over."""
    if not mine.ended or theirs.ended or name_others(mine, theirs):
        return ()
    shared = mine.stems & theirs.stems
    return (f"time: {mine.ended[0]}",) if shared and len(shared) >= DENIED * len(mine.stems) else ()


def _replaced(mine: Wording, theirs: Wording) -> Evidence:
    """Return what the new text replaces in the older one: "from Vim to Emacs"."""
    if name_others(mine, theirs):
        return ()
    for name, gone in mine.transitions:
        if name == "from" and not mine.later:
            continue
        words = set(text.words(gone)) - text.ENGLISH_STOPWORDS
        if words and words <= theirs.vocabulary and not mine.vocabulary <= theirs.vocabulary:
            return (f"{name}: {quoted(gone)}",)
    return ()


def _says_the_same(mine: Wording, theirs: Wording, similarity: float, paraphrase: float) -> bool:
    """Return whether two texts mean the same: near enough, with the same distinctions in the same order."""
    ours, others = mine.word_stems, theirs.word_stems
    both = set(ours) & set(others)
    each = len(both) < len(set(ours)) and len(both) < len(set(others))
    needed = paraphrase + EACH_DIFFERS * (1 - paraphrase) if each else paraphrase
    if similarity < needed - EDGE or not (_covers(mine, theirs) and _covers(theirs, mine)):
        return False
    ends = [reading.words[-1] for reading in (mine, theirs) if reading.words]
    if len({*ends}) > 1 and any(
        len(word) == 1 for word in ends
    ):  # "folder A", "vault/b": a letter at the end is a name
        return False
    turns = [len(_LISTS["turns"].intersection(reading.words)) for reading in (mine, theirs)]
    in_order = [stem for stem in ours if stem in both] == [stem for stem in others if stem in both]
    return in_order or turns[0] != turns[1]


def _covers(one: Wording, other: Wording) -> bool:
    """Return whether one text has the owner, the claims and all numbers, dates and names of the other, in order.

    The rule is that of `rank.stages.covers`.
    """
    if one.claims != other.claims or one.owner != other.owner:
        return False
    remaining = [iter(values) for values in one.ordered]
    return all(value in rest for rest, values in zip(remaining, other.ordered, strict=True) for value in values)


def names_change(new: str, old: str) -> bool:
    """Return whether the new text names a later time, or the older one is temporary."""
    mine, theirs = read(new), read(old)
    return bool(mine.later or (mine.ended and not theirs.ended) or theirs.for_now)


def conflict(mine: Wording, theirs: Wording, alike: bool) -> Evidence:
    """Return why a new text and an older one cannot both be true; empty if they can.

    Args:
        mine: the new text.
        theirs: the older text.
        alike: whether their cosine reaches the paraphrase threshold.
    """
    if swapped := _swapped(mine, theirs):
        return swapped
    if name_others(mine, theirs):
        return ()
    if mine.denies != theirs.denies:
        return _denied(mine, theirs)
    own = apart(mine, theirs)
    return _opposite(mine, theirs, own) or _other_number(mine, theirs, alike) or _other_value(mine, theirs, own)


def _swapped(mine: Wording, theirs: Wording) -> Evidence:
    """Return words that change sides: names around a negation, or words around one with a direction ("reports to")."""
    new, old = mine.names_and_claims, theirs.names_and_claims
    if mine.denies and mine.stems == theirs.stems and new != old and sorted(new) == sorted(old):
        return (f"order: {quoted(' '.join(old))} -> {quoted(' '.join(new))}",)
    if len(mine.words) != len(theirs.words) or sorted(mine.words) != sorted(theirs.words):
        return ()
    places = [at for at, (one, other) in enumerate(zip(mine.words, theirs.words, strict=True)) if one != other]
    if not places or _LISTS["directed"].isdisjoint(mine.words[places[0] : places[-1]]):
        return ()
    return (f"order: {quoted(theirs.words[places[0]])} -> {quoted(mine.words[places[0]])}",)


def _denied(mine: Wording, theirs: Wording) -> Evidence:
    """Return the negation by which one text denies the other; the denial must not say more."""
    no, yes = (mine, theirs) if mine.denies else (theirs, mine)
    if not no.stems or len(no.stems & yes.stems) < DENIED * len(no.stems):
        return ()
    if not no.details <= yes.details:
        return ()  # "not 60" allows "30"
    denying, saying = apart(no, yes)
    if any(opposites([word for word in denying if word not in NEGATORS], saying)):
        return ()  # "not open" is "closed"
    return (f"negation: {next((word for word in no.words if word in NEGATORS), 'not')}",)


def _opposite(mine: Wording, theirs: Wording, own: Own) -> Evidence:
    """Return opposites, one in each text, if the texts otherwise say the same."""
    if mine.is_indefinite or theirs.is_indefinite:
        return ()
    for new, old in opposites(*own):
        says_which = _says_which(mine, new) and _says_which(theirs, old)
        if not says_which and _same_subject(mine, theirs, (new, old), True):
            return (f"opposite: {old} -> {new}",)
    return ()


def _says_which(reading: Wording, word: str) -> bool:
    """Return whether a word only says which thing is meant: "the upload limit is 20"."""
    after, copulas = reading.words[reading.words.index(word) + 1 :], _LISTS["copulas"]
    return word not in _LISTS["quantities"] and not copulas.isdisjoint(after[1:]) and after[0] not in copulas


def _same_subject(mine: Wording, theirs: Wording, values: Iterable[str], alike: bool) -> bool:
    """Return whether two texts are about the same thing: apart from `values`, at most one says a little more."""
    excluded = set(values)
    taken = {stem for stem, word in (*mine.terms, *theirs.terms) if word in excluded}
    left, right = mine.stems - theirs.stems - taken, theirs.stems - mine.stems - taken
    return bool(mine.stems & theirs.stems) and not (left and right) and len(left | right) <= ADDED + alike


def _other_number(mine: Wording, theirs: Wording, alike: bool) -> Evidence:
    """Return a number or date that replaces another one."""
    if mine.opens_with_number and theirs.opens_with_number:
        return ()
    for kind, ours, others in (("number", mine.numbers, theirs.numbers), ("date", mine.dates, theirs.dates)):
        if not ours or not others:
            continue
        new = [value for value in ours if value not in others]
        old = [value for value in others if value not in ours]
        if not (new and old and _same_subject(mine, theirs, (*new, *old), alike)):
            continue
        is_time = kind == "date" or all(map(_TELLS_WHEN.fullmatch, (*new, *old)))
        if mine.later or not (is_time and states_event((*mine.words, *theirs.words))):
            return (f"{kind}: {_shown(old)} -> {_shown(new)}",)
    return ()


def _shown(values: Sequence[str]) -> str:
    """Return the most specific of some numbers or dates: a day before its month, a number with its unit."""
    for value in values:
        if day := re.fullmatch(r"(1[0-2]|[1-9])-(\d{1,2})", value):
            return f"{day[2]} {MONTHS[int(day[1]) - 1].title()}"
    for value in values:
        if value.startswith("month "):
            return MONTHS[int(value.removeprefix("month ")) - 1].title()
    return quoted(next((value for value in values if value.startswith(f"{values[0]} ")), values[0]))


def _other_value(mine: Wording, theirs: Wording, own: Own) -> Evidence:
    """Return the new value of a property that has one value at a time.

    Either the same noun or verb with one value at a time precedes both values ("the status is"), or the same words do
    and a word such as "now" replaces the old value.
    """
    new = [word for word in own[0] if word not in EMPTY and word.isalpha()]
    old = [word for word in own[1] if word not in EMPTY and word.isalpha()]
    if not new or not old or mine.is_indefinite or theirs.is_indefinite or not mine.stems & theirs.stems:
        return ()
    before = mine.words[: mine.words.index(new[0])], theirs.words[: theirs.words.index(old[0])]
    noun = _LISTS["single_nouns"].intersection(before[0]).intersection(before[1])
    verb = set(phrases("single_verbs", before[0])).intersection(phrases("single_verbs", before[1]))
    if not verb and not (noun and all(map(_introduces_value, before, (new[0], old[0])))):
        leads = [[word for word in words if word not in _LISTS["adverbs"]] for words in before]
        if leads[0] != leads[1] or len(leads[0]) < 2 or not _LISTS["additive"].isdisjoint(leads[0]):
            return ()
        if _LISTS["weak"].issuperset(mine.later):  # also without any such word
            return ()
    kind = "name" if (mine.name_words | theirs.name_words).issuperset((*new, *old)) else "value"
    return (f"{kind}: {quoted(' '.join(old))} -> {quoted(' '.join(new))}",)


def _introduces_value(words: Sequence[str], value: str) -> bool:
    """Return whether the last word, small words aside, is a copula, or the noun itself before no event."""
    last = next((word for word in reversed(words) if word not in _LISTS["between"] or word in _LISTS["changed"]), "")
    is_said = last.endswith("'s") or last in _LISTS["copulas"] or last in _LISTS["changed"]
    return is_said or (last in _LISTS["single_nouns"] and not states_event((value,)))


@dataclass(frozen=True)
class Wording:
    """A text prepared for comparison.

    Attributes:
        content: the text, at most `MAX_LENGTH` characters.
        words: its normalised words in order.
        terms: (stem, word) of its content words, in order.
        normal: the whole text in normal form.
        numbers, dates, names, claims: the values of its distinctions of these kinds, in order.
        names_and_claims: the same of two kinds.
        later: phrases that state or imply a change.
        ended: phrases that say that something is over.
        owner: whose state it tells, see `owners`.
    """

    content: str
    words: tuple[str, ...]
    terms: tuple[tuple[str, str], ...]
    normal: str
    numbers: tuple[str, ...]
    dates: tuple[str, ...]
    names: tuple[str, ...]
    claims: tuple[str, ...]
    names_and_claims: tuple[str, ...]
    later: tuple[str, ...]
    ended: tuple[str, ...]
    owner: str

    @property
    def ordered(self) -> tuple[tuple[str, ...], ...]:
        """The distinctions that are compared in order, as in `rank.stages.ORDERED`."""
        return self.numbers, self.dates, self.names_and_claims

    @cached_property
    def details(self) -> frozenset[str]:
        """Its numbers, dates and names."""
        return frozenset((*self.numbers, *self.dates, *self.names))

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Its distinct words."""
        return frozenset(self.words)

    @cached_property
    def name_words(self) -> frozenset[str]:
        """The words of its names."""
        return frozenset([word for name in self.names for word in text.words(name)])

    @cached_property
    def opens_with_number(self) -> bool:
        """Whether it opens with a numbered thing: "Ticket 42 is open", "Room 5 is free"."""
        words = self.words
        at = next((at for at, word in enumerate(words[:4]) if has_figure(word)), 0)
        if not at or at + 1 == len(words) or words[at - 1] in text.ENGLISH_STOPWORDS or words[at + 1] in NUMERALS:
            return False
        return words[at + 1] in text.ENGLISH_STOPWORDS or words[at + 1].endswith(("s", "ed"))

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of the content words."""
        return frozenset(stem for stem, _ in self.terms)

    @cached_property
    def word_stems(self) -> tuple[str, ...]:
        """The stems of the words, except function words, light words and numerals, in order."""
        plain = (word.removesuffix("'s") for word in self.words if word not in _SMALL and not has_figure(word))
        return tuple(stem for word in plain for stem in terms(word))

    @cached_property
    def denies(self) -> bool:
        """Whether the text negates something; "stop" does only before a verb, not in "stopped the car"."""
        pairs = pairwise((*self.words, ""))
        idle = sum(word in _LISTS["stops"] and not after.endswith("ing") for word, after in pairs)
        return self.claims.count("not") > idle

    @cached_property
    def opening(self) -> frozenset[str]:
        """The words of a name that opens the text, else empty."""
        first = text.words(self.names[0]) if self.names else []
        opens = [word.removesuffix("'s") for word in self.words[: len(first)]] == first
        return frozenset(first) if opens else frozenset()

    @cached_property
    def is_indefinite(self) -> bool:
        """Whether the text opens with something unnamed, so that the other text can be about something else."""
        return not self.words or self.words[0] in _LISTS["indefinite"] or self.words[0] in CARDINALS

    @cached_property
    def for_now(self) -> tuple[str, ...]:
        """Phrases that say that something is temporary."""
        return phrases("for_now", self.words)

    @cached_property
    def single_verbs(self) -> tuple[str, ...]:
        """Verbs whose object is one at a time."""
        return phrases("single_verbs", self.words)

    @cached_property
    def is_event(self) -> bool:
        """Whether a verb is in the past."""
        return states_event(self.words)

    @cached_property
    def transitions(self) -> tuple[tuple[str, str], ...]:
        """The values that the text says are replaced, each after the name of its pattern in `TRANSITIONS`."""
        found = []
        for name, pattern in TRANSITIONS.items():
            if name == "replaced" and "replac" not in self.content.lower():  # this pattern is slow on long texts
                continue
            match = re.search(pattern, self.content, re.IGNORECASE)
            if match and (gone := next(filter(None, match.groups()), None)):
                found.append((name, gone))
        return tuple(found)


@lru_cache(maxsize=4096)
def read(content: str) -> Wording:
    """Return a text prepared for comparison."""
    normal, content = text.normalise(content), content[:MAX_LENGTH]
    words = tuple(text.words(content))
    found = [one.partition(":")[::2] for one in (*details(content), *(["claim:asks"] if only_asks(content) else []))]
    numbers, dates, names, claims, names_and_claims = (
        tuple([value for kind, value in found if kind in kinds])
        for kinds in (("number",), ("date",), ("name",), ("claim",), ("name", "claim"))
    )
    bases = [BASES.get(word, word).removesuffix("'s") for word in words if word not in EMPTY]
    content_terms = [
        (stem, base) for base in bases if base not in EMPTY and not has_figure(base) for stem in terms(base)
    ]
    return Wording(
        content, words, tuple(content_terms), normal, numbers, dates, names, claims, names_and_claims,
        phrases("later", words), phrases("ended", words), owner(content),
    )  # fmt: skip


def has_figure(word: str) -> bool:
    """Return whether a word contains a digit."""
    return any(map(str.isdigit, word))


def phrases(name: str, words: Sequence[str]) -> tuple[str, ...]:
    """Return the distinct phrases of a list in `words/conflicts.txt` that occur in `words`, in order."""
    book = _book(name)
    found = dict.fromkeys([book.spelling(phrase) for _, _, phrase in book.find(words)])
    return tuple([phrase for phrase in found if phrase not in _LISTS["hiding"]]) if found else ()


def name_others(one: Wording, other: Wording) -> bool:
    """Return whether two texts open with different names."""
    return bool(one.opening and other.opening and one.opening.isdisjoint(other.opening))


def apart(one: Wording, other: Wording) -> Own:
    """Return the words that only the first, and only the second text contains, in order."""
    first, second = one.vocabulary, other.vocabulary
    return [word for word in one.words if word not in second], [word for word in other.words if word not in first]


def states_event(words: Iterable[str]) -> bool:
    """Return whether a verb is in the past: an event can happen twice."""
    before = ""
    for word in words:
        is_past = word in _PAST_FORMS or word.endswith("ed")
        if is_past and word not in _LISTS["states"] and word not in _LISTS["changed"] and before not in _PASSIVE:
            return True
        before = before if word in _BETWEEN else word
    return False


def quoted(value: str) -> str:
    """Return `value` on one line, at most `MAX_QUOTE` characters."""
    line = text.one_line(value)
    return line if len(line) <= MAX_QUOTE else f"{line[: MAX_QUOTE - 1]}…"


def terms(word: str) -> tuple[str, ...]:
    """Return the stems of an English word."""
    return _TERMS[word]


@cache
def _tokeniser() -> text.Tokeniser:
    return text.Tokeniser()


_TERMS: Final = text.Kept(lambda word: _tokeniser().terms(word))


@cache
def _book(name: str) -> Phrasebook:
    return Phrasebook((*_PHRASES[name], *_PHRASES["hiding"]))


@cache
def opposite_words() -> dict[str, frozenset[tuple[int, bool]]]:
    """Return word -> (number of the pair, whether the word is on its second side) for all pairs of opposites."""
    lines = resources.files(__package__).joinpath("words", "opposites.txt").read_text("utf-8").splitlines()
    found: dict[str, set[tuple[int, bool]]] = {}
    for pair, line in enumerate(line for line in lines if not line.startswith("#")):
        for second, words in enumerate(line.split("|")):
            for word in words.split():
                found.setdefault(word, set()).add((pair, bool(second)))
    return {word: frozenset(places) for word, places in found.items()}


def opposites(words: Sequence[str], others: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each pair of opposites, the first from `words` and the second from `others`, in their order."""
    known = opposite_words()
    if known.keys().isdisjoint(words) or known.keys().isdisjoint(others):
        return
    for word in words:
        across = {(pair, not second) for pair, second in known.get(word, ())}
        if across:
            yield from ((word, other) for other in others if not across.isdisjoint(known.get(other, ())))
