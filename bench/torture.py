"""Torture for store files: `kill -9`, many processes on one file, a change of model under fire.

    python -m bench.torture crash|crowd|reembed [--plant]

Writers run random verbs and note in a journal what they are about to do and what the store acknowledged. Afterwards
the file is compared with the journals: every acknowledged version is there, nothing half-done is, `doctor` and SQLite
find no fault. Exit code 1: something is wrong. `--plant` damages the store first; then exit code 1 is the right answer.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from queue import Empty
from random import Random
from statistics import median
from typing import Annotated, Any, Final

import numpy as np
import typer
from sqlalchemy import Engine as Database
from sqlalchemy import event

from bench.driver import PATIENCE, Plant, Seconds, Seed, kept_on_failure, listed, received, report, started, stop
from bench.writers import (
    Checked,
    Journal,
    Row,
    Step,
    Writer,
    acknowledged_verbs,
    board,
    counted,
    examine,
    exported,
    opened,
    read_journal,
    released,
)
from salience import compose
from salience.errors import NotFoundError, SalienceError
from salience.maintain import reembed as reembedding
from salience.records.checks import QUERY_LIMIT
from tests.contract.doubles import HashedEmbedder

LIVES: Final = 3
app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)


def traces(file: Path, journals: Sequence[Path]) -> int:
    """Return how many erased texts are still in the bytes of a closed file, where SQLite moved a row before."""
    entries = [entry for path in journals for entry in read_journal(path)[0] if entry.acknowledged is not None]
    erased = {one for entry in entries for one in entry.erased}
    texts = {mark.content[:60].encode() for entry in entries for mark in entry.acknowledged or () if mark.id in erased}
    held = b"".join(path.read_bytes() for path in file.parent.glob(f"{file.name}*"))
    return sum(text in held for text in texts)


def plant_loss(file: Path) -> None:
    """Delete an acknowledged memory behind the store's back, to see that the check finds it."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DELETE FROM memories WHERE rowid = (SELECT max(rowid) FROM memories)")
        connection.commit()


# --- crash: writers that are killed -----------------------------------------------------------------------------------


def write(
    file: Path, journal_path: Path, seed: str, shared: str, reopens: bool, fuse: int | None, line: Any
) -> None:  # fmt: skip
    """Write until stopped or killed; `fuse`: how many statements inside transactions run before a kill of its own."""
    if fuse is not None:
        light(fuse)
    line.send("started")
    journal, has_written = Journal(journal_path), False
    try:
        while not line.poll():
            with opened(file) as engine:
                writer = Writer(engine, journal, f"{seed} {journal.number}", shared)
                for _ in range(5) if reopens else itertools.count():
                    if line.poll():
                        break
                    writer.step()
                    if not has_written:
                        line.send("wrote")
                        has_written = True
    except Exception as error:
        journal.note(failure=f"{journal.path.stem} ended with {type(error).__name__}: {error}")


def light(statements: int) -> None:
    """Make this process kill itself between two statements of a write transaction."""
    left = itertools.count(statements, -1)

    @event.listens_for(Database, "connect")
    def _(driver: Any, *_: object) -> None:
        def burn(_: str) -> None:
            if driver.total_changes and driver.in_transaction and next(left) <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

        if isinstance(driver, sqlite3.Connection):
            driver.set_trace_callback(burn)


def await_message(message: str, most: float) -> Callable[[Random, Path, Sequence[Any]], None]:
    """Return a function that waits for a message of each writer, then a random time of up to `most` seconds."""

    def wait(chance: Random, _: Path, writers: Sequence[Any]) -> None:
        for _process, line in writers:
            while received(line) not in (None, message):
                pass
        time.sleep(chance.uniform(0, most))

    return wait


def await_checkpoint(chance: Random, file: Path, writers: Sequence[Any]) -> None:
    """Wait until the file itself is written: with a write-ahead log, that is a checkpoint."""
    await_message("wrote", 0)(chance, file, writers)
    before, deadline = file.stat().st_mtime_ns, time.monotonic() + PATIENCE
    while file.stat().st_mtime_ns == before and time.monotonic() < deadline:
        time.sleep(0.0001)
    time.sleep(chance.uniform(0, 0.004))


def await_end(_chance: Random, _file: Path, writers: Sequence[Any]) -> None:
    """Wait until each writer has ended by itself."""
    for process, _ in writers:
        process.join(PATIENCE)


@dataclass
class Way:
    """How writers are killed: one wait for each kill in a row, how many write, how many of these are killed."""

    waits: tuple[Callable[[Random, Path, Sequence[Any]], None], ...]
    writers: int = 1
    killed: int = 1
    reopens: bool = False
    fused: bool = False


