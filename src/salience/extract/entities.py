"""The entities that a text names, found by rules: people and things, handles, tags, addresses, identifiers.

A text is read once, chunk by chunk: a span in backticks, or a run without white space and brackets. A chunk is a
*mark* - something that is known by its form, see `marks.py` - or holds words, and capitalised words side by side are
a name. No pattern sees more than one chunk of `LONGEST` characters, so the work grows with the length of the text
whatever is in it.

A version is no part of a name: "Python 3.12" names Python, so that all that was said of Python hangs together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
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
"""The place of the piece where an entity starts, and the entity as it is written."""

_CHUNK = re.compile(r"""`(?P<code>[^`\n]{1,200})`|[^\s`()\[\]{}<>"“”«»|,;]+""")
_BEFORE, _AFTER = "'‘’*:!?…–—-¿¡", "'‘’*~.:!?…–—-"
_WORD = re.compile(r"[^\W_]+(?:['’&.-][^\W_]+)*")
_CLITIC = re.compile(r"['’](?:s|m|re|ve|ll|d)$", re.IGNORECASE)
_POSSESSIVE = ("'s", "’s")
_SENTENCE_END = re.compile(r"[.!?…:\n]")


class Piece(NamedTuple):
    """A word without its 's, or a mark, as it stands in a part of a text.

    Attributes:
        text: itself.
        start: its place in the part.
        is_mark: whether it is known by its form.
        before: what lies before it: from the piece before, or a space and what the part starts with.
        after: what lies after it, where it is the last piece of its part.
        words: as `text.words` has them.
        may_name: whether it is capitalised, and neither a mark nor known to name nothing.
    """

    text: str
    start: int
    is_mark: bool
    before: str
    after: str
    words: tuple[str, ...]
    may_name: bool


def entities(content: str) -> tuple[str, ...]:
    """Return the distinct entities of `content` in the order of their first appearance, as written there.

    Spellings that `text.normalise` makes equal are one entity.
    """
    pieces = read(content)
    return distinct([*marks(pieces), *names(pieces)])


def distinct(found: Iterable[Found]) -> tuple[str, ...]:
    """Return the entities in the order of their places, each once, in its first spelling."""
    first: dict[str, str] = {}
    for entity in dict.fromkeys(entity for _, entity in sorted(found)):
        first.setdefault(text.normalise(entity), entity)
    return tuple(first.values())


def read(content: str) -> list[Piece]:
    """Return the words and marks of `content` in order, read part by part: what stands between spaces.

    No chunk reaches over a space but a span in backticks; a text that has any is read as one part.
    """
    parts = content.split(" ") if "`" not in content else [content]
    cut = list(map(_CUT.__getitem__, parts))
    if not all(cut):
        cut = list(map(_CUT.__getitem__, _without_blanks(parts, cut)))
    return list(chain.from_iterable(cut))


def _without_blanks(parts: Sequence[str], cut: Sequence[Sequence[Piece]]) -> list[str]:
    """Return the parts with each that holds no piece put to the one before it, and the first ones to the next."""
    joined: list[str] = []
    start = 0
    for end in [at for at, pieces in enumerate(cut) if pieces][1:]:
        joined.append(" ".join(parts[start:end]))
        start = end
    return [*joined, " ".join(parts[start:])]


def read_whole(content: str) -> tuple[Piece, ...]:
    """Return the words and marks of `content` in order, read as one part, so that each says where it starts in it."""
    if text.is_plain_word(content):
        return (Piece(content, 0, False, " ", "", (content,), False),)
    cut = list(_cut(content))
    last = len(cut) - 1
    pieces: list[Piece] = []
    before, end = " ", 0
    for at, (start, written, is_mark) in enumerate(cut):
        before += content[end:start]
        end = start + len(written)
        after = content[end:] if at == last else ""
        words = tuple(text.words(written))
        may_name = not is_mark and written[0].isupper() and _plain(written) not in NEITHER
        pieces.append(Piece(written, start, is_mark, before, after, words, may_name))
        before = ""
    return tuple(pieces)


_CUT: Final = text.Kept(read_whole)


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


def marks(pieces: Sequence[Piece]) -> list[Found]:
    """Return the marks among the pieces of a text."""
    return [(at, piece.text.strip()) for at, piece in enumerate(pieces) if piece.is_mark and piece.text.strip()]


