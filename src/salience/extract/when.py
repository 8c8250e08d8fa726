"""When a query is about: the window, the order or the event that its words name. English only; times are in UTC.

`read` puts three readings together. *Dates* are `dates.mentions`; of several, one that is counted from now ("what did
I say last week about the trip of May 2022?") stands for the time that was meant, else the first. *Orders* are words
such as "the first time" and "latest". *Relations* name an event in place of a date: "before the move".

Asking for a time ("when did ...", "how long ...") names none; nor does a weekday, month or holiday without its year,
unless the query looks back: "Can we deploy on Friday?" is about no Friday of the past.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from salience.extract import periods
from salience.extract.dateforms import NUMBERS, held, one_of
from salience.extract.dates import BOUNDS, Mention, meant, mentions, recount
from salience.extract.patterns import Pattern
from salience.records import TimeCue
from salience.text import ENGLISH_STOPWORDS, words

Order = Literal["earliest", "latest"]
Relation = Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class Sign:
    """Words that ask for an order.

    Attributes:
        pattern: what they look like; the group `cue`, where there is one, is what gives the order away.
        order: what they ask for; None for a window alone.
        holds: words of which every text that they are in holds one; see `dateforms.held`.
        days: how far back "recently" reaches; None for no window.
        is_vague: whether they say no more than a date beside them, and are passed over there.
    """

    pattern: Pattern
    order: Order | None
    holds: frozenset[str]
    days: int | None = None
    is_vague: bool = False


class Bond(NamedTuple):
    """An event that a query hangs on, and the place of the words that say so."""

    at: int
    until: int
    relation: Relation
    anchor: str


class Found(NamedTuple):
    """A sign of an order, and its place."""

    at: int
    until: int
    order: Order | None
    days: int | None


Placed = Mention | Bond | Found
"""What has a place in the text."""


def _any(words: str) -> frozenset[str]:
    return frozenset(words.split())


RECENT_DAYS: Final = 30
"""How far back "recently" reaches."""

_WHOSE = r"\b(?:the|my|our|your|his|her|their|its|\w+['’]s)\s+"
_LINKS = "of|and|or|to|in|at|on|for|from|is|was|are|were|but|that"
_PLACES = (
    "name|names|place|person|row|column|line|lines|page|item|element|character|letter|digits?|words?|chapter|paragraph"
    "|section|argument|parameter|step|steps"
)
"""What is first or last in a row of things, and not in time."""
_FIRST_THINGS = "aid|class|language|half|floor|lady|hand|grade|base|degree|responders?|thing|impression"
_LAST_THINGS = "resort|straw|minute|mile|chance|supper|stand|legs|laugh|ditch"
_CURRENT_THINGS = (
    "accounts?|affairs|events?|directory|folder|working|users?|line|row|page|file|thread|process|density|draw|sensor"
)
_ASKED = (  # a subject, with or without an auxiliary: "did Joanna", "we"
    r"(?:\b(?:i|we|you|he|she|they)\s+|\b(?:did|do|does|has|have|had|was|were)\s+(?:\w[\w'’.-]*\s+){0,3}?"
    rf"(?!(?:the|an?|my|our|your|his|her|their|its|very|with|{_LINKS})\b)\w[\w-]*\s+)"
)
_NO_VERB = (
    rf"{_LINKS}|longer|long|until|till|forever|all|through|an?|the|about|over|under|than|more|less|only|after|before"
    r"|as|with|during|when|while|if|\d+|one|two|three|several|many|much"
)

SIGNS: Final[Sequence[Sign]] = (
    Sign(Pattern(r"\b(?:for\s+)?(?:the\s+)?(?:very\s+)?first(?:\s+ever)?\s+time\b"), "earliest", _any("first")),
    Sign(
        Pattern(r"\boriginally\b|\binitially\b|\bthe\s+(?:original|initial)\b"),
        "earliest",
        _any("originally initially original initial"),
    ),
    Sign(Pattern(rf"{_WHOSE}(?P<cue>original|initial)\s+\w"), "earliest", _any("original initial")),
    Sign(Pattern(r"(?<!\bat )(?<!\bat the )\bearliest\b"), "earliest", _any("earliest")),
    Sign(
        Pattern(r"\bat\s+first\b(?!\s+(?:glance|sight|light|hand))|\bto\s+(?:begin|start)\s+with\b"),
        "earliest",
        _any("first begin start"),
    ),
    Sign(
        Pattern(rf"{_WHOSE}(?:very\s+)?(?P<cue>first)\s+(?!(?:{_LINKS}|{_PLACES}|{_FIRST_THINGS})\b)\w"),
        "earliest",
        _any("first"),
    ),
    Sign(
        Pattern(rf"{_ASKED}(?P<cue>first)\s+(?!(?:{_NO_VERB}|{_PLACES}|{_FIRST_THINGS})\b)[a-z]"),
        "earliest",
        _any("first"),
    ),
    Sign(
        Pattern(r"\b(?:did|had)\s+(?:[\w'’.-]+\s+){1,8}?(?P<cue>first)(?=\s*(?:[?.!,;]|\Z))"), "earliest", _any("first")
    ),
    Sign(
        Pattern(r"(?<!how long )\b(?:did|had)\s+(?:[\w'’.-]+\s+){2,8}?(?P<cue>last)(?=\s*(?:[?.!,;]|\Z))"),
        "latest",
        _any("last"),
    ),
    Sign(
        Pattern(r"\b(?:the\s+)?(?:very\s+)?last\s+time\b|\bmost\s+recent(?:ly)?\b|\bnewest\b"),
        "latest",
        _any("last most newest"),
    ),
    Sign(Pattern(r"(?<!\bat )(?<!\bat the )\blatest\b"), "latest", _any("latest")),
    Sign(
        Pattern(rf"{_WHOSE}(?:very\s+)?(?P<cue>last)\s+(?!(?:{_LINKS}|{_PLACES}|{_LAST_THINGS})\b)\w"),
        "latest",
        _any("last"),
    ),
    Sign(
        Pattern(rf"{_ASKED}(?P<cue>last)\s+(?!(?:{_NO_VERB}|{_PLACES}|{_LAST_THINGS})\b)[a-z]"), "latest", _any("last")
    ),
    Sign(Pattern(r"\bjust\s+now\b"), "latest", _any("now"), days=1, is_vague=True),
    Sign(
        Pattern(r"\brecent(?:ly)?\b|\blately\b|\bof\s+late\b"),
        None,
        _any("recent recently lately late"),
        days=RECENT_DAYS,
        is_vague=True,
    ),
    Sign(
        Pattern(r"\bcurrently\b|\bpresently\b|\bnowadays\b|\bthese\s+days\b"),
        "latest",
        _any("currently presently nowadays these"),
        is_vague=True,
    ),
    Sign(
        Pattern(r"\bat\s+(?:the\s+moment|present)\b|\bas\s+of\s+(?:now|today)\b"),
        "latest",
        _any("moment present now today"),
        is_vague=True,
    ),
    Sign(
        Pattern(
            r"\bright\s+now\b|(?<=\w\s)(?<!\buntil )(?<!\btill )(?<!\bby )(?<!\bfrom )(?<!\bbefore )"
            r"now\b(?!,|\s+(?:and|or|then|that|on)\b)"
        ),
        "latest",
        _any("now"),
        is_vague=True,
    ),
    Sign(
        Pattern(rf"{_WHOSE}(?P<cue>current)\s+(?!(?:{_LINKS}|{_CURRENT_THINGS})\b)\w"),
        "latest",
        _any("current"),
        is_vague=True,
    ),
)
"""What asks for an order, the plainest first: of several in a query, the one that stands first here counts."""

RELATIONS: Final[Mapping[str, Relation]] = {
    "before": "before", "prior to": "before", "until": "before", "till": "before", "after": "after", "since": "after",
}  # fmt: skip
RELATING: Final = frozenset(name.split()[0] for name in RELATIONS)
"""Words of which every text with a relation holds one."""
_UNIT = one_of(periods.UNITS)
_NUMBER = rf"(?:\d+|{one_of(NUMBERS)})"
_DAILY = r"(?:work|school|class|breakfast|lunch|dinner|bed|bedtime|midnight|noon|dark)"
"""What comes every day and is no event to look up: "what does she do after work"."""
_OWN_AFTER = "".join(rf"(?<!\b{verb} )" for verb in "look looks looked looking running named chased".split())
"""Verbs that make "after" theirs."""
BOND = Pattern(
    rf"(?<![\w-])(?:(?:the|{_NUMBER})\s+{_UNIT}s?\s+)?(?:(?:right|just|shortly|soon|immediately|ever)\s+)?"
    rf"{_OWN_AFTER}(?P<word>{one_of(RELATIONS)})\s+"
    rf"(?!(?:that|this|then|it|all|long|hours|now|you|and|or|what|which|who|whom|how|when|while|further|there|but|because|so|if)\b)"
    rf"(?!{_NUMBER}\s+(?:more\s+)?{_UNIT}s?\b)(?!{_DAILY}\s*(?:[,.;:?!]|\Z))"
    r"(?P<anchor>(?=[^,;?!()\n—]*[a-z])(?:[^,.;:?!()\n—]|[.:](?=\w)){1,120}(?!\w))"
)
_CLAUSE = Pattern(r"\s+(?:but|because|although|though|whereas)\b")
_QUESTION = Pattern(r"\s+(?:what|where|who|which|how|why|when|did|does|do)\b")
_SAID = Pattern(
    r"[\s,]*(?:(?:as|that|which|he|she|they|i|we|you|was|were)\s+)*"
    r"(?:(?:mentioned|said|told|shared|discussed|described|wrote)\s+)?"
)
"""What may stand between a time and the day on which it was spoken of: "last week, as mentioned on 6 November"."""

_ANYTHING: Final = ENGLISH_STOPWORDS | frozenset(
    """
    happen happened happening happens occur occurred talk talked talking speak spoke spoken chat chatted chatting
    discuss discussed discussing say said saying tell told telling mention mentioned do did done doing go went going
    gone everything anything something stuff thing things topic topics event events conversation conversations
    discussion discussions session sessions chat chats message messages memory memories activity activities new news
    up recap summary summarise summarize remember recall know list show give bring back around what's who's
    """.split()
)
"""Words that ask for anything at all; a question of these and a time is about the time alone."""

LONGEST: Final = 2000
"""How many characters of a query are read for a time; a longer one is no question, and the work stays bounded."""
_TRIGGERS: Final = frozenset(
    {*"0123456789", *periods.WEEKDAYS, *periods.MONTHS, *periods.SEASONS, *periods.DAY_PARTS}
    | {form for unit in periods.UNITS for form in (unit, f"{unit}s")}
    | {name.split()[0] for name in periods.HOLIDAYS if "day" not in name} - {"new"}  # New Year has its year
    | {word for name in BOUNDS for word in name.split()} - {"to", "by", "up"}
    | set(
        """
        easter valentine today tonight yesterday tomorrow ago first last latest earliest newest recent recently lately
        late now currently current presently present moment these nowadays originally initially original initial begin
        start
        """.split()
    )
)
"""Words and digits of which a text that names a time holds at least one."""
_TRIGGER_SHAPE = re.compile(r"[a-z]+|\d")


def read(text: str, now: datetime) -> TimeCue | None:
    """Return when `text` is about, or None if it names no time.

    Args:
        text: a query, in English; in any other text little or nothing is found.
        now: the aware instant in UTC at which it is asked.
    """
    text = text[:LONGEST]
    if _TRIGGERS.isdisjoint(_TRIGGER_SHAPE.findall(text.casefold())):
        return None  # most queries end here
    found = mentions(text, now)
    bond = _bond(text, found)
    date = _date(text, meant(text, found), bond)
    taken: list[Placed] = [*found, *filter(None, [bond])]
    sign = _sign(text, taken, is_dated=date is not None)
    words = _runs(text, [piece for piece in (date, bond, sign) if piece])
    cue = _cue(words, date, sign, bond, now)
    return cue if cue.start or cue.end or cue.order or cue.relation else None


def asks_only_time(text: str, cue: TimeCue, now: datetime, names: Iterable[str]) -> bool:
    """Return whether `text` asks for whatever lies in a window of the past: "What did Ann and I talk about in May?".

    Args:
        text: the query.
        cue: what `read` found in it.
        now: the instant at which it is asked.
        names: of speakers, in normal form; a question may name them and still be about a time alone.
    """
    if (cue.start is None and cue.end is None) or cue.relation or (cue.start is not None and cue.start > now):
        return False
    for run in cue.words:
        text = text.replace(run, " ")
    return set(words(text)) <= _ANYTHING.union(*map(words, names))


def _runs(text: str, pieces: Iterable[Placed]) -> tuple[str, ...]:
    """Return the text of the pieces in order, those that touch as one."""
    runs: list[tuple[int, int]] = []
    for at, until in sorted((piece.at, piece.until) for piece in pieces):
        joined = runs.pop()[0] if runs and at <= runs[-1][1] else at
        runs.append((joined, until))
    return tuple(text[at:until].strip() for at, until in runs)


def _cue(words: tuple[str, ...], date: Mention | None, sign: Found | None, bond: Bond | None, now: datetime) -> TimeCue:
    return TimeCue(
        words,
        date.start if date else _recent(sign, now),
        date.end if date else None,
        sign.order if sign else None,
        bond.relation if bond else None,
        bond.anchor if bond else "",
    )


def _recent(sign: Found | None, now: datetime) -> datetime | None:
    try:
        return periods.past("day", sign.days, now).start if sign and sign.days else None
    except (ValueError, OverflowError):  # beyond the calendar
        return None


def _date(text: str, found: list[Mention], bond: Bond | None) -> Mention | None:
    """Return the one of the times found that the query is about."""
    for left, right in pairwise(found):
        if left.kind != "fixed" and right.kind == "fixed" and _SAID.compiled.fullmatch(text[left.until : right.at]):
            return _told(text, left, right)
    date = next((mention for mention in found if mention.kind == "deictic"), found[0] if found else None)
    return _beyond(date, bond) if date and date.window and bond and bond.until == date.at else date


def _told(text: str, left: Mention, right: Mention) -> Mention:
    """Return one time of two: what was told of on a day, counted from that day, and the day."""
    left = recount(text, left, right)
    if not left.window or not right.window:
        return right
    window = periods.hull(left.window, right.window)
    return Mention(left.at, right.until, window.start, window.end, "fixed")


def _beyond(date: Mention, bond: Bond) -> Mention:
    """Return the side of an event's own date that a query is about: "after his trip in August" is since August."""
    return replace(date, end=None) if bond.relation == "after" else replace(date, start=None)


