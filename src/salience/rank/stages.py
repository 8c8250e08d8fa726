"""Stages: each takes the state of a ranking and returns the next one. `STAGES` lists them with their parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from salience.batch import KINDS, Batch, Codes, Floats, Ragged, Rows, Tokens, Vectors, cosines
from salience.extract.reading import Reading
from salience.ports import EDGE, TOKEN_FLOOR
from salience.rank.criteria import Criteria
from salience.rank.signals import NAMED, SIGNALS, Parameter, holding, lacking_answer, max_sim, of_another

if TYPE_CHECKING:  # a profile is checked against the stages, which work on this state
    from salience.rank.profile import Profile

Mask = NDArray[np.bool_]
TokenReader = Callable[[list[str]], Sequence[Tokens | None]]
"""From ids to the token vectors of these memories; None for a memory without."""
ALIVE: Final = -1
"""Value of `State.dropped_at` for a row that no stage has dropped."""
NOBODY: Final = -1
"""Value of `State.by` for a row that fell without another memory."""
BLOCK: Final = 32
"""Most rows that `near_duplicate` compares at a time."""
LATE: Final = "late_interaction"
"""The signal that is known for the memories of the shortlist alone."""
TIME: Final = "time"
"""The signal that can depend on the values of the others."""
SHORTLIST: Final = "shortlist"
"""The stage that chooses the candidates for the answer by a first pass, if a profile has it."""
SCORE: Final = "score"
"""The stage that computes the scores; every profile has it once."""
SAME: Final = KINDS.index("same")
"""The kind of the distinction that `same_statement` compares."""
OWN: Final = ("time", "weight")
"""Signals that a memory does not take over from the one that it replaces."""
WHOSE: Final = ("speaker", "owner")
"""Kinds of distinctions that say whose statement a text is, and of whom it tells."""
ORDERED: Final = (("number",), ("date",), ("name", "claim"))
"""Kinds of distinctions that `covers` compares in the order of the text, each group as one sequence."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A score that another row passed on: the parent's row and score, the factor per hop, the hops, and the link."""

    parent: int
    score: float
    factor: float
    hops: int
    link: Literal["neighbour", "entity", "update"]

    @property
    def activation(self) -> float:
        """The score that reaches the row: score x factor ^ hops."""
        return self.score * self.factor**self.hops


