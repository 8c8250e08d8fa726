"""The change that an explanation names does what it promises, when the change is made and the question asked again."""

from __future__ import annotations

import re
from typing import Any

import pytest

import salience
from salience import Explanation
from salience.ports import Revise
from salience.rank import profiles
from salience.records import Relation

pytestmark = pytest.mark.slow

ARGUMENTS = ("limit", "min_score")
MOST = 50


def promised(found: Explanation) -> int:
    """Return the rank that the counterfactual names."""
    assert found.counterfactual is not None, found
    return int(re.search(r"at rank (\d+)", found.counterfactual)[1])


def make(memory: Any, found: Explanation, **where: Any) -> dict[str, Any]:
    """Make the changes of memories that an explanation names, and return its arguments of recall."""
    change = dict(found.change)
    arguments = {name: change.pop(name) for name in ARGUMENTS if name in change}
    if "dismiss" in change:
        memory.dismiss(**change.pop("dismiss"), **where)
    if "forget" in change:
        memory.forget(change.pop("forget"), **where)
    if change:
        memory.update(found.id, **change, **where)
    return arguments


def keeps(memory: Any, question: str, id: str, **asked: Any) -> Explanation:
    """Return an explanation whose change, once made, gives the memory the rank that it promises."""
    found = memory.explain(question, id, **asked)
    rank = promised(found)
    asked = {**asked, **make(memory, found)}
    assert memory.recall(question, dry_run=True, **asked)[rank - 1].memory.id == id, found
    return found


@pytest.fixture
def memory(clock):
    with salience.connect(":memory:", clock=clock) as engine:
        yield engine


def stored(memory, *drafts):
    """Store texts, or drafts, in order, and return their ids."""
    given = (one if isinstance(one, dict) else {"content": one} for one in drafts)
    return [memory.remember_many([one])[0].memory.id for one in given]


WINDOWS = ("The deploy window is Tuesday at 9", "The deploy window is Thursday at 10")
HOMES = ("I live in Berlin", "I live in Lisbon now")
NOISE = ("Alice likes green tea", "The invoice for atlas is due in March", "Bob plays the cello on Sundays")


@pytest.mark.parametrize(
    ("drafts", "question", "explained", "asked", "key"),
    [
        pytest.param((*NOISE, *WINDOWS), "When is the deploy window?", 3, {}, "dismiss", id="relation of the model"),
        pytest.param((*NOISE, *HOMES), "Where do I live?", 3, {}, "dismiss", id="relation of a fact key"),
        pytest.param((*NOISE, *HOMES), "Where do I live?", 3, {"limit": 1}, "dismiss", id="past a limit of 1"),
        pytest.param((*NOISE, *HOMES), "Where did I live before?", 4, {}, "dismiss", id="a question about the past"),
        pytest.param(
            (*NOISE, {"content": WINDOWS[0], "fact_key": "window"}, {"content": WINDOWS[1], "fact_key": "window"}),
            "When is the deploy window?", 3, {}, "dismiss", id="fact key of a caller",
        ),
        pytest.param(
            ("The bicycle of Ann is in the shed", "Hers has two wheels and a bell"),
            "Where is the bicycle of Ann with the bell?", 1, {}, "tags", id="more words",
        ),
        pytest.param(
            ("Alice paid the plumber on Monday", "Alice paid the carpenter on Monday"),
            "Whom did Alice pay for the plumbing of the kitchen?", 1, {}, "tags", id="more words and one name",
        ),
        pytest.param(
            ({"content": "The tea is on the top shelf", "weight": 0.3}, "Coffee and tea are sold at the corner"),
            "Where is the tea?", 0, {}, "weight", id="a low weight",
        ),
        pytest.param(
            ({"content": "The red key opens the shed", "importance": 1.0},
             {"content": "The red key opens the barn", "importance": 0.0}),
            "What does the red key open?", 1, {"profile": "zeromemory"}, "importance", id="importance",
        ),
        pytest.param(
            ({"content": "My sister came with a cake", "speaker": "Bob"},
             {"content": "The plum cake with cream was perfect", "speaker": "Carol", "weight": 0.3}),
            "What did Bob tell about the plum cake with cream?", 1, {}, "weight", id="another speaker",
        ),
        pytest.param(
            (*(f"Alice likes tea number {n}" for n in range(4)), "The pump hums"),
            "Which tea does Alice like?", 4, {"limit": 2, "min_score": 0.0, "profile": "memlayer"}, "limit", id="limit",
        ),
        pytest.param(
            (*NOISE, *HOMES), "Where do I live?", 3, {"profile": "memorysync"}, "fact_key", id="one memory of a fact"
        ),
    ],
)  # fmt: skip
def test_the_change_gives_the_rank_that_it_promises(memory, drafts, question, explained, asked, key):
    id = stored(memory, *drafts)[explained]
    assert key in keeps(memory, question, id, **asked).change


