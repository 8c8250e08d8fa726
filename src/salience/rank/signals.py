"""Signals: one formula per function, from a batch of candidates to a column of numbers. `SIGNALS` lists them.

To add a signal, write a function `(batch, criteria, **parameters) -> float64[n]` over existing columns and add an entry
to `SIGNALS`. Profiles, `score_detail`, `explain` and `tune` take the range, parameters and columns from that entry. A
signal whose value for one memory depends on the other candidates also sets `needs_all`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from salience.batch import (
    KINDS,
    TOKEN_SCALE,
    Batch,
    Codes,
    Entities,
    Floats,
    Lexicon,
    Rows,
    Tokens,
    Vectors32,
    int8_products,
)
from salience.errors import ProfileError
from salience.extract.reading import NO_VALUE, Reading
from salience.ports import WindowBound
from salience.rank.criteria import Criteria
from salience.records import TIERS, TimeCue

HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY
FADED: Final = 0.1
"""Greatest `period` before a window that fades."""
BESIDE: Final = 0.8
"""`period` of a memory of the days beside a holiday."""
STATED: Final = 0.5
"""Greatest `period` of a memory whose text, but not its creation, is about the window."""
NAMED: Final = 0.6
"""Least share of the best sum of signals at which an order such as "the latest" ranks a memory."""
CLOCKS: Final = ("updated_at", "created_at", "accessed_at")
"""Columns from which `recency` can count an age."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that a profile may set: closed range and default; without a default it may be left out.

    With `keys`, the parameter is a table with one such number per key; `integer` refuses fractions.
    """

    low: float
    high: float
    default: float | None = None
    keys: tuple[str, ...] = ()
    integer: bool = False


@dataclass(frozen=True, slots=True)
class Signal:
    """A formula and its description for profiles.

    Attributes:
        formula: (batch, criteria, **parameters) -> float64[n].
        low, high: range of the column.
        reads: names from `batch.COLUMNS` and `batch.PARTS`, or a function from parameters to names.
        parameters: numbers that a profile may set.
        choices: parameters with a fixed set of words; the first word is the default.
        check: raises ProfileError for parameters that exclude each other.
        decays: whether the signal favours recent memories; a store that searches by indexes then also returns the
            latest ones, and the dashboard draws its curve.
        rises: whether the value rises, in jumps or not, with the first of `reads`, and depends on nothing else but the
            tier; the index then leaves out memories that cannot reach the answer.
        needs_all: whether the value of a row depends on the other rows, so that the store returns all candidates.
    """

    formula: Callable[..., Floats]
    low: float
    high: float
    reads: tuple[str, ...] | Callable[[Mapping[str, Any]], tuple[str, ...]] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    check: Callable[[str, Mapping[str, Any]], None] = lambda _path, _parameters: None
    decays: bool = False
    rises: bool = False
    needs_all: bool = False

    def inputs(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the columns and other parts of the batch that the formula reads under these parameters."""
        return self.reads(parameters) if callable(self.reads) else self.reads


def similarity(batch: Batch, criteria: Criteria) -> Floats:
    """Return the cosine of query and memory clipped to [0, 1]; 0 is unrelated.

    Under `threshold_scale = "calibrated"` the calibration first maps the cosine to the relatedness that people judge,
    so that a number means the same under every embedder.
    """
    return criteria.scale.similarity(batch["cosine"])


def context_similarity(batch: Batch, criteria: Criteria) -> Floats:
    """Return the mean cosine of the memory and its neighbours in the session, [0, 1], scaled like `similarity`.

    A turn of a conversation holds half of its meaning; the neighbouring turns hold the rest.
    """
    return criteria.scale.similarity(batch["context_cosine"])


def late_interaction(batch: Batch, criteria: Criteria) -> Floats:
    """Return how well single tokens of the query fit the memory and its neighbours in the session, [0, 1].

    For each token of the query it takes the largest cosine to a token of these texts; the mean of them is scaled so
    that unrelated texts are near 0 under every embedder (see `Calibration.token_floor`). Where it is unknown it is the
    mean of `similarity` and `context_similarity`: for memories outside the shortlist, and for those without token
    vectors.

    Source: Khattab and Zaharia, ColBERT (2020): MaxSim.
    """
    pooled = (criteria.scale.similarity(batch["cosine"]) + criteria.scale.similarity(batch["context_cosine"])) / 2
    return pooled if batch.late is None else np.where(np.isnan(batch.late), pooled, batch.late)