@dataclass(frozen=True, eq=False)
class State:
    """A batch during ranking.

    Attributes:
        profile, batch, criteria: the input of the ranking.
        rows: intp[m], the remaining rows: ascending before scoring, best first after it.
        dropped_at: int64[n], the number of the stage that dropped a row, or `ALIVE`.
        by: int64[n], the row that caused the drop, or `NOBODY`.
        scores: float64[n] of all rows; empty before scoring.
        factors: float64[n], the product of each row's multiplying signals; empty before scoring.
        parts: signal label -> its values, float64[n].
        absorbed: row -> rows collapsed into it.
        spread: row -> the score that another row passed on to it, if larger than its own.
        tokens: from ids to token vectors, for `shortlist`; None if the store or the query has none.
        first_pass: float64[n], the scores by which `shortlist` chose; empty before it.
        shortlisted: the least of them on a full shortlist; -inf if it holds every row.
        ordered_from: the least sum of signals of the rows that an order such as "the latest" ranks; inf without one.
        step: number of the current stage.
    """

    profile: Profile
    batch: Batch
    criteria: Criteria
    rows: Rows
    dropped_at: Codes
    by: Codes
    scores: Floats = field(default_factory=lambda: np.empty(0))
    factors: Floats = field(default_factory=lambda: np.empty(0))
    parts: Mapping[str, Floats] = field(default_factory=dict)
    absorbed: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    spread: Mapping[int, Spread] = field(default_factory=dict)
    tokens: TokenReader | None = None
    first_pass: Floats = field(default_factory=lambda: np.empty(0))
    shortlisted: float = -np.inf
    ordered_from: float = np.inf
    step: int = 0

    @classmethod
    def start(cls, profile: Profile, batch: Batch, criteria: Criteria, tokens: TokenReader | None = None) -> State:
        """Return the state before the first stage."""
        dropped_at, by = np.full(len(batch), ALIVE), np.full(len(batch), NOBODY)
        return cls(profile, batch, criteria, np.arange(len(batch)), dropped_at, by, tokens=tokens)

    @property
    def alive(self) -> Mask:
        """bool[n], whether each row remains."""
        alive: Mask = self.dropped_at == ALIVE
        return alive

    def changed(self, **values: Any) -> State:
        """Return the state with other values, as `dataclasses.replace`, which takes ten times as long."""
        made = object.__new__(State)
        vars(made).update(vars(self), **values)
        return made

    def keep(self, kept: Rows) -> State:
        """Return the state with the rows `kept`, in that order; this stage drops the other remaining rows."""
        dropped_at = self.dropped_at.copy()
        dropped_at[self.rows] = self.step
        dropped_at[kept] = ALIVE
        return self.changed(rows=kept, dropped_at=dropped_at)

    def drop(self, fallen: Mapping[int, int]) -> State:
        """Return the state without the rows in `fallen`, a mapping to the row that caused each drop."""
        if not fallen:
            return self
        rows, by = np.array(list(fallen), np.intp), self.by.copy()
        by[rows] = list(fallen.values())
        stays = np.ones(len(by), np.bool_)
        stays[rows] = False
        return self.keep(self.rows[stays[self.rows]]).changed(by=by)

    def keep_where(self, mask: Mask) -> State:
        """Return the state with the remaining rows where `mask`, bool[n] over all rows, is true."""
        holds = mask[self.rows]
        return self if holds.all() else self.keep(self.rows[holds])


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage and its description for profiles.

    Attributes:
        step: (state, **parameters) -> state.
        after_score: whether it reads scores; such stages come after `score`, all others before it.
        reads: names from `batch.COLUMNS` and `batch.PARTS`.
        parameters: numbers that a profile may set.
    """

    step: Callable[..., State]
    after_score: bool
    reads: tuple[str, ...] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


def expired(state: State) -> State:
    """Drop expired memories. Source: mememory, Filter expired."""
    return state.keep_where(state.batch["expires_at"] > state.criteria.reading.now.timestamp())


def superseded(state: State) -> State:
    """Drop the memories that another candidate supersedes. Source: mememory, Filter superseded."""
    codes, targets = state.batch["code"], state.batch["supersedes"]
    newer = state.rows[targets[state.rows] >= 0]
    successor = dict(zip(targets[newer].tolist(), newer.tolist(), strict=True))
    older = state.rows[np.isin(codes[state.rows], targets[newer])]
    return state.drop({row: successor[code] for row, code in zip(older.tolist(), codes[older].tolist(), strict=True)})


def importance_floor(state: State, *, minimum: float) -> State:
    """Drop memories with an importance below `minimum`. Source: memorysync, retrieval threshold."""
    return state.keep_where(state.batch["importance"] >= minimum)


def same_fact(state: State) -> State:
    """Keep the most recently updated memory of each fact; of two at the same instant, the one stored last.

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


def shortlist(state: State, *, top: int) -> State:
    """Keep the rows that are best by what the index knows, and read their token vectors.

    The first pass is the score with the stand-in of `late_interaction`. At least `top` rows stay, and twice as many as
    wanted; only these are candidates for the answer.
    """
    first = score(state if state.batch.late is None else state.changed(batch=replace(state.batch, late=None)))
    count = max(top, 2 * state.criteria.wanted)
    kept = first.rows[:count]
    least = float(first.scores[kept[-1]]) if len(first.rows) > count else -np.inf
    kept = np.intersect1d(with_heirs(state.batch, kept), state.rows)
    late = late_column(state, kept)
    return state.keep(kept).changed(
        batch=state.batch if late is None else replace(state.batch, late=late),
        parts=first.parts,
        first_pass=first.scores,
        shortlisted=least,
        ordered_from=first.ordered_from,
    )


