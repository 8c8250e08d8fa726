"""A change of model that is killed again and again while others write and recall.

The command: `python -m bench.torture_reembed`. It ends with 1 where anything is wrong.

A file of memories gets another model from a process that is killed in the middle of it and started anew. Meanwhile a
process writes and another one recalls, both under the former model. The file is read throughout, by SQLite alone: at
every moment, each vector in it has to be what the model that the file is pinned to makes of the text beside it.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.connection import Connection as Line
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

from salience import compose
from salience.batch import Vectors32
from salience.engine import Engine
from salience.errors import SalienceError
from salience.maintain import reembed

PATIENCE: Final = 120.0
"""Seconds after which a process that says nothing is given up."""
SEEDED: Final = 500
"""Memories that are stored at a time to begin with."""
_STOP: Final = "stop"
_READ: Final = "SELECT content, vector FROM memories UNION ALL SELECT content, vector FROM versions"


class Hashed:
    """An embedder whose vectors are random numbers seeded by its name, its secret and the text.

    Args:
        name: as a store is pinned to it.
        dimension: length of a vector.
        secret: what tells it from another one of the same name.
    """

    def __init__(self, name: str, dimension: int, secret: str = "") -> None:
        self.name = name
        self.dimension = dimension
        self._secret = secret

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), dimension], rows of length 1."""
        made = [self._vector(text) for text in texts]
        return np.stack(made) if made else np.empty((0, self.dimension), np.float32)

    def _vector(self, text: str) -> Vectors32:
        digest = hashlib.sha256(f"{self.name}\0{self._secret}\0{text}".encode()).digest()
        vector = np.random.default_rng(int.from_bytes(digest[:8], "big")).normal(size=self.dimension)
        return (vector / np.linalg.norm(vector)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a change of model.

    Attributes:
        killed: runs that were killed in the middle.
        made, resumed: vectors of the last run, and those it found laid by.
        written, pending: memories that were written meanwhile, and those of them that were stored as pending.
        recalls, degraded: recalls meanwhile, and those of them that were answered by words.
        looks: how often the whole file was read meanwhile.
        rows: memories and versions in the file at the end.
        faults: all that is wrong; empty if nothing is.
        seconds: how long it took.
    """

    killed: int
    made: int
    resumed: int
    written: int
    pending: int
    recalls: int
    degraded: int
    looks: int
    rows: int
    faults: tuple[str, ...]
    seconds: float


@dataclass(slots=True)
class _Told:
    """What processes said so far."""

    counts: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def torture(folder: Path, memories: int, kills: int, old: Hashed, new: Hashed) -> Outcome:
    """Change the model of a new file from `old` to `new`, killed `kills` times, and return what became of it."""
    file, began = folder / "agent.db", time.perf_counter()
    seeded = seed(file, memories, old)
    told = _Told()
    around = [_start(work, file, old) for work in (write, recall)]
    looks, killed, report = 0, 0, (0, 0)
    for number in range(kills + 1):
        process, line = _start(change, file, new)
        ended = False
        stop_at = seeded * (number + 1) // (kills + 1) if number < kills else None
        for said in _lines(process, line):
            if isinstance(said, str):
                told.faults.append(said)
            elif said[0] == "done":
                report, ended = said[1:], True
            elif stop_at is not None and said[1] >= stop_at:
                told.faults += look(file, (old, new))
                looks += 1
                process.kill()
                process.join()
                killed, ended = killed + 1, True
                break
            else:
                line.send("on")
        line.close()
        told.faults += [] if ended else [f"run {number + 1} ended without a word"]
    told.faults += look(file, (old, new))
    for process, line in around:
        _end(process, line, told)
    with compose.moving(file, embedder=new) as engine:
        engine.reembed()  # what was stored as pending after the change
        told.faults += [f"doctor: {finding.problem}" for finding in engine.doctor(deep=True).findings]
    rows = final(file, new, seeded + told.counts.get("written", 0), told)
    count = told.counts
    return Outcome(
        killed, report[0], report[1], count.get("written", 0), count.get("pending", 0), count.get("recalls", 0),
        count.get("degraded", 0), looks + 1, rows, tuple(told.faults), time.perf_counter() - began,
    )  # fmt: skip


def seed(file: Path, memories: int, old: Hashed) -> int:
    """Fill a file with memories, a tenth of them with an older version, and return the number of versions in all."""
    with compose.local(file, embedder=old) as engine:
        for first in range(0, memories, SEEDED):
            texts = [f"memory {number} of the beginning" for number in range(first, min(first + SEEDED, memories))]
            held = engine.remember_many([{"content": text} for text in texts])
            for receipt in held[::10]:
                engine.update(receipt.memory.id, content=f"{receipt.memory.content}, changed")
    return memories + len(range(0, memories, 10))


def change(file: Path, new: Hashed, line: Line) -> None:
    """Give the file the new model; after each page, say so and wait to be told to go on, or be killed."""

    def told(done: int, of: int) -> None:
        line.send(("at", done, of))
        line.recv()

    with compose.moving(file, embedder=new) as engine:
        # held for no time, so that the next one need not wait for the lease of a killed one
        report = reembed.reembed(engine.services, told, held=timedelta(0))
    line.send(("done", report.made, report.resumed))


def write(file: Path, old: Hashed, line: Line) -> None:
    """Remember and update under the former model until told to stop, then say how much."""
    counts = {"written": 0, "pending": 0}
    with compose.local(file, embedder=old) as engine:
        while not line.poll(0.01):
            number = counts["written"]
            receipt = engine.remember(f"memory {number} of meanwhile")
            engine.update(receipt.memory.id, content=f"memory {number} of meanwhile, changed")
            counts["written"] += 2
            counts["pending"] += receipt.status == "pending"
    line.recv()
    line.send(counts)


def recall(file: Path, old: Hashed, line: Line) -> None:
    """Recall under the former model until told to stop, then say how often; no recall may fail or come back empty."""
    counts = {"recalls": 0, "degraded": 0}
    with compose.local(file, embedder=old) as engine:
        while not line.poll(0.005):
            counts["degraded"] += _recalled(engine, counts["recalls"])
            counts["recalls"] += 1
    line.recv()
    line.send(counts)


def _recalled(engine: Engine, number: int) -> bool:
    """Return whether a recall was answered by words.

    Raises:
        SalienceError: it came back without the memory that it asked for.
    """
    text = f"memory {number % 100} of the beginning"
    found = engine.recall(text, limit=20, min_score=0.0)
    if not any(hit.memory.content.startswith(text) for hit in found):
        raise SalienceError(f"recall {number} did not find its memory")
    return "embedding" in found.degraded


def look(file: Path, models: Sequence[Hashed]) -> list[str]:
    """Return what is wrong with the vectors in a file at one moment: all have to be of the model it is pinned to."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("BEGIN")
        pins = dict(connection.execute("SELECT name, value FROM meta"))
        rows = connection.execute(_READ).fetchall()
        laid_by = connection.execute(
            "SELECT content, l.vector FROM laid_by AS l JOIN "
            "(SELECT tenant, id, version, content FROM memories UNION ALL "
            "SELECT tenant, id, version, content FROM versions) USING (tenant, id, version)"
        ).fetchall()
    of = next(model for model in models if model.name == pins["embedder"])
    wrong = _foreign(rows, of)
    faults = [f"{wrong} of {len(rows)} vectors are not of {of.name}"] if wrong else []
    wrong = _foreign(laid_by, models[-1])
    return faults + ([f"{wrong} of {len(laid_by)} vectors laid by are not of the new model"] if wrong else [])


def final(file: Path, new: Hashed, expected: int, told: _Told) -> int:
    """Return how many versions a file has, with what is wrong at the end noted."""
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute(_READ).fetchall()
        left = connection.execute("SELECT count(*) FROM laid_by").fetchone()[0]
    without = sum(vector is None for _, vector in rows)
    wrong = {
        f"{_foreign(rows, new)} vectors are not of the new model": _foreign(rows, new),
        f"{without} versions have no vector": without,
        f"{left} vectors are still laid by": left,
        f"{len(rows)} versions are there, not {expected}": len(rows) - expected,
    }
    told.faults += [fault for fault, count in wrong.items() if count]
    return len(rows)


def _foreign(rows: Sequence[tuple[str, bytes | None]], model: Hashed) -> int:
    """Return how many vectors are not, but for rounding, what a model makes of the text beside them."""
    held = [(text, np.frombuffer(vector, "<f4")) for text, vector in rows if vector is not None]
    own = model.embed([text for text, _ in held])
    pairs = zip(held, own, strict=True)
    return sum(vector.shape != made.shape or not np.allclose(vector, made, atol=1e-6) for (_, vector), made in pairs)


def _start(work: Any, file: Path, model: Hashed) -> tuple[Any, Line]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["salience.compose", "alembic.command"])
    here, there = context.Pipe()
    process = context.Process(target=_work, args=(work, file, model, there), daemon=True)
    process.start()
    there.close()
    return process, here