def max_sim(query: Sequence[Tokens], texts: Sequence[Tokens | None], groups: Rows, floor: float) -> Floats:
    """Return float64[n], the `late_interaction` of n groups of texts; NaN for a group whose first text has no tokens.

    Args:
        query: token vectors of the query, and of the query in the first person; the better one counts.
        texts: token vectors of m texts; None for a text without.
        groups: intp[n, g], the texts of each group; -1 for none.
        floor: the mean that becomes 0, as of unrelated texts; 1 stays 1.
    """
    held = [place for place, tokens in enumerate(texts) if tokens is not None and len(tokens)]
    found = np.full(len(groups), np.nan)
    if not held or not any(map(len, query)):
        return found
    tokens = [np.asarray(texts[place]) for place in held]
    starts = np.cumsum([0, *map(len, tokens[:-1])])
    every, multiply = np.concatenate(tokens), int8_products() or _float_products
    row = np.full(len(texts) + 1, -1, np.intp)  # the last one for no text, -1
    row[held] = np.arange(len(held))
    of_group = row[groups]
    best = np.full(len(groups), -np.inf)
    for own in query:
        products = np.maximum.reduceat(multiply(every, own), starts, axis=0)  # whole numbers, so exact
        padded = np.concatenate((products, np.full((1, len(own)), -np.inf, np.float32)))
        total = padded[of_group].max(axis=1).sum(axis=1, dtype=np.float64)
        best = np.maximum(best, total / (len(own) * TOKEN_SCALE**2))
    known = of_group[:, 0] >= 0
    found[known] = np.clip((best[known] - floor) / (1 - floor), 0.0, 1.0)
    return found


def _float_products(tokens: Tokens, query: Tokens) -> Vectors32:
    return tokens.astype(np.float32) @ query.T.astype(np.float32)


def lexical(batch: Batch, criteria: Criteria, *, k1: float, b: float) -> Floats:
    """Return the BM25 score as a share of the query's maximum, [0, 1]; 0 if no query term occurs."""
    return bm25_share(batch.lexicon, len(batch), k1, b)


def context_lexical(batch: Batch, criteria: Criteria, *, k1: float, b: float) -> Floats:
    """Return the BM25 share, [0, 1], of the memory's window: its own text twice and its neighbours in the session."""
    return bm25_share(batch.windows, len(batch), k1, b)


def inverse_document_frequency(lexicon: Lexicon) -> Floats:
    """Return float64[t], the IDF of each query term: ln(1 + (N - df + 0.5) / (df + 0.5)), >= 0.

    Source: Robertson and Zaragoza, The Probabilistic Relevance Framework (2009), with Lucene's 1 + inside the
    logarithm, which keeps frequent terms from counting against a memory.
    """
    frequency = lexicon.document_frequency
    return np.log1p((lexicon.documents - frequency + 0.5) / (frequency + 0.5))


def bm25(lexicon: Lexicon, k1: float, b: float) -> Floats:
    """Return float64[n], the BM25 score of each row: >= 0, 0 if no query term occurs.

    Args:
        lexicon: term statistics of the visible memories, and the postings of the rows.
        k1: saturation of term frequency, >= 0.
        b: penalty of long texts, [0, 1].

    Source: Robertson and Zaragoza (2009), equation 3.15, without the constant factor k1 + 1.
    """
    rows, frequency = lexicon.postings.rows, lexicon.postings.frequency
    saturation = k1 * (1 - b + b * lexicon.length / max(lexicon.average_length, 1.0))
    weight = inverse_document_frequency(lexicon).repeat(lexicon.postings.lengths)
    shares: Floats = weight * frequency / (frequency + saturation[rows])
    return np.bincount(rows, weights=shares, minlength=len(lexicon.length)).astype(np.float64, copy=False)


def bm25_share(lexicon: Lexicon | None, rows: int, k1: float, b: float) -> Floats:
    """Return float64[rows], BM25 divided by its upper bound, the sum of the IDFs of all query terms; [0, 1].

    The bound includes terms that no memory contains. The share therefore means the same for short and long queries, and
    is small if the store knows little of the query. It is 0 if the query has no terms.
    """
    most = 0.0 if lexicon is None else float(np.add.reduce(inverse_document_frequency(lexicon)))
    return np.zeros(rows) if lexicon is None or most == 0 else bm25(lexicon, k1, b) / most