@pytest.mark.parametrize(("profile", "said"), [("salience", {"supersedes": 0}), ("salience", {"fact_key": "home"})])
def test_a_memory_that_a_caller_replaced_names_the_call_that_undoes_it(memory, profile, said):
    (old,) = stored(memory, {"content": HOMES[0], "fact_key": said.get("fact_key")})
    given = {name: old if value == 0 else value for name, value in said.items()}
    (new,) = stored(memory, {"content": HOMES[1], **given})
    found = keeps(memory, "Where do I live?", old, profile=profile)
    assert found.stage == "replaced"
    assert "a caller said so" in found.reason
    assert found.change["dismiss"] == {"id": new, "other_id": old}


def test_a_dismissal_counts_the_next_memory_that_replaces_the_same_one(memory):
    old, middle = stored(memory, *HOMES)
    (new,) = stored(memory, {"content": "Madrid is my home now", "supersedes": old})
    found = keeps(memory, "Where do I live?", old)
    assert (found.stage, found.by, found.change["dismiss"]["id"], promised(found)) == ("replaced", new, new, 2)
    assert memory.recall("Where do I live?", dry_run=True)[0].memory.id == middle


def test_a_name_of_a_speaker_is_no_tag(memory):
    stored(memory, {"content": "The tea is green", "speaker": "Bob"})
    (id,) = stored(memory, {"content": "I drink black tea, the strong one", "speaker": "Carol"})
    found = memory.explain("Which tea does Bob drink?", id)
    assert "mainly by speaker" in found.reason
    assert "tags" not in found.change


def test_a_relation_that_a_question_names_is_told_with_its_probability_and_author(memory):
    old, new = stored(memory, *WINDOWS)
    found = memory.explain("When is the deploy window?", old)
    assert re.search(
        rf"{new[-8:]} is first with 0\.\d+: it takes over the score of this memory, which it replaces "
        r"\(probability 0\.\d\d, by the model: number\)\.$",
        found.reason,
    )
    past = memory.explain("What was the deploy window before?", new)
    assert past.by == old
    assert "which replaces it (probability" in past.reason


def test_the_first_hit_has_nothing_above_it(memory):
    first, second = stored(memory, "The pump hums at night", "The pump was red")
    found = memory.explain("When does the pump hum?", first)
    assert (found.rank, found.by, found.above, found.counterfactual) == (1, None, (), None)
    assert memory.explain("When does the pump hum?", second).by == first


@pytest.mark.parametrize("profile", profiles.NAMES)
def test_the_parts_add_up_to_the_difference_of_the_scores(memory, profile):
    texts = [*NOISE, *WINDOWS, *HOMES, "Alice lives in Porto", "Bob likes the tea of Alice"]
    ids = stored(memory, *({"content": text, "importance": place / 10, "weight": 1 - place / 12}
                           for place, text in enumerate(texts)))  # fmt: skip
    seen = 0
    for question in (
        "Where do I live?",
        "When is the deploy window?",
        "What does Alice like?",
        "Where did I live before?",
    ):
        asked = {"profile": profile, "min_score": 0.0, "limit": 3}
        answer = memory.recall(question, dry_run=True, **asked)
        for id in ids:
            found = memory.explain(question, id, **asked)
            if found.stage in ("returned", "outranked") and found.rank > 1:
                seen += 1
                assert found.by == answer[0].memory.id
                gap = answer[0].score - found.score_detail.final
                assert sum(part.contribution for part in found.above) == pytest.approx(gap, abs=1e-9)
            else:
                assert found.above == ()
    assert seen >= 8