WAYS: Final = {
    "writing": Way((await_message("wrote", 0.15),)),
    "one of three": Way((await_message("wrote", 0.15),), writers=3),
    "opening": Way((await_message("started", 0.03),)),
    "in a transaction": Way((await_end,), fused=True),
    "checkpoint": Way((await_checkpoint,)),
    "three of three": Way((await_message("wrote", 0.15),), writers=3, killed=3),
    "recovering": Way((await_message("wrote", 0.15), await_message("started", 0.01), await_message("started", 0.02))),
    "reopening": Way((await_message("wrote", 0.1),), reopens=True),
}


def life(folder: Path, name: str, seed: str) -> tuple[int, Checked]:
    """Let writers work on the file of a folder until some are killed; return how many were, and the check."""
    way, file, chance = WAYS[name], folder / "memory.db", Random(seed)
    with opened(file) as engine:
        shared = board(engine, Journal(folder / "board.journal"))
        filler = Writer(engine, Journal(folder / "parent.journal"), f"{seed} parent")
        for _ in range(12):
            filler.step()
    killed = 0
    for round_, wait in enumerate(way.waits):
        fuse = chance.randrange(400) if way.fused else None
        writers = [
            started(write, file, folder / f"w{n}.journal", f"{seed} {round_} {n}", shared, way.reopens, fuse)
            for n in range(way.writers)
        ]
        wait(chance, file, writers)
        for process, _ in writers[: way.killed]:
            process.kill()
        time.sleep(0.05 if way.killed < way.writers else 0)
        for _, line in writers[way.killed :]:
            with suppress(OSError):
                line.send("stop")
        for process, line in writers:
            stop(process)
            line.close()
            killed += process.exitcode == -signal.SIGKILL
    return killed, examine(file, folder, f"{seed} after")


@app.command()
def crash(runs: Annotated[int, typer.Option(min=1, help="Files.")] = 200, seed: Seed = 1, plant: Plant = False) -> None:
    """Kill writers at random moments and compare the files with the journals of acknowledged writes."""
    kills, verbs, totals, left = Counter[str](), Counter[str](), Checked(), 0
    ways = list(WAYS)
    with kept_on_failure() as place:
        for number in range(runs):
            (folder := place / str(number)).mkdir()
            chance, faults = Random(f"{seed} {number}"), list[str]()
            names = [ways[number % len(ways)], *chance.choices(ways, k=chance.randrange(LIVES))]
            for turn, name in enumerate(names):
                killed, checked = life(folder, name, f"{seed} {number} {turn}")
                if plant:
                    plant_loss(folder / "memory.db")
                    checked.faults += examine(folder / "memory.db", folder, "planted").faults
                kills[name] += killed
                faults += [f"file {number}, {name}: {fault}" for fault in checked.faults]
                is_last = turn == len(names) - 1  # each check counts the acknowledged versions of all lives
                totals.add(replace(checked, faults=[], acknowledged=checked.acknowledged if is_last else 0))
            totals.faults += faults
            verbs += acknowledged_verbs(folder)
            left += traces(folder / "memory.db", sorted(folder.glob("*.journal")))
            if not faults:
                shutil.rmtree(folder)
        report(
            {
                "files": runs,
                "killed processes": listed(kills),
                "verbs acknowledged": listed(verbs),
                "versions acknowledged": totals.acknowledged,
                "writes cut off, found whole": totals.whole,
                "writes cut off, not there": totals.absent,
                "acknowledged and lost": totals.lost,
                "erased, with a trace": left,
                "failed to open": sum("does not open" in fault for fault in totals.faults),
            },
            totals.faults,
        )


# --- crowd: many processes on one file --------------------------------------------------------------------------------


Figures = dict[str, Any]
"""Results of a process: lists of seconds, and counts of what it read of others."""


def no_figures() -> Figures:
    return {"writes": [], "recalls": [], "received": 0, "stale": 0, "uncounted": 0}


def member(
    file: Path, journal_path: Path, place: int, seed: int, shared: str, seconds: float, boxes: Any, line: Any
) -> None:
    """Write, recall, and read at once what other processes have just written, until the time is up."""
    journal, figures, box = Journal(journal_path), no_figures(), boxes[place]
    others = [other for number, other in enumerate(boxes) if number != place]
    try:
        with opened(file) as engine:
            writer = Writer(engine, journal, f"{seed} {place}", shared, user="crowd")
            line.send("started")
            line.recv()
            start, ended = time.monotonic(), 0
            while time.monotonic() - start < seconds:
                with suppress(Empty):
                    while True:
                        ended += read_other(writer, figures, box.get_nowait())
                begun = time.perf_counter()
                verb, (written, _) = writer.step(leave=("end_session",))
                figures["recalls" if verb == "recall" else "writes"].append(time.perf_counter() - begun)
                own = [memory for memory in written if memory.scope.user_id == "crowd" and memory.tier != "working"]
                if own and writer.chance.random() < 0.5:
                    memory = writer.chance.choice(own)
                    writer.own.pop(memory.id, None)
                    writer.gone.pop(memory.id, None)
                    writer.chance.choice(others).put(Row.of(memory))
            for other in others:
                other.put(None)
            while ended < len(others):
                ended += read_other(writer, figures, box.get(timeout=PATIENCE))
    except Exception as error:
        journal.note(failure=f"{journal.path.stem} ended with {type(error).__name__}: {error}")
        for other in others:
            other.put(None)
    line.send(figures)