def late_column(state: State, rows: Rows) -> Floats | None:
    """Return float64[n], `late_interaction` of `rows`, NaN for the others; None without token vectors."""
    batch = state.batch
    if batch.late is not None:
        column = np.full(len(batch), np.nan)
        column[rows] = batch.late[rows]
        return column
    if state.tokens is None or batch.neighbours is None or not len(rows):
        return None
    groups = np.column_stack((batch.ids[rows], batch.neighbours[rows]))
    ids, places = np.unique(groups, return_inverse=True)
    places = places.reshape(groups.shape)
    if ids[0] == "":  # no neighbour
        ids, places = ids[1:], places - 1
    column = np.full(len(batch), np.nan)
    floor = TOKEN_FLOOR if state.criteria.calibration is None else state.criteria.calibration.token_floor
    column[rows] = max_sim(state.criteria.tokens, state.tokens(ids.tolist()), places, floor)
    return column


def score(state: State) -> State:
    """Compute every row's score and sort the remaining rows, best first, ties by id.

    score = sum of (weight x value) over summed signals, times the product of (value ^ weight) over multiplying signals.
    Signals whose value `shortlist` has computed keep it: they may depend on the rows that it drops. The signal `time`
    comes last, since an order such as "the latest" ranks only rows whose other signals are near those of the best row.
    """
    batch, known = state.batch.with_columns(alive=state.alive), state.parts
    parts, sums, weights = (
        dict[str, Floats](),
        np.zeros(len(batch)),
        state.profile.weights(state.criteria.reading.intent.name),
    )
    cue, ordered_from = state.criteria.reading.intent.time, state.ordered_from
    for term in sorted(state.profile.terms, key=lambda term: term.signal == TIME):
        is_known = term.label in known and (term.signal != LATE or batch.late is None)
        if term.signal == TIME and cue is not None and cue.order and not is_known:
            ordered_from = NAMED * float(sums[state.rows].max(initial=0.0))
            batch = batch.with_columns(ordered=state.alive & (sums >= ordered_from))
        formula = SIGNALS[term.signal].formula
        parts[term.label] = known[term.label] if is_known else formula(batch, state.criteria, **term.parameters)
        if term.combine == "sum":
            sums += weights[term.label] * parts[term.label]
    return scored(state.changed(ordered_from=ordered_from), parts)


def scored(state: State, parts: Mapping[str, Floats]) -> State:
    """Return the state with the scores computed from `parts`, the values of each signal by label."""
    terms, weights = state.profile.terms, state.profile.weights(state.criteria.reading.intent.name)
    summed, factors = np.zeros(len(state.batch)), np.ones(len(state.batch))
    for term in terms:
        if term.combine == "sum":
            summed += weights[term.label] * parts[term.label]
        else:
            factors *= parts[term.label] ** weights[term.label]
    scores = summed * factors if state.profile.sums else factors
    return state.changed(scores=scores, factors=factors, parts=parts, rows=best_first(scores, state.rows))


def best_first(scores: np.ndarray, rows: Rows) -> Rows:
    """Return `rows` by falling score, ties by row (and so by id)."""
    return rows[np.lexsort((rows, -scores[rows]))]


def similarity_floor(state: State) -> State:
    """Drop memories whose similarity alone is below `min_score`. Source: memlayer, Cosine Similarity."""
    similarity = SIGNALS["similarity"].formula(state.batch, state.criteria)
    return (
        state if state.criteria.min_score is None else state.keep_where(similarity >= state.criteria.min_score - EDGE)
    )


def threshold(state: State) -> State:
    """Drop memories whose score is below `min_score`. Source: memlayer, Tuning min_score; cmm, Threshold."""
    return (
        state if state.criteria.min_score is None else state.keep_where(state.scores >= state.criteria.min_score - EDGE)
    )


def nonzero(state: State) -> State:
    """Drop memories whose score is 0 because one factor is 0. Source: cmm, Why Multiplicative?"""
    return state.keep_where(state.scores > 0)


def same_statement(state: State) -> State:
    """Collapse each memory into the kept memory that ranks higher and makes the same statement.

    Two memories make the same statement if one speaker said the same words, with the same case and signs, and of the
    same time if the words depend on when they were said ("yesterday"). White space, a full stop, quotation marks around
    the text, its first capital, words before it such as "please", and contractions do not count (see `statement` in
    `extract/distinctions.py`). The stage looks no further down than the limit needs.
    """
    distinctions = state.batch.distinctions
    if distinctions is None:
        return state
    kept, fallen, first = 0, dict[int, int](), dict[int, int]()
    for row in state.rows.tolist():
        if kept == state.criteria.wanted:
            break
        made = next((code for code in distinctions.of_row(row) if code % len(KINDS) == SAME), None)
        keeper = row if made is None else first.setdefault(made, row)  # nothing is known of one of an older process
        if keeper == row:
            kept += 1
        else:
            fallen[row] = keeper
    return _collapse(state, fallen)


