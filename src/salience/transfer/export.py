"""Export: write memories as lines of JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import fields, replace
from operator import attrgetter
from typing import IO, Any, Final

from salience.batch import packed
from salience.ports import Model, Services, Stored
from salience.records import Filter, Memory, Scope, TransferReport
from salience.steps import scan_pages
from salience.transfer.files import FORMAT, INSTANTS, VERSION, Progress
from salience.transfer.formats import Write

PAGE: Final = 500
"""Memories that are read at once: few, so that an export of any size needs little memory."""
LINE_ENDS: Final = {ord(sign): f"\\u{ord(sign):04x}" for sign in "\u0085\u2028\u2029"}
"""Escapes for characters that some readers take for the end of a line."""
_FIELDS: Final = tuple(item.name for item in fields(Memory) if item.name != "replaced_by")
_values: Final = attrgetter(*_FIELDS)
_json: Final = json.JSONEncoder(ensure_ascii=False).encode


def export(
    services: Services, scope: Scope, accepts: Filter, file: IO[str], progress: Progress | None = None
) -> TransferReport:
    """Write the visible memories that pass a filter, with older versions, vectors and session state; return the count.

    Forgotten memories are included, because they can be restored. The vectors are those of the model that the store is
    pinned to; if the store moves to another model meanwhile, the rest is written without vectors.
    """
    pin = services.store.pinned() or Model(services.embedder.name, services.embedder.dimension)
    header = {"format": FORMAT, "version": VERSION, "embedder": pin.name, "dimension": pin.dimension}
    file.write(json.dumps(header) + "\n")
    written, last = 0, ""
    for stored in _of_model(services, scope, accepts, pin):
        file.write(as_line(stored))
        written += stored.memory.id != last
        last = stored.memory.id
        if progress is not None:
            progress(written)
    return TransferReport(written)


def export_as(
    services: Services, scope: Scope, accepts: Filter, write: Write, progress: Progress | None = None
) -> TransferReport:
    """Pass the visible live memories that pass a filter, as JSON values, to a function; return the count."""
    written, now = 0, services.clock()
    for page in scan_pages(services, scope, accepts, size=PAGE):
        for stored in (one for one in page if one.memory.is_live(now)):
            write(as_record(replace(stored, vector=None, tokens=None))["memory"])
            written += 1
            if progress is not None:
                progress(written)
    return TransferReport(written)


def _of_model(services: Services, scope: Scope, accepts: Filter, pin: Model) -> Iterator[Stored]:
    """Yield the visible memories with their versions, without vectors once these are of another model."""
    for page in scan_pages(services, scope, accepts, forgotten=True, versions=True, size=PAGE):
        now = services.store.pinned()  # read after the page: then the page is of this model or an earlier one
        is_same = now is None or (now.name, now.dimension) == (pin.name, pin.dimension)
        yield from page if is_same else (replace(stored, vector=None, tokens=None) for stored in page)


def as_line(stored: Stored) -> str:
    """Return a memory as a line of JSON."""
    line = _json(as_record(stored))
    return (line if line.isascii() else line.translate(LINE_ENDS)) + "\n"


def as_record(stored: Stored) -> dict[str, Any]:
    """Return a memory as JSON values.

    These are `memory`, `vector` (base64 of little-endian float32), `activations`, and, where the memory has token
    vectors, `tokens` (base64 of `batch.packed`).
    """
    memory = dict(zip(_FIELDS, _values(stored.memory), strict=True))
    memory |= {name: memory[name].isoformat() for name in INSTANTS if memory[name] is not None}
    memory |= {"scope": stored.memory.scope.as_dict(), "metadata": dict(stored.memory.metadata)}
    if stored.memory.relations is not None:
        memory["relations"] = [relation.as_dict() for relation in stored.memory.relations]
    vector = None if stored.vector is None else base64.b64encode(stored.vector.astype("<f4").tobytes()).decode("ascii")
    record = {"memory": memory, "vector": vector, "activations": dict(stored.activations)}
    if stored.tokens is not None:
        record["tokens"] = base64.b64encode(packed(stored.tokens)).decode("ascii")
    return record