def test_an_explanation_writes_nothing(memory):
    ids = stored(memory, *NOISE, *WINDOWS, *HOMES)
    before = [memory.history(id) for id in ids], memory.changes().changes
    for question in ("Where do I live?", "When is the deploy window?"):
        for id in ids:
            memory.explain(question, id, limit=2)
    assert ([memory.history(id) for id in ids], memory.changes().changes) == before


def test_a_limit_is_named_alone_only_if_nothing_else_returns_the_memory(memory):
    ids = stored(memory, *(f"Alice likes tea number {n}" for n in range(6)), "The pump hums")
    found = memory.explain("Which tea does Alice like?", ids[-1], limit=3, min_score=0.0, profile="memlayer")
    if found.change.keys() == {"limit"}:
        assert found.counterfactual.startswith("Only a larger limit would return it: a limit of ")
        assert "is first with" in found.reason
    near = memory.explain("Which tea does Alice like?", ids[4], limit=3, profile="zeromemory")
    assert near.change
    assert near.change.keys() != {"limit"}
    assert "As it is, a limit of " in near.counterfactual


OFFICES = ("Our office is on Main Street", "We rent our office on Elm Road")


def decide(memory, id, *relations):
    """Store the next version of a memory with these relations to older ones, as if the model had found them."""
    old = memory.get(id)
    memory.services.store.apply([Revise(old.changed("update", memory.services.clock(), relations=relations))])


def test_a_newer_memory_of_the_same_thing_may_supersede_the_first_hit(memory):
    first, newer = stored(memory, OFFICES[0], "Our desks are on Elm Road")
    decide(memory, newer, Relation(first, "replaces", 0.25, "model", "a later value of the same thing"))
    found = keeps(memory, "Where is our office?", newer)
    assert found.change == {"supersedes": first}
    assert found.counterfactual.startswith(f"If it replaces {first[-8:]}, update(id='{newer[-8:]}', supersedes=")
    assert memory.explain("Where is our office?", first).stage == "replaced"


def test_a_pair_that_a_caller_dismissed_is_not_said_to_supersede(memory):
    first, newer = stored(memory, *OFFICES)
    memory.dismiss(newer, first)
    assert "supersedes" not in memory.explain("Where is our office?", newer).change


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (OFFICES[0], "The office of Bob is on Main Street"),
        (OFFICES[0], "Our office is closed on Sundays"),
        (OFFICES[0], NOISE[1]),
    ],
)
def test_a_memory_about_something_else_is_not_said_to_supersede(memory, first, second):
    (old,), (id,) = stored(memory, first), stored(memory, second)
    decide(memory, id)
    found = memory.explain("Where is our office?", id, min_score=0.0)
    assert found.by == old
    assert "supersedes" not in found.change


def test_an_older_memory_is_not_said_to_supersede_a_newer_one(memory):
    old, new = stored(memory, *OFFICES[::-1])
    decide(memory, new)
    found = memory.explain("Where is our office?", old)
    assert found.by == new
    assert "supersedes" not in found.change


def test_a_relation_of_other_memories_is_dismissed_only_to_put_the_memory_first(memory):
    *_, brother = stored(memory, *HOMES, "My brother lives in Oslo")
    found = memory.explain("Where do I live?", brother, limit=2)
    assert (found.stage, "dismiss" in found.change) == ("outranked", False)


def test_the_dismissal_of_a_callers_replacement_needs_no_weight(planted):
    memory = planted({"Anna likes tea": 0.9, "Anna likes coffee": 0.9})
    old = memory.remember("Anna likes tea").memory
    new = memory.remember("Anna likes coffee", supersedes=old.id).memory
    found = memory.explain("What does Anna like?", old.id)
    assert found.stage == "replaced"
    assert found.change == {"dismiss": {"id": new.id, "other_id": old.id}}
    memory.dismiss(new.id, old.id)
    assert memory.explain("What does Anna like?", old.id).rank == 1
