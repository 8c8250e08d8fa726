"""Many processes on one file, each with every verb, and each memory that one is told of met at once by another.

A process hands a memory that it has just written, changed or forgotten to another one, which from then on is the one
that changes it. That one has to see it as the receipt said: by its id, and in a recall.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection as Line
from pathlib import Path
from queue import Empty
from typing import Any, Final

from bench.torture.check import Checked, Contents, check, miscounted, unopened
from bench.torture.journal import Journal, read_all
from bench.torture.mix import chosen
from bench.torture.processes import PATIENCE, STARTED, context
from bench.torture.verbs import Done, Hand, Step, touched
from bench.torture.writing import board, noted, opened, seeded
from salience.errors import NotFoundError, SalienceError
from salience.records import Memory, Recall

USER: Final = "crowd"
"""Whose memories all of them write."""
HANDED: Final = 0.5
"""Chance that what a verb wrote is handed over."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a process is to do: so many verbs, or as many as the seconds allow, whichever ends first.

    Attributes:
        file: to work on.
        journal: the process's own; its stem is the process's name.
        seed: of its choices.
        board: id of the memory that all update.
        verbs: how many at most; None for any number.
        seconds: how long at most; None for any time.
    """

    file: Path
    journal: Path
    seed: str
    board: str
    verbs: int | None
    seconds: float | None


@dataclass(slots=True)
class Figures:
    """What processes saw.

    Attributes:
        writes, recalls: seconds that each took.
        met: memories that were handed over.
        stale: those of them that were not seen as their receipt had said.
        uncounted: recalls that told of counts still to be written, since other writes took too long.
    """

    writes: list[float] = field(default_factory=list)
    recalls: list[float] = field(default_factory=list)
    met: int = 0
    stale: int = 0
    uncounted: int = 0

    def add(self, other: Figures) -> None:
        """Add what another process saw."""
        self.writes += other.writes
        self.recalls += other.recalls
        self.met += other.met
        self.stale += other.stale
        self.uncounted += other.uncounted


@dataclass(frozen=True, slots=True)
class Crowd:
    """What a crowd came to: its figures, the seconds from the first verb to the last, and what the check found."""

    processes: int
    figures: Figures
    seconds: float
    checked: Checked


@dataclass(slots=True)
class Member:
    """One process of a crowd: its hand, its journal and its figures."""

    hand: Hand
    journal: Journal
    figures: Figures

    def turn(self) -> list[Memory]:
        """Run one verb by chance and return what of it is to be handed over, which is its own no longer."""
        verb, ready = chosen(self.hand)
        start = time.perf_counter()
        done = noted(self.hand, self.journal, verb, ready)
        (self.figures.recalls if verb == "recall" else self.figures.writes).append(time.perf_counter() - start)
        if not ready.writes or not done.written or self.hand.choose.random() > HANDED:
            return []
        memory = self.hand.choose.choice(done.written)
        if (
            memory.tier == "working" or memory.scope.user_id != USER
        ):  # the end of a session, and the others, change them
            return []
        self.hand.own.pop(memory.id, None)
        self.hand.gone.pop(memory.id, None)
        return [memory]

    def meet(self, memory: Memory) -> None:
        """See a memory that was handed over, by its id and in a recall, and take it as one's own."""
        live = memory.forgotten_at is None
        seen = self._by_id(memory) and (memory.id in self._recalled(memory)) == live
        self.figures.met += 1
        if not seen:
            self.figures.stale += 1
            self.journal.fail(f"version {memory.version} of {memory.id} ({memory.change}) was not seen")
        elif not live:
            self.hand.gone[memory.id] = memory
        elif memory.weight == 1:
            self.hand.own[memory.id] = memory

    def _by_id(self, memory: Memory) -> bool:
        try:
            found = self.hand.engine.get(memory.id, user_id=USER)
        except NotFoundError:
            return memory.forgotten_at is not None
        return (found.version, found.content, found.forgotten_at) == (memory.version, memory.content, None)

    def _recalled(self, memory: Memory) -> list[str]:
        """Return the ids that a recall by a memory's own text returns, in the version that is handed over."""
        answers: list[Recall] = []

        def run() -> Done:
            answers.append(self.hand.engine.recall(memory.content, limit=5, min_score=0, user_id=USER))
            return Done(touched=touched(answers[0]))

        start = time.perf_counter()
        noted(self.hand, self.journal, "recall", Step(run))
        self.figures.recalls.append(time.perf_counter() - start)
        self.figures.uncounted += "touch" in answers[0].degraded
        return [hit.memory.id for hit in answers[0] if hit.memory.version == memory.version]