def read_other(writer: Writer, figures: Figures, row: Row | None) -> bool:
    """Read a memory that another process has just written, by id and by text; True for "no more to come"."""
    if row is None or len(row.content) > QUERY_LIMIT:
        return True
    answers: list[Any] = []

    def run() -> Any:
        answers.append(writer.engine.recall(row.content, limit=5, min_score=0, user_id="crowd"))
        return (), counted(answers[0])

    try:
        held = writer.engine.get(row.id, user_id="crowd")
        by_id = row.live and held.version >= row.version and held.content == row.content
    except NotFoundError:
        by_id = not row.live
    begun = time.perf_counter()
    writer.run("recall", Step([], run))
    figures["recalls"].append(time.perf_counter() - begun)
    figures["uncounted"] += "touch" in answers[0].degraded
    hits = [hit.memory for hit in answers[0] if (hit.memory.id, hit.memory.content) == (row.id, row.content)]
    recalled = any(memory.version >= row.version for memory in hits)  # later ones only end relations, as the check sees
    figures["received"] += 1
    if not by_id or recalled != row.live:
        figures["stale"] += 1
        writer.journal.note(failure=f"version {row.version} of {row.id} ({row.change}) was not seen")
    elif not row.live:
        writer.gone[row.id] = row
    elif row.weight == 1:
        writer.own[row.id] = row
    return False


def run_crowd(folder: Path, processes: int, seconds: float, seed: int, plant: bool = False) -> tuple[Figures, Checked]:
    """Let processes work on the file of a folder; return what they saw, added up, and the check."""
    file, context = folder / "memory.db", multiprocessing.get_context("forkserver")
    with opened(file) as engine:
        shared = board(engine, Journal(folder / "board.journal"))
    boxes = [context.Queue() for _ in range(processes)]
    members = [
        started(member, file, folder / f"p{n}.journal", n, seed, shared, seconds, boxes) for n in range(processes)
    ]
    for _, line in members:
        received(line)
    for _, line in members:
        line.send("go")
    total, silent = no_figures(), 0
    for process, line in members:
        figures = received(line, seconds + 2 * PATIENCE)
        silent += figures is None
        total = {name: total[name] + figures[name] for name in total} if figures else total
        stop(process)
    if plant:
        plant_loss(file)
    checked = examine(file, folder, str(seed), exact=True)
    checked.faults += [f"{silent} processes ended without a result"] if silent else []
    return total, checked


@app.command()
def crowd(
    processes: Annotated[int, typer.Option(min=2, help="Processes.")] = 8,
    seconds: Seconds = 120.0,
    seed: Seed = 1,
    plant: Plant = False,
) -> None:
    """Let processes write and recall on one file, and read what the others have just written."""
    with kept_on_failure() as folder:
        figures, checked = run_crowd(folder, processes, seconds, seed, plant)
        rates = {
            name: f"{len(took):,}, {len(took) / seconds:.0f} a second; p50 {median(took or [0]) * 1e3:.1f} ms"
            for name, took in figures.items()
            if isinstance(took, list)
        }
        report(
            {
                "processes": processes,
                **rates,
                "recalls not counted": figures["uncounted"],
                "versions acknowledged": checked.acknowledged,
                "acknowledged and lost": checked.lost,
                "read from other processes": figures["received"],
                "stale reads": figures["stale"],
            },
            checked.faults,
        )


# --- reembed: a change of model that is killed again and again --------------------------------------------------------

VECTORS: Final = "SELECT content, vector FROM memories UNION ALL SELECT content, vector FROM versions"
OLD: Final = HashedEmbedder("old", 64)


def change(file: Path, new: HashedEmbedder, line: Any) -> None:
    """Give a file a new model; after each page, send the count and wait for a message."""

    def wait(done: int, _: int) -> None:
        line.send(done)
        line.recv()

    with compose.moving(file, embedder=new) as engine:
        reembedding.reembed(engine.services, wait, held=timedelta(0))  # no wait for the lease of a killed process
    line.send("done")


