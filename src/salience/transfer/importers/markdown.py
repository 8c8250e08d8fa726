"""Folders of Markdown notes: one memory for each note, or for each section of a long note.

Properties at the top of a note (front matter in YAML), `#tags` and `[[links]]` are read as Obsidian describes them:
https://help.obsidian.md/properties, https://help.obsidian.md/tags, https://help.obsidian.md/links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote

import yaml

from salience.errors import InputError
from salience.lines import parsed
from salience.records import checks
from salience.text import content_hash, split
from salience.transfer.importers.records import (
    NO_UTF8,
    File,
    Item,
    Problem,
    Record,
    instant,
    names,
    original,
    problem,
    readable_instant,
)

SUFFIXES: Final = (".md", ".markdown")
OWN: Final = frozenset(
    "kind importance weight tags entities fact_key speaker environment project user_id agent_id session_id".split()
)
"""Fields in the notes of an export of Salience that a draft has too."""
LONGEST: Final = 1500
"""Bytes of a note that stays whole, and of a section: about as much as an embedding model reads."""
DATES: Final = ("created", "created_at", "date created", "creation date", "date")
"""Properties that hold the time of a note, first match wins."""
READ: Final = frozenset(("title", "tags", "tag", "aliases", "alias", "cssclasses", "cssclass", *DATES))
"""Properties that are read as more than text, or that say how a note looks."""
FRONT_MATTER: Final = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
EXPORTED: Final = 'from: "salience"\n'
"""Start of the properties of a note that an export of Salience wrote."""
NULL: Final = "tag:yaml.org,2002:null"
HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
FENCE: Final = re.compile(r" {0,3}(```|~~~)")
CODE: Final = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`", re.DOTALL)
TAG: Final = re.compile(r"(?<!\S)#([\w/-]*[^\W\d][\w/-]*)")
WIKI_LINK: Final = re.compile(r"\[\[([^\[\]|#^\n]+)(?:[|#^][^\[\]\n]*)?\]\]")
NOTE_LINK: Final = re.compile(r"\]\(<?([^()<>\s]+\.md)(?:#[^()\s]*)?>?\)")
DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}|(?:19|20)\d{6}(?=(?:\d{4}|\d{6})?(?!\d))")
"""The day at the start of a file name; a time may follow, as in `202603061230`."""


def read(file: File) -> Iterator[Item]:
    """Yield the sections of a note."""
    with file.open() as stream:
        data = stream.read()
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        yield problem(1, NO_UTF8)
        return
    front, body = "", text
    if found := FRONT_MATTER.match(text):
        front, body = found[1], text[found.end() :]
        if front.startswith(EXPORTED):
            yield _exported(front, body)
            return
    written = properties(front)
    if written is None:  # no properties, but text between two lines
        written, front, body = {}, "", text
    values = {field.lower(): value for field, value in written.items()}
    path = PurePosixPath(file.name)
    title = next(iter(_texts(values.get("title"))), path.stem)
    called = names([path.stem, *_texts(values.get("aliases") or values.get("alias"), ",")])  # what links name it by
    created = _created(values, path.stem) or file.modified
    lines = _lines(written, body)
    for headings, section in sections("\n\n".join(filter(None, (lines, body.strip("\n"))))):
        steps = [step for step in (title, *headings) if step]
        shown = " > ".join(step for step, before in zip(steps, ["", *steps], strict=False) if step != before)
        prose = CODE.sub(" ", section.removeprefix(lines))
        links = _links(front + prose)
        tags = [*_texts(values.get("tags") or values.get("tag"), r"[,\s]+"), *TAG.findall(prose)]
        record = {"path": str(path), "headings": headings, "front_matter": front}
        draft = {
            "content": section if section == shown or not shown else f"{shown}\n\n{section}",
            "tags": checks.first_labels(names([tag.strip("#") for tag in tags])),
            "created_at": created,
            "key": f"{path}#{'#'.join(headings)}:{content_hash(section)[:16]}",
            "metadata": {**original(record), **({"links": links} if links else {})},
        }
        yield Record(1, draft, entities=(*called, *links))


def _exported(front: str, body: str) -> Item:
    """Return the memory in a note that an export in Markdown wrote: each field is JSON on a line of its own."""
    found: dict[str, Any] = {}
    try:
        for line in front.rstrip("\n").split("\n"):
            field, _, value = line.partition(": ")
            found[field] = parsed(value)
        draft = {field: value for field, value in found.items() if field in OWN}
        draft |= {"content": body.strip("\n"), "key": found.get("id"), "metadata": original(found)}
        draft |= {"created_at": instant("created", found.get("created"))}
        ended = instant("expires", found.get("expires"))
        return Record(1, draft, supersedes=found.get("supersedes"), ended=ended)
    except (ValueError, InputError):
        return Problem(1, "front matter is not as exported", "Give the note as it was exported.")


def sections(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the sections of a Markdown text with text of their own, each with the headings above it.

    A text of at most `LONGEST` bytes is one section. A longer section is split at paragraphs, lines or sentences.
    """
    if len(text.encode("utf-8", "replace")) <= LONGEST:
        if text.strip():
            yield (), text.strip()
        return
    headings: list[tuple[int, str]] = []
    lines: list[str] = []
    fence = None
    for line in [*text.split("\n"), "# "]:
        if marker := FENCE.match(line):
            fence = marker[1] if fence is None else None if fence == marker[1] else fence
        found = None if fence and line != "# " else HEADING.fullmatch(line)
        if found is None:
            lines.append(line)
            continue
        path = tuple(heading for _, heading in headings if heading)
        for part in split("\n".join(lines).encode("utf-8", "replace").decode().strip("\n"), LONGEST):
            if part.strip():
                yield path, part.strip()
        lines = []
        level = len(found[1])
        headings = [
            *((above, heading) for above, heading in headings if above < level),
            (level, found[2].rstrip(" \t#")),
        ]


