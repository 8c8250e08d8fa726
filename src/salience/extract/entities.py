"""Entities: the people, things, handles, tags, addresses and identifiers that a text names, found by rules or spaCy.

The rules read a text in chunks: a span in backticks, or a run without white space and brackets. A chunk is a *mark*,
known by its form (`FORMS`), or it contains words, and capitalised words side by side are a name. No pattern sees more
than one chunk of `MAX_CHUNK` characters, so the work is linear in the length of any text.

A version is not part of a name: "Python 3.12" names Python, which links everything said about Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from importlib import import_module
from itertools import chain
from typing import Any, Final, NamedTuple

from salience import text
from salience.errors import InputError, MissingExtraError, unknown
from salience.extract.facts import fact_key
from salience.extract.importance import importance
from salience.extract.wordlists import (
    ABBREVIATED,
    FINITE,
    NEITHER,
    NEVER,
    OPENING_VERBS,
    ORDINARY,
    ORDINARY_ENDINGS,
    PARTICLES,
)
from salience.ports import Extract, Extractor

MAX_CHUNK: Final = 200
"""Longest chunk, in characters, that is read; a longer one is data."""
MAX_NAME: Final = 6
"""Longest name, in words; a longer run of capitalised words is a heading."""
WILL: Final = "will"
"""A verb that is a first name too."""
MEASURES: Final = frozenset({"DATE", "TIME", "PERCENT", "MONEY", "QUANTITY", "ORDINAL", "CARDINAL"})
"""spaCy labels of numbers and measures, which are no entities."""

Found = tuple[int, str]
"""The position of an entity, and the entity as written."""

_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*://(?:[^/?#\s]*@)?|www\.)([^/?#\s]+)([^?#\s]*)", re.IGNORECASE)
_POSSESSIVE_END = re.compile(r"['’]s$")

FORMS: Final[Mapping[str, str]] = {
    "e-mail address": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "handle": r"@\w[\w.-]*(?:/\w[\w.-]*)?",
    "tag": r"#\w[\w-]*",
    "path": r"(?:~|\.{1,2})?/[\w.@-]*[^\W\d][\w./@-]*|[A-Za-z]:\\[\w.\\-]+",
    "path of a file": r"[\w.-]+(?:/[\w.-]+)*/[\w-]+\.[A-Za-z]\w{0,7}",
    "snake_case": r"(?=[\d_]*[^\W\d_])_*[^\W_]+(?:_+[^\W_]+)+_*",
    "dotted.name": r"_*[^\W\d_]\w+(?:\.[^\W\d]\w+)+",
    "camelCase": r"[a-z]+[A-Z][A-Za-z0-9]*",
    "code": r"(?=[A-Z-]*[0-9])[A-Z][A-Z0-9]*(?:-[A-Z0-9]+)*",
}
"""Forms of marks, each linear in its input."""
_FORM = re.compile("|".join(f"(?:{form})" for form in FORMS.values()))
_CHUNK = re.compile(r"""`(?P<code>[^`\n]{1,200})`|[^\s`()\[\]{}<>"“”«»|,;]+""")
_BEFORE, _AFTER = "'‘’*:!?…–—-¿¡", "'‘’*~.:!?…–—-"
_WORD = re.compile(r"[^\W_]+(?:['’&.-][^\W_]+)*")
_CLITIC = re.compile(r"['’](?:s|m|re|ve|ll|d)$", re.IGNORECASE)
_POSSESSIVE = ("'s", "’s")
_SENTENCE_END = re.compile(r"[.!?…:\n]")


class Piece(NamedTuple):
    """A mark, or a word without 's.

    Attributes:
        text: the piece as written.
        start: its position in its part of the text.
        is_mark: whether it is a mark.
        before: text between the previous piece and this one; a space before the first piece of a part.
        after: text after the last piece of a part.
        words: its words, as in `text.words`.
        may_name: whether it is a capitalised word that can be part of a name.
    """

    text: str
    start: int
    is_mark: bool
    before: str
    after: str
    words: tuple[str, ...]
    may_name: bool


def entities(content: str) -> tuple[str, ...]:
    """Return the distinct entities of `content` in order, as first written; spellings equal in normal form are one."""
    pieces = read(content)
    return distinct([*marks(pieces), *names(pieces)])


def distinct(found: Iterable[Found]) -> tuple[str, ...]:
    """Return distinct entities in the order of their positions, each in its first spelling."""
    first: dict[str, str] = {}
    for entity in dict.fromkeys(entity for _, entity in sorted(found)):
        first.setdefault(text.normalise(entity), entity)
    return tuple(first.values())