def lexical_cosines(batch: Batch, k1: float = 1.2, b: float = 0.75) -> dict[str, Floats]:
    """Return stand-ins for `cosine` and `context_cosine`, float64[n] in [0, 1], for a query without a vector.

    With windows they are the BM25 shares of text and window, an absolute scale. Without windows `cosine` is BM25
    divided by the best row's, so that profiles with only cosines still answer.
    """
    if batch.windows is not None:
        return {
            "cosine": bm25_share(batch.lexicon, len(batch), k1, b),
            "context_cosine": bm25_share(batch.windows, len(batch), k1, b),
        }
    scores = np.zeros(len(batch)) if batch.lexicon is None else bm25(batch.lexicon, k1, b)
    best = scores.max(initial=0.0)
    return {"cosine": scores / best if best > 0 else scores, "context_cosine": np.zeros(len(batch))}


def speaker(batch: Batch, criteria: Criteria) -> Floats:
    """Return 1 if the query names the speaker of the memory, else 0."""
    return batch["speaker_named"].astype(np.float64)


def entity(batch: Batch, criteria: Criteria) -> Floats:
    """Return the rarity of the rarest entity that both query and memory name, [0, 1]; 0 without a common entity.

    The rarity of an entity that n of N visible memories name is 1 - (n - 1) / N.
    """
    rarity = np.zeros(len(batch))
    if batch.entities is None or not len(rarity) or not len(batch.entities.of_query):
        return rarity
    rows, codes = batch.entities.of_row.pairs()
    for code, count in zip(batch.entities.of_query, batch.entities.frequency, strict=True):
        naming = rows[codes == code]
        rarity[naming] = np.maximum(rarity[naming], 1 - (count - 1) / batch.entities.documents)
    return rarity


def statement(batch: Batch, criteria: Criteria, *, floor: float) -> Floats:
    """Return 1, or `floor` for a memory that only asks, [floor, 1]: a question answers no question."""
    return np.where(batch["asks"], floor, 1.0)


def same_thing(batch: Batch, criteria: Criteria, *, floor: float) -> Floats:
    """Return 1, or `floor` for a memory of another thing of the kind that the question asks about, [floor, 1].

    "PR 88 was merged" is of another thing for "Was PR 89 merged?": it contains the word that the number names one of,
    and numbers, but none of the question's. So is "my right knee hurts" for "How is my left knee?": it contains "knee"
    and one of the words that mean another one than "left", but not that word.
    """
    return np.where(of_another(batch, criteria), floor, 1.0)


def of_another(batch: Batch, criteria: Criteria) -> NDArray[np.bool_]:
    """Return bool[n], which memories are of another thing of a kind that the question asks about; see `same_thing`."""
    reading, another = criteria.reading, np.zeros(len(batch), np.bool_)
    if reading.numbered:
        rows, is_asked = numbers_or_names(batch, "number")
        another[rows] = True
        another[rows[is_asked]] = False
        another &= np.any([holding(batch, reading, term) for term in reading.numbered], axis=0)
    for one in reading.rivals:
        holds = np.zeros((len(one.members), len(batch)), np.bool_)
        for number, member in enumerate(one.members):
            for word in member:
                holds[number, batch.rivals.get(word, [])] = True
        of_kind = np.any([holding(batch, reading, term) for term in one.kinds], axis=0)
        another |= of_kind & ~holds[0] & (holds[1:].sum(axis=0) == 1)
    return another


def answer_kind(batch: Batch, criteria: Criteria, *, floor: float) -> Floats:
    """Return 1, or `floor` for a memory without an answer of the kind that the question asks for, [floor, 1].

    "The office closes at six" names no place, for which "Where is the office?" asks, and "The office is not in Porto"
    only denies one; see `extract.answers`. "Bob reports to Cleo" says the reverse of what "Who reports to Bob?" asks;
    see `extract.roles`. It is 1 for a question with a name, a number or a word that tells things apart: these count
    more than the kind.
    """
    reading = criteria.reading
    is_specific = bool(reading.specifics) or any(one.members[0] for one in reading.rivals)
    return np.where(not_answering(batch, criteria) & (not is_specific), floor, 1.0)


