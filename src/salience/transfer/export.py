"""Memories out of a store, as lines of JSON."""

from __future__ import annotations

import base64
import json
from dataclasses import fields
from typing import IO, Any, Final

from salience.derived import scan
from salience.ports import Stored, World
from salience.records import Scope, TransferReport
from salience.transfer.files import FORMAT, INSTANTS, VERSION, Progress

LINE_ENDS: Final = {ord(sign): f"\\u{ord(sign):04x}" for sign in "\u0085\u2028\u2029"}
"""Signs that end a line for some readers; JSON leaves them as they are."""


def export(world: World, scope: Scope, file: IO[str], progress: Progress | None = None) -> TransferReport:
    """Write every memory visible in `scope`, with older versions, vectors and session state, and return the count.

    Forgotten memories are part of it, since they can be restored.
    """
    embedder = world.embedder
    header = {"format": FORMAT, "version": VERSION, "embedder": embedder.name, "dimension": embedder.dimension}
    file.write(json.dumps(header) + "\n")
    written, last = 0, ""
    for stored in scan(world, scope, forgotten=True, versions=True):
        file.write(json.dumps(as_record(stored), ensure_ascii=False).translate(LINE_ENDS) + "\n")
        written += stored.memory.id != last
        last = stored.memory.id
        if progress is not None:
            progress(written)
    return TransferReport(written)


def as_record(stored: Stored) -> dict[str, Any]:
    """Return a stored memory as JSON values: `memory`, `vector` (base64 of float32, little endian), `activations`."""
    memory = {item.name: getattr(stored.memory, item.name) for item in fields(stored.memory)}
    memory |= {name: memory[name].isoformat() for name in INSTANTS if memory[name] is not None}
    memory |= {"scope": stored.memory.scope.as_dict(), "metadata": dict(stored.memory.metadata)}
    vector = None if stored.vector is None else base64.b64encode(stored.vector.astype("<f4").tobytes()).decode("ascii")
    return {"memory": memory, "vector": vector, "activations": dict(stored.activations)}
