"""Relations: what a new memory is to the older ones near it, decided once, when it is written.

```
candidates  its nearest neighbours and the memories of its fact
subject     no relation across subjects: see `extract.pairs`
decide      supersedes and fact keys first, then the words of both texts and a fitted model
```

The model is a sum of decision trees over `extract.pairs.FEATURES`, kept as data in `relations.npz`, which
`bench/relations.py` fits. It reads what every embedder gives: one cosine, words, subjects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, cached_property, partial
from importlib import resources
from typing import Final

import numpy as np
from numpy.typing import NDArray

from salience.batch import Floats
from salience.extract.conflicts import Rule, relation
from salience.extract.pairs import (
    Statement,
    denies_another_value,
    features,
    hedges,
    is_about_another,
    repeats_event,
    statement,
)
from salience.extract.speakers import ROLES
from salience.ports import EDGE, Calibration, Need, Services
from salience.records import CALLER, FACT, LIKELY, Memory, Relation, Replacement, Scope
from salience.text import normalise

NEAREST: Final = 8
"""Neighbours of a new memory that it is compared with."""
RELATED: Final = 0.3
"""Least relatedness of texts about the same thing, calibrated: fewer than 1 of 20 replaced memories lie below."""
LEAST: Final = 0.2
"""Least probability of `replaces` that is stored."""
SAME_FACT: Final = 0.97
"""Probability that a fact key found in both texts means one fact; measured on the everyday worlds."""
EXPLICIT: Final = 0.9
"""Probability of an update that the words of both texts state, such as a value that "is replaced"."""
OTHER_KIND: Final = 0.25
"""Factor of the odds of `replaces` where the caller gave two kinds: a rule is seldom a later value of a fact."""
ADDED: Final = 0.69
"""Least relatedness of texts of which one adds to the other."""
SHORTEST: Final = 3
"""Words of the shortest text that the model compares: one or two words state nothing."""
LONGEST: Final = 60
"""Words of the longest text that the model compares: a longer one is about many things."""
LONGEST_TURN: Final = 16
"""The same for a turn of a conversation, which is one statement only if it is short."""
MOST: Final = 100
"""Most memories that one memory replaces."""
UNRELATED_KINDS: Final = ("reflection", "bootstrap")
"""Kinds that no relation is decided for."""
Near = Sequence[tuple[float, Memory]]
"""Older memories with the raw cosine of each to the new one, nearest first."""


@dataclass(frozen=True, eq=False)
class Trees:
    """Regression trees; their sum is the log-odds of a relation.

    Attributes:
        feature: int16[t, n], the feature that a node compares; -1 for a leaf.
        threshold: float32[t, n], a value up to it goes left.
        left, right: int16[t, n], the next node.
        value: float32[t, n], what a leaf adds; a tree has at most 8 leaves.
        base: added to the sum.
    """

    feature: NDArray[np.int16]
    threshold: NDArray[np.float32]
    left: NDArray[np.int16]
    right: NDArray[np.int16]
    value: NDArray[np.float32]
    base: float

    @cached_property
    def _nodes(self) -> tuple[NDArray[np.int16], NDArray[np.float32], NDArray[np.uint8], NDArray[np.float32]]:
        """The nodes that compare, [7, t, 1]: feature, threshold, leaves possible to the right; leaf values, [t, 8].

        The possible leaves of a tree are the bits of a number, the leftmost leaf the lowest bit.
        """
        shape = 7, len(self.feature), 1
        feature, threshold = np.zeros(shape, np.int16), np.full(shape, np.inf, np.float32)
        possible, values = np.full(shape, 255, np.uint8), np.zeros((len(self.feature), 8), np.float32)

        def number(tree: int, node: int, first: int) -> int:
            if self.feature[tree, node] < 0:
                values[tree, first] = self.value[tree, node]
                return first + 1
            middle = number(tree, self.left[tree, node], first)
            place = middle - 1  # a node is between its two sides
            feature[place, tree], threshold[place, tree] = self.feature[tree, node], self.threshold[tree, node]
            possible[place, tree] = 255 - (1 << middle) + (1 << first)
            return number(tree, self.right[tree, node], middle)

        for tree in range(len(self.feature)):
            number(tree, 0, 0)
        return feature[..., 0], threshold, possible, values

    def probabilities(self, rows: NDArray[np.float32]) -> Floats:
        """Return float64[m] of float32[m, f].

        All nodes of a tree are compared at once: the leaf is the leftmost one that every comparison leaves possible.
        Source: Lucchese et al., QuickScorer (2015).
        """
        feature, threshold, possible, values = self._nodes
        goes_left = np.ascontiguousarray(rows.T).take(feature, axis=0) <= threshold
        leaf = _LOWEST_BIT[np.bitwise_and.reduce(np.where(goes_left, np.uint8(255), possible), axis=0)]
        total = self.base + values[np.arange(len(values)), leaf.T].astype(np.float64).sum(axis=1)
        chances: Floats = 1.0 / (1.0 + np.exp(-total))
        return chances


_LOWEST_BIT: Final = np.array([0, *((bits & -bits).bit_length() - 1 for bits in range(1, 256))])


@cache
def trees() -> Trees:
    """Return the model that is part of the package."""
    with resources.files(__package__).joinpath("relations.npz").open("rb") as file, np.load(file) as arrays:
        held = {name: arrays[name] for name in ("feature", "threshold", "left", "right", "value")}
        return Trees(**held, base=float(arrays["base"]))


@dataclass(frozen=True, slots=True)
class Pair:
    """An older memory beside a new one.

    Attributes:
        older: the older memory.
        related: the relatedness of the two, [0, 1].
        rule: what the rules say.
        is_apart: whether neither can replace the other.
        odds: factor of the odds of `replaces` beside those that the model gives.
        row: makes the features, which takes most of the time of a pair.
    """

    older: Memory
    related: float
    rule: Rule
    is_apart: bool
    odds: float
    row: Callable[[], list[float]]


def relate(
    calibration: Calibration, new: Memory, near: Near, *, same_fact: Sequence[Memory] = (), has_key: bool = False
) -> tuple[Relation, ...]:
    """Return the relations of a new memory to older ones, the surest first.

    Args:
        calibration: of the embedder.
        new: the memory; its `supersedes`, if any, is the whole id of a visible memory.
        near: its neighbours that are older, nearest first; at most `NEAREST` are compared.
        same_fact: older visible memories with its fact key.
        has_key: whether the caller gave that key.
    """
    found: dict[str, Relation] = {}
    if new.supersedes is not None:
        found[new.supersedes] = Relation(new.supersedes, "replaces", 1.0, CALLER, "supersedes")
    for older in same_fact:
        if older.id != new.id and older.id not in found and normalise(older.content) != normalise(new.content):
            chance, by = (1.0, CALLER) if has_key else (SAME_FACT, FACT)
            found[older.id] = Relation(older.id, "replaces", chance, by, f"fact {new.fact_key}")
    pairs = [pair for pair in compared(calibration, new, near) if pair.older.id not in found]
    for pair in pairs:
        if pair.rule.label == "duplicate":
            reason = pair.rule.because[0].partition(":")[0]
            found[pair.older.id] = Relation(pair.older.id, "repeats", EXPLICIT, "rule", reason)
    undecided = [pair for pair in pairs if pair.rule.label != "duplicate" and not pair.is_apart]
    if undecided:
        chances = trees().probabilities(np.array([pair.row() for pair in undecided], np.float32))
        odds = np.array([pair.odds for pair in undecided])
        chances = odds * chances / (odds * chances + 1.0 - chances)
        for pair, chance in zip(undecided, chances.tolist(), strict=True):
            if (decided := _decided(pair, chance)) is not None:
                found[pair.older.id] = decided
    return surest_first(found.values())[:MOST]


def surest_first(relations: Iterable[Relation]) -> tuple[Relation, ...]:
    """Return relations by falling probability, ties by id."""
    return tuple(sorted(relations, key=lambda one: (-one.probability, one.id)))


def with_supersedes(memory: Memory) -> Memory:
    """Return a memory whose relations are undecided with the relation that its `supersedes` gives, if any."""
    if memory.relations is not None or memory.supersedes is None:
        return memory
    return replace(memory, relations=(Relation(memory.supersedes, "replaces", 1.0, CALLER, "supersedes"),))


def compared(calibration: Calibration, new: Memory, near: Near) -> list[Pair]:
    """Return the neighbours of a new memory that it may be related to, as pairs."""
    if new.kind in UNRELATED_KINDS:
        return []
    close = near[:NEAREST]
    related = calibration.similarity(np.array([cosine for cosine, _ in close])).tolist()
    mine, speaker, user_id, pairs = _statement(new), voice(new), _user(new), list[Pair]()
    for place, ((cosine, older), alike) in enumerate(zip(close, related, strict=True)):
        if alike < RELATED or older.kind in UNRELATED_KINDS:
            continue
        speakers = speaker, voice(older)
        rule = relation(
            new.content, older.content, similarity=cosine, paraphrase=calibration.paraphrase,
            new_speaker=speakers[0], old_speaker=speakers[1],
        )  # fmt: skip
        theirs, turns = _statement(older), "turn" in (new.kind, older.kind)
        others = related[:place] + related[place + 1 :]
        another = is_about_another(mine, theirs)
        row = partial(
            features, mine, theirs, rule, cosine=alike, margin=alike - max([RELATED, *others]), speakers=speakers,
            turns=turns, user_id=user_id, another=another,
        )  # fmt: skip
        lengths = len(mine.wording.words), len(theirs.wording.words)
        is_apart = min(lengths) < SHORTEST or max(lengths) > (LONGEST_TURN if turns else LONGEST)
        is_apart = is_apart or mine.is_question or theirs.is_question or speakers[0] != speakers[1]
        is_apart = is_apart or another or repeats_event(mine, theirs)
        is_apart = is_apart or denies_another_value(mine, theirs) or denies_another_value(theirs, mine)
        is_apart = is_apart or hedges(mine, theirs)
        odds = 1.0 if turns or new.kind == older.kind else OTHER_KIND
        pairs.append(Pair(older, alike, rule, is_apart, odds, row))
    return pairs


def _decided(pair: Pair, chance: float) -> Relation | None:
    """Return the relation of a pair that is not apart, of which the newer memory replaces the older one at `chance`."""
    older = pair.older.id
    if pair.rule.label == "update" and chance >= LEAST:
        return Relation(older, "replaces", max(chance, EXPLICIT - EDGE), "rule", pair.rule.kinds)
    if chance >= LEAST:
        reason = pair.rule.kinds or "a later value of the same thing"
        return Relation(older, "replaces", round(chance, 3), "model", reason)
    if pair.related >= ADDED:
        return Relation(older, "adds", round(1 - chance, 3), "model", "the same thing")
    return None


def voice(memory: Memory) -> str | None:
    """Return the speaker of a memory in normal form; None for the user, and for a text without a speaker."""
    speaker = normalise(memory.speaker) if memory.speaker else ""
    is_user = not speaker or ROLES.get(speaker) == ROLES["user"] or speaker == normalise(_user(memory) or "")
    return None if is_user else speaker


def _user(memory: Memory) -> str | None:
    return memory.scope.user_id if isinstance(memory.scope.user_id, str) else None


def _statement(memory: Memory) -> Statement:
    return statement(memory.content, memory.speaker, _user(memory))


def replacements(services: Services, scope: Scope, ids: Sequence[str], now: datetime) -> Mapping[str, Replacement]:
    """Return id -> the memory that replaces it, for those of some visible memories that are replaced."""
    if not ids:
        return {}
    need = Need(scope=scope.without_session, now=now, ids=tuple(ids), parts=frozenset({"successors"}))
    batch = services.store.gather(need)
    if batch.successors is None:
        return {}
    newer = dict(zip(batch.ids.tolist(), batch.successors.tolist(), strict=True))
    newer = {older: other for older, other in newer.items() if other}
    return replaced_by(newer, services.store.fetch(scope, list(dict.fromkeys(newer.values()))) if newer else [])


def replaced_by(successors: Mapping[str, str], memories: Sequence[Memory]) -> dict[str, Replacement]:
    """Return id of an older memory -> its replacement, from the ids of the newer ones and these memories."""
    known, found = {memory.id: memory for memory in memories}, dict[str, Replacement]()
    for older, newer in successors.items():
        for one in (known[newer].relations or ()) if newer in known else ():
            if one.id == older and one.kind == "replaces" and one.probability >= LIKELY:
                found[older] = Replacement(newer, known[newer].created_at, one.probability, one.by, one.reason)
    return found


def with_replacements(services: Services, scope: Scope, memories: Sequence[Memory]) -> list[Memory]:
    """Return live memories with `replaced_by`."""
    found = replacements(services, scope, [memory.id for memory in memories], services.clock())
    return [replace(memory, replaced_by=found.get(memory.id)) for memory in memories]
