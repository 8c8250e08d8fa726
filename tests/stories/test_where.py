"""Conditions on metadata: `where` in every verb that reads many memories, and in erase and export."""

from __future__ import annotations

import io
import json

import pytest

from salience import InputError
from salience.records import Memory
from salience.records.where import OPERATORS
from tests.contract.doubles import PlantedEmbedder, StoppedClock

pytestmark = pytest.mark.every_surface
PLANS = {"Ann": ("pro", 5), "Bob": ("free", 1), "Cy": ("pro", 2), "Dee": (None, 0)}


@pytest.fixture
def memory(connect, target):
    with connect(target, embedder=PlantedEmbedder()) as made:
        for name, (plan, seats) in PLANS.items():
            metadata = {} if plan is None else {"plan": plan, "seats": seats, "city": name[0]}
            made.remember(f"{name} is a customer of the shop", user_id="shop", metadata=metadata)
        yield made


def names(memories) -> list[str]:
    found = [one if isinstance(one, Memory) else one.memory for one in memories]
    return sorted(one.content.split()[0] for one in found)


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ({"plan": "pro"}, ["Ann", "Cy"]),
        ({"plan": "pro", "seats": {"$gte": 5}}, ["Ann"]),
        ({"plan": {"$ne": "pro"}}, ["Bob", "Dee"]),
        ({"plan": {"$in": ["free", None]}}, ["Bob", "Dee"]),
        ({"seats": {"$gt": 1, "$lt": 5}}, ["Cy"]),
        ({"seats": {"$lte": 1}}, ["Bob"]),
        ({"city": "C", "plan": {"$eq": "pro"}}, ["Cy"]),
        ({"plan": "enterprise"}, []),
        ({}, ["Ann", "Bob", "Cy", "Dee"]),
    ],
)
def test_every_read_takes_the_same_conditions(memory, where, found):
    given = {"user_id": "shop", "where": where}
    assert names(memory.recall("Who is a customer?", limit=10, **given)) == found
    assert names(memory.recall_many(["Who is a customer?"], limit=10, **given)[0]) == found
    assert names(memory.graph_recall("Who is a customer?", limit=10, **given)) == found
    assert names(memory.context("Who is a customer?", limit=10, **given).hits) == found
    assert names(memory.list(**given)) == found
    written = io.StringIO()
    memory.export(written, **given)
    lines = [json.loads(line) for line in written.getvalue().splitlines()[1:]]
    assert sorted(line["memory"]["content"].split()[0] for line in lines) == found


def test_an_explanation_names_the_conditions_that_a_memory_does_not_meet(memory):
    bob = next(one for one in memory.list(user_id="shop") if one.content.startswith("Bob"))
    found = memory.explain("Who is a customer?", bob.id, user_id="shop", where={"plan": "pro"})
    assert found.stage == "filtered"
    assert "its metadata does not meet {'plan': 'pro'}" in found.reason.lower()
    assert "where={'plan': 'pro'}" in found.counterfactual


def test_erase_deletes_only_what_meets_the_conditions(memory):
    assert memory.erase(user_id="shop", where={"plan": "pro"}, dry_run=True) == 2
    assert memory.erase(user_id="shop", where={"plan": "pro"}) == 2
    assert names(memory.list(user_id="shop")) == ["Bob", "Dee"]
    both = [one.id for one in memory.list(user_id="shop")]
    assert memory.erase(both, user_id="shop", where={"plan": "free"}) == 1
    assert names(memory.list(user_id="shop")) == ["Dee"]
    with pytest.raises(InputError, match="names no memory"):
        memory.erase(where={"plan": "free"})


@pytest.mark.local("a clock that stands still")
def test_an_answer_as_of_an_earlier_time_reads_the_metadata_of_that_time(connect, target):
    clock = StoppedClock()
    with connect(target, embedder=PlantedEmbedder(), clock=clock) as made:
        stored = made.remember("Ann is a customer", metadata={"plan": "free"}).memory
        then = clock()
        clock.advance(days=1)
        made.update(stored.id, metadata={"plan": "pro"})
        for as_of, plan in ((then, "free"), (None, "pro")):
            for wanted in ("free", "pro"):
                hits = made.recall("Who is a customer?", as_of=as_of, where={"plan": wanted})
                assert names(hits) == (["Ann"] if wanted == plan else [])


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"plan": {"$like": "p%"}}, r"where\.plan '\$like' is unknown. Choose one of: \$eq, "),
        ({"$gt": 5}, r"where\.\$gt is an operator without a key"),
        ({"plan": ["pro"]}, r"where\.plan has the type \w+. .*\$in"),
        ({"seats": {"$gt": True}}, r"where\.seats\.\$gt is True. Give text or a number"),
        ({"seats": {"$in": 5}}, r"where\.seats\.\$in is 5. Give a list"),
        ({"seats": {"$in": [[1]]}}, r"where\.seats\.\$in\[0\] has the type"),
        ({"address": {}}, r"where\.address is an empty object|where\.address is empty"),
        ({"address": {"city": "C"}}, r"where\.address 'city' is unknown. Choose one of: \$eq, "),
        ({'a"b': 1}, "is no key to look up"),
        ({" a": 1}, "is no key to look up"),
        ({"seats": 2**53 + 1}, "Give a number from "),
        ({f"key{number}": number for number in range(101)}, "has 101 keys"),
    ],
)
def test_conditions_that_mean_nothing_are_refused(memory, where, message):
    for verb in (memory.list, lambda **given: memory.recall("who", **given)):
        with pytest.raises(InputError, match=message):
            verb(user_id="shop", where=where)


def test_the_operators_are_langgraphs_and_in():
    assert {*OPERATORS} == {"$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in"}