def write_meanwhile(file: Path, line: Any) -> None:
    """Remember and update under the old model until stopped; then send the number of versions."""
    made = 0
    with compose.local(file, embedder=OLD) as engine:
        while not line.poll(0.01):
            receipt = engine.remember(f"memory {made} of meanwhile")
            engine.update(receipt.memory.id, content=f"memory {made} of meanwhile, changed")
            made += 2
    line.send(made)


def recall_meanwhile(file: Path, line: Any) -> None:
    """Recall under the old model until stopped; then send the number of recalls. Each must find its memory."""
    done = 0
    with compose.local(file, embedder=OLD) as engine:
        while not line.poll(0.005):
            text = f"memory {done % 100} of the beginning"
            hits = engine.recall(text, limit=20, min_score=0.0, profile="precise")  # finds it by its words alone
            if not any(hit.memory.content.startswith(text) for hit in hits):
                raise SalienceError(f"recall {done} did not find its memory")
            done += 1
    line.send(done)


def foreign_vectors(file: Path, new: HashedEmbedder) -> tuple[list[str], int, int]:
    """Return faults of the vectors in a file at one moment, its rows, and its rows without a vector."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("BEGIN")
        pinned = dict(connection.execute("SELECT name, value FROM meta"))["embedder"]
        rows = connection.execute(VECTORS).fetchall()
    model = OLD if pinned == OLD.name else new
    held = [(text, np.frombuffer(vector, "<f4")) for text, vector in rows if vector is not None]
    right = model.embed([text for text, _ in held])
    wrong = sum(
        vector.shape != own.shape or not np.allclose(vector, own, atol=1e-6)
        for (_, vector), own in zip(held, right, strict=True)
    )
    return ([f"{wrong} of {len(rows)} vectors are not of {pinned}"] if wrong else []), len(rows), len(rows) - len(held)


def change_model(
    folder: Path, memories: int, kills: int, new: HashedEmbedder, plant: bool = False
) -> tuple[dict[str, int], list[str]]:
    """Change the model of a new file, killed `kills` times, under writes and recalls; return counts and faults."""
    file, faults, counts = folder / "agent.db", list[str](), {"killed": 0}
    with compose.local(file, embedder=OLD) as engine:
        for first in range(0, memories, 500):
            texts = [f"memory {n} of the beginning" for n in range(first, min(first + 500, memories))]
            for receipt in engine.remember_many([{"content": text} for text in texts])[::10]:
                engine.update(receipt.memory.id, content=f"{receipt.memory.content}, changed")
    seeded = memories + len(range(0, memories, 10))
    around = {"versions written": started(write_meanwhile, file), "recalls": started(recall_meanwhile, file)}
    for number in range(kills + 1):
        process, line = started(change, file, new)
        stop_at = seeded * (number + 1) / (kills + 1) if number < kills else float("inf")
        while (message := received(line, 2 * PATIENCE)) is not None and message != "done":
            if message >= stop_at:
                faults += foreign_vectors(file, new)[0]
                process.kill()
                counts["killed"] += 1
                break
            line.send("on")
        faults += [] if message is not None else [f"change {number + 1} ended without a result"]
        process.join(PATIENCE)
    for name, (process, line) in around.items():
        with suppress(OSError):
            line.send("stop")
        message = received(line)
        faults += [] if message is not None else [f"the process of {name} ended without a result"]
        counts[name] = message or 0
        stop(process)
    with compose.moving(file, embedder=new) as engine:
        engine.reembed()  # memories that were stored as pending after the change
        if plant:
            with closing(sqlite3.connect(file)) as connection:
                connection.execute("UPDATE memories SET vector = zeroblob(length(vector)) WHERE rowid = 1")
                connection.commit()
        faults += [f"doctor: {finding.problem}" for finding in engine.doctor(deep=True).findings]
        ended = len(released(exported(engine)))
    wrong, rows, without = foreign_vectors(file, new)
    expected = seeded + counts["versions written"] + ended
    faults += [*wrong, *([f"{without} versions have no vector"] if without else [])]
    faults += [] if rows == expected else [f"{rows} versions are there, not {expected}"]
    return counts | {"versions": rows}, faults


@app.command()
def reembed(
    memories: Annotated[int, typer.Option(min=100, help="Memories to begin with.")] = 5000,
    kills: Annotated[int, typer.Option(min=0, help="How often the change is killed.")] = 5,
    same_dimension: Annotated[bool, typer.Option(help="Whether both models have vectors of one length.")] = False,
    plant: Plant = False,
) -> None:
    """Kill a change of model again and again while others write and recall."""
    with kept_on_failure() as folder:
        new = HashedEmbedder("new", 64 if same_dimension else 96)
        counts, faults = change_model(folder, memories, kills, new, plant)
        report(counts, faults)


if __name__ == "__main__":
    app(prog_name="python -m bench.torture")
