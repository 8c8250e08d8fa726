"""Why a memory is, or is not, in an answer: each fate through the public verb, and what would change it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

import salience
from salience import Explanation, InputError
from salience.explain.trace import OUTCOMES
from salience.models.cache import Wrapped
from salience.rank import profiles
from salience.rank.stages import STAGES

LADDER = {f"rung {number}": 0.95 - 0.04 * number for number in range(20)}


def ladder(planted, **options):
    """Return an engine of memories with falling cosines, and their ids from the nearest on."""
    memory = planted(LADDER, **options)
    return memory, [memory.remember(text, importance=0.5).memory.id for text in LADDER]


def outcome(found: Explanation, stage: str) -> str:
    return next(step.outcome for step in found.path if step.stage == stage)


def test_a_returned_memory_has_its_rank_score_and_detail(planted):
    memory, _ = ladder(planted, profile="zeromemory")
    for rank, hit in enumerate(memory.recall("query", dry_run=True), 1):
        found = memory.explain("query", hit.memory.id)
        assert (found.id, found.stage, found.rank) == (hit.memory.id, "returned", rank)
        assert found.score_detail == hit.score_detail
        assert found.reason.startswith(f"Returned at rank {rank} of 5 with {hit.score:.4f}.")
        assert {step.outcome for step in found.path} == {"passed"}
        assert (found.counterfactual is None) == (found.above == ()) == (rank == 1)


def test_an_outranked_memory_names_its_rank_the_last_score_and_a_limit_that_holds(planted):
    memory, ids = ladder(planted, profile="zeromemory")
    found = memory.explain("query", ids[8])
    assert (found.stage, found.rank, found.by) == ("outranked", 9, ids[0])
    assert found.reason == (
        f"It ranks 9 with 0.665; the last one in the answer, {ids[4][-8:]}, has 0.745. {ids[0][-8:]} is first with "
        "0.8250, mainly by similarity (+0.1600)."
    )
    assert found.counterfactual == (
        "Importance 0.77 instead of 0.5 would return it at rank 5. As it is, a limit of 9 returns it."
    )
    assert memory.recall("query", limit=9, dry_run=True)[8].memory.id == ids[8]


def test_the_change_is_the_counterfactual_as_arguments(planted):
    memory, ids = ladder(planted, profile="zeromemory")
    outranked = memory.explain("query", ids[19])
    assert outranked.counterfactual == "Only a larger limit would return it: a limit of 20, at rank 20."
    assert outranked.change == {"limit": 20}
    assert memory.explain("query", ids[19], **outranked.change).stage == "returned"
    below = memory.explain("query", ids[1], min_score=0.9)
    assert below.counterfactual == f"A min_score of {below.change['min_score']:g} would return it at rank 2."
    assert memory.explain("query", ids[1], **below.change).stage == "returned"
    filtered = memory.explain("query", ids[1], tags=["none"], kinds=["fact"])
    assert filtered.change == {"tags": None}
    hidden = memory.remember("rung 0", project="atlas").memory.id
    found = memory.explain("query", hidden, project="other")
    assert found.change == {"project": "atlas"}
    assert memory.explain("query", ids[0]).change == {}


def test_a_counterfactual_raises_a_low_weight(planted):
    memory = planted(LADDER, profile="mememory")
    ids = [memory.remember(text, weight=0.1 if number == 1 else 1.0).memory.id for number, text in enumerate(LADDER)]
    found = memory.explain("query", ids[1])
    assert (found.stage, found.rank) == ("outranked", 15)
    assert found.counterfactual == (
        "Weight 1.0 instead of 0.1 would return it at rank 2. As it is, a limit of 20 returns it."
    )
    memory.update(ids[1], weight=1.0)
    assert memory.recall("query")[1].memory.id == ids[1]


def test_a_returned_memory_names_the_change_that_would_raise_it(planted):
    memory = planted({"first": 0.9, "second": 0.8}, profile="mememory")
    low = memory.remember("first", weight=0.5).memory.id
    memory.remember("second")
    assert memory.explain("query", low).counterfactual == "Weight 1.0 instead of 0.5 would put it at rank 1."


def test_importance_is_raised_no_more_than_it_takes(planted):
    memory, ids = ladder(planted, profile="zeromemory")
    single = replace(profiles.load("zeromemory"), max_limit=1)  # so that no larger limit helps
    result = memory.explain("query", ids[2], limit=1, profile=single).counterfactual
    value = float(re.fullmatch(r"Importance ([\d.]+) instead of 0.5 would return it at rank 1\.", result)[1])
    memory.update(ids[2], importance=value)
    assert memory.recall("query", limit=1, dry_run=True)[0].memory.id == ids[2]
    memory.update(ids[2], importance=round(value - 0.01, 2))
    assert memory.recall("query", limit=1, dry_run=True)[0].memory.id != ids[2]


def test_a_memory_below_the_minimum_score_names_the_difference(planted):
    memory, ids = ladder(planted, profile="cmm")
    found = memory.explain("query", ids[3], min_score=0.85)
    assert found.stage == "threshold"
    assert found.reason == "Its score 0.830 is 0.02 below the least score, 0.850."
    assert found.rank == 4
    assert [outcome(found, stage) for stage in ("score", "nonzero", "threshold", "trim")] == [
        "passed", "passed", "fell", "not reached",
    ]  # fmt: skip
    assert found.counterfactual == "A min_score of 0.83 would return it at rank 4."
    assert memory.recall("query", min_score=0.83, dry_run=True)[3].memory.id == ids[3]


def test_the_similarity_floor_comes_before_the_score(planted):
    memory, ids = ladder(planted, profile="memlayer")
    found = memory.explain("query", ids[7])
    assert (found.stage, found.rank) == ("similarity_floor", None)
    assert found.reason == "Its similarity 0.670 is 0.03 below the least score, 0.700."
    assert found.score_detail.final == pytest.approx(0.7 * 0.67 + 0.2 + 0.05, abs=1e-6)
    assert found.counterfactual == "A min_score of 0.67 would put it at rank 8, past the limit of 5."


@pytest.mark.parametrize(
    ("profile", "stage", "said"),
    [
        ("mememory", "superseded", "{} supersedes it."),
        ("salience", "replaced", "{} replaces it (a caller said so: supersedes)."),
    ],
)
def test_a_superseded_memory_names_its_successor(planted, profile, stage, said):
    memory = planted({"old": 0.9, "new": 0.8}, profile=profile)
    old = memory.remember("old").memory.id
    new = memory.remember("new", supersedes=old).memory.id
    found = memory.explain("query", old)
    assert (found.stage, found.by, found.rank) == (stage, new, None if profile == "mememory" else 2)
    assert found.reason == said.format(new[-8:])
    memory.forget(new)
    assert memory.explain("query", old).stage == "returned"


def test_a_successor_that_the_filter_keeps_away_is_named_all_the_same(planted):
    memory = planted({"old": 0.9, "new": 0.8}, profile="salience")
    old = memory.remember("old", fact_key="k", tags=["a"]).memory.id
    new = memory.remember("new", fact_key="k").memory.id
    found = memory.explain("query", old, tags=["a"])
    assert (found.stage, found.by) == ("replaced", new)
    assert found.reason == (f"{new[-8:]} replaces it, but the filter excludes that memory (a caller said so: fact k).")
    assert found.counterfactual == (
        f"If {new[-8:]} does not replace it, dismiss(id='{new[-8:]}', other_id='{old[-8:]}') would return it at rank 1."
    )
    memory.dismiss(**found.change["dismiss"])
    assert memory.recall("query", tags=["a"], dry_run=True)[0].memory.id == old


def test_a_memory_that_fits_no_better_than_chance_is_cut_off(planted):
    memory = planted({"near": 0.9, "far": 0.1}, profile="precise")
    memory.remember("near")
    found = memory.explain("query", memory.remember("far").memory.id)
    assert (found.stage, found.rank) == ("cut_off", 2)
    assert re.fullmatch(
        r"Its score 0\.\d+ is 0\.\d+ below the cut-off, 0\.\d+; the best of 2 has "
        r"0\.\d+\.",
        found.reason,
    )
    least = float(re.fullmatch(r"A min_score of ([\d.]+) would return it at rank 2\.", found.counterfactual)[1])
    assert len(memory.recall("query", min_score=least, dry_run=True)) == 2
    assert len(memory.recall("query", min_score=least + 0.001, dry_run=True)) == 1


def test_the_rank_without_the_supersession_is_named(planted):
    memory = planted({"old": 0.9, "new": 0.8}, profile="mememory")
    old = memory.remember("old").memory.id
    new = memory.remember("new", supersedes=old).memory.id
    assert (
        memory.explain("query", old).counterfactual == f"Not being superseded by {new[-8:]} would return it at rank 2."
    )  # its weight stays 0.1


def test_an_older_memory_of_a_fact_names_the_newer(planted, clock):
    memory = planted({"old": 0.9, "new": 0.8}, profile="memorysync")
    old = memory.remember("old", fact_key="k").memory.id
    clock.advance(days=1)
    new = memory.remember("new", fact_key="k").memory.id
    found = memory.explain("query", old)
    assert (found.stage, found.by) == ("same_fact", new)
    assert found.reason == (
        f"Of the same fact {new[-8:]} is newer: updated on 2026-05-02T12:00:00+00:00, this one on "
        "2026-05-01T12:00:00+00:00."
    )
    assert found.counterfactual == "No fact_key would return it at rank 1."
    memory.update(old, fact_key=None)
    assert memory.recall("query", dry_run=True)[0].memory.id == old


def test_an_expired_memory_names_the_instant(planted, clock):
    memory = planted({"text": 0.9})
    stored = memory.remember("text", ttl="1d").memory.id
    assert memory.explain("query", stored).stage == "returned"
    found = memory.explain("query", stored, now=clock() + timedelta(days=2))
    assert found.stage == "expired"
    assert "ended on 2026-05-02T12:00:00+00:00; the query's instant is 2026-05-03T12:00:00+00:00." in found.reason
    assert found.counterfactual == "No time to live would return it at rank 1."


def test_low_importance_is_held_to_the_floor_of_the_profile(planted):
    memory = planted({"text": 0.9}, profile="memorysync")
    stored = memory.remember("text", importance=0.04).memory.id
    found = memory.explain("query", stored)
    assert (found.stage, found.reason) == ("importance_floor", "Its importance 0.040 is 0.06 below the floor, 0.100.")
    assert found.counterfactual == "Importance 0.1 instead of 0.04 would return it at rank 1."


def test_a_factor_of_0_is_named(planted):
    memory = planted({"text": 0.9, "other": 0.0}, profile="cmm")
    stored = memory.remember("text", importance=0.0).memory.id
    found = memory.explain("query", stored)
    assert (found.stage, found.reason) == ("nonzero", "Its score is 0, since a factor of it is: importance.")
    assert found.counterfactual.startswith("Importance 0.17 instead of 0 would return it")
    unlike = memory.explain("query", memory.remember("other").memory.id)
    assert unlike.reason == "Its score is 0, since a factor of it is: similarity."
    assert unlike.counterfactual is None


def test_a_near_duplicate_names_the_memory_it_was_collapsed_into(planted):
    memory = planted({"first thing": 0.9, "the first thing": 0.8}, axes={"first thing": 1, "the first thing": 1})
    kept, gone = (memory.remember(text).memory.id for text in ("first thing", "the first thing"))
    found = memory.explain("query", gone, profile="memorysync")
    assert (found.stage, found.by, found.rank) == ("near_duplicate", kept, 2)
    assert re.fullmatch(rf"It says the same as {kept[-8:]}, which ranks higher .* \(cosine 0\.98\d\)\.", found.reason)
    assert found.counterfactual == f"Forgetting {kept[-8:]} would return it at rank 1."
    assert found.change == {"forget": kept}
    assert memory.explain("query", kept, profile="memorysync").path[-2].note == f"collapsed {gone[-8:]} into it"
    memory.forget(kept)
    assert memory.recall("query", profile="memorysync", dry_run=True)[0].memory.id == gone


def test_a_duplicate_below_the_limit_is_outranked(planted):
    memory, ids = ladder(planted, profile="memorysync")
    assert memory.explain("query", ids[3], limit=2).stage == "outranked"
    assert memory.explain("query", ids[0], limit=0).reason == "It ranks 1, and the limit is 0."


def test_activation_brings_a_memory_back(planted):
    memory = planted({"Alice leads Atlas": 0.95, "far": 0.2}, profile="cmm", axes={"Alice leads Atlas": 1, "far": 1})
    parent = memory.remember("Alice leads Atlas", importance=0.5).memory.id
    far = memory.remember("far", importance=0.5).memory.id
    found = memory.explain("query", far)
    hit = memory.recall("query", dry_run=True)[1]
    assert (found.stage, found.rank, found.by, hit.memory.id) == ("returned", 2, parent, far)
    assert found.score_detail == hit.score_detail
    assert [step.outcome for step in found.path if step.stage in ("threshold", "spread")] == [
        "fell", "revived", "passed",
    ]  # fmt: skip
    said = f"Returned at rank 2 of 2 with 0.4750, passed on by {parent[-8:]}, its near neighbour."
    assert found.reason == f"{said} {parent[-8:]} is first with 0.9500, mainly by similarity (+0.7500)."
    assert {part.signal: part.contribution for part in found.above}["via"] == pytest.approx(-0.275)


def test_a_memory_that_activation_adds_may_fail_the_second_threshold(planted):
    memory = planted({"near": 0.5, "far": 0.2}, profile="cmm", axes={"near": 1, "far": 1})
    memory.remember("near", importance=0.5)
    found = memory.explain("query", memory.remember("far", importance=0.5).memory.id)
    assert (found.stage, found.reason) == ("threshold", "Its score 0.250 is 0.05 below the least score, 0.300.")
    assert [step.outcome for step in found.path if step.stage in ("threshold", "spread")] == [
        "fell", "revived", "fell",
    ]  # fmt: skip


def test_a_memory_too_far_down_by_cosine_is_no_candidate(planted):
    memory, ids = ladder(planted, profile="mememory")
    found = memory.explain("query", ids[17])
    assert (found.stage, found.rank, found.by) == ("candidates", None, None)
    assert found.reason == "By cosine it is number 18 with 0.270; the nearest 15 are ranked, down to 0.390."
    assert found.score_detail.final == pytest.approx(0.27 * 0.8, abs=1e-6)
    assert outcome(found, "candidates") == "fell"
    assert outcome(found, "expired") == "not reached"
    assert found.counterfactual == "A limit of 18 would return it at rank 18."
    assert memory.recall("query", limit=18, dry_run=True)[17].memory.id == ids[17]


def test_the_arguments_are_those_of_recall(planted):
    memory, ids = ladder(planted, profile="zeromemory")
    assert memory.explain("query", ids[9], weights={"similarity": 0.0}).rank == 10
    with pytest.raises(InputError, match="limit"):
        memory.explain("query", ids[0], limit=-1)
    with pytest.raises(InputError, match="query"):
        memory.explain(" ", ids[0])
    with pytest.raises(InputError, match="query"):
        memory.explain(" ", "absent")
    with pytest.raises(InputError, match="weights"):
        memory.explain("query", ids[0], weights={"charm": 1.0})


def test_graph_recall_is_explained_by_its_profile(planted):
    memory = planted({"Alice leads Atlas": 0.5, "Bob likes tea": 0.6}, profile="zeromemory")
    ids = {text: memory.remember(text).memory.id for text in ("Alice leads Atlas", "Bob likes tea")}
    graph = profiles.load("zeromemory").for_graph(0.8, 2)
    for rank, hit in enumerate(memory.graph_recall("query Atlas", graph_weight=0.8, dry_run=True), 1):
        found = memory.explain("query Atlas", hit.memory.id, profile=graph)
        assert (found.rank, found.score_detail) == (rank, hit.score_detail)
    assert memory.explain("query Atlas", ids["Alice leads Atlas"], profile=graph).rank == 1


@pytest.mark.parametrize("profile", profiles.NAMES)
def test_without_the_embedding_the_lexical_answer_is_explained(planted, profile):
    class Down:
        name, dimension = "planted", 64

        def embed(self, texts, /):
            raise RuntimeError("down")

    memory = planted({"the vault key": 0.1, "something else": 0.9}, profile=profile)
    ids = [memory.remember(text, tags=[text[:3]]).memory.id for text in ("the vault key", "something else")]
    memory.services = replace(memory.services, embedder=Wrapped(Down()))
    answer = memory.recall("query vault", min_score=0.0, dry_run=True)
    assert answer.degraded == ("embedding",)
    for rank, hit in enumerate(answer, 1):
        found = memory.explain("query vault", hit.memory.id, min_score=0.0)
        assert (found.rank, found.score_detail, found.degraded) == (rank, hit.score_detail, ("embedding",))
    kept_away = memory.explain("query vault", ids[0], min_score=0.0, tags=["som"])
    assert (kept_away.stage, kept_away.score_detail) == ("filtered", answer[0].score_detail)


class Upside:
    """A reranker that likes best what stands last, or one that fails."""

    name = "upside"

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def scores(self, query, texts, /):
        if self.fails:
            raise RuntimeError("down")
        return np.arange(len(texts), dtype=np.float64)


def test_the_reranker_has_the_last_word(planted):
    memory, ids = ladder(planted, profile="zeromemory")
    memory.services = replace(memory.services, reranker=Upside(), rerank_top=8)
    for rank, hit in enumerate(memory.recall("query", dry_run=True), 1):
        found = memory.explain("query", hit.memory.id)
        assert (found.stage, found.rank, found.score_detail) == ("returned", rank, hit.score_detail)
        assert found.reason.startswith(f"The reranker upside put it at rank {rank} of 8, limit 5; by the profile it")
    first = memory.explain("query", ids[0])
    assert (first.stage, first.rank, first.by) == ("rerank", 8, ids[3])
    assert (first.path[-1].stage, first.path[-1].outcome) == ("rerank", "fell")
    past = memory.explain("query", ids[8])
    assert (past.stage, past.rank, past.by) == ("outranked", 9, ids[7])
    assert first.counterfactual is past.counterfactual is None


def test_a_reranker_that_fails_leaves_the_profiles_order(planted):
    memory, ids = ladder(planted, profile="zeromemory")
    memory.services = replace(memory.services, reranker=Upside(fails=True), rerank_top=8)
    answer = memory.recall("query", dry_run=True)
    assert answer.degraded == ("rerank",)
    assert [hit.memory.id for hit in answer] == ids[:5]
    for rank, id in enumerate(ids[:8], 1):
        found = memory.explain("query", id)
        assert (found.stage, found.rank) == ("returned" if rank <= 5 else "outranked", rank)
        assert found.degraded == ("rerank",)
        assert found.by == (None if rank <= 5 else ids[4])


def test_the_words_for_a_fate_are_a_closed_set():
    dropping = set(STAGES) - {"score", "spread", "trim"}
    around = {"out_of_scope", "forgotten", "not_stored", "filtered", "candidates", "outranked", "rerank", "returned"}
    assert set(OUTCOMES) == dropping | around
    result = re.findall(r"`(\w+)`", Explanation.__doc__.split("Attributes:")[0])
    assert set(OUTCOMES) <= set(result)
    assert all(fate in salience.help.TOPICS["explain"] for fate in OUTCOMES)


def test_a_memory_without_similarity_has_finite_scores(planted):
    memory = planted()
    stored = memory.remember("nothing planted").memory.id
    assert memory.explain("query", stored, profile="zeromemory").score_detail.similarity == pytest.approx(0, abs=1e-6)
    assert np.isfinite(memory.explain("query", stored, profile="memlayer").score_detail.final)