def _collapse(state: State, fallen: Mapping[int, int]) -> State:
    """Return the state without the rows in `fallen`, a mapping to the row that absorbs each."""
    absorbed: dict[int, tuple[int, ...]] = {}
    for row, keeper in fallen.items():
        absorbed[keeper] = (*absorbed.get(keeper, ()), row)
    return state.drop(fallen).changed(absorbed=absorbed) if fallen else state


def near_duplicate(state: State, *, paraphrase: float | None = None) -> State:
    """Collapse each memory into the most similar kept memory that ranks higher and says the same in similar words.

    Two memories say the same if their cosine is at least `paraphrase` (by default the embedder's calibrated threshold)
    and the kept one `covers` the other, so that no number, date, name, English negation or speaker is lost. It can hide
    a memory that differs in another word; `same_statement` does not. The stage looks no further down than the limit
    needs. Source: memorysync, Semantic Dedup Threshold; `covers` is an addition, since embedding models hardly see such
    differences.
    """
    vectors, calibration = state.batch.vectors, state.criteria.calibration
    least = calibration.paraphrase if paraphrase is None and calibration else paraphrase
    if vectors is None or least is None or state.batch.distinctions is None:
        return state
    kept, fallen, wanted = list[int](), dict[int, int](), state.criteria.wanted
    ahead = iter(state.rows.tolist())
    while block := list(islice(ahead, min(wanted - len(kept), BLOCK))):
        again = _keepers(vectors, state.batch.distinctions, [*kept, *block], len(kept), least - EDGE)
        kept += [row for row in block if row not in again]
        fallen |= again
    return _collapse(state, fallen)


def _keepers(vectors: Vectors, distinctions: Ragged, rows: list[int], first: int, least: float) -> dict[int, int]:
    """Return row -> the most similar kept row that covers it, for the rows from position `first` on that collapse.

    `rows` are best first. `least` is the least cosine of rows that say the same.
    """
    found, places = np.array(rows, np.intp), np.arange(len(rows))
    alike = vectors.cosines(found, found[first:])
    near = (alike >= least) & (places[:, None] < places[first:])
    fallen: dict[int, int] = {}
    for place in np.flatnonzero(near.any(axis=0)).tolist():
        above = np.flatnonzero(near[:, place])
        nearest = above[np.argsort(-alike[above, place], kind="stable")].tolist()
        own = distinctions.of_row(rows[first + place])
        kept = (rows[other] for other in nearest if rows[other] not in fallen)
        keeper = next((row for row in kept if covers(distinctions.of_row(row), own)), None)
        if keeper is not None:
            fallen[rows[first + place]] = keeper
    return fallen


def covers(kept: Sequence[int], other: Sequence[int]) -> bool:
    """Return whether a reader of `kept` misses no distinction of `other`: the rule of memorysync's `near_duplicate`.

    Both texts must have the same speaker and owner, or none. Texts that are equal in normal form cover each other. Any
    other kept text must make the same claims (a negation more or less reverses the meaning) and contain all numbers,
    dates and names of the other, as often and in the same order: "from Berlin to Paris" is not "from Paris to Berlin".
    A name must stay on its side of a claim: "Alice agreed, Bob did not" does not cover "Alice did not agree, Bob did".
    The kept text may say more. A memory without known distinctions covers none and is covered by none.

    Both are codes of distinctions, as in `Batch.distinctions`.
    """
    if not kept or not other or _of_kinds(kept, *WHOSE) != _of_kinds(other, *WHOSE):
        return False
    if set(_of_kinds(kept, "text")) & set(_of_kinds(other, "text")):
        return True
    if _of_kinds(kept, "claim") != _of_kinds(other, "claim"):
        return False
    return all(_is_subsequence(_of_kinds(other, *kinds), _of_kinds(kept, *kinds)) for kinds in ORDERED)


