"""Every verb of an engine, as a tenant uses it, or tries it on what is of another."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from bench.torture_postgres.marks import mark
from salience.engine import Engine
from salience.records import ANY, Memory, Receipt

PROFILES: Final = ("salience", "mememory", "memlayer", "zeromemory", "memorysync", "cmm")
WORDS: Final = "anchor bridge candle desert ember forest garden harbour island jungle".split()
USERS: Final = (None, "alice", "bob")
SESSIONS: Final = ("monday", "tuesday")
ABOUT: Final = " about "
"""What stands before the topic of a text; texts of a topic lie near each other, whoever's they are."""
KEYS: Final = 50


@dataclass(slots=True)
class House:
    """A tenant: its number, its engines, one on each pool, and what it knows.

    Attributes:
        number: of the tenant.
        engines: to choose from.
        ids: of its memories, as receipts told of them; erased ones may be among them.
        made, erased: how many memories it was told were stored, and deleted for good; reflections do not count.
    """

    number: int
    engines: Sequence[Engine]
    ids: list[str] = field(default_factory=list)
    made: int = 0
    erased: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a thread: whose it is, on which engine, by which choices, and whose ids it may try.

    Attributes:
        house: whose turn it is.
        engine: of the house.
        choose: makes every choice.
        neighbour: another tenant, whose ids may be tried.
    """

    house: House
    engine: Engine
    choose: Random
    neighbour: House

    @property
    def mark(self) -> str:
        """The tenant's own mark."""
        return mark(self.house.number)

    def text(self) -> str:
        """Return a text of the tenant's."""
        words = " ".join(self.choose.choices(WORDS, k=4))
        return f"{self.mark} {self.choose.getrandbits(48):x} {words}{ABOUT}{self.choose.choice(WORDS)}"

    def who(self) -> dict[str, Any]:
        """Return scope keywords, which are the same for every tenant."""
        return {"user_id": self.choose.choice(USERS), "session_id": self.choose.choice((None, *SESSIONS))}

    def known(self) -> str:
        """Return the id of a memory of its own, or of none."""
        return self.choose.choice(self.house.ids) if self.house.ids else "0" * 32

    def theirs(self) -> str:
        """Return the id of a memory of another tenant."""
        return self.choose.choice(self.neighbour.ids) if self.neighbour.ids else "0" * 32


Deed = Callable[[Turn, str], object]
"""What is done, given an id to do it on; returns the answer."""


def _draft(turn: Turn) -> dict[str, Any]:
    fact = turn.choose.choice((None, "user.theme", "user.city"))
    key = turn.choose.choice((None, f"key {turn.choose.randrange(KEYS)}"))
    tags, metadata = [turn.mark, "shared"], {"of": turn.mark}
    drafted = {"content": turn.text(), "tags": tags, "entities": [turn.mark, "Alice"], "metadata": metadata}
    return {**drafted, "fact_key": fact, "tier": turn.choose.choice(("working", "episodic")), "key": key}


def _remember(turn: Turn, _: str) -> object:
    return turn.engine.remember(**{**_draft(turn), "key": None}, **turn.who())


def _remember_keyed(turn: Turn, _: str) -> object:
    number = turn.choose.randrange(KEYS)
    return turn.engine.remember(f"{turn.mark} holds key {number}", key=f"held {number}", tags=[turn.mark])


def _remember_many(turn: Turn, _: str) -> object:
    return turn.engine.remember_many([{**_draft(turn), "key": None} for _ in range(3)], **turn.who())


def _ingest(turn: Turn, _: str) -> object:
    messages = [{"role": name, "content": turn.text()} for name in ("user", "assistant")]
    return turn.engine.ingest(messages, user_id="alice", session_id=turn.choose.choice(SESSIONS))


def _recall(turn: Turn, _: str) -> object:
    tags = turn.choose.choice(((), ("shared",)))
    ask = f"{turn.choose.choice((turn.mark, mark(turn.neighbour.number)))} {turn.choose.choice(WORDS)} Alice"
    profile = turn.choose.choice(PROFILES)
    return turn.engine.recall(ask, profile=profile, min_score=0, limit=20, tags=tags, **turn.who())


def _recall_then(turn: Turn, _: str) -> object:
    past = turn.engine.services.clock()
    return turn.engine.recall(turn.choose.choice(WORDS), as_of=past, min_score=0, limit=20, user_id="alice")


def _graph_recall(turn: Turn, _: str) -> object:
    return turn.engine.graph_recall(f"what of Alice and {mark(turn.neighbour.number)}", limit=20, **turn.who())


def _context(turn: Turn, _: str) -> object:
    return turn.engine.context(f"{mark(turn.neighbour.number)} {turn.choose.choice(WORDS)}", min_score=0, **turn.who())


def _export(turn: Turn, _: str) -> object:
    target = io.StringIO()
    report = turn.engine.export(target)
    return (report, target.getvalue())


DEEDS: Final[dict[str, tuple[Deed, int]]] = {
    "remember": (_remember, 12),
    "remember with a key": (_remember_keyed, 6),
    "remember_many": (_remember_many, 4),
    "ingest": (_ingest, 3),
    "recall": (_recall, 24),
    "recall as of now": (_recall_then, 2),
    "graph_recall": (_graph_recall, 3),
    "context": (_context, 3),
    "list": (lambda turn, _: turn.engine.list(limit=20, **turn.who()), 3),
    "stats": (lambda turn, _: turn.engine.stats(**turn.who()), 3),
    "end_session": (lambda turn, _: turn.engine.end_session(turn.choose.choice(SESSIONS), user_id="alice"), 1),
    "consolidate": (lambda turn, _: turn.engine.consolidate(user_id="alice"), 1),
    "reflect": (lambda turn, _: turn.engine.reflect(user_id="alice"), 1),
    "export": (_export, 1),
}
"""Verb -> how it is done, and how often it is chosen beside the others."""
ON_AN_ID: Final[dict[str, tuple[Deed, int]]] = {
    "get": (lambda turn, named: turn.engine.get(named, user_id=ANY), 4),
    "explain": (lambda turn, named: turn.engine.explain(WORDS[0], named, user_id=ANY), 3),
    "history": (lambda turn, named: turn.engine.history(named, user_id=ANY), 2),
    "update": (lambda turn, named: turn.engine.update(named, content=turn.text(), user_id=ANY), 4),
    "forget": (lambda turn, named: turn.engine.forget(named, user_id=ANY), 2),
    "restore": (lambda turn, named: turn.engine.restore(named, user_id=ANY), 2),
    "erase": (lambda turn, named: turn.engine.erase([named], user_id=ANY), 2),
    "supersede": (lambda turn, named: turn.engine.remember(turn.text(), supersedes=named, user_id="alice"), 2),
}
"""The same for verbs on an id, which are tried on one's own memories and on those of others."""


def chosen(choose: Random) -> tuple[str, Deed, bool]:
    """Return the name of a verb, the verb, and whether it takes an id."""
    both = {**DEEDS, **ON_AN_ID}
    name = choose.choices(list(both), [weight for _, weight in both.values()])[0]
    return name, both[name][0], name in ON_AN_ID


def memories(answer: object) -> list[Memory]:
    """Return the memories that the receipts of an answer say were stored new."""
    receipts = answer if isinstance(answer, list) else [answer]
    told = [one for one in receipts if isinstance(one, Receipt)]
    return [one.memory for one in told if one.status != "unchanged" and one.memory.version == 1]