def work(task: Task, place: int, boxes: Sequence[Any], line: Line) -> None:
    """Do the task and say the figures to the parent; `boxes[place]` is this process's own."""
    journal, figures = Journal(task.journal), Figures()
    others = [box for number, box in enumerate(boxes) if number != place]
    try:
        with opened(task.file) as engine:
            hand = Hand(task.journal.stem, USER, engine, seeded(task.seed), board=task.board)
            member = Member(hand, journal, figures)
            line.send_bytes(STARTED)
            line.recv_bytes()
            labour(member, task, boxes[place], others)
    except Exception as error:  # of whatever kind, it is a fault, which the parent has to hear of
        journal.fail(f"{task.journal.stem} ended with {type(error).__name__}: {error}")
        for box in others:
            box.put(None)
    line.send(figures)


def labour(member: Member, task: Task, box: Any, others: Sequence[Any]) -> None:
    """Take turns, and meet what comes in `box`, until the task is done and nothing more is to come."""
    start, turns, ended = time.monotonic(), 0, 0
    while turns != task.verbs and (task.seconds is None or time.monotonic() - start < task.seconds):
        ended += emptied(member, box)
        for memory in member.turn():
            member.hand.choose.choice(others).put(memory)
        turns += 1
    for other in others:
        other.put(None)
    while ended < len(others):
        ended += met(member, box.get(timeout=PATIENCE))


def emptied(member: Member, box: Any) -> int:
    """Meet all that is in a box by now; return how many of the others said that nothing more comes from them."""
    ended = 0
    while True:
        try:
            ended += met(member, box.get_nowait())
        except Empty:
            return ended


def met(member: Member, memory: Memory | None) -> bool:
    """Meet a memory; return whether there was none, which says that nothing more comes."""
    if memory is not None:
        member.meet(memory)
    return memory is None


def crowd(folder: Path, processes: int, seed: int, *, verbs: int | None = None, seconds: float | None = None) -> Crowd:
    """Return what so many processes on one file in `folder` came to, each with so many verbs or for so many seconds."""
    file = folder / "memory.db"
    with opened(file) as engine:
        shared = board(engine, Journal(folder / "board.journal"))
    boxes = [context().Queue() for _ in range(processes)]
    lines, members = [], []
    for place in range(processes):
        here, there = context().Pipe()
        task = Task(file, folder / f"p{place}.journal", f"{seed} {place}", shared, verbs, seconds)
        members.append(context().Process(target=work, args=(task, place, boxes, there), daemon=True))
        members[-1].start()
        there.close()
        lines.append(here)
    figures, elapsed, unheard = together(lines, seconds or 0.0)
    for member in members:
        member.join(PATIENCE)
        member.kill()
    return Crowd(processes, figures, elapsed, examined(folder, file, unheard))


def examined(folder: Path, file: Path, unheard: int) -> Checked:
    """Return what the check of the file finds; each process of which nothing was heard is a fault."""
    try:
        with opened(file) as engine:
            notes = read_all(folder)
            checked = check(engine, file, notes)
            wrong = miscounted(Contents.read(engine), notes)
    except SalienceError as error:
        return unopened(error)
    silent = [f"{unheard} processes ended without a word"] if unheard else []
    return replace(checked, faults=(*checked.faults, *wrong, *silent))


def together(lines: Sequence[Line], seconds: float) -> tuple[Figures, float, int]:
    """Let all begin at once; return what they saw, the seconds until the last had ended, and how many said nothing."""
    for line in lines:
        if line.poll(PATIENCE):
            line.recv_bytes()
    start, figures, unheard = time.perf_counter(), Figures(), 0
    for line in lines:
        line.send_bytes(STARTED)
    for line in lines:
        try:
            figures.add(line.recv() if line.poll(seconds + PATIENCE) else Figures())
        except EOFError:
            unheard += 1
        line.close()
    return figures, time.perf_counter() - start, unheard