def _of_kinds(codes: Iterable[int], *kinds: str) -> list[int]:
    places = {KINDS.index(kind) for kind in kinds}
    return [code for code in codes if code % len(KINDS) in places]


def _is_subsequence(part: Iterable[int], whole: Iterable[int]) -> bool:
    rest = iter(whole)
    return all(code in rest for code in part)


def spread(state: State, *, factor: float, hops: int, neighbours: int, links: int) -> State:
    """Pass a share of the best scores on to neighbouring memories, and sort again.

    Each of the first `Criteria.limit` rows passes `factor` of its score per hop to its `neighbours` nearest rows by
    cosine, and to the `links` nearest rows that name one of its entities. A row keeps the larger of its own score and
    the one passed on. Rows that an earlier stage dropped stay out, except those below the threshold.

    Source: cmm, Spreading Activation.
    """
    batch = state.batch
    if batch.vectors is None:
        return state
    thresholds = [step for step, name in enumerate(state.profile.stages) if name == "threshold"]
    within = np.flatnonzero(state.alive | np.isin(state.dropped_at, thresholds))
    vectors = batch.vectors.at(within)
    naming, named = batch.entities.of_row.pairs() if batch.entities is not None else (np.arange(0), np.arange(0))
    reached: dict[int, Spread] = {}
    frontier = {
        int(row): Spread(int(row), float(state.scores[row]), factor, 0, "neighbour")
        for row in state.rows[: state.criteria.limit]
    }
    for hop in range(1, hops + 1):
        found: dict[int, Spread] = {}
        for row, origin in frontier.items():
            closeness = cosines(vectors, batch.vectors.at(np.array([row]))[0])
            linked = np.isin(within, naming[np.isin(named, named[naming == row])])
            others = within != row
            for link, mask, count in (("entity", others & linked, links), ("neighbour", others, neighbours)):
                for other in within[_nearest(closeness, mask, count)].tolist():
                    passed = Spread(origin.parent, origin.score, factor, hop, link)  # type: ignore[arg-type]
                    known = (before.activation for before in (reached.get(other), found.get(other)) if before)
                    if passed.activation > max(known, default=-np.inf):
                        found[other] = passed
        reached |= found
        frontier = found
    gained = {row: passed for row, passed in reached.items() if passed.activation > state.scores[row]}
    scores = state.scores.copy()
    for row, passed in gained.items():
        scores[row] = passed.activation
    rows = np.union1d(state.rows, np.array(list(gained), np.intp)).astype(np.intp)
    return state.keep(best_first(scores, rows)).changed(scores=scores, spread={**state.spread, **gained})


def _nearest(closeness: Floats, mask: Mask, count: int) -> Rows:
    """Return the places in `mask` of the `count` largest values, the first ones where they tie."""
    places = np.flatnonzero(mask)
    if 0 < count < len(places):  # a partition first: a sort of 100,000 rows per frontier row would take 10 ms
        least = np.partition(closeness[places], len(places) - count)[len(places) - count]
        places = places[closeness[places] >= least]
    return places[np.argsort(-closeness[places], kind="stable")[:count]]


def replaced(state: State, *, sure: float, lift: float) -> State:
    """Rank the memory that replaces another one in its place, and drop those that a caller replaced.

    The newer memory takes over `lift` times the score of the older one if that exceeds its own: the present state comes
    first, however well the older words fit the query. It keeps its own `OWN` factors, so that a time named by the query
    and its own confidence still count. For a question about a state that is over ("where did I live before?"),
    the older one takes over the score of the newer one; for another question about the past, none does.

    Of a relation with the probability p, the memory that gains has the expected score p x the other's + (1 - p) x its
    own; it gains only if that is at least `sure` x the other's. No memory gains from one that has something that the
    query names and it lacks itself (`Reading.specifics`), nor one of another thing (`same_thing`) from one of the
    thing, nor one without an answer of the asked kind (`answer_kind`) from one with it: the literal question wins. A
    memory that a caller replaced is not in the answer, so the newer one takes its place for every question.
    """
    batch, reading = state.batch, state.criteria.reading
    if batch.successors is None:
        return state
    older, newer = _pairs(batch, batch.successors)
    if not len(older):
        return state
    alive, said = state.alive, batch["replaced"][older] >= 1.0 - EDGE
    said &= alive[older]
    gone = dict(zip(older[said].tolist(), newer[said].tolist(), strict=True))
    usable = (newer != NOBODY) & alive[older] & alive[newer]
    usable &= (state.factors[older] > 0) & (state.factors[newer] > 0)
    if reading.tense == "past":
        usable &= said
    return _passed_on(state, older[usable], newer[usable], said[usable], sure, lift).drop(gone)


