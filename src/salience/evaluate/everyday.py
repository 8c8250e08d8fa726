"""Ask the everyday worlds and pairs through `Engine.recall`, and count what comes first.

Counts are by world, kind of question and language. Worlds in several languages are counted apart from those in English
alone, and pairs apart from worlds, by kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final, Literal

import numpy as np

from salience import settings
from salience.evaluate.datasets import Conversation, Question
from salience.evaluate.datasets.everyday import PAIR_KINDS
from salience.evaluate.run import Advance
from salience.evaluate.stores import ConversationStore, opened
from salience.models import registry
from salience.rank.profile import Profile

LIMIT: Final = 5
"""Hits per question."""
BINS: Final = 10
"""Bins of the calibration error."""
By = Literal["total", "world", "kind", "language"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of a world, and what a recall returned.

    Attributes:
        profile: label of the profile.
        embedder: its name on the command line.
        world: name of the world.
        question: with `evidence` and `outdated`.
        refs: of the hits, best first.
        confident: as in `Recall`.
        confidences: of the hits; empty if hits have none.
        weak: whether the first hit is weak; True if there is none.
    """

    profile: str
    embedder: str
    world: str
    question: Question
    refs: tuple[str, ...]
    confident: bool
    confidences: tuple[float, ...] = ()
    weak: bool = True

    @property
    def is_first_right(self) -> bool:
        """Whether the first hit is an answer."""
        return self.refs[:1] != () and self.refs[0] in self.question.evidence

    @property
    def is_wrong_and_sure(self) -> bool:
        """Whether the first hit is no answer, and not weak."""
        return not self.is_first_right and not self.weak

    @property
    def is_outdated_first(self) -> bool:
        """Whether an outdated memory is above every answer."""
        first = next((ref for ref in self.refs if ref in {*self.question.evidence, *self.question.outdated}), None)
        return first in self.question.outdated

    @property
    def found(self) -> int:
        """Number of answers among the hits."""
        return sum(ref in self.question.evidence for ref in self.refs)


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts and shares over some questions; a share is None if there is no question to count.

    Attributes:
        n: questions with an answer.
        first: share of n whose first hit is an answer.
        wrong_and_sure: share of n whose first hit is no answer, and not weak.
        any_of_five: share of n with an answer among the hits.
        all_of_five: mean share of a question's answers among the hits.
        empty: share of n without hits.
        doubted: share of n that are not confident, although the first hit is an answer.
        changed: questions with outdated memories.
        outdated_first: share of changed with an outdated memory above every answer.
        unanswerable: questions without an answer.
        trusted: share of unanswerable that are confident.
        unanswerable_empty: share of unanswerable without hits.
        calibration_error: expected calibration error of the hits' confidence; None if hits have none.
    """

    n: int
    first: float | None
    wrong_and_sure: float | None
    any_of_five: float | None
    all_of_five: float | None
    empty: float | None
    doubted: float | None
    changed: int
    outdated_first: float | None
    unanswerable: int
    trusted: float | None
    unanswerable_empty: float | None
    calibration_error: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one profile over one group of questions.

    Attributes:
        pairs: whether of pairs.
        polyglot: whether of the worlds in several languages, or of pairs in another language than English.
        by: what the questions have in common; `total` for all of them.
        name: of the world, kind or language; empty for `total`.
    """

    embedder: str
    profile: str
    pairs: bool
    polyglot: bool
    by: By
    name: str
    figures: Figures


def ask(
    worlds: Sequence[Conversation],
    profiles: Mapping[str, Profile],
    embedding: str,
    cache: Path | None,
    advance: Advance = lambda _: None,
) -> list[Asked]:
    """Ask every question of each world in a store of its own under every profile, without counting the accesses.

    `embedding` is the name of the embedder; `cache` the folder of cached vectors, or None; `advance` is called with 1
    after each question.

    Raises:
        EmbedderError: the embedder failed.
    """
    model = registry.embedder(embedding, settings.load())
    found = []
    for world in worlds:
        with opened(world, model, cache) as store:
            for question in world.questions:
                found += [_asked(store, question, label, held, embedding) for label, held in profiles.items()]
                advance(1)
    return found