def properties(front: str) -> dict[str, Any] | None:
    """Return the properties in YAML: texts as they are written, None, and lists and mappings of them.

    None for text that is no mapping in YAML.
    """
    try:
        root = yaml.compose(front, yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError):  # the last two: an escape of no character
        return None
    value = {} if root is None else _plain(root, set())
    return value if isinstance(value, dict) else None


def _plain(node: yaml.Node, seen: set[int]) -> Any:
    """Return the value of a node; a list or mapping that is repeated by an alias is there once."""
    if isinstance(node, yaml.ScalarNode):
        return None if node.tag == NULL else node.value
    if id(node) in seen:
        return None
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, seen) for item in node.value]
    return {str(field.value): _plain(value, seen) for field, value in node.value if isinstance(field, yaml.ScalarNode)}


def _lines(written: Mapping[str, Any], body: str) -> str:
    """Return the properties that are text only, one a line; of a note without other text, all of them."""
    return "\n".join(
        f"{field}: {text}"
        for field, value in written.items()
        if (text := _line(value)) and (field.lower() not in READ or not body.strip())
    )


def _line(value: Any) -> str:
    """Return the value of a property on one line."""
    if isinstance(value, dict):
        value = [f"{field}: {text}" for field, inner in value.items() if (text := _line(inner))]
    if isinstance(value, list):
        return ", ".join(filter(None, map(_line, value)))
    return " ".join((value or "").split())


def _texts(value: Any, separator: str = r"\Z") -> list[str]:
    """Return the texts of a property: those in its lists, or its text split at separators."""
    if isinstance(value, list):
        return [text for inner in value for text in _texts(inner)]
    texts = re.split(separator, value) if isinstance(value, str) else ()
    return [clean for text in texts if (clean := text.strip())]


def _created(values: Mapping[str, Any], stem: str) -> datetime | None:
    """Return the time in the properties of a note, else the day in its file name, else None."""
    day = DAY.match(stem)
    written = [text.strip("[]") for field in DATES for text in _texts(values.get(field))]  # may link to a day
    return next(filter(None, map(readable_instant, [*written, *([day[0]] if day else [])])), None)


def _links(text: str) -> list[str]:
    """Return the names of the notes that a text links to; files of other kinds are left out."""
    targets = [*WIKI_LINK.findall(text), *map(unquote, NOTE_LINK.findall(text))]
    paths = (PurePosixPath(target.strip()) for target in targets)
    return names([path.stem if path.suffix.lower() in SUFFIXES else path.name for path in paths if _is_note(path)])


def _is_note(path: PurePosixPath) -> bool:
    return path.suffix.lower() in SUFFIXES or not re.fullmatch(r"\.[a-z][a-z0-9]{1,3}", path.suffix.lower())