def _pairs(batch: Batch, successors: NDArray[np.object_]) -> tuple[Rows, Rows]:
    """Return the replaced rows, ascending, and what replaces each; `NOBODY` where a filter left that memory out."""
    older = np.flatnonzero(successors != "")
    newer = np.minimum(np.searchsorted(batch.ids, successors[older]), len(batch) - 1)
    return older, np.where(batch.ids[newer] == successors[older], newer, NOBODY)


def _passed_on(state: State, older: Rows, newer: Rows, said: Mask, sure: float, lift: float) -> State:
    """Return the state with the scores that pairs pass on, see `replaced`; a chain passes them to its end.

    Each further link of a chain lifts the score by the square root of the lift before, so that a whole chain lifts it
    by less than `lift` ^ 2, which `bounds` relies on.
    """
    reading, batch = state.criteria.reading, state.batch
    backwards = np.full(len(older), reading.tense == "former") & ~said
    given, taking = np.where(backwards, newer, older), np.where(backwards, older, newer)
    chance = np.where(said, 1.0, batch["replaced"][older])
    other = of_another(batch, state.criteria) | lacking_answer(batch, state.criteria)
    kept = said | ~(_lacks(reading, batch, given, taking) | (other[taking] & ~other[given]))
    given, taking, backwards, chance = given[kept], taking[kept], backwards[kept], chance[kept]
    order = np.lexsort((batch["created_at"][given] * np.where(backwards, -1, 1), backwards))
    scores, gained, lifts, own = state.scores.copy(), dict[int, Spread](), dict[int, float](), np.ones(len(batch))
    weights = state.profile.weights(reading.intent.name)
    for term in state.profile.terms:
        if term.signal in OWN and term.combine == "product":
            own *= state.parts[term.label] ** weights[term.label]
    for giver, row, probability in zip(*(column[order].tolist() for column in (given, taking, chance)), strict=True):
        if probability * scores[giver] + (1.0 - probability) * scores[row] < (sure - EDGE) * scores[giver]:
            continue
        factor = float(own[row] / own[giver])
        lifted = math.sqrt(lifts[giver]) if giver in lifts else lift
        factor *= lifted if factor >= 1 else 1.0
        if scores[giver] * factor > scores[row]:
            gained[row] = Spread(giver, float(scores[giver]), factor, 1, "update")
            scores[row], lifts[row] = gained[row].activation, lifted
    if not gained:
        return state
    return state.changed(rows=best_first(scores, state.rows), scores=scores, spread={**state.spread, **gained})


def _lacks(reading: Reading, batch: Batch, given: Rows, taking: Rows) -> Mask:
    """Return bool[n], whether a row of `given` has a term of `reading.specifics` that the row of `taking` lacks."""
    lacks = np.zeros(len(given), np.bool_)
    for term in reading.specifics:
        holds = holding(batch, reading, term)
        lacks |= holds[given] & ~holds[taking]
    return lacks


def with_heirs(batch: Batch, rows: Rows) -> Rows:
    """Return rows, ascending, with those that replace them or are replaced by them, to the ends of chains."""
    if batch.successors is None:
        return np.sort(rows)
    held = np.zeros(len(batch), np.bool_)
    held[rows] = True
    older, newer = _pairs(batch, batch.successors)
    older, newer, before = older[newer != NOBODY], newer[newer != NOBODY], -1
    while (count := int(np.count_nonzero(held))) > before:
        before = count
        held[newer[held[older]]] = True
        held[older[held[newer]]] = True
    return np.flatnonzero(held)


