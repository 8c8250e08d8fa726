"""One formula per function: a batch in, a column out. `SIGNALS` names them, their parameters and what they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from salience.batch import Batch, Codes, Entities, Floats
from salience.errors import ProfileError
from salience.ports import Need
from salience.rank import fuse
from salience.rank.time import period, time
from salience.records import TIERS

HOUR = 3600.0
DAY = 24 * HOUR
WEEK = 7 * DAY


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that a profile may set: closed range and default; None as default means that it may be left out.

    With `keys`, it is a table of one such number for each of them; `whole` refuses fractions.
    """

    low: float
    high: float
    default: float | None = None
    keys: tuple[str, ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Signal:
    """What a profile needs to know of a formula.

    Attributes:
        formula: (batch, need, **parameters) -> float64[n].
        low, high: range of the column.
        parameters: numbers that the profile may set.
        choices: parameters that are one of some words; the first word is the default.
        reads: the columns that it reads under given parameters.
        brings: parts of the batch besides columns: `terms`, `windows`, `entities`, `vectors`.
        check: refuses parameters that do not go together.
    """

    formula: Callable[..., Floats]
    low: float
    high: float
    reads: Callable[[Mapping[str, Any]], frozenset[str]]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    brings: frozenset[str] = frozenset()
    check: Callable[[str, Mapping[str, Any]], None] = lambda _path, _parameters: None


def similarity(batch: Batch, need: Need) -> Floats:
    """Return the cosine of query and memory clipped to [0, 1]; 0 is unrelated.

    Under `threshold_scale = "calibrated"` the cosine is first mapped to the relatedness that people see, so that a
    number means the same under every embedder.
    """
    return need.related(batch["cosine"])


def context_similarity(batch: Batch, need: Need) -> Floats:
    """Return the mean cosine of the memory and its neighbours in the session as `similarity` has it, [0, 1].

    A turn of a conversation says half of what it means; the turns beside it say the rest.
    """
    return need.related(batch["context_cosine"])


def lexical(batch: Batch, need: Need, *, k1: float, b: float) -> Floats:
    """Return BM25 as a share of what the query's terms could give, [0, 1]; 0 where none of them occurs."""
    return fuse.share(batch.lexicon, len(batch), k1, b)


def context_lexical(batch: Batch, need: Need, *, k1: float, b: float) -> Floats:
    """Return the share of BM25 that the memory's window has: its own text twice and that beside it; [0, 1]."""
    return fuse.share(batch.windows, len(batch), k1, b)


def speaker(batch: Batch, need: Need) -> Floats:
    """Return 1 where the query names who said the memory, else 0."""
    return batch["speaker_named"].astype(np.float64)


def entity(batch: Batch, need: Need) -> Floats:
    """Return how telling the most telling entity is that query and memory both name, [0, 1]; 0 for none.

    It is 1 for an entity that no other visible memory names and falls to 0 as all of them do: 1 - (n - 1) / N.
    """
    telling = np.zeros(len(batch))
    if batch.entities is None or not len(telling) or not len(batch.entities.of_query):
        return telling
    rows, codes = batch.entities.of_row.pairs()
    for code, count in zip(batch.entities.of_query, batch.entities.frequency, strict=True):
        naming = rows[codes == code]
        telling[naming] = np.maximum(telling[naming], 1 - (count - 1) / batch.entities.documents)
    return telling


def importance(batch: Batch, need: Need, *, floor: float) -> Floats:
    """Return the importance, [0, 1], or, with a floor, floor + (1 - floor) x importance; neutral is that of 0.5."""
    return floor + (1.0 - floor) * batch["importance"]


def importance_multiplier(batch: Batch, need: Need) -> Floats:
    """Return 2 x importance, [0, 2]; neutral 1. Source: cmm, Importance (its 0.5 to 2.0 are our 0.25 to 1)."""
    return 2.0 * batch["importance"]


def weight(batch: Batch, need: Need) -> Floats:
    """Return the confidence that the caller gave, [0.1, 1]; neutral 1. Source: mememory, Memory Weight."""
    return batch["weight"]


def scope_weight(batch: Batch, need: Need, **levels: float) -> Floats:
    """Return the weight of the memory's scope level, (0, 1]: `project` or `global`. Source: mememory, Scope Weight."""
    return np.where(batch["is_global"], levels["global"], levels["project"]).astype(np.float64)


def recency(
    batch: Batch,
    need: Need,
    *,
    clock: str,
    half_life_days: float | None = None,
    rate_per_day: float | None = None,
    rate_per_hour: Mapping[str, float] | None = None,
) -> Floats:
    """Return exp(-rate x age), (0, 1]; 1 is now. Age counts from `clock` and is never negative.

    One of these says how fast: `half_life_days`, `rate_per_day`, or `rate_per_hour` with a rate for each tier.

    Source: mememory, Temporal Decay; memlayer, Recency; zeromemory, Recency Score; memorysync, How Results Are Ranked.
    """
    rate: Any
    if half_life_days is not None:
        rate = np.log(2) / (half_life_days * DAY)
    elif rate_per_day is not None:
        rate = rate_per_day / DAY
    else:
        rate = np.array([(rate_per_hour or {})[tier] for tier in TIERS])[batch["tier"]] / HOUR
    fading: Floats = np.exp(-rate * age(batch, need, clock))
    return fading


def staleness(batch: Batch, need: Need, *, idle_days: float, rate_per_day: float, floor: float) -> Floats:
    """Return 1 up to `idle_days` without a recall, then exp(-rate x further days), never under `floor`.

    Source: memorysync, Staleness Penalty.
    """
    further = np.maximum(age(batch, need, "accessed_at") / DAY - idle_days, 0.0)
    return np.maximum(np.exp(-rate_per_day * further), floor)


def rehearsed_decay(
    batch: Batch,
    need: Need,
    *,
    grace_seconds: float,
    lock_per_week: float,
    half_life_days: float,
    frequency_weight: float,
) -> Floats:
    """Return the decay since the last access, (0, 1]: 1 within the grace period or when accessed often enough.

    Else exp(-lambda_eff x age), with age in seconds since the last access, lambda = ln 2 / half-life, lambda_eff =
    lambda / (1 + frequency_weight x f), and f = access_count / max(1, weeks since creation). Source: cmm, Decay.
    """
    idle = age(batch, need, "accessed_at")
    frequency = batch["access_count"] / np.maximum(age(batch, need, "created_at") / WEEK, 1.0)
    rate = np.log(2) / (half_life_days * DAY) / (1 + frequency_weight * frequency)
    fresh = (idle <= grace_seconds) | (frequency >= lock_per_week)
    return np.where(fresh, 1.0, np.exp(-rate * idle))


def priming(batch: Batch, need: Need, *, boost: float, rate_per_turn: float) -> Floats:
    """Return 1 + boost x exp(-rate x turns since a recall in this session returned the memory); neutral 1.

    Source: cmm, Priming Boost.
    """
    return 1.0 + boost * np.exp(-rate_per_turn * batch["turns_since_activation"])


def graph_proximity(batch: Batch, need: Need, *, per_hop: float, max_hops: int) -> Floats:
    """Return per_hop ^ hops between the query's entities and the memory, [0, 1]; 0 beyond `max_hops`.

    Memories and the entities they name are the two kinds of node. A memory that names an entity of the query is 0
    hops away; one that shares an entity with that memory is 1 hop away, and so on. All are 0 when the query names no
    known entity. Source: zeromemory, GraphRAG Scoring.
    """
    proximity = np.zeros(len(batch))
    if batch.entities is None:
        return proximity
    for hop, reached in enumerate(_rows_by_hop(batch.entities, batch["alive"], max_hops)):
        proximity[reached] = per_hop**hop
    return proximity


def _rows_by_hop(entities: Entities, alive: Floats, max_hops: int) -> list[Codes]:
    """Return the rows first reached at each hop, 0 to `max_hops`."""
    rows, codes = entities.of_row.pairs()
    rows, codes = rows[alive[rows]], codes[alive[rows]]
    known, found, frontier = np.zeros(len(alive), bool), [], entities.of_query
    for _ in range(max_hops + 1):
        reached = np.unique(rows[np.isin(codes, frontier)])
        reached = reached[~known[reached]]
        known[reached] = True
        found.append(reached)
        frontier = np.unique(codes[np.isin(rows, reached)])
    return found


def age(batch: Batch, need: Need, clock: str) -> Floats:
    """Return the seconds between the instant in column `clock` and now, never negative."""
    return np.maximum(need.now.timestamp() - batch[clock], 0.0)


def _one_rate(path: str, parameters: Mapping[str, Any]) -> None:
    given = [name for name in ("half_life_days", "rate_per_day", "rate_per_hour") if parameters.get(name) is not None]
    if len(given) != 1:
        raise ProfileError(path, given, "Set one of half_life_days, rate_per_day and rate_per_hour.")


def _reads(*columns: str) -> Callable[[Mapping[str, Any]], frozenset[str]]:
    return lambda _parameters: frozenset(columns)


def _recency_reads(parameters: Mapping[str, Any]) -> frozenset[str]:
    return frozenset({parameters["clock"], "tier"} if parameters.get("rate_per_hour") else {parameters["clock"]})


_BM25: Final = {"k1": Parameter(0.0, 10.0, 1.2), "b": Parameter(0.0, 1.0, 0.75)}
CLOCKS: Final = ("updated_at", "created_at", "accessed_at")

SIGNALS: Final[Mapping[str, Signal]] = {
    "similarity": Signal(similarity, 0, 1, _reads("cosine")),
    "context_similarity": Signal(context_similarity, 0, 1, _reads("context_cosine")),
    "lexical": Signal(lexical, 0, 1, _reads(), parameters=_BM25, brings=frozenset({"terms"})),
    "context_lexical": Signal(
        context_lexical, 0, 1, _reads(), parameters=_BM25, brings=frozenset({"terms", "windows"})
    ),
    "speaker": Signal(speaker, 0, 1, _reads("speaker_named")),
    "entity": Signal(entity, 0, 1, _reads(), brings=frozenset({"entities"})),
    "time": Signal(
        time,
        0,
        1,
        _reads("created_at"),
        parameters={"slack_days": Parameter(0.0, 1e6, 7.0), "floor": Parameter(0.0, 1.0, 0.5)},
        brings=frozenset({"terms"}),  # by which it finds the event that a query names
    ),
    "period": Signal(period, 0, 1, _reads("created_at")),
    "importance": Signal(importance, 0, 1, _reads("importance"), parameters={"floor": Parameter(0.0, 1.0, 0.0)}),
    "importance_multiplier": Signal(importance_multiplier, 0, 2, _reads("importance")),
    "weight": Signal(weight, 0.1, 1, _reads("weight")),
    "scope_weight": Signal(
        scope_weight,
        0,
        1,
        _reads("is_global"),
        parameters={"project": Parameter(0.0, 1.0, 1.0), "global": Parameter(0.0, 1.0, 0.8)},
    ),
    "recency": Signal(
        recency,
        0,
        1,
        _recency_reads,
        parameters={
            "half_life_days": Parameter(1e-6, 1e6),
            "rate_per_day": Parameter(0.0, 1e3),
            "rate_per_hour": Parameter(0.0, 1e3, keys=TIERS),
        },
        choices={"clock": CLOCKS},
        check=_one_rate,
    ),
    "staleness": Signal(
        staleness,
        0,
        1,
        _reads("accessed_at"),
        parameters={
            "idle_days": Parameter(0.0, 1e6, 30.0),
            "rate_per_day": Parameter(0.0, 1e3, 0.01),
            "floor": Parameter(0.0, 1.0, 0.5),
        },
    ),
    "rehearsed_decay": Signal(
        rehearsed_decay,
        0,
        1,
        _reads("accessed_at", "created_at", "access_count"),
        parameters={
            "grace_seconds": Parameter(0.0, 1e12, 1_209_600.0),
            "lock_per_week": Parameter(0.0, 1e6, 0.5),
            "half_life_days": Parameter(1e-6, 1e6, 60.0),
            "frequency_weight": Parameter(0.0, 1e6, 1.0),
        },
    ),
    "priming": Signal(
        priming,
        1,
        2,
        _reads("turns_since_activation"),
        parameters={"boost": Parameter(0.0, 1.0, 0.3), "rate_per_turn": Parameter(0.0, 1e3, 0.5)},
    ),
    "graph_proximity": Signal(
        graph_proximity,
        0,
        1,
        _reads(),
        parameters={"per_hop": Parameter(0.0, 1.0, 0.5), "max_hops": Parameter(0, 10, 2, whole=True)},
        brings=frozenset({"entities"}),
    ),
}
"""Every signal that a profile may name."""
DECAYING: Final = ("recency", "staleness", "rehearsed_decay")
"""Those that are greatest for what is recent."""