def not_answering(batch: Batch, criteria: Criteria) -> NDArray[np.bool_]:
    """Return bool[n], which memories are in `lacking_answer` or `denying`."""
    return lacking_answer(batch, criteria) | denying(batch, criteria)


def lacking_answer(batch: Batch, criteria: Criteria) -> NDArray[np.bool_]:
    """Return bool[n], which memories have no answer of the asked kind, or say what is asked the other way round."""
    lacking = np.zeros(len(batch), np.bool_)
    for distinction in (criteria.reading.lacking, criteria.reading.reversed):
        lacking[batch.rivals.get(distinction, [])] = True
    return lacking


def denying(batch: Batch, criteria: Criteria) -> NDArray[np.bool_]:
    """Return bool[n], which memories only deny what the question asks for: they have no value, but all its terms."""
    reading, found = criteria.reading, np.zeros(len(batch), np.bool_)
    found[batch.rivals.get(NO_VALUE, [])] = reading.terms != ()
    for term in reading.terms if found.any() else ():
        found &= holding(batch, reading, term)
    return found


def holding(batch: Batch, reading: Reading, term: str) -> NDArray[np.bool_]:
    """Return bool[n], which memories contain a term of the question; none if the batch has no terms."""
    holds = np.zeros(len(batch), np.bool_)
    if batch.lexicon is not None:
        holds[batch.lexicon.postings.of_term(reading.terms.index(term))[0]] = True
    return holds


def numbers_or_names(batch: Batch, kind: str) -> tuple[Rows, NDArray[np.bool_]]:
    """Return the row of each number, or of each name, of the memories, and whether the question has it too."""
    if batch.distinctions is None or batch.asked is None:
        return np.empty(0, np.intp), np.empty(0, np.bool_)
    rows, codes = batch.distinctions.pairs()
    of_kind = codes % len(KINDS) == KINDS.index(kind)
    return rows[of_kind], np.isin(codes[of_kind], batch.asked)


def time(batch: Batch, criteria: Criteria, *, slack_days: float, floor: float) -> Floats:
    """Return how well the memory's time fits the time that the query names, [floor, 1]; 1 if it names none.

    The time of a memory is its `created_at`, or the time that its text states if that fits better: the fit is at least
    the share of that time that lies in the window. For `created_at`, it is 1 inside the window of the query, and in the
    days beside a holiday. Outside it falls towards `floor` as exp(-distance / (length of the window + slack)); an open
    window has length 0. A window bounded by an event ("before the move") ends at the memory that names the event best,
    and only `created_at` counts for it and for sessions. An order ("the latest") falls linearly from the wanted end to
    the other end of the living memories that fit the query nearly as well as the best one (`NAMED`), and is `floor` for
    all others: a newer memory about something else does not rise.
    """
    fit = np.ones(len(batch))
    cue = criteria.reading.intent.time
    if cue is None or not len(batch):
        return floor + (1.0 - floor) * fit
    moments = batch["created_at"]
    start, end = _seconds(cue.told_from or cue.start, -np.inf), _seconds(cue.told_until or cue.end, np.inf)
    event = _event(batch, criteria) if cue.relation is not None else None
    if event is not None:
        start, end = (start, min(end, event)) if cue.relation == "before" else (max(start, event), end)
    if cue.relation is None or event is not None:
        length = end - start if np.isfinite(start) and np.isfinite(end) else 0.0
        distance = np.maximum(np.maximum(start - moments, moments - end), 0.0)
        fit = np.exp(-distance / max(length + slack_days * DAY, 1.0))
        if cue.sessions is None and event is None:
            fit = np.maximum(fit, _stated(batch, start, end))
        fit = fit * _order(batch, cue) if cue.order else fit
    return floor + (1.0 - floor) * fit


