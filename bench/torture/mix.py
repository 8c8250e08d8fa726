"""The verbs that a writer mixes, and how often each."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Final

from bench.torture import thoughts, verbs
from bench.torture.verbs import Hand, Step

Verb = Callable[[Hand], Step | None]
"""Chooses what it is to be done on; None where there is nothing to do it on."""
VERBS: Final[dict[str, tuple[Verb, int]]] = {
    "remember": (verbs.remember, 30),
    "remember_many": (verbs.remember_many, 10),
    "supersede": (verbs.supersede, 6),
    "ingest": (verbs.ingest, 8),
    "update": (verbs.update, 20),
    "forget": (verbs.forget, 6),
    "restore": (verbs.restore, 3),
    "erase": (verbs.erase, 3),
    "age": (verbs.age, 2),
    "consolidate": (verbs.consolidate, 3),
    "observe": (thoughts.observe, 4),
    "rethink": (thoughts.rethink, 3),
    "unthink": (thoughts.unthink, 2),
    "reflect": (thoughts.reflect, 4),
    "upkeep": (verbs.upkeep, 2),
    "end_session": (verbs.end_session, 3),
    "post": (verbs.post, 8),
    "race": (verbs.race, 8),
    "recall": (verbs.recall, 20),
}
"""Verb -> how it is made ready, and how often it is chosen beside the others."""
SHARED_VERB: Final = "race"
"""The verb whose memories belong to no user, so that any writer may have stored them."""


def chosen(hand: Hand, leave: Container[str] = ()) -> tuple[str, Step]:
    """Return a verb and its step, by chance, but none of those to `leave`."""
    names = [name for name in VERBS if name not in leave]
    weights = [VERBS[name][1] for name in names]
    while True:
        name = hand.choose.choices(names, weights)[0]
        step = VERBS[name][0](hand)
        if step is not None:
            return name, step
