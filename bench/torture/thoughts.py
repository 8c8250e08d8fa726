"""Verbs on memories that reflections sum up. What a change of a source does to its reflection is foreseen with it."""

from __future__ import annotations

from typing import Final

from bench.torture.journal import Mark
from bench.torture.verbs import Done, Hand, Step, next_version
from salience.batch import Vectors32
from salience.errors import NotFoundError
from salience.records import Draft, Memory
from salience.testing.doubles import PlantedEmbedder

TOPICS: Final = "sailing pottery chess climbing baking astronomy".split()
ABOUT: Final = " about "
"""What stands before the topic of a text."""
OWN: Final = 0.3
"""How far the vector of a text on a topic lies from the topic's own."""


class TopicalEmbedder(PlantedEmbedder):
    """A planted embedder under which texts about one topic lie near each other."""

    def _vector(self, text: str) -> Vectors32:
        own, (_, about, topic) = super()._vector(text), text.rpartition(ABOUT)
        return own * OWN + super()._vector(topic) if about else own


def observe(hand: Hand) -> Step:
    """Store memories about one topic."""
    topic = hand.choose.choice(TOPICS)
    drafts = [Draft(content=f"{text[:200]}{ABOUT}{topic}", duplicate=True) for text in hand.texts()[:6]]

    def run() -> Done:
        return Done(tuple(receipt.memory for receipt in hand.engine.remember_many(drafts, user_id=hand.thinker)))

    return Step(run, tuple(Mark("create", draft.content) for draft in drafts))


def rethink(hand: Hand) -> Step | None:
    """Give a memory that may be summed up another text; its reflection is out of sight in the same transaction."""
    old = _one(hand)
    if old is None:
        return None
    content = f"{hand.text()[:200]}{ABOUT}{hand.choose.choice(TOPICS)}"

    def run() -> Done:
        return Done((hand.engine.update(old.id, content=content, user_id=hand.thinker).memory,))

    return Step(run, (next_version(old, "update", content), *_stale(hand, old)))


def unthink(hand: Hand) -> Step | None:
    """Forget a memory that may be summed up; its reflection is out of sight in the same transaction."""
    old = _one(hand)
    if old is None:
        return None
    foreseen = (next_version(old, "forget"), *_stale(hand, old))
    return Step(lambda: Done((hand.engine.forget(old.id, user_id=hand.thinker).memory,)), foreseen)


def reflect(hand: Hand) -> Step:
    """Sum up what belongs together: as many transactions as there are reflections to make or to renew."""

    def run() -> Done:
        report = hand.engine.reflect(user_id=hand.thinker)
        return Done((*report.made, *report.renewed))

    return Step(run, and_more=True)


def _one(hand: Hand) -> Memory | None:
    """Return one of the memories that may be summed up, as it stands."""
    return hand.engine.get(hand.choose.choice(sorted(hand.seen)), user_id=hand.thinker) if hand.seen else None


def _stale(hand: Hand, source: Memory) -> list[Mark]:
    """Return the mark that a change of a source leaves on its reflection, if there is one in sight."""
    if source.reflection is None:
        return []
    try:
        return [next_version(hand.engine.get(source.reflection, user_id=hand.thinker), "stale")]
    except NotFoundError:
        return []
