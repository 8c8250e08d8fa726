"""The entities that a text names, found by rules: people and things, handles, tags, addresses, identifiers.

A text is read once, chunk by chunk: a span in backticks, or a run without white space and brackets. A chunk is a
*mark* - something that is known by its form, see `marks.py` - or holds words, and capitalised words side by side are
a name. No pattern sees more than one chunk of `LONGEST` characters, so the work grows with the length of the text
whatever is in it.

A version is no part of a name: "Python 3.12" names Python, so that all that was said of Python hangs together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from salience import text
from salience.extract.marks import mark
from salience.extract.wordlists import (
    ABBREVIATED,
    FINITE,
    IMPERATIVES,
    NEITHER,
    ORDINARY,
    ORDINARY_ENDINGS,
    PARTICLES,
)

LONGEST: Final = 200
"""Longest chunk, in characters, that is looked into; a longer one is data."""
LONGEST_NAME: Final = 6
"""Most words of a name; a longer run of capitalised words is a heading."""

Found = tuple[int, str]
"""Where an entity starts, and the entity as it is written."""

_CHUNK = re.compile(r"""`(?P<code>[^`\n]{1,200})`|[^\s`()\[\]{}<>"“”«»|,;]+""")
_BEFORE, _AFTER = "'‘’*:!?…–—-¿¡", "'‘’*~.:!?…–—-"
_WORD = re.compile(r"[^\W_]+(?:['’&.-][^\W_]+)*")
_CLITIC = re.compile(r"['’](?:s|m|re|ve|ll|d)$", re.IGNORECASE)
_POSSESSIVE = ("'s", "’s")
_SENTENCE_END = re.compile(r"[.!?…:\n]")


class Piece(NamedTuple):
    """A word without its 's, or a mark; `start` and `end` are its place in the text, `gap` what lies before it."""

    start: int
    end: int
    text: str
    is_mark: bool
    gap: str


def entities(content: str) -> tuple[str, ...]:
    """Return the distinct entities of `content` in the order of their first appearance, as written there.

    Spellings that `text.normalise` makes equal are one entity.
    """
    pieces = list(read(content))
    return distinct([*marks(pieces), *names(content, pieces)])


def distinct(found: Iterable[Found]) -> tuple[str, ...]:
    """Return the entities in the order of their places, each once, in its first spelling."""
    first: dict[str, str] = {}
    for entity in dict.fromkeys(entity for _, entity in sorted(found)):
        first.setdefault(text.normalise(entity), entity)
    return tuple(first.values())


def read(content: str) -> Iterator[Piece]:
    """Yield the words and marks of `content` in order."""
    end = 0
    for start, written, is_mark in _cut(content):
        yield Piece(start, start + len(written), written, is_mark, content[end:start])
        end = start + len(written)


def _cut(content: str) -> Iterator[tuple[int, str, bool]]:
    for chunk in _CHUNK.finditer(content):
        if chunk["code"]:
            yield chunk.start("code"), chunk["code"], True
            continue
        core = chunk[0].lstrip(_BEFORE).rstrip(_AFTER)
        start = chunk.start() + chunk[0].find(core)
        if core.isalpha() and (len(core) == 1 or core[1:].islower()):  # most words, told at a glance
            yield start, core, False
        elif len(core) <= LONGEST:
            yield from _look_into(core, start)


def _look_into(core: str, start: int) -> Iterator[tuple[int, str, bool]]:
    found = mark(core)
    if found is not None:
        yield start + core.find(found), found, True
        return
    for match in _WORD.finditer(core):
        yield start + match.start(), _CLITIC.sub("", match[0]), False


def marks(pieces: Iterable[Piece]) -> list[Found]:
    """Return the marks among the pieces of a text."""
    return [(piece.start, piece.text.strip()) for piece in pieces if piece.is_mark and piece.text.strip()]


