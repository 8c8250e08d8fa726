"""What holds under every profile; that all stores give the same scores is in `tests/stories/test_stores_agree.py`."""

from __future__ import annotations

from datetime import timedelta

import pytest

from salience.ports import Calibration
from salience.rank import profiles
from salience.rank.profile import parse

TEXTS = {"Alice leads Atlas": 0.95, "Atlas ships": 0.85, "Bob likes tea": 0.8, "opposite": -0.3}


def plant(planted, clock, **options):
    memory = planted(TEXTS, **options)
    for number, text in enumerate(TEXTS):
        memory.remember(
            text,
            session_id="s",
            tier=("working", "episodic", "semantic")[number % 3],
            importance=(0.9, 0.7, 0.5)[number % 3],
            weight=(1.0, 0.6)[number % 2],
            created_at=clock() - timedelta(days=25 * number),
        )
    return memory


@pytest.mark.parametrize("profile", profiles.NAMES)
@pytest.mark.parametrize("query", ["query Atlas", "query what does Alice prefer", "query what happened today"])
def test_a_score_recomputes_from_its_detail(planted, clock, profile, query):
    memory = plant(planted, clock, profile=profile)
    memory.recall(query, session_id="s")
    for hit in memory.recall(query, session_id="s", min_score=0.0):
        detail = hit.score_detail
        assert abs(detail.recompute() - detail.final) <= 1e-9
        assert hit.score == detail.final
        assert hit.via == detail.via
        if hit.via is None:
            total = sum(part.raw * part.weight for part in detail.parts if part.combine == "sum")
            factors = [part.raw**part.weight for part in detail.parts if part.combine == "product"]
            product = total if any(part.combine == "sum" for part in detail.parts) else 1.0
            for factor in factors:
                product *= factor
            assert hit.score == pytest.approx(product, abs=1e-9)


@pytest.mark.parametrize("profile", [name for name in profiles.NAMES if name not in ("salience", "cmm")])
def test_a_cosine_below_0_counts_as_0(planted, profile):
    memory = planted({"opposite": -0.4}, profile=profile)
    memory.remember("opposite")
    detail = memory.recall("query", min_score=0.0)[0].score_detail
    assert next(part.raw for part in detail.parts if part.signal in ("similarity", "cosine")) == 0.0


@pytest.mark.parametrize("profile", profiles.NAMES)
def test_a_dry_run_leaves_counters_clocks_and_turns(planted, clock, profile):
    memory = plant(planted, clock, profile=profile)
    before = memory.list().memories
    for _ in range(3):
        memory.recall("query Atlas", session_id="s", dry_run=True, min_score=0.0)
        memory.graph_recall("query Atlas", session_id="s", dry_run=True)
        memory.context("query Atlas", session_id="s", dry_run=True)
    assert memory.list().memories == before
    assert memory.ingest([{"role": "user", "content": "a turn"}], session_id="s")[0].memory.turn == len(TEXTS) + 1
    hits = memory.recall("query Atlas", session_id="s", dry_run=True, profile="cmm")
    assert {hit.score_detail.priming for hit in hits} == {1.0}


@pytest.mark.parametrize("profile", profiles.NAMES)
def test_a_profile_is_given_by_name_path_or_object(planted, clock, tmp_path, profile):
    path = tmp_path / "copy.toml"
    path.write_text(profiles.source(profile))
    memory = plant(planted, clock)
    first, *others = (
        [(hit.memory.id, hit.score) for hit in memory.recall("query Atlas", profile=given, dry_run=True)]
        for given in (profile, path, str(path), profiles.load(profile))
    )
    assert first
    assert all(other == first for other in others)


@pytest.mark.parametrize("profile", profiles.NAMES)
def test_asking_as_of_an_instant_is_asking_at_that_instant(planted, clock, profile):
    memory = plant(planted, clock, profile=profile)
    later = clock() + timedelta(days=40)
    arguments = [(hit.memory.id, hit.score) for hit in memory.recall("query", now=later, min_score=0.0, dry_run=True)]
    clock.advance(days=40)
    assert arguments == [(hit.memory.id, hit.score) for hit in memory.recall("query", min_score=0.0, dry_run=True)]


@pytest.mark.parametrize("profile", profiles.NAMES)
def test_5_memories_by_default_and_equal_scores_in_the_order_of_storing(planted, profile):
    texts = [f"The build number {number}" for number in range(7)]
    axes = {text: 1 + place for place, text in enumerate(texts)}
    memory = planted(dict.fromkeys(texts, 0.9), profile=profile, axes=axes)
    for text in reversed(texts):
        memory.remember(text, kind="bootstrap")  # a kind that replaces nothing
    assert [hit.memory.content for hit in memory.recall("query")] == texts[:1:-1]


HALF_IS_MUCH = Calibration((0.0, 0.5, 1.0), (0.0, 0.8, 1.0), 0.9, "test")


@pytest.mark.parametrize("scale", ["raw", "calibrated"])
def test_thresholds_are_raw_cosines_unless_a_profile_wants_them_calibrated(planted, scale):
    source = profiles.source("memlayer") + "[on_remember]\ncontradiction_above = 0.75\n"
    profile = parse(source.replace("limit = 5", f'limit = 5\nthreshold_scale = "{scale}"', 1), "scaled")
    memory = planted({"half": 0.5, "less": 0.4, "query new": 1.0}, profile=profile)
    memory.services.embedder._embedder.calibration = HALF_IS_MUCH
    for text in ("half", "less"):
        memory.remember(text, importance=1.0)
    hits = [(hit.memory.content, round(hit.score_detail.cosine, 6)) for hit in memory.recall("query")]
    rivals = [(rival.memory.content, rival.similarity) for rival in memory.remember("query new").contradictions]
    assert hits == ([("half", 0.8)] if scale == "calibrated" else [])
    assert rivals == ([("half", pytest.approx(0.8, abs=1e-6))] if scale == "calibrated" else [])
    assert (memory.recall("query", min_score=0.6, dry_run=True)[-1].memory.content == "less") == (scale == "calibrated")