def read(content: str) -> list[Piece]:
    """Return the words and marks of `content` in order, read in parts between spaces.

    The pieces of a part are cached, since most words occur often; this makes bulk writes several times as fast. Only a
    span in backticks can contain a space, so a text with backticks is read as one part.
    """
    parts = content.split(" ") if "`" not in content else [content]
    cut = list(map(_CUT.__getitem__, parts))
    if not all(cut):  # a part without any piece, such as "-", belongs to the gap between its neighbours
        joined: list[str] = []
        start = 0
        for end in [at for at, pieces in enumerate(cut) if pieces][1:]:
            joined.append(" ".join(parts[start:end]))
            start = end
        cut = list(map(_CUT.__getitem__, [*joined, " ".join(parts[start:])]))
    return list(chain.from_iterable(cut))


def read_whole(content: str) -> tuple[Piece, ...]:
    """Return the words and marks of `content` in order, read as one part."""
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
        may_name = not is_mark and written[0].isupper() and (_lower(written) not in NEITHER or written == WILL.title())
        pieces.append(Piece(written, start, is_mark, before, after, words, may_name))
        before = ""
    return tuple(pieces)


_CUT: Final = text.Kept(read_whole)


def _cut(content: str) -> Iterator[tuple[int, str, bool]]:
    """Yield position, text, and whether it is a mark, of each word and mark."""
    for chunk in _CHUNK.finditer(content):
        if content.startswith("</", chunk.start() - 1):  # a closing tag, not a path
            continue
        if chunk["code"]:
            yield chunk.start("code"), chunk["code"], True
            continue
        core = chunk[0].lstrip(_BEFORE).rstrip(_AFTER)
        start = chunk.start() + chunk[0].find(core)
        if core.isalpha() and (len(core) == 1 or core[1:].islower()):  # most words
            yield start, core, False
        elif len(core) <= MAX_CHUNK and (found := mark(core)) is not None:
            yield start + core.find(found), found, True
        elif len(core) <= MAX_CHUNK:
            for match in _WORD.finditer(core):
                yield start + match.start(), _CLITIC.sub("", match[0]), False


def mark(chunk: str) -> str | None:
    """Return the entity that `chunk`, a text without white space, is by its form, or None.

    The entity of a URL is host and path, without scheme, user, `www.`, query and fragment.
    """
    core = _POSSESSIVE_END.sub("", chunk)
    if url := _URL.match(core):
        return (url[1].removeprefix("www.") + url[2]).rstrip("/") or None
    last = core.rpartition(".")[2]
    is_missing_space = last[:1].isupper() and last.lower() in NEVER  # "vault.The"
    return core if _FORM.fullmatch(core) and not is_missing_space else None


def marks(pieces: Sequence[Piece]) -> list[Found]:
    """Return the marks among the pieces of a text."""
    return [(at, piece.text.strip()) for at, piece in enumerate(pieces) if piece.is_mark and piece.text.strip()]


def names(pieces: Sequence[Piece]) -> list[Found]:
    """Return the names: runs of capitalised words with the particles inside them.

    A single word at the start of a sentence is a name only if it is no ordinary word by form (`PostgreSQL`, `NASA`), if
    it is capitalised inside another sentence, or if it is not listed as ordinary and is the subject: followed by 's, a
    verb, "and", or a comma and another name.
    """
    may = [at for at, piece in enumerate(pieces) if piece.may_name]
    capitals = sum(piece.text.isupper() for piece in pieces)
    if len(pieces) >= 4 and capitals * 2 > len(pieces):  # capitals carry no meaning in a shouted text
        may = [at for at in may if not pieces[at].text.isupper()]
    runs = [run for run in _runs(pieces, may) if len(run) <= MAX_NAME]
    runs = [run for run in runs if any(len(pieces[at].text) > 1 for at in run)]
    openers = {run[0] for run in runs if len(run) == 1 and _opens(pieces, run[0])}
    if openers:
        named = set(may)
        inside = {pieces[at].text for run in runs for at in run if at in named and not _opens(pieces, at)}
        openers = {at for at in openers if pieces[at].text not in inside and not _is_subject(pieces, named, at)}
    return [(run[0], _written(pieces, run)) for run in runs if run[0] not in openers]


def _runs(pieces: Sequence[Piece], may: Sequence[int]) -> Iterator[range]:
    """Yield the positions of each run: capitalised words with at most two particles between them.

    A verb that opens the sentence is not part of a run.
    """
    named, end = set(may), 0
    for start in may:
        if start < end:
            continue
        end = at = start + 1
        while at < min(end + 3, len(pieces)) and _is_joined(pieces, at):
            written = pieces[at].text
            if at in named:
                end = at + 1
            elif written not in PARTICLES and not (written in ("the", "den") and at > end):
                break
            at += 1
        skip = end - start > 1 and _opens(pieces, start) and _is_verb_first(pieces, start)
        yield range(start + skip, end)


