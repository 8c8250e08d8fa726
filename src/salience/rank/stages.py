"""One step of ranking per function: a state in, a state out. `STAGES` names them and their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from salience.batch import Floats, Ragged, Rows, Vectors, upto
from salience.ports import EDGE
from salience.rank.sameness import covers
from salience.rank.signals import SIGNALS, Parameter
from salience.rank.spread import activation
from salience.rank.state import NOBODY, Spread, State
from salience.rank.updates import Likeness, updates

if TYPE_CHECKING:  # a profile is checked against the stages
    from salience.rank.profile import Profile

BLOCK: Final = 32
"""Most rows that `near_duplicate` compares at a time."""
SCORE: Final = "score"
"""The stage that gives the rows their scores; every profile has it once."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a profile needs to know of a stage.

    Attributes:
        step: (state, **parameters) -> state.
        after_score: whether it works on scored rows; if not, it must stand before `score`.
        reads: the columns that it reads.
        parameters: numbers that the profile may set.
        brings: parts of the batch besides columns: `terms`, `entities`, `vectors`, `distinctions`.
    """

    step: Callable[..., State]
    after_score: bool
    reads: frozenset[str] = frozenset()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    brings: frozenset[str] = frozenset()


def expired(state: State) -> State:
    """Drop the memories whose time to live has passed. Source: mememory, Filter expired."""
    return state.keep_where(state.batch["expires_at"] > state.need.now.timestamp())


def superseded(state: State) -> State:
    """Drop the memories that another candidate supersedes. Source: mememory, Filter superseded."""
    codes, targets = state.batch["code"], state.batch["supersedes"]
    newer = state.rows[targets[state.rows] >= 0]
    successor = dict(zip(targets[newer].tolist(), newer.tolist(), strict=True))
    older = state.rows[np.isin(codes[state.rows], targets[newer])]
    return state.drop({row: successor[code] for row, code in zip(older.tolist(), codes[older].tolist(), strict=True)})


def outdated(state: State) -> State:
    """Drop the memories in whose place another holds now, be that one among the candidates or not.

    Unlike `superseded` and `same_fact`, a filter that the newer memory does not pass brings no older one back.
    """
    codes, successors = state.batch["code"], state.batch["successor"]
    old = state.rows[successors[state.rows] >= 0]
    if not len(old):
        return state
    place = dict(zip(codes.tolist(), range(len(codes)), strict=True))
    return state.drop(
        {row: place.get(code, NOBODY) for row, code in zip(old.tolist(), successors[old].tolist(), strict=True)}
    )


def importance_floor(state: State, *, minimum: float) -> State:
    """Drop the memories of less importance than `minimum`. Source: memorysync, retrieval threshold."""
    return state.keep_where(state.batch["importance"] >= minimum)


def same_fact(state: State) -> State:
    """Keep, of each fact, the memory updated last (of two at the same instant, the one stored last).

    Source: memorysync, Conflict Resolution.
    """
    facts, updated = state.batch["fact"], state.batch["updated_at"]
    labelled = state.rows[facts[state.rows] >= 0]
    oldest_first = labelled[np.lexsort((labelled, updated[labelled]))]
    newest = dict(zip(facts[oldest_first].tolist(), oldest_first.tolist(), strict=True))
    return state.drop(
        {
            row: newest[fact]
            for fact, row in zip(facts[labelled].tolist(), labelled.tolist(), strict=True)
            if newest[fact] != row
        }
    )


def score(state: State) -> State:
    """Give every row its score and put the living in order, best first, ties by id.

    The score is the sum of the summed signals (weight x value) times the product of the others (value ^ weight).
    """
    batch = state.batch.with_columns(alive=state.alive)
    return scored(
        state,
        {
            term.label: SIGNALS[term.signal].formula(batch, state.need, **term.parameters)
            for term in state.profile.terms
        },
    )


def scored(state: State, parts: Mapping[str, Floats]) -> State:
    """Return the state with the scores that the values of the signals, by label, make."""
    terms, weights = state.profile.terms, state.profile.weights(state.need.intent.name)
    summed, factors = np.zeros(len(state.batch)), np.ones(len(state.batch))
    for term in terms:
        if term.combine == "sum":
            summed += weights[term.label] * parts[term.label]
        else:
            factors *= parts[term.label] ** weights[term.label]
    scores = summed * factors if state.profile.sums else factors
    return state.replace(scores=scores, factors=factors, parts=parts, rows=best_first(scores, state.rows))


def best_first(scores: np.ndarray, rows: Rows) -> Rows:
    """Return `rows` by falling score, ties by row (and so by id)."""
    return rows[np.lexsort((rows, -scores[rows]))]


def similarity_floor(state: State) -> State:
    """Drop the memories whose similarity alone is below the least score. Source: memlayer, Cosine Similarity."""
    similarity = SIGNALS["similarity"].formula(state.batch, state.need)
    return state if state.need.min_score is None else state.keep_where(similarity >= state.need.min_score - EDGE)


def threshold(state: State) -> State:
    """Drop the memories whose score is below the least score. Source: memlayer, Tuning min_score; cmm, Threshold."""
    return state if state.need.min_score is None else state.keep_where(state.scored >= state.need.min_score - EDGE)


def nonzero(state: State) -> State:
    """Drop the memories whose score is 0, since a factor of it is. Source: cmm, Why Multiplicative?"""
    return state.keep_where(state.scored > 0)


def near_duplicate(state: State, *, paraphrase: float | None = None) -> State:
    """Collapse each memory into the most similar kept one that ranks higher and says the same.

    Two memories may say the same from a cosine of `paraphrase`, by default the embedder's calibrated one, and do if
    the kept one covers the other: what would be lost with the other is no number, date, name, negation or speaker (see
    `sameness.covers`). Looks no further down than the limit needs. Source: memorysync, Semantic Dedup Threshold; the
    cover is ours, since a model hardly sees such differences.
    """
    vectors, calibration = state.batch.vectors, state.need.calibration
    least = calibration.paraphrase if paraphrase is None and calibration else paraphrase
    if vectors is None or least is None or state.batch.distinctions is None:
        return state
    kept, fallen, wanted = list[int](), dict[int, int](), state.need.wanted
    ahead = iter(state.rows.tolist())
    while block := list(islice(ahead, min(wanted - len(kept), BLOCK))):
        again = _keepers(vectors, state.batch.distinctions, [*kept, *block], len(kept), least - EDGE)
        kept += [row for row in block if row not in again]
        fallen |= again
    absorbed: dict[int, tuple[int, ...]] = {}
    for row, keeper in fallen.items():
        absorbed[keeper] = (*absorbed.get(keeper, ()), row)
    return state.drop(fallen).replace(absorbed=absorbed) if fallen else state


def _keepers(vectors: Vectors, told: Ragged, rows: list[int], first: int, least: float) -> dict[int, int]:
    """Return which rows collapse, of those from place `first` on: row -> the most similar kept one that covers it.

    Args:
        vectors: of all rows.
        told: what tells each row from others.
        rows: best first; those before `first` are kept.
        first: where the others begin.
        least: the cosine from which two may say the same.
    """
    found, places = np.array(rows, np.intp), upto(len(rows))
    alike = vectors.cosines(found, found[first:])
    near = (alike >= least) & (places[:, None] < places[first:])
    fallen: dict[int, int] = {}
    for place in np.flatnonzero(near.any(axis=0)).tolist():
        above = np.flatnonzero(near[:, place])
        nearest = above[np.argsort(-alike[above, place], kind="stable")].tolist()
        own = told.of_row(rows[first + place])
        kept = (rows[other] for other in nearest if rows[other] not in fallen)
        keeper = next((row for row in kept if covers(told.of_row(row), own)), None)
        if keeper is not None:
            fallen[rows[first + place]] = keeper
    return fallen


def spread(state: State, *, factor: float, hops: int, neighbours: int, links: int) -> State:
    """Give the memories next to the best ones a share of their score, and put all in order again.

    Each of the best (as many as were asked for) passes `factor` of its score, per hop, to its `neighbours` nearest by
    cosine and to the `links` nearest of those that name one of its entities. A memory keeps the larger of that and its
    own score. What an earlier stage dropped, unless for its low score, stays out.

    Source: cmm, Spreading Activation.
    """
    reached = activation(state, factor, hops, neighbours, links)
    scores = state.scored.copy()
    gained = {row: link for row, link in reached.items() if link.activation > scores[row]}
    for row, link in gained.items():
        scores[row] = link.activation
    rows = np.union1d(state.rows, np.array(list(gained), np.intp)).astype(np.intp)
    return state.keep(best_first(scores, rows)).replace(scores=scores, spread={**state.spread, **gained})


def update(state: State, *, top: int, lift: float, **likeness: float) -> State:
    """Put what was said later before what was said of the same thing earlier; both stay.

    Of the `top` best, one that updates an older one (see `updates`) takes over `lift` times what the older one's summed
    signals make, if that is more than its own: what holds now comes first, however well the words of the older one fit
    the query. The factors of either stay its own, so that a time which the query names and the caller's doubt still
    count.
    """
    rows = np.sort(state.rows[:top])
    rows = rows[(state.factored[rows] > 0)]
    if len(rows) < 2:
        return state
    rows = rows[np.argsort(state.batch["created_at"][rows], kind="stable")]
    newer = updates(state.batch, rows, state.need.calibration, Likeness(**likeness))
    if not newer.any():
        return state
    scores, gained = state.scored.copy(), dict[int, Spread]()
    for place in np.flatnonzero(newer.any(axis=1)).tolist():
        row, older = int(rows[place]), rows[newer[place]]
        factors = state.factored[row] / state.factored[older]
        factors = np.where(factors >= 1, lift, 1.0) * factors
        best = int((scores[older] * factors).argmax())
        if scores[older[best]] * factors[best] > scores[row]:
            gained[row] = Spread(int(older[best]), float(scores[older[best]]), float(factors[best]), 1, "update")
            scores[row] = gained[row].activation
    if not gained:
        return state
    return state.replace(scores=scores, rows=best_first(scores, state.rows), spread={**state.spread, **gained})


def cut_off(state: State, *, alone: float, growth: float, most: float, share: float, content: float) -> State:
    """Drop the memories that fit the query no better than chance has it, and those far behind the best one.

    The best of many memories fits any query somewhat, and the better the more there are: the score to reach among n is
    `alone` x n ^ `growth`, up to `most`. It is also `share` of the best score. And some memory must reach `content` of
    what chance has without counting whose words it is: else the query asks for something that the one whom it names
    never spoke of, and nothing is returned. A least score that the caller gives takes the place of all this. Without a
    vector of the query, of which half of a score is made, what shares a word with it is returned.
    """
    if state.need.min_score is not None or not len(state.rows):
        return state
    if state.need.vector is None:
        return state.keep_where(state.scored > 0)
    return state.keep_where(state.scored >= least_fit(state, alone, growth, most, share, content))


def least_fit(state: State, alone: float, growth: float, most: float, share: float, content: float) -> float:
    """Return the score that `cut_off` asks for; infinity where no memory has the content."""
    chance: float = min(alone * _chances(state) ** growth, most)
    told = without_speaker(state.profile, state.need.intent.name, state.scored, state.factored, state.parts)
    if told[state.rows].max() < content * chance - EDGE:
        return float("inf")
    return max(chance, share * float(state.scored[state.rows].max())) - EDGE


def _chances(state: State) -> int:
    """Return how many memories had a chance, those that are not here too."""
    batch = state.batch
    if batch.standing is not None:
        return batch.standing
    known = 0 if batch.complete or batch.lexicon is None else batch.lexicon.documents
    return max(len(state.rows), known)


def without_speaker(
    profile: Profile, intent: str, scores: Floats, factors: Floats, parts: Mapping[str, Floats]
) -> Floats:
    """Return float64[n], the scores without what the signal `speaker` adds to them."""
    weights = profile.weights(intent)
    for term in profile.terms:
        if term.signal == "speaker" and term.combine == "sum":
            scores = scores - weights[term.label] * parts[term.label] * factors
    return scores


def trim(state: State) -> State:
    """Keep the best, as many as were asked for."""
    return state if len(state.rows) <= state.need.wanted else state.keep(state.rows[: state.need.wanted])


STAGES: Final[Mapping[str, Stage]] = {
    "expired": Stage(expired, after_score=False, reads=frozenset({"expires_at"})),
    "superseded": Stage(superseded, after_score=False, reads=frozenset({"code", "supersedes"})),
    "outdated": Stage(outdated, after_score=False, reads=frozenset({"code", "successor"})),
    "importance_floor": Stage(
        importance_floor,
        after_score=False,
        reads=frozenset({"importance"}),
        parameters={"minimum": Parameter(0.0, 1.0, 0.1)},
    ),
    "same_fact": Stage(same_fact, after_score=False, reads=frozenset({"fact", "updated_at"})),
    "similarity_floor": Stage(similarity_floor, after_score=False, reads=frozenset({"cosine"})),
    SCORE: Stage(score, after_score=False),
    "nonzero": Stage(nonzero, after_score=True),
    "threshold": Stage(threshold, after_score=True),
    "near_duplicate": Stage(
        near_duplicate,
        after_score=True,
        parameters={"paraphrase": Parameter(-1.0, 1.0)},
        brings=frozenset({"vectors", "distinctions"}),
    ),
    "spread": Stage(
        spread,
        after_score=True,
        parameters={
            "factor": Parameter(0.0, 1.0, 0.5),
            "hops": Parameter(1, 5, 1, whole=True),
            "neighbours": Parameter(0, 100, 5, whole=True),
            "links": Parameter(0, 100, 5, whole=True),
        },
        brings=frozenset({"vectors", "entities"}),
    ),
    "update": Stage(
        update,
        after_score=True,
        reads=frozenset({"created_at", "speaker"}),
        parameters={
            "top": Parameter(2, 1000, 20, whole=True),
            "lift": Parameter(1.0, 10.0, 1.01),
            "alike": Parameter(0.0, 1.0, 0.58),
            "same": Parameter(0.0, 1.0, 0.76),
            "terms": Parameter(0.0, 1.0, 0.4),
            "kept": Parameter(0.0, 1.0, 0.7),
        },
        brings=frozenset({"terms", "vectors", "distinctions"}),
    ),
    "cut_off": Stage(
        cut_off,
        after_score=True,
        parameters={
            "alone": Parameter(0.0, 100.0, 0.12),
            "growth": Parameter(0.0, 1.0, 0.22),
            "most": Parameter(0.0, 100.0, 0.48),
            "share": Parameter(0.0, 1.0, 0.5),
            "content": Parameter(0.0, 1.0, 0.5),
        },
    ),
    "trim": Stage(trim, after_score=True),
}
"""Every stage that a profile may name."""
