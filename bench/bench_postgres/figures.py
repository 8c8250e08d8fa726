"""What is measured, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.bench_postgres.asking import LIMIT, Answer, Case, Latency
from bench.bench_postgres.loading import Loaded, Size, Step

Ids = tuple[str, ...]


def shared(pairs: Sequence[tuple[Ids, Ids]], most: int | None) -> float:
    """Return which share of the first of the second ones is among the first of the first ones, over all pairs.

    It is 1 where there is nothing that could be missing.
    """
    due = sum(len(other[:most]) for _, other in pairs)
    return sum(len({*one[:most]} & {*other[:most]}) for one, other in pairs) / due if due else 1.0


def length(pairs: Sequence[tuple[Ids, Ids]]) -> float:
    """Return how many ids the first ones have on average."""
    return sum(len(one) for one, _ in pairs) / len(pairs)


@dataclass(frozen=True, slots=True)
class Row:
    """How long the answers of a profile take in a case: for one client, and for 16 at the same time."""

    case: Case
    profile: str
    visible: int
    alone: Latency
    crowd: Latency


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far answers from the indexes are those of scoring every memory.

    Attributes:
        case, profile: of the answers; the profile is None for the nearest by cosine.
        count, hits: how many questions there were, and how many memories an answer had.
        share: of the first ten, the share that is there; of the first hundred likewise, where it was counted.
        same: share of the questions whose first ten are the same, in the same order.
        exact: share of the answers that say they are exact.
        wrong: answers that say so and are not.
    """

    case: Case
    profile: str | None
    count: int
    hits: float
    share: float
    hundred: float | None
    same: float
    exact: float
    wrong: int

    @classmethod
    def of(cls, case: Case, profile: str, found: Sequence[Answer], true: Sequence[Answer]) -> Agreement:
        """Return that of the answers of a profile."""
        pairs = [(one.ids, other.ids) for one, other in zip(found, true, strict=True)]
        same = [one == other for one, other in pairs]
        wrong = sum(answer.exact and not is_same for answer, is_same in zip(found, same, strict=True))
        exact = sum(answer.exact for answer in found) / len(found)
        return cls(
            case, profile, len(pairs), length(pairs), shared(pairs, LIMIT), None, sum(same) / len(same), exact, wrong
        )

    @classmethod
    def of_nearest(cls, case: Case, found: Sequence[Ids], true: Sequence[Ids]) -> Agreement:
        """Return that of the nearest memories."""
        pairs = list(zip(found, true, strict=True))
        same = sum(one[:LIMIT] == other[:LIMIT] for one, other in pairs) / len(pairs)
        return cls(case, None, len(pairs), length(pairs), shared(pairs, LIMIT), shared(pairs, None), same, 0.0, 0)


@dataclass(frozen=True, slots=True)
class Written:
    """Milliseconds to store a memory in a case: quantiles; and of a recall, what noting it took."""

    case: Case
    p50: float
    p95: float
    touch: float


@dataclass(frozen=True, slots=True)
class Cold:
    """Milliseconds of the first recall of a new engine in a case, with so many memories in sight, and of later ones."""

    case: Case
    visible: int
    first: float
    later: float


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes: what a client has before and after it holds a scope, and how many memories that has."""

    before: int
    after: int
    count: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """How loading and indexing went, and the load average of the machine when each began."""

    loaded: Loaded
    index: Step
    loads: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """All of it."""

    loaded: Loaded
    index: Step
    half: Step
    sizes: tuple[Size, ...]
    rows: tuple[Row, ...]
    filtered: tuple[Row, ...]
    agreements: tuple[Agreement, ...]
    halved: tuple[Agreement, ...]
    half_rows: tuple[Row, ...]
    written: tuple[Written, ...]
    cold: tuple[Cold, ...]
    client: Memory
    backends: int
    loads: tuple[float, ...]