def period(batch: Batch, criteria: Criteria) -> Floats:
    """Return how well the memory's time fits the window that the query names, [0, 1]; 0 if it names no window.

    It is 1 if `created_at` lies in the window, and `BESIDE` in the days beside a holiday. A text that states a time
    ("yesterday I had dinner") gives `STATED` times the share of that time that lies in the window, if that is more.

    A window that fades, such as that of "recently", gives 1 at its end and falls to 0.5 at its start. Memories before
    it have at most 0.1, falling with their distance as exp(-distance / length), so that the latest come first.
    """
    cue = criteria.reading.intent.time
    if cue is None or (cue.start is None and cue.end is None):
        return np.zeros(len(batch))
    moments, (start, end) = batch["created_at"], _window(cue, criteria)
    inside = (moments >= start) & (moments < end)
    fit = inside.astype(np.float64)
    if cue.told_from and cue.told_until:
        told = (moments >= cue.told_from.timestamp()) & (moments < cue.told_until.timestamp())
        fit = np.maximum(fit, BESIDE * told)
    if cue.fades:
        age = (end - moments) / (end - start)
        fit = np.where(
            inside, 1.0 - 0.5 * age, np.where(moments < start, FADED * np.exp(np.minimum(1.0 - age, 0.0)), 0.0)
        )
    return fit if cue.sessions is not None else np.maximum(fit, STATED * _stated(batch, start, end))


def _stated(batch: Batch, start: float, end: float) -> Floats:
    """Return the share of the time that each text states that lies in a window, [0, 1]; 0 without such a time."""
    begin, until = batch["event_start"], batch["event_end"]
    known = np.flatnonzero(begin < until)
    share = np.zeros(len(batch))
    overlap = np.minimum(until[known], end) - np.maximum(begin[known], start)
    share[known] = np.maximum(overlap, 0.0) / (until[known] - begin[known])
    return share


def period_bounds(criteria: Criteria, weight: float) -> list[WindowBound]:
    """Return the bounds of `period` times its weight, by which a store can leave out memories."""
    cue = criteria.reading.intent.time
    if cue is None or not weight or (cue.start is None and cue.end is None):
        return []
    window = _window(cue, criteria)
    told = (cue.told_from.timestamp(), cue.told_until.timestamp()) if cue.told_from and cue.told_until else window
    bounds = [WindowBound("created_at", "created_at", *told, weight, weight * FADED if cue.fades else 0.0)]
    if cue.sessions is None:
        bounds.append(WindowBound("event_start", "event_end", *window, weight * STATED, 0.0))
    return bounds


def _window(cue: TimeCue, criteria: Criteria) -> tuple[float, float]:
    """Return the window in seconds since 1970; one without an end that began in the past ends now."""
    start, end = _seconds(cue.start, -np.inf), _seconds(cue.end, np.inf)
    now = float(np.nextafter(criteria.reading.now.timestamp(), np.inf))
    return start, now if end == np.inf and start < now else end


def _seconds(moment: Any, otherwise: float) -> float:
    return otherwise if moment is None else float(moment.timestamp())


def _event(batch: Batch, criteria: Criteria) -> float | None:
    """Return the time of the event that the query names: the latest of the living memories that name it best."""
    if batch.lexicon is None or not criteria.reading.anchor:
        return None
    lexicon = batch.lexicon.of_terms([criteria.reading.terms.index(term) for term in criteria.reading.anchor])
    named = bm25_share(lexicon, len(batch), k1=0.9, b=0.4) * batch["alive"]
    best = np.flatnonzero(named == named.max())
    return float(batch["created_at"][best].max()) if named.max() > 0 else None


def _order(batch: Batch, cue: TimeCue) -> Floats:
    """Return the rank of each moment among those of the `ordered` memories, scaled to [0, 1]; 1 is the wanted end.

    It is 0 for all other memories.
    """
    moments, ordered = batch["created_at"], batch["ordered"]
    distinct = np.unique(moments[ordered])
    place = np.clip(np.searchsorted(distinct, moments) / max(len(distinct) - 1, 1), 0.0, 1.0)
    found = place if cue.order == "latest" and len(distinct) > 1 else 1.0 - place
    return np.where(ordered, found, 0.0)


def holds_period(batch: Batch, criteria: Criteria, rows: Rows) -> bool:
    """Return whether any of `rows` lies in the window that the query names.

    It does if it was created then, or if the window holds a fifth of the time that the text states: "in March" says
    little of 3 March. A window that fades always holds the latest memories.
    """
    cue = criteria.reading.intent.time
    return cue is not None and (cue.fades or bool((period(batch, criteria)[rows] >= FADED).any()))


def importance(batch: Batch, criteria: Criteria, *, floor: float) -> Floats:
    """Return floor + (1 - floor) x importance, [floor, 1]; neutral is the value of importance 0.5."""
    return floor + (1.0 - floor) * batch["importance"]


