"""Which of two memories holds, when somebody tidies up the older one or brings it back."""

from __future__ import annotations

import pytest

from salience.engine import Engine

ANN = {"user_id": "ann"}
BERLIN, ROME = "I live in Berlin", "I live in Rome"


@pytest.fixture
def memory(planted) -> Engine:
    return planted({BERLIN: 0.9, ROME: 0.9, "the boss is Cara": 0.9, "the boss is Dora": 0.9})


def found(memory: Engine, **how: object) -> list[str]:
    """Return the texts of the hits that no other memory replaces."""
    hits = memory.recall("query", min_score=0.0, limit=50, **ANN, **how).hits
    return [hit.memory.content for hit in hits if hit.memory.replaced_by is None]


def test_an_older_statement_that_is_told_anew_is_the_one_that_holds(memory, clock):
    old = memory.remember(BERLIN, **ANN).memory
    clock.advance(days=1)
    memory.remember(ROME, **ANN)
    clock.advance(days=1)
    memory.update(old.id, content=f"{BERLIN}, again", **ANN)
    assert found(memory) == [f"{BERLIN}, again"]


def test_who_brings_back_what_another_memory_replaced_is_told_of_that_one(memory, clock):
    """It is live again, but some recalls leave it out: "restored" alone would be half the truth."""
    old = memory.remember("the boss is Cara", **ANN).memory
    clock.advance(days=1)
    new = memory.remember("the boss is Dora", supersedes=old.id, **ANN).memory
    receipt = memory.restore(old.id, 1, **ANN)
    assert found(memory) == ["the boss is Dora"]
    assert receipt.warning is not None
    assert new.short_id in receipt.warning
    memory.forget(new.id, **ANN)
    assert found(memory) == ["the boss is Cara"]


def test_the_warning_of_a_restored_memory_tells_of_a_later_statement_of_its_fact(memory, clock):
    old = memory.remember(BERLIN, **ANN).memory
    memory.forget(old.id, **ANN)
    clock.advance(days=1)
    new = memory.remember(ROME, **ANN).memory
    assert new.short_id in str(memory.restore(old.id, **ANN).warning)
    clock.advance(days=1)
    assert found(memory) == [ROME]
    memory.update(old.id, content="I live in Paris", **ANN)
    anew = memory.restore(old.id, 1, **ANN)  # told anew: now it is the latest
    assert anew.superseded == new.id
    assert anew.warning.startswith(f"This replaces memory {new.short_id} (fact user.residence);")
    assert found(memory) == [BERLIN]


def test_nobody_is_told_of_a_memory_that_is_not_visible_to_the_caller(memory, clock):
    shared = memory.remember(BERLIN, fact_key="team.residence").memory
    clock.advance(days=1)
    memory.remember(ROME, fact_key="team.residence", user_id="bob")
    memory.remember("the boss is Dora", supersedes=shared.id, user_id="bob")
    memory.forget(shared.id, **ANN)
    assert memory.restore(shared.id, **ANN).warning is None