def _work(work: Any, file: Path, model: Hashed, line: Line) -> None:
    """Do some work, and say what went wrong, if anything does."""
    try:
        work(file, model, line)
    except Exception as error:  # of whatever kind, it is a fault, which the parent has to hear of
        line.send(f"{work.__name__}: {type(error).__name__}: {error}")


def _lines(process: Any, line: Line) -> Any:
    """Yield what a process says until it ends."""
    with suppress(EOFError, OSError):
        while line.poll(PATIENCE):
            yield line.recv()
    process.join(PATIENCE)


def _end(process: Any, line: Line, told: _Told) -> None:
    """Stop a process, and note what it says at its end."""
    with suppress(OSError):
        line.send(_STOP)
    heard = list(_lines(process, line))
    told.faults += [said for said in heard if isinstance(said, str)] or ([] if heard else ["a process went away"])
    for said in heard:
        told.counts.update({} if isinstance(said, str) else said)
    process.kill()
    process.join()
    line.close()


def main(
    memories: Annotated[int, typer.Option(min=100, help="How many there are to begin with.")] = 5000,
    kills: Annotated[int, typer.Option(min=0, help="How often the change is killed.")] = 5,
    same_dimension: Annotated[bool, typer.Option(help="Whether both models make vectors of one length.")] = False,
) -> None:
    """Kill a change of model again and again, and hold the file against both models."""
    with tempfile.TemporaryDirectory(prefix="salience-torture-") as folder:
        done = torture(Path(folder), memories, kills, Hashed("old", 64), Hashed("new", 64 if same_dimension else 96))
    for name in Outcome.__dataclass_fields__:
        typer.echo(f"{name}: {getattr(done, name)}")
    if done.faults:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