def importance_multiplier(batch: Batch, criteria: Criteria) -> Floats:
    """Return 2 x importance, [0, 2]; neutral 1. Source: cmm, Importance (its 0.5 to 2.0 are our 0.25 to 1)."""
    return 2.0 * batch["importance"]


def weight(batch: Batch, criteria: Criteria) -> Floats:
    """Return the confidence that the caller set, [0.1, 1]; neutral 1. Source: mememory, Memory Weight."""
    return batch["weight"]


def scope_weight(batch: Batch, criteria: Criteria, **levels: float) -> Floats:
    """Return the weight of the memory's scope level, (0, 1]: `project` or `global`. Source: mememory, Scope Weight."""
    return np.where(batch["is_global"], levels["global"], levels["project"]).astype(np.float64)


def recency(
    batch: Batch,
    criteria: Criteria,
    *,
    clock: str,
    half_life_days: float | None = None,
    rate_per_day: float | None = None,
    rate_per_hour: Mapping[str, float] | None = None,
) -> Floats:
    """Return exp(-rate x age), (0, 1]; 1 is now. The age counts from `clock` and is never negative.

    A profile sets one of `half_life_days`, `rate_per_day`, and `rate_per_hour` with one rate per tier.

    Source: mememory, Temporal Decay; memlayer, Recency; zeromemory, Recency Score; memorysync, How Results Are Ranked.
    """
    rate: Any
    if half_life_days is not None:
        rate = np.log(2) / (half_life_days * DAY)
    elif rate_per_day is not None:
        rate = rate_per_day / DAY
    else:
        rate = np.array([(rate_per_hour or {})[tier] for tier in TIERS])[batch["tier"]] / HOUR
    fading: Floats = np.exp(-rate * age(batch, criteria, clock))
    return fading


def staleness(batch: Batch, criteria: Criteria, *, idle_days: float, rate_per_day: float, floor: float) -> Floats:
    """Return 1 up to `idle_days` without a recall, then exp(-rate x further days), at least `floor`; neutral 1.

    Source: memorysync, Staleness Penalty.
    """
    further = np.maximum(age(batch, criteria, "accessed_at") / DAY - idle_days, 0.0)
    return np.maximum(np.exp(-rate_per_day * further), floor)


def rehearsed_decay(
    batch: Batch,
    criteria: Criteria,
    *,
    grace_seconds: float,
    lock_per_week: float,
    half_life_days: float,
    frequency_weight: float,
) -> Floats:
    """Return the decay since the last access, (0, 1]: 1 in the grace period, and if accessed often enough.

    Otherwise exp(-lambda_eff x age), with age in seconds since the last access, lambda = ln 2 / half-life, lambda_eff =
    lambda / (1 + frequency_weight x f), and f = access_count / max(1, weeks since creation). Source: cmm, Decay.
    """
    idle = age(batch, criteria, "accessed_at")
    frequency = batch["access_count"] / np.maximum(age(batch, criteria, "created_at") / WEEK, 1.0)
    rate = np.log(2) / (half_life_days * DAY) / (1 + frequency_weight * frequency)
    fresh = (idle <= grace_seconds) | (frequency >= lock_per_week)
    return np.where(fresh, 1.0, np.exp(-rate * idle))


def priming(batch: Batch, criteria: Criteria, *, boost: float, rate_per_turn: float) -> Floats:
    """Return 1 + boost x exp(-rate x turns since a recall in this session returned the memory); neutral 1.

    Source: cmm, Priming Boost.
    """
    return 1.0 + boost * np.exp(-rate_per_turn * batch["turns_since_activation"])