def cut_off(state: State, **rule: float) -> State:
    """Drop memories that fit the query no better than chance, and memories far behind the best one.

    The best of many unrelated memories fits any query somewhat, and more so the more there are. The score to reach
    among n memories is therefore `alone` x n ^ `growth`, at most `most`, and at least `share` of the best score.
    Without the signal `speaker`, some memory must reach `content` of the chance score; otherwise the query asks for
    something that the named speaker never mentioned, and the stage drops all. A `min_score` from the caller replaces
    these rules. For a query without a vector, all memories with a score stay.
    """
    if state.criteria.min_score is not None or not len(state.rows):
        return state
    if state.criteria.vector is None:
        return state.keep_where(state.scores > 0)
    return state.keep_where(state.scores >= least_fit(state, **rule))


def least_fit(state: State, **rule: float) -> float:
    """Return the score that `cut_off` requires under these parameters; infinity if it drops every memory."""
    least, content = cut_off_scores(state, state.rows, **rule)
    return least if without_speaker(state)[state.rows].max() >= content else float("inf")


def cut_off_scores(
    state: State, rows: Rows, alone: float, growth: float, most: float, share: float, content: float
) -> tuple[float, float]:
    """Return the score that `cut_off` requires of `rows`, and the score that one needs without the signal `speaker`."""
    batch, stages = state.batch, state.profile.stages
    if batch.participants is not None:
        participants = batch.participants
    else:  # an index of a database returned the nearest memories: the terms of all visible ones are counted
        scored = len(rows)
        if "replaced" in stages:  # a store that counts them does not know which ones that stage drops
            scored += int(np.count_nonzero(state.dropped_at == stages.index("replaced")))
        participants = max(scored, 0 if batch.complete or batch.lexicon is None else batch.lexicon.documents)
    chance: float = min(alone * participants**growth, most)
    return max(chance, share * float(state.scores[rows].max(initial=0.0))) - EDGE, content * chance - EDGE


def without_speaker(state: State) -> Floats:
    """Return float64[n], the scores without the contribution of the signal `speaker`."""
    scores, weights = state.scores, state.profile.weights(state.criteria.reading.intent.name)
    for term in state.profile.terms:
        if term.signal == "speaker" and term.combine == "sum":
            scores = scores - weights[term.label] * state.parts[term.label] * state.factors
    return scores


def trim(state: State) -> State:
    """Keep the first `Criteria.wanted` rows."""
    return state if len(state.rows) <= state.criteria.wanted else state.keep(state.rows[: state.criteria.wanted])


STAGES: Final[Mapping[str, Stage]] = {
    "expired": Stage(expired, after_score=False, reads=("expires_at",)),
    "superseded": Stage(superseded, after_score=False, reads=("code", "supersedes")),
    "importance_floor": Stage(
        importance_floor,
        after_score=False,
        reads=("importance",),
        parameters={"minimum": Parameter(0.0, 1.0, 0.1)},
    ),
    "same_fact": Stage(same_fact, after_score=False, reads=("fact", "updated_at")),
    "similarity_floor": Stage(similarity_floor, after_score=False, reads=("cosine",)),
    SHORTLIST: Stage(shortlist, after_score=False, parameters={"top": Parameter(1, 10_000, 40, integer=True)}),
    SCORE: Stage(score, after_score=False),
    "nonzero": Stage(nonzero, after_score=True),
    "threshold": Stage(threshold, after_score=True),
    "same_statement": Stage(same_statement, after_score=True, reads=("distinctions",)),
    "near_duplicate": Stage(
        near_duplicate,
        after_score=True,
        reads=("vectors", "distinctions"),
        parameters={"paraphrase": Parameter(-1.0, 1.0)},
    ),
    "spread": Stage(
        spread,
        after_score=True,
        reads=("vectors", "entities"),
        parameters={
            "factor": Parameter(0.0, 1.0, 0.5),
            "hops": Parameter(1, 5, 1, integer=True),
            "neighbours": Parameter(0, 100, 5, integer=True),
            "links": Parameter(0, 100, 5, integer=True),
        },
    ),
    "replaced": Stage(
        replaced,
        after_score=True,
        reads=("created_at", "replaced", "successors", "terms"),
        parameters={
            "sure": Parameter(0.0, 1.0, 0.9),
            "lift": Parameter(1.0, 10.0, 1.01),
        },
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
"""Every stage that a profile can name."""
