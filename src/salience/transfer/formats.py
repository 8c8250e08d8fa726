"""Formats of an export for other systems: mem0's JSON, and a folder of Markdown notes.

Both hold the live memories at their newest version, without vectors. `markdown` is read back by the importer of the
same name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final
from uuid import UUID

from salience import temporary
from salience.errors import InputError, cannot_write, shown, wrong_type
from salience.records import checks
from salience.records.ids import short_id
from salience.transfer.files import MEM0, File, writing

FORMATS: Final = ("jsonl", "markdown", "mem0")
"""Formats of an export; `jsonl` is the complete one, which `import_` reads."""
NOTED: Final = ("id", "kind", "importance", "weight", "tags", "entities", "fact_key", "supersedes", "speaker", "key")
"""Fields of a memory in the front matter of its note, if they are set."""
Write = Callable[[Mapping[str, Any]], None]
"""Writes one memory, given as the `memory` of a line of an export."""


@contextmanager
def writer(format: str, file: File, overwrite: bool) -> Iterator[Write]:
    """Yield a function that writes a memory in a format other than `jsonl`; the file appears once it is complete.

    Raises:
        InputError: a file that cannot be written, or may not be overwritten.
    """
    if format == "mem0":
        with writing(file, overwrite) as stream:
            yield from _mem0(stream)
    elif isinstance(file, (str, Path)):
        yield from _folder(checks.path("file", file))
    elif hasattr(file, "encoding"):
        yield lambda memory: _print(file, memory)
    else:
        raise wrong_type("file", file, "Give the path of a new folder, or a file that is open for text.")


def _mem0(stream: IO[str]) -> Iterator[Write]:
    comma = ""

    def write(memory: Mapping[str, Any]) -> None:
        nonlocal comma
        stream.write(f"{comma}\n{json.dumps(as_mem0(memory), ensure_ascii=False)}")
        comma = ","

    stream.write(MEM0)
    yield write
    stream.write("\n]}\n")


def as_mem0(memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return a memory with the fields of mem0's `get_all`; its own fields besides are in `metadata`."""
    scope, expires = memory["scope"], memory.get("expires_at")
    own = {field: memory[field] for field in NOTED if field not in ("id", "tags") and memory.get(field)}
    return {
        "id": str(UUID(memory["id"])),
        "memory": memory["content"],
        "user_id": scope.get("user_id"),
        "agent_id": scope.get("agent_id"),
        "app_id": scope.get("project"),
        "run_id": scope.get("session_id"),
        "metadata": {**memory["metadata"], "salience": own},
        "categories": list(memory["tags"]),
        "created_at": memory["created_at"],
        "updated_at": memory["updated_at"],
        "expiration_date": expires and expires[: len("2026-01-31")],
    }


def _folder(path: Path) -> Iterator[Write]:
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError("file", str(path), "Name a new folder.", f"{shown(str(path))} exists")
    with ExitStack() as stack:
        try:
            notes = stack.enter_context(temporary.directory(path.parent)) / "notes"
        except OSError as error:
            reason = f"{shown(str(path))} cannot be created: {error.strerror}"
            raise InputError("file", str(path), "Name a new folder in one that exists.", reason) from None

        def write(memory: Mapping[str, Any]) -> None:
            words = re.findall(r"\w+", memory["content"][:60].lower())[:6]
            name = "-".join([*words, short_id(memory["id"])])
            (notes / f"{name}.md").write_text(as_note(memory), "utf-8", newline="\n")

        try:
            notes.mkdir()
            yield write
            for note in notes.iterdir():
                temporary.sync(note)
            notes.replace(path)
            temporary.sync(path.parent)
        except OSError as error:
            raise cannot_write(path, error) from None


def as_note(memory: Mapping[str, Any]) -> str:
    """Return a memory as a note: its fields as front matter, and its content."""
    fields = {field: memory[field] for field in NOTED if memory.get(field)}
    fields |= {"created": memory["created_at"], "expires": memory.get("expires_at"), **memory["scope"]}
    lines = [f"{field}: {json.dumps(value, ensure_ascii=False)}" for field, value in fields.items() if value]
    return "\n".join(["---", 'from: "salience"', *lines, "---", "", memory["content"], ""])


def _print(stream: IO[Any], memory: Mapping[str, Any]) -> None:
    stream.write(as_note(memory) + "\n")