def _asked(store: ConversationStore, question: Question, label: str, profile: Profile, embedding: str) -> Asked:
    answer = store.engine.recall(
        question.question, profile=profile, limit=LIMIT, now=question.now, dry_run=True, user_id=question.scope.user_id
    )
    confidences = [getattr(hit, "confidence", None) for hit in answer]
    return Asked(
        label,
        embedding,
        store.name,
        question,
        tuple(store.refs[hit.memory.id] for hit in answer),
        answer.confident,
        tuple(one for one in confidences if one is not None) if None not in confidences else (),
        all(hit.weak for hit in answer[:1]),
    )


def rows(asked: Sequence[Asked]) -> list[Row]:
    """Return the figures of each embedder and profile: in total, by world, by kind, and by language if there is one.

    Pairs have no rows by world.
    """
    groups: dict[tuple[str, str, bool, bool, By, str], list[Asked]] = {}
    keys: tuple[tuple[By, Callable[[Asked], str]], ...] = (
        ("total", lambda _: ""),
        ("world", lambda one: one.world),
        ("kind", lambda one: one.question.category),
        ("language", lambda one: one.question.language),
    )
    polyglot = {one.world for one in asked if one.question.language}
    for embedder, profile in dict.fromkeys((one.embedder, one.profile) for one in asked):
        for part in product((False, True), (False, True)):
            of_pairs, is_polyglot = part
            held = [
                one
                for one in asked
                if (one.embedder, one.profile) == (embedder, profile)
                and (one.question.category in PAIR_KINDS, one.world in polyglot) == part
            ]
            for by, name in keys:
                if (by == "world" and of_pairs) or (by == "language" and not is_polyglot):
                    continue
                for one in held:
                    groups.setdefault((embedder, profile, of_pairs, is_polyglot, by, name(one)), []).append(one)
    return [Row(*key, figures(held)) for key, held in groups.items()]


def figures(asked: Sequence[Asked]) -> Figures:
    """Return the figures over some questions of one profile."""
    answerable = [one for one in asked if one.question.answerable]
    changed = [one for one in asked if one.question.outdated]
    unanswerable = [one for one in asked if not one.question.answerable]
    return Figures(
        n=len(answerable),
        first=_mean([one.is_first_right for one in answerable]),
        wrong_and_sure=_mean([one.is_wrong_and_sure for one in answerable]),
        any_of_five=_mean([one.found > 0 for one in answerable]),
        all_of_five=_mean([one.found / len(one.question.evidence) for one in answerable]),
        empty=_mean([not one.refs for one in answerable]),
        doubted=_mean([one.is_first_right and not one.confident for one in answerable]),
        changed=len(changed),
        outdated_first=_mean([one.is_outdated_first for one in changed]),
        unanswerable=len(unanswerable),
        trusted=_mean([one.confident for one in unanswerable]),
        unanswerable_empty=_mean([not one.refs for one in unanswerable]),
        calibration_error=calibration_error(
            [
                (confidence, ref in one.question.evidence)
                for one in asked
                for ref, confidence in zip(one.refs, one.confidences, strict=False)
            ]
        ),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def calibration_error(pairs: Sequence[tuple[float, bool]]) -> float | None:
    """Return the expected calibration error of (probability, outcome) pairs in ten bins of equal width; None for none.

    In [0, 1]; 0 if, in each bin, the mean probability is the share of true outcomes (Naeini and others, 2015).
    """
    if not pairs:
        return None
    probabilities, outcomes = (np.array(column, float) for column in zip(*pairs, strict=True))
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, outcomes - probabilities, BINS)  # per bin: count x (share - mean probability)
    return float(np.abs(gaps).sum() / len(pairs))


def is_miss(asked: Asked) -> bool:
    """Return whether the first hit is no answer, or the answer to an unanswerable question is confident."""
    return not asked.is_first_right if asked.question.answerable else asked.confident
