"""Laws of ranking that hold for any memories, any clock and every profile."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
from columns import random_columns
from hypothesis import given, settings
from hypothesis import strategies as st

from salience.batch import KINDS, Batch, Entities, Lexicon, Postings, Ragged, Vectors, cosines
from salience.ports import RAW, Calibration
from salience.rank import profiles
from salience.rank.criteria import Criteria
from salience.rank.profile import Profile, parse
from salience.rank.run import details, rank
from salience.rank.signals import CLOCKS, SIGNALS
from salience.rank.stages import SCORE, STAGES
from salience.records import Intent
from tests.contract.memories import criteria

NOW = datetime(2026, 5, 1, tzinfo=UTC)
CALIBRATION = Calibration((0.0, 0.5, 1.0), (0.0, 0.8, 1.0), 0.9, "test")


@st.composite
def batches(draw: st.DrawFn) -> tuple[Batch, Criteria]:
    count = draw(st.integers(0, 40))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    now = NOW + timedelta(days=draw(st.floats(-1000, 1000)))
    matrix = random.normal(size=(count, 8))
    matrix[: count // 4] = matrix[count // 4 : 2 * (count // 4)] + random.normal(size=(count // 4, 8)) / 20
    matrix = (
        (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)
        if count
        else np.empty((0, 8), np.float32)
    )
    query = random.normal(size=8)
    query = (query / np.linalg.norm(query)).astype(np.float32)
    columns = {**random_columns(random, count, now.timestamp()), "cosine": cosines(matrix, query)}
    hits = np.flatnonzero(random.random(count) < 0.4)
    lexicon = Lexicon(
        documents=count,
        average_length=10.0,
        document_frequency=np.array([float(len(hits))]),
        postings=Postings.of([(hits, random.integers(1, 5, len(hits)).astype(float))]),
        length=random.integers(1, 30, count).astype(float),
    )
    entities = Entities(
        Ragged.of([list(random.integers(0, 6, random.integers(0, 3))) for _ in range(count)]),
        np.array([1]),
        np.array([random.integers(1, count + 1) if count else 1.0]),
        count,
    )
    ids = np.array([f"{row:032x}" for row in range(count)], object)
    newer = np.where(random.random(count) < 0.4, random.integers(0, 2 * count + 1, count), -1)
    newer[newer == np.arange(count)] = -1
    columns["replaced"] = np.where(newer < 0, 0.0, random.choice([0.3, 0.7, 0.95, 1.0], count))
    batch = Batch(
        ids,
        columns,
        Vectors(matrix, np.arange(count)),
        lexicon,
        entities=entities,
        distinctions=Ragged.of(
            [[len(KINDS) * int(kind) + KINDS.index("claim")] for kind in random.integers(0, 2, count)]
        ),
        successors=np.array(["" if row < 0 else f"{row:032x}" for row in newer.tolist()], object),
    )
    asked = criteria(
        now=now,
        limit=draw(st.integers(0, 12)),
        min_score=draw(st.sampled_from([None, 0.0, 0.3, 0.7])),
        intent=Intent(draw(st.sampled_from(["default", "preference", "time"]))),
        tense=draw(st.sampled_from(["present", "past", "former"])),
        calibration=CALIBRATION,
    )
    return batch, asked


RATES = (
    "half_life_days = 20.0",
    "rate_per_day = 0.1",
    "rate_per_hour = { working = 0.1, episodic = 0.0, semantic = 1 }",
)
BEFORE = sorted(name for name, stage in STAGES.items() if not stage.after_score and name != SCORE)
AFTER = sorted(name for name, stage in STAGES.items() if stage.after_score and name != "trim")


@st.composite
def generated_profiles(draw: st.DrawFn) -> Profile:
    """Any profile that TOML can state: signals with weights and ways to combine, stages in any order that is valid."""
    signals = draw(st.lists(st.sampled_from(sorted(SIGNALS)), min_size=1, unique=True))
    intent = draw(st.dictionaries(st.sampled_from(signals), WEIGHTS))
    lines = [
        'name = "generated"',
        'summary = "Generated."',
        f'combine = "{draw(COMBINE)}"',
        f'threshold_scale = "{draw(st.sampled_from(["raw", "calibrated"]))}"',
        f"stages = {[*draw(stages_of(BEFORE)), SCORE, *draw(stages_of(AFTER)), 'trim']}",
        "[intent.time]",
        'words = ["recent"]',
        "weights = { " + ", ".join(f"{label} = {weight}" for label, weight in intent.items()) + " }",
    ]
    for name in signals:
        lines += [f"[signal.{name}]", f"weight = {draw(WEIGHTS)}"]
        lines += [f'combine = "{draw(COMBINE)}"'] if draw(st.booleans()) else []
        lines += [draw(st.sampled_from(RATES)), f'clock = "{draw(st.sampled_from(CLOCKS))}"'] * (name == "recency")
    return parse("\n".join(lines), "generated")


COMBINE = st.sampled_from(["sum", "product"])
WEIGHTS = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0.001, 3.0).map(lambda weight: round(weight, 3)))


def stages_of(names: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), unique=True)


@given(case=batches(), profile=st.sampled_from(profiles.NAMES).map(profiles.load) | generated_profiles())
@settings(max_examples=200)
def test_every_score_of_any_profile_recomputes_from_its_detail(case, profile):
    batch, asked = case
    asked = replace(asked, scale=CALIBRATION if profile.threshold_scale == "calibrated" else RAW)
    ranked = rank(profile, batch, asked)
    labels = [term.label for term in profile.terms]
    for row in range(len(batch)):
        part = details(ranked, np.array([row]))[0]
        assert abs(part.recompute() - part.final) <= 1e-9
        assert part.final == ranked.scores[row]
        assert [share.signal for share in part.parts] == labels
        for term, share in zip(profile.terms, part.parts, strict=True):
            assert share.weight == profile.weights(asked.reading.intent.name)[share.signal]
            assert SIGNALS[term.signal].low <= share.raw <= SIGNALS[term.signal].high
    assert [ranked.scores[row] for row in ranked.rows] == sorted(ranked.scores[ranked.rows], reverse=True)


@given(name=st.sampled_from(profiles.NAMES), case=batches())
@settings(max_examples=150)
def test_rows_are_ordered_cut_and_accounted_for(name, case):
    batch, asked = case
    profile = profiles.load(name)
    ranked = rank(profile, batch, asked)
    order = [(-ranked.scores[row], row) for row in ranked.rows]
    assert order == sorted(order)
    assert len(ranked.rows) <= asked.limit
    assert sorted(np.flatnonzero(ranked.dropped_at == -1)) == sorted(ranked.rows)
    assert all(0 <= fate < len(profile.stages) for fate in ranked.dropped_at[ranked.dropped_at != -1])


@given(name=st.sampled_from([one for one in profiles.NAMES if one != "cmm"]), case=batches())  # its seeds follow limit
@settings(max_examples=80)
def test_a_larger_limit_only_adds_at_the_end(name, case):
    batch, asked = case
    profile = profiles.load(name)
    few = rank(profile, batch, asked).rows
    more = rank(profile, batch, replace(asked, limit=asked.limit + 5)).rows
    assert list(more[: len(few)]) == list(few)


@given(case=batches())
@settings(max_examples=60)
def test_what_fell_because_of_another_names_it(case):
    batch, asked = case
    profile = profiles.load("memorysync")
    ranked, stage = rank(profile, batch, asked), profile.stages.index("same_fact")
    kept = (ranked.dropped_at == -1) | (ranked.dropped_at > stage)
    facts = batch["fact"][kept & (batch["fact"] >= 0)].tolist()
    assert len(facts) == len(set(facts))
    for row in np.flatnonzero(ranked.dropped_at == stage):
        winner = ranked.by[row]
        assert batch["fact"][winner] == batch["fact"][row]
        assert (batch["updated_at"][winner], winner) > (batch["updated_at"][row], row)
    for row in np.flatnonzero(ranked.dropped_at == profile.stages.index("near_duplicate")):
        keeper = int(ranked.by[row])
        assert batch.distinctions.of_row(keeper) == batch.distinctions.of_row(row)
        assert row in ranked.absorbed[keeper]
        assert ranked.scores[keeper] >= ranked.scores[row]


@given(case=batches())
@settings(max_examples=40)
def test_taking_rows_keeps_their_signals(case):
    batch, _need = case
    rows = np.arange(0, len(batch), 2)
    part = batch.take(rows)
    assert list(part.ids) == list(batch.ids[rows])
    assert (part.vectors.at(np.arange(len(rows))) == batch.vectors.at(rows)).all()
    whole = {(r, f) for held in batch.lexicon.postings for r, f in zip(*held, strict=True) if r % 2 == 0}
    assert {(rows[r], f) for held in part.lexicon.postings for r, f in zip(*held, strict=True)} == whole
    row, code = part.entities.of_row.pairs()
    old_row, old_code = batch.entities.of_row.pairs()
    assert sorted(zip(rows[row], code, strict=True)) == sorted(
        pair for pair in zip(old_row, old_code, strict=True) if pair[0] % 2 == 0
    )


@given(seed=st.integers(0, 2**32 - 1), count=st.sampled_from([2, 32, 33]))
def test_cosines_of_rows_to_each_other_have_the_same_bits_of_few_and_of_many(seed, count):
    random = np.random.default_rng(seed)
    matrix = random.standard_normal((40, 384)).astype(np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    places = random.permutation(40)[:count]
    places[0] = -1  # has no vector
    vectors, rows, others = Vectors(matrix, places), random.permutation(count)[:5], random.permutation(count)[:3]
    expected = cosines(vectors.at(rows), vectors.at(others))
    assert vectors.cosines(rows, others).tobytes() == expected.tobytes()
    assert (expected[rows == 0] == 0).all()
