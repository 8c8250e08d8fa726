"""Folders of Markdown notes: one memory for each note, or for each section of a long note.

Properties at the top of a note (front matter in YAML), `#tags` and `[[links]]` are read as Obsidian describes them:
https://help.obsidian.md/properties, https://help.obsidian.md/tags, https://help.obsidian.md/links. Of YAML, names with
a text or a list of texts are understood; nested properties are kept in the metadata only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final
from urllib.parse import unquote

from salience.errors import InputError, Words
from salience.extract.entities import entities
from salience.lines import parsed
from salience.records import checks
from salience.remember.drafts import split
from salience.text import content_hash
from salience.transfer.importers.records import Item, Problem, Record, files_in, instant, key, name, names, original

SUFFIXES: Final = (".md", ".markdown")
OWN: Final = frozenset(
    "kind importance weight tags entities fact_key speaker environment project user_id agent_id session_id".split()
)
"""Fields in the notes of an export of Salience that a draft has too."""
LONGEST: Final = 1500
"""Bytes of a note that stays whole, and of a section: about as much as an embedding model reads."""
DATES: Final = ("created", "created_at", "date created", "creation date", "date")
"""Properties that hold the time of a note, first match wins."""
FRONT_MATTER: Final = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
QUOTED: Final = re.compile(r"""(["'])(.*?)\1(?:\s+#.*)?""")
COMMENT: Final = re.compile(r"(?:^|\s)#\s")
HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
FENCE: Final = re.compile(r" {0,3}(```|~~~)")
CODE: Final = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`", re.DOTALL)
TAG: Final = re.compile(r"(?<!\S)#([\w/-]*[^\W\d][\w/-]*)")
WIKI_LINK: Final = re.compile(r"\[\[([^\[\]|#^\n]+)(?:[|#^][^\[\]\n]*)?\]\]")
NOTE_LINK: Final = re.compile(r"\]\(<?([^()<>\s]+\.md)(?:#[^()\s]*)?>?\)")
DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def read(file: IO[bytes] | Path) -> Iterator[Item]:
    """Yield the sections of a note, or of every note in a folder."""
    return notes("markdown", file)


def notes(source: str, file: IO[bytes] | Path) -> Iterator[Item]:
    """Yield the sections of a note, or of every note in a folder; the number of a record is that of its note.

    Raises:
        InputError: a folder without notes.
    """
    if not isinstance(file, Path):
        yield from _note(source, 1, PurePosixPath(), file.read(), None)
        return
    paths = files_in(file, *SUFFIXES) if file.is_dir() else [file]
    if not paths:
        raise InputError("file", Words("a folder"), "Give a folder with files *.md.", "has no Markdown files")
    for number, path in enumerate(paths, start=1):
        where = PurePosixPath(path.relative_to(file).as_posix() if file.is_dir() else path.name)
        try:
            data, modified = path.read_bytes(), datetime.fromtimestamp(path.stat().st_mtime, UTC)
        except OSError as error:
            yield Problem(number, f"{where} cannot be read: {error.strerror}", "Give files that can be read.")
        else:
            yield from _note(source, number, where, data, modified)


def _note(source: str, number: int, path: PurePosixPath, data: bytes, modified: datetime | None) -> Iterator[Item]:
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        yield Problem(number, f"{path}: text that is not UTF-8", "Save the note as UTF-8.")
        return
    front, body = "", text
    if found := FRONT_MATTER.match(text):
        front, body = found[1], text[found.end() :]
    values = properties(front)
    if values.get("from") == "salience":
        yield _exported(source, number, path, front, body)
        return
    title = next(iter(_texts(values.get("title"))), path.stem)
    called = names([path.stem, *_texts(values.get("aliases") or values.get("alias"), ",")])  # what links name it by
    created = _created(values, path.stem) or modified
    for headings, section in sections(body):
        steps = [step for step in (title, *headings) if step]
        shown = " > ".join(step for step, before in zip(steps, ["", *steps], strict=False) if step != before)
        prose = CODE.sub(" ", section)
        links = _links(front + prose)
        tags = [*_texts(values.get("tags") or values.get("tag"), r"[,\s]+"), *TAG.findall(prose)]
        record = {"path": str(path), "headings": headings, "front_matter": front}
        content = section if section == shown or not shown else f"{shown}\n\n{section}"
        draft = {
            "content": content,
            "entities": checks.first_labels(dict.fromkeys([*called, *links, *entities(content)])),
            "tags": checks.first_labels(names([tag.strip("#") for tag in tags])),
            "created_at": created,
            "key": key(source, f"{path}#{'#'.join(headings)}", content_hash(section)[:16]),
            "metadata": {**original(record), **({"links": links} if links else {})},
        }
        yield Record(number, draft)


def _exported(source: str, number: int, path: PurePosixPath, front: str, body: str) -> Item:
    """Return the memory in a note that an export in Markdown wrote: each field is JSON on a line of its own."""
    found: dict[str, Any] = {}
    try:
        for line in front.rstrip("\n").split("\n"):
            field, _, value = line.partition(": ")
            found[field] = parsed(value)
        draft = {field: value for field, value in found.items() if field in OWN}
        draft |= {"content": body.strip("\n"), "key": key(source, found.get("id"))}
        draft |= {"created_at": instant("created", found.get("created")), "metadata": original(found)}
        older = found.get("supersedes")
        return Record(
            number, draft, supersedes=older and key(source, older), ended=instant("expires", found.get("expires"))
        )
    except (ValueError, InputError):
        return Problem(number, f"{path}: front matter that is not as exported", "Give the note as it was exported.")


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


def properties(front: str) -> dict[str, str | list[str]]:
    """Return the properties of a note in lower case, each a text or a list of texts."""
    if front.lstrip().startswith("{"):
        try:
            value = parsed(front)
        except ValueError:
            return {}
        return {
            field.lower(): names(item) if isinstance(item, list) else name(item) or ""
            for field, item in (value.items() if isinstance(value, dict) else ())
        }
    found: dict[str, str | list[str]] = {}
    last = ""
    for line in front.split("\n"):
        field, colon, value = line.partition(":")
        if colon and line[0] not in " \t#-" and (not value or value[0] in " \t"):
            last, value = field.strip(" \t\"'").lower(), value.strip()
            if value.startswith("[") and value.endswith("]") and not value.startswith("[["):
                found[last] = [item for one in value[1:-1].split(",") if (item := _unquoted(one))]
            else:
                found[last] = _unquoted(value)
        elif last and line.lstrip().startswith("- ") and (item := _unquoted(line.lstrip()[2:])):
            before = found[last]
            found[last] = [*(before if isinstance(before, list) else []), item]
    return found


def _unquoted(value: str) -> str:
    """Return a value without quotes and without a comment."""
    if quoted := QUOTED.fullmatch(value.strip()):
        return quoted[2].strip()
    return COMMENT.split(value, maxsplit=1)[0].strip()


def _texts(value: str | list[str] | None, separator: str = r"\Z") -> list[str]:
    """Return the texts of a property: its list, or its text split at separators."""
    texts = re.split(separator, value) if isinstance(value, str) else value or []
    return [clean for text in texts if (clean := text.strip())]


def _created(values: dict[str, str | list[str]], stem: str) -> datetime | None:
    """Return the time in the properties of a note, else the day in its file name, else None."""
    day = DAY.match(stem)
    for value in (*(values.get(field) for field in DATES), day and day[0]):
        try:
            found = instant("date", value) if isinstance(value, str) else None
        except InputError:
            continue
        if found is not None:
            return found
    return None


def _links(text: str) -> list[str]:
    """Return the names of the notes that a text links to; files of other kinds are left out."""
    targets = [*WIKI_LINK.findall(text), *map(unquote, NOTE_LINK.findall(text))]
    paths = (PurePosixPath(target.strip()) for target in targets)
    return names([path.stem if path.suffix.lower() in SUFFIXES else path.name for path in paths if _is_note(path)])


def _is_note(path: PurePosixPath) -> bool:
    return path.suffix.lower() in SUFFIXES or not re.fullmatch(r"\.[a-z][a-z0-9]{1,3}", path.suffix.lower())