def names(content: str, pieces: Sequence[Piece]) -> list[Found]:
    """Return the names: runs of capitalised words, with the particles inside them.

    The word that opens a sentence is capitalised anyway. Alone, it is a name if it cannot be ordinary (`PostgreSQL`,
    `NASA`), if it stands capitalised inside a sentence elsewhere, or if it is not known as an ordinary word and is
    made the subject by what follows: 's, a verb, "and", a comma and another name.
    """
    shouted = _is_shouted(pieces)
    may = [piece.text[0].isupper() and _may_name(piece, shouted) for piece in pieces]
    runs = [run for run in _runs(pieces, may) if len(run) <= LONGEST_NAME and _holds_a_word(pieces, run)]
    inside = {pieces[at].text for run in runs for at in run if may[at] and not _opens(pieces, at)}
    named = [
        run
        for run in runs
        if len(run) > 1
        or not _opens(pieces, run[0])
        or pieces[run[0]].text in inside
        or _stands_alone(content, pieces, may, run[0])
    ]
    return [(pieces[run[0]].start, _written(content, pieces, run)) for run in named]


def _is_shouted(pieces: Sequence[Piece]) -> bool:
    """Whether most words of four or more are all capitals, so that capitals mean nothing."""
    capitals = sum(piece.text.isupper() for piece in pieces)
    return len(pieces) >= 4 and capitals * 2 > len(pieces)


def _may_name(piece: Piece, shouted: bool) -> bool:
    return not piece.is_mark and not (shouted and piece.text.isupper()) and _plain(piece.text) not in NEITHER


def _plain(written: str) -> str:
    return written.lower().replace("’", "'")


def _runs(pieces: Sequence[Piece], may: Sequence[bool]) -> Iterator[range]:
    """Yield the places of each run; an order that opens the sentence is no part of the run that follows it."""
    start, end = 0, 0
    while start < len(pieces):
        if not may[start]:
            start += 1
            continue
        end = start + 1
        while (following := _next_in_run(pieces, may, end)) is not None:
            end = following + 1
        skip = _opens(pieces, start) and end - start > 1 and _plain(pieces[start].text) in IMPERATIVES
        yield range(start + skip, end)
        start = end


def _next_in_run(pieces: Sequence[Piece], may: Sequence[bool], at: int) -> int | None:
    """Return the place of the next capitalised word of the run that reaches up to `at`, past at most two particles."""
    for place in range(at, min(at + 3, len(pieces))):
        if not _is_joined(pieces, place):
            return None
        if may[place]:
            return place
        if pieces[place].text not in PARTICLES and not (place > at and pieces[place].text == "the"):
            return None
    return None


def _is_joined(pieces: Sequence[Piece], at: int) -> bool:
    gap = pieces[at].gap
    return "\n" not in gap and (gap.isspace() or (gap == ". " and _is_abbreviated(pieces[at - 1].text)))


def _opens(pieces: Sequence[Piece], at: int) -> bool:
    if at == 0:
        return True
    gap = pieces[at].gap
    return bool(_SENTENCE_END.search(gap)) and not (gap == ". " and _is_abbreviated(pieces[at - 1].text))


def _is_abbreviated(written: str) -> bool:
    return len(written) == 1 or "." in written or written.lower() in ABBREVIATED


def _holds_a_word(pieces: Sequence[Piece], run: range) -> bool:
    return any(len(pieces[at].text) > 1 for at in run)


def _stands_alone(content: str, pieces: Sequence[Piece], may: Sequence[bool], at: int) -> bool:
    """Whether the word that opens a sentence is a name for all that."""
    written, plain = pieces[at].text, _plain(pieces[at].text)
    if written[1:] != written[1:].lower():
        return True
    if plain in IMPERATIVES or {plain, plain.removesuffix("s")} & ORDINARY or plain.endswith(ORDINARY_ENDINGS):
        return False
    if content.startswith(_POSSESSIVE, pieces[at].end):
        return True
    if at + 1 == len(pieces):
        return False
    following = pieces[at + 1]
    if following.gap == ", ":
        return may[at + 1]
    return following.gap == " " and _is_verb(following.text)


def _is_verb(word: str) -> bool:
    return word.islower() and (word in FINITE or (len(word) > 3 and word.endswith(("s", "ed"))))


def _written(content: str, pieces: Sequence[Piece], run: range) -> str:
    return " ".join(content[pieces[run[0]].start : pieces[run[-1]].end].split())