def _is_verb_first(pieces: Sequence[Piece], at: int) -> bool:
    """Return whether a capitalised word before a name is a verb: "Called Tim", "Will Alice come?", not "Will Smith"."""
    word = _lower(pieces[at].text)
    return word in OPENING_VERBS or (word == WILL and any("?" in piece.before + piece.after for piece in pieces))


def _gap(pieces: Sequence[Piece], at: int) -> str:
    """Return the text between a piece and the previous one."""
    return pieces[at - 1].after + pieces[at].before


def _is_joined(pieces: Sequence[Piece], at: int) -> bool:
    gap = _gap(pieces, at)
    return "\n" not in gap and (gap.isspace() or (gap == ". " and _is_abbreviated(pieces[at - 1].text)))


def _opens(pieces: Sequence[Piece], at: int) -> bool:
    """Return whether a piece opens a sentence."""
    if at == 0:
        return True
    gap = _gap(pieces, at)
    return bool(_SENTENCE_END.search(gap)) and not (gap == ". " and _is_abbreviated(pieces[at - 1].text))


def _is_abbreviated(written: str) -> bool:
    return len(written) == 1 or "." in written or written.lower() in ABBREVIATED


def _is_subject(pieces: Sequence[Piece], named: Set[int], at: int) -> bool:
    """Return whether a word that opens a sentence is a name."""
    written, plain = pieces[at].text, _lower(pieces[at].text)
    if written[1:] != written[1:].lower():
        return True
    if (
        plain in OPENING_VERBS
        or plain == WILL
        or {plain, plain.removesuffix("s")} & ORDINARY
        or plain.endswith(ORDINARY_ENDINGS)
    ):
        return False
    is_last = at + 1 == len(pieces)
    gap = pieces[at].after if is_last else _gap(pieces, at + 1)
    if is_last or gap.startswith(_POSSESSIVE):
        return gap.startswith(_POSSESSIVE)
    if gap == ", ":
        return at + 1 in named
    word = pieces[at + 1].text
    is_verb = word.islower() and (word in FINITE or (len(word) > 3 and word.endswith(("s", "ed"))))
    return gap == " " and is_verb


def _written(pieces: Sequence[Piece], run: range) -> str:
    rest = (_gap(pieces, at) + pieces[at].text for at in run[1:])
    return " ".join("".join((pieces[run[0]].text, *rest)).split())


def _lower(written: str) -> str:
    return written.lower().replace("’", "'")


class RuleExtractor:
    """Importance, entities and facts by rules."""

    def extract(self, content: str, *, speaker: str | None = None, user_id: str | None = None) -> Extract:
        """Return the importance, entities and fact of `content`."""
        return Extract(importance(content), entities(content), fact_key(content, speaker=speaker, user_id=user_id))


class SpacyExtractor:
    """Entities by a spaCy pipeline, plus marks; importance and facts by rules.

    Args:
        pipeline: name of an installed pipeline, such as `en_core_web_sm`.

    Raises:
        MissingExtraError: spaCy is not installed.
        InputError: the pipeline is not installed.
    """

    def __init__(self, pipeline: str) -> None:
        try:
            spacy = import_module("spacy")
        except ImportError:
            raise MissingExtraError(f"entities = spacy:{pipeline}", "spacy") from None
        try:
            self._read: Callable[[str], Any] = spacy.load(pipeline)
        except OSError:  # spaCy's error for a missing pipeline
            remedy = f"Install the pipeline with: python -m spacy download {pipeline}"
            raise InputError("entities", f"spacy:{pipeline}", remedy) from None

    def extract(self, content: str, *, speaker: str | None = None, user_id: str | None = None) -> Extract:
        """Return the importance, entities and fact of `content`."""
        spans = [span for span in self._read(content).ents if span.label_ not in MEASURES and span.text.strip()]
        pieces = read_whole(content)
        found = [(pieces[at].start, mark) for at, mark in marks(pieces)]
        found += [(span.start_char, span.text.strip()) for span in spans]
        return Extract(importance(content), distinct(found), fact_key(content, speaker=speaker, user_id=user_id))


def extractor(setting: str) -> Extractor:
    """Return the extractor that the setting `entities` names: `rules`, or `spacy:NAME` with a pipeline.

    Raises:
        InputError: another name, or no pipeline.
        MissingExtraError: spaCy is not installed.
    """
    if setting == "rules":
        return RuleExtractor()
    name, _, pipeline = setting.partition(":")
    if name == "spacy" and pipeline:
        return SpacyExtractor(pipeline)
    raise unknown("entities", setting, (), "Choose one of: rules, spacy:NAME.")
