"""A writer: one verb after the other on one engine, each noted in its journal before it runs and when it is told."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path
from random import Random
from typing import Final

from bench.torture.journal import Entry, Journal, Mark, key_of, read
from bench.torture.mix import SHARED_VERB, chosen
from bench.torture.thoughts import TopicalEmbedder
from bench.torture.verbs import BOARD, REFLECTION, Done, Hand, Step
from salience import compose
from salience.engine import Engine
from salience.errors import StoreError, UnsettledError
from salience.records import Draft, Memory, Scope
from salience.steps import scan

PROFILE: Final = "zeromemory"
"""The profile whose recalls change most: count, importance and clock."""


def opened(path: Path) -> Engine:
    """Return an engine on the file, with an embedder that costs nothing."""
    return compose.local(path, embedder=TopicalEmbedder(), profile=PROFILE)


def seeded(seed: object) -> Random:
    """Return a source of chance that any printable value seeds."""
    return Random(str(seed))  # noqa: S311 - chance for a test, not for a secret


def hand(engine: Engine, journal: Journal, choose: Random, board: str | None = None) -> Hand:
    """Return a writer's hand with the memories that were its own when it last wrote."""
    name = journal.path.stem
    made = Hand(name, name, engine, choose, count=1000 * journal.number, board=board)
    for item in _held(engine, made.user):
        if item.forgotten_at is not None:
            made.gone[item.id] = item
        elif item.weight == 1:
            made.own[item.id] = item
    made.seen = {item.id for item in _held(engine, made.thinker) if not (item.forgotten_at or item.kind == REFLECTION)}
    made.aged = {item.id: item for item in _held(engine, made.elder) if item.tier == "working"}
    return made


def _held(engine: Engine, user: str) -> list[Memory]:
    """Return the user's own memories, forgotten ones too."""
    scope = Scope(engine.services.tenant, user_id=user)
    visible = (item.memory for item in scan(engine.services, scope, forgotten=True))
    return [item for item in visible if item.scope.user_id == user]


def board(engine: Engine, journal: Journal) -> str:
    """Return the id of the memory that all writers update, made if it is not there; the journal holds nothing else."""
    for entry in read(journal.path).entries:
        if entry.told:
            return str(entry.told[0].id)
    foreseen = Mark("create", BOARD)
    number = journal.begin("remember", [foreseen])
    made = engine.remember(BOARD).memory
    journal.tell(number, [Mark.of(made)])
    return made.id


def step(hand: Hand, journal: Journal, leave: Container[str] = ()) -> None:
    """Run one verb by chance, none of those to `leave`, noted before and after. Raises as `noted`."""
    noted(hand, journal, *chosen(hand, leave))


def noted(hand: Hand, journal: Journal, verb: str, ready: Step) -> Done:
    """Run a verb, noted before and after; return what it answered.

    Raises:
        UnsettledError: nobody knows how it ended, and the journal does not say.
        StoreError: the store refused it; the journal says that nothing was written.
    """
    number = journal.begin(verb, ready.foreseen, ready.erased, keyed=ready.keyed)
    try:
        done = ready.run()
    except UnsettledError:
        raise
    except StoreError as error:
        journal.refuse(number, type(error).__name__)
        raise
    told = settled(ready, done)
    if told is None:
        journal.fail(f"{verb} {number}: the receipts do not say what was asked for")
        raise AssertionError(f"{verb}: receipts and request differ")
    journal.tell(number, told, done.touched)
    learn(hand, ready, done.written)
    return done


def settled(ready: Step, done: Done) -> list[Mark] | None:
    """Return what was foreseen with all that the receipts add to it; None where they say something else."""
    by_content = {(mark.change, mark.content): mark for mark in map(Mark.of, done.written)}
    found = [by_content.pop((mark.change, mark.content), mark) for mark in ready.foreseen]
    fits = all(mark.fits(other) for mark, other in zip(ready.foreseen, found, strict=True))
    if ready.and_more:
        found, by_content = [*found, *by_content.values()], {}
    whole = all(mark.id is not None and mark.version is not None for mark in found)
    return found if fits and whole and not by_content else None


def learn(hand: Hand, ready: Step, written: tuple[Memory, ...]) -> None:
    """Take what was written into what the writer knows."""
    for memory in written:
        for held in (hand.own, hand.gone, hand.aged):
            held.pop(memory.id, None)
        if memory.change == "create":
            hand.made.add(memory.id)
        if memory.scope.user_id == hand.user:
            (hand.own if memory.forgotten_at is None else hand.gone)[memory.id] = memory
        elif memory.scope.user_id == hand.elder and memory.tier == "working":
            hand.aged[memory.id] = memory
        elif memory.scope.user_id == hand.thinker and memory.kind != REFLECTION:
            (hand.seen.add if memory.forgotten_at is None else hand.seen.discard)(memory.id)
    for left in ready.leaves:
        hand.own.pop(left, None)
        hand.gone.pop(left, None)


def settle(engine: Engine, journal: Journal, entry: Entry, there: Sequence[Mark] | None) -> str | None:
    """Note what became of a verb that nobody was told the end of; return what is wrong with a retry, else None.

    One with keys is tried again, as a caller would: the receipts are to say that the memories were there, or are new.

    Args:
        engine: on the file.
        journal: of the verb's writer.
        entry: the verb.
        there: what was found of it: all that it was going to write; None if it was not done.
    """
    if not entry.keyed:
        journal.refuse(entry.number, "Killed") if there is None else journal.tell(entry.number, there)
        return None
    drafts = [Draft(content=mark.content, key=key_of(mark.content)) for mark in entry.foreseen]
    shared = entry.verb == SHARED_VERB
    receipts = engine.remember_many(drafts, user_id=None if shared else entry.writer)
    journal.tell(entry.number, [Mark.of(receipt.memory) for receipt in receipts])
    answers, expected = {receipt.status for receipt in receipts}, "created" if there is None else "unchanged"
    right = answers == {expected} or (shared and answers <= {"unchanged", "created"})
    return None if right else f"a retry of {entry.verb} answered {sorted(answers)} where it is to answer {expected}"
