"""The labels of a write's conflicts: the judge's where there is one and it answers, and else those of the rules."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace

import pytest

import salience
from salience.compose import engine
from salience.errors import JudgeError, StaleError
from salience.remember.llm import JUDGED
from salience.settings import load
from tests.chat_double import ChatDouble
from tests.contract.doubles import PlantedEmbedder, StoppedClock
from waiting import PATIENCE

OLD, NEW = "The api listens on 8080", "The api listens on 9090"
SAID = {"I listen on 8080": "Ana", "I listen on 9090": "Ben"}
MANY = [f"The api listens on {port}" for port in range(5000, 5000 + JUDGED + 3)]


class Told:
    """A judge that answers as it is told, and keeps what it was asked."""

    name = "told"

    def __init__(self, answer="duplicate"):
        self.answer, self.pairs = answer, []

    def judge(self, pairs, /):
        self.pairs += pairs
        return self.answer(pairs) if callable(self.answer) else [self.answer] * len(pairs)


@pytest.fixture
def memory(target):
    axes = {**dict.fromkeys((OLD, NEW, *MANY), 1), **dict.fromkeys(SAID, 2)}
    embedder = PlantedEmbedder(dict.fromkeys(axes, 0.8), axes=axes)
    with closing(engine(load(), target, embedder=embedder, profile="mememory", clock=StoppedClock())) as made:
        yield made


def judged_by(memory, judge, seconds=5.0):
    memory.services = replace(memory.services, judge=judge, judge_timeout=seconds)
    return judge


def labels(receipt):
    return [(found.memory.content, found.label, found.because) for found in receipt.contradictions]


def by_rules(memory):
    return [(OLD, "update", ("number: 8080 -> 9090",))]


def test_the_label_of_the_judge_takes_the_place_of_that_of_the_rules(memory):
    memory.remember(OLD)
    judge = judged_by(memory, Told("update"))
    receipt = memory.remember(NEW)
    assert labels(receipt) == [(OLD, "update", ("judge: told",))]
    assert judge.pairs == [(NEW, OLD)]
    assert receipt.warning.startswith("CONTRADICTION DETECTED")


def test_the_judge_is_called_for_conflicts_only(memory):
    judge = judged_by(memory, Told())
    memory.remember("Tea is green")
    memory.remember("Bread is brown")
    memory.ingest([{"role": "user", "content": OLD}, {"role": "user", "content": NEW}], session_id="s")
    assert judge.pairs == []


def test_the_judge_is_not_called_for_settled_pairs(memory):
    judge = judged_by(memory, Told("contradiction"))
    memory.remember(OLD)
    assert [found.label for found in memory.remember(OLD, duplicate=True).contradictions] == ["duplicate"]
    drafts = [{"content": text, "speaker": speaker} for text, speaker in SAID.items()]
    last = memory.remember_many(drafts)[1]
    assert [found.label for found in last.contradictions] == ["related"]
    assert judge.pairs == []


def test_each_pair_of_texts_is_judged_once(memory):
    judge = judged_by(memory, Told("update"))
    receipts = memory.remember_many([{"content": OLD}, {"content": NEW}, {"content": NEW, "duplicate": True}])
    assert sorted(found.label for found in receipts[2].contradictions) == ["duplicate", "update"]
    assert judge.pairs == [(NEW, OLD)]


def test_only_the_most_similar_conflicts_are_judged(memory):
    memory.remember_many([{"content": text} for text in MANY])
    judge = judged_by(memory, Told("update"))
    found = memory.remember(NEW).contradictions
    assert [one.label for one in found] == ["update"] * JUDGED + [None] * 3
    assert [old for _, old in judge.pairs] == [one.memory.content for one in found[:JUDGED]]


def fails(pairs):
    raise JudgeError("judge 'told': it failed.")


def breaks(pairs):
    raise ZeroDivisionError(pairs[0][0])


@pytest.mark.parametrize(
    "answer",
    [fails, breaks, None, "same", 7, ["update"], lambda pairs: [], lambda pairs: ["update"] * 9, lambda pairs: None],
)
def test_after_any_failure_the_write_has_the_labels_of_the_rules(memory, answer):
    memory.remember(OLD)
    judged_by(memory, Told(answer))
    receipt = memory.remember(NEW)
    assert labels(receipt) == by_rules(memory)
    assert memory.get(receipt.memory.id).content == NEW


def test_a_judge_that_is_late_is_not_waited_for(memory):
    over = threading.Event()
    memory.remember(OLD)
    judged_by(memory, Told(lambda pairs: over.wait(PATIENCE) and ["update"]), 0.05)
    try:
        assert labels(memory.remember(NEW)) == by_rules(memory)
    finally:
        over.set()


def test_a_write_that_is_made_anew_is_judged_once(memory, monkeypatch):
    memory.remember(OLD)
    judge = judged_by(memory, Told("update"))
    apply, tries = memory.services.store.apply, []

    def late(changes, **options):
        tries.append(changes)
        if len(tries) == 1:
            raise StaleError("another writer was quicker")
        return apply(changes, **options)

    monkeypatch.setattr(memory.services.store, "apply", late)
    assert labels(memory.remember(NEW)) == [(OLD, "update", ("judge: told",))]
    assert (len(tries), judge.pairs) == (2, [(NEW, OLD)])


def hang(double):
    double.hangs = True


def refuse(double):
    double.status = 401


def babble(double):
    double.answer = lambda question: "Both are lovely."


@pytest.mark.parametrize("fail", [None, hang, refuse, babble])
def test_a_language_model_by_settings_alone(target, monkeypatch, fail):
    embedder = PlantedEmbedder({OLD: 0.95, NEW: 0.95}, axes={OLD: 1, NEW: 1})
    with ChatDouble(lambda question: {pair["label"]: "update" for pair in question}) as double:
        settings = {"JUDGE": "openai", "JUDGE_TIMEOUT": "5", "LLM_BASE_URL": double.url, "LLM_MODEL": "model-x"}
        for name, value in (settings | ({"JUDGE_TIMEOUT": "0.3"} if fail else {})).items():
            monkeypatch.setenv(f"SALIENCE_{name}", value)
        with closing(salience.connect(target, embedder=embedder, profile="mememory")) as memory:
            memory.remember(OLD)
            if fail:
                fail(double)
            receipt = memory.remember(NEW)
    assert labels(receipt) == (by_rules(memory) if fail else [(OLD, "update", ("judge: openai:model-x",))])