def graph_proximity(batch: Batch, criteria: Criteria, *, per_hop: float, max_hops: int) -> Floats:
    """Return per_hop ^ hops between the query's entities and the memory, [0, 1]; 0 beyond `max_hops`.

    The graph links memories and the entities that they name. A memory that names an entity of the query is 0 hops away,
    a memory that shares an entity with that one is 1 hop away, and so on. All are 0 if the query names no known entity.
    Source: zeromemory, GraphRAG Scoring.
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


def age(batch: Batch, criteria: Criteria, clock: str) -> Floats:
    """Return the seconds between the instant in column `clock` and now, never negative."""
    return np.maximum(criteria.reading.now.timestamp() - batch[clock], 0.0)


def _one_rate(path: str, parameters: Mapping[str, Any]) -> None:
    given = [name for name in ("half_life_days", "rate_per_day", "rate_per_hour") if parameters.get(name) is not None]
    if len(given) != 1:
        raise ProfileError(path, given, "Set one of half_life_days, rate_per_day and rate_per_hour.")


def _recency_columns(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    return (parameters["clock"], "tier") if parameters.get("rate_per_hour") else (parameters["clock"],)


_BM25: Final = {"k1": Parameter(0.0, 10.0, 1.2), "b": Parameter(0.0, 1.0, 0.75)}

SIGNALS: Final[Mapping[str, Signal]] = {
    "similarity": Signal(similarity, 0, 1, ("cosine",)),
    "context_similarity": Signal(context_similarity, 0, 1, ("context_cosine",)),
    "late_interaction": Signal(late_interaction, 0, 1, ("cosine", "context_cosine", "neighbours")),
    "lexical": Signal(lexical, 0, 1, ("terms",), parameters=_BM25),
    "context_lexical": Signal(context_lexical, 0, 1, ("terms", "windows"), parameters=_BM25),
    "speaker": Signal(speaker, 0, 1, ("speaker_named",)),
    "entity": Signal(entity, 0, 1, ("entities",)),
    "statement": Signal(statement, 0, 1, ("asks",), parameters={"floor": Parameter(0.0, 1.0, 0.8)}),
    "same_thing": Signal(same_thing, 0, 1, ("distinctions", "terms"), parameters={"floor": Parameter(0.0, 1.0, 0.5)}),
    "answer_kind": Signal(answer_kind, 0, 1, ("distinctions", "terms"), parameters={"floor": Parameter(0.0, 1.0, 0.7)}),
    "time": Signal(
        time,
        0,
        1,
        ("created_at", "event_start", "event_end", "terms"),  # terms to find the event that a query names
        parameters={"slack_days": Parameter(0.0, 1e6, 7.0), "floor": Parameter(0.0, 1.0, 0.5)},
    ),
    "period": Signal(period, 0, 1, ("created_at", "event_start", "event_end")),
    "importance": Signal(importance, 0, 1, ("importance",), parameters={"floor": Parameter(0.0, 1.0, 0.0)}, rises=True),
    "importance_multiplier": Signal(importance_multiplier, 0, 2, ("importance",)),
    "weight": Signal(weight, 0.1, 1, ("weight",)),
    "scope_weight": Signal(
        scope_weight,
        0,
        1,
        ("is_global",),
        parameters={"project": Parameter(0.0, 1.0, 1.0), "global": Parameter(0.0, 1.0, 0.8)},
    ),
    "recency": Signal(
        recency,
        0,
        1,
        _recency_columns,
        parameters={
            "half_life_days": Parameter(1e-6, 1e6),
            "rate_per_day": Parameter(0.0, 1e3),
            "rate_per_hour": Parameter(0.0, 1e3, keys=TIERS),
        },
        choices={"clock": CLOCKS},
        check=_one_rate,
        decays=True,
        rises=True,
    ),
    "staleness": Signal(
        staleness,
        0,
        1,
        ("accessed_at",),
        parameters={
            "idle_days": Parameter(0.0, 1e6, 30.0),
            "rate_per_day": Parameter(0.0, 1e3, 0.01),
            "floor": Parameter(0.0, 1.0, 0.5),
        },
        decays=True,
    ),
    "rehearsed_decay": Signal(
        rehearsed_decay,
        0,
        1,
        ("accessed_at", "created_at", "access_count"),
        parameters={
            "grace_seconds": Parameter(0.0, 1e12, 1_209_600.0),
            "lock_per_week": Parameter(0.0, 1e6, 0.5),
            "half_life_days": Parameter(1e-6, 1e6, 60.0),
            "frequency_weight": Parameter(0.0, 1e6, 1.0),
        },
        decays=True,
    ),
    "priming": Signal(
        priming,
        1,
        2,
        ("turns_since_activation",),
        parameters={"boost": Parameter(0.0, 1.0, 0.3), "rate_per_turn": Parameter(0.0, 1e3, 0.5)},
    ),
    "graph_proximity": Signal(
        graph_proximity,
        0,
        1,
        ("entities",),
        parameters={"per_hop": Parameter(0.0, 1.0, 0.5), "max_hops": Parameter(0, 10, 2, integer=True)},
        needs_all=True,
    ),
}
"""Every signal that a profile can name."""