def _sign(text: str, taken: Sequence[Placed], *, is_dated: bool) -> Found | None:
    """Return the first sign of an order, in the order of the table, outside the places that are taken."""
    words = held(text)
    for sign in SIGNS:
        if sign.holds.isdisjoint(words) or (sign.is_vague and is_dated):
            continue
        for match in sign.pattern.compiled.finditer(text):
            at, until = match.span("cue" if "cue" in sign.pattern.compiled.groupindex else 0)
            if not any(piece.at < until and at < piece.until for piece in taken):
                return Found(at, until, sign.order, sign.days)
    return None


def _bond(text: str, found: list[Mention]) -> Bond | None:
    """Return the first event that the query is before or after."""
    if RELATING.isdisjoint(held(text)):
        return None
    for match in BOND.compiled.finditer(text):
        at = match.start("word")
        if any(mention.at <= at < mention.until for mention in found):
            continue
        until = min([match.end(), *(mention.at for mention in found if mention.at >= match.start("anchor"))])
        anchor = _CLAUSE.compiled.split(text[match.start("anchor") : until], maxsplit=1)[0]
        if not text[: match.start()].strip():  # it opens the query, and the question follows
            anchor = _QUESTION.compiled.split(anchor, maxsplit=1)[0]
        if anchor.strip():
            relation = RELATIONS[" ".join(match["word"].casefold().split())]
            return Bond(match.start(), match.start("anchor") + len(anchor), relation, anchor.strip())
    return None