def names(pieces: Sequence[Piece]) -> list[Found]:
    """Return the names: runs of capitalised words, with the particles inside them.

    The word that opens a sentence is capitalised anyway. Alone, it is a name if it cannot be ordinary (`PostgreSQL`,
    `NASA`), if it stands capitalised inside a sentence elsewhere, or if it is not known as an ordinary word and is
    made the subject by what follows: 's, a verb, "and", a comma and another name.
    """
    may = _capitalised(pieces)
    runs = [run for run in _runs(pieces, may) if len(run) <= LONGEST_NAME and _holds_a_word(pieces, run)]
    openers = {run[0] for run in runs if len(run) == 1 and _opens(pieces, run[0])}
    if openers:
        inside = {pieces[at].text for run in runs for at in run if at in may and not _opens(pieces, at)}
        openers = {at for at in openers if pieces[at].text not in inside and not _stands_alone(pieces, may, at)}
    return [(run[0], _written(pieces, run)) for run in runs if run[0] not in openers]


def _capitalised(pieces: Sequence[Piece]) -> dict[int, None]:
    """Return the places, in order, of the words that may be a name or a part of one."""
    places = [at for at, piece in enumerate(pieces) if piece.may_name]
    quiet = [at for at in places if not pieces[at].text.isupper()]
    return dict.fromkeys(quiet if len(quiet) < len(places) and _is_shouted(pieces) else places)


def _is_shouted(pieces: Sequence[Piece]) -> bool:
    """Whether most words of four or more are all capitals, so that capitals mean nothing."""
    capitals = sum(piece.text.isupper() for piece in pieces)
    return len(pieces) >= 4 and capitals * 2 > len(pieces)


def _plain(written: str) -> str:
    return written.lower().replace("’", "'")


def _runs(pieces: Sequence[Piece], may: Mapping[int, None]) -> Iterator[range]:
    """Yield the places of each run; an order that opens the sentence is no part of the run that follows it."""
    end = 0
    for start in may:
        if start < end:
            continue
        end = start + 1
        while (following := _next_in_run(pieces, may, end)) is not None:
            end = following + 1
        skip = end - start > 1 and _opens(pieces, start) and _plain(pieces[start].text) in IMPERATIVES
        yield range(start + skip, end)


def _next_in_run(pieces: Sequence[Piece], may: Mapping[int, None], at: int) -> int | None:
    """Return the place of the next capitalised word of the run that reaches up to `at`, past at most two particles."""
    for place in range(at, min(at + 3, len(pieces))):
        if not (place in may or _is_particle(pieces[place].text, place > at)) or not _is_joined(pieces, place):
            return None
        if place in may:
            return place
    return None


def _is_particle(written: str, follows_one: bool) -> bool:
    return written in PARTICLES or (follows_one and written == "the")


def _gap(pieces: Sequence[Piece], at: int) -> str:
    """Return what lies between a piece and the one before it."""
    return pieces[at - 1].after + pieces[at].before


def _is_joined(pieces: Sequence[Piece], at: int) -> bool:
    gap = _gap(pieces, at)
    return "\n" not in gap and (gap.isspace() or (gap == ". " and _is_abbreviated(pieces[at - 1].text)))


def _opens(pieces: Sequence[Piece], at: int) -> bool:
    if at == 0:
        return True
    gap = _gap(pieces, at)
    return bool(_SENTENCE_END.search(gap)) and not (gap == ". " and _is_abbreviated(pieces[at - 1].text))


def _is_abbreviated(written: str) -> bool:
    return len(written) == 1 or "." in written or written.lower() in ABBREVIATED


def _holds_a_word(pieces: Sequence[Piece], run: range) -> bool:
    return len(pieces[run[0]].text) > 1 or any(len(pieces[at].text) > 1 for at in run)


def _stands_alone(pieces: Sequence[Piece], may: Mapping[int, None], at: int) -> bool:
    """Whether the word that opens a sentence is a name for all that."""
    written, plain = pieces[at].text, _plain(pieces[at].text)
    if written[1:] != written[1:].lower():
        return True
    if plain in IMPERATIVES or {plain, plain.removesuffix("s")} & ORDINARY or plain.endswith(ORDINARY_ENDINGS):
        return False
    is_last = at + 1 == len(pieces)
    gap = pieces[at].after if is_last else _gap(pieces, at + 1)
    if is_last or gap.startswith(_POSSESSIVE):
        return gap.startswith(_POSSESSIVE)
    if gap == ", ":
        return at + 1 in may
    return gap == " " and _is_verb(pieces[at + 1].text)


def _is_verb(word: str) -> bool:
    return word.islower() and (word in FINITE or (len(word) > 3 and word.endswith(("s", "ed"))))


def _written(pieces: Sequence[Piece], run: range) -> str:
    if len(run) == 1:
        return pieces[run[0]].text
    rest = (_gap(pieces, at) + pieces[at].text for at in run[1:])
    return " ".join("".join((pieces[run[0]].text, *rest)).split())
