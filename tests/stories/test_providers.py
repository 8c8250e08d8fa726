"""An embedding provider that fails, end to end: an endpoint on loopback that speaks OpenAI's protocol, or does not."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import salience
from posts import Posted, Reply, answering
from salience.rank import profiles
from salience.records import ANY, Draft
from waiting import PATIENCE

pytestmark = pytest.mark.slow

DIMENSION = 64
KEY = "sk-very-secret"
TEXT = "Ann keeps bees behind the orchard"
ASKED = "Who keeps bees?"
OTHER = "The invoice of Parcel is overdue"
UNRELATED = "overdue invoice"
EVERYWHERE = {"environment": ANY, "project": ANY, "user_id": ANY, "agent_id": ANY}


def vector(text: str) -> list[float]:
    """Return the sum of a random vector for each word: texts are alike as far as they share words."""
    words = [word.strip("?.,").lower() for word in text.split()]
    seeds = [int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") for word in words]
    return np.sum([np.random.default_rng(seed).normal(size=DIMENSION) for seed in seeds], axis=0).tolist()


def answer(texts: list[str], vectors: Callable[[str], Any] = vector) -> dict[str, Any]:
    return {"data": [{"index": place, "embedding": vectors(text)} for place, text in enumerate(texts)]}


@dataclass(frozen=True)
class Way:
    """How an endpoint answers: what it says to texts, under which status, with which headers, or never."""

    body: Callable[[list[str]], Any] = answer
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False


WELL = Way()
FAILURES = {
    "hangs": Way(hangs=True),
    "500": Way(status=500),
    "503": Way(status=503),
    "429": Way(status=429, headers={"Retry-After": "20"}),
    "401": Way(status=401),
    "wrong dimension": Way(lambda texts: answer(texts, lambda text: vector(text)[:-1])),
    "NaN": Way(lambda texts: answer(texts, lambda text: [float("nan")] * DIMENSION)),
    "fewer": Way(lambda texts: {"data": answer(texts)["data"][1:]}),
    "zeros": Way(lambda texts: answer(texts, lambda text: [0.0] * DIMENSION)),
    "no JSON": Way(lambda texts: b"<html>busy</html>"),
}
REMEDIES = {
    "hangs": "did not answer within 0.2 s. Check the network and the provider's status",
    "500": "status 500. Check SALIENCE_OPENAI_BASE_URL, the network and the provider's status",
    "503": "status 503. Check SALIENCE_OPENAI_BASE_URL, the network and the provider's status",
    "429": "status 429. Check the quota of the key, or try again later",
    "401": "status 401. Check SALIENCE_OPENAI_API_KEY",
    "wrong dimension": "dimension 63; expected 64. Set SALIENCE_OPENAI_DIMENSION",
    "NaN": "embeddings with NaN or infinity. Check that SALIENCE_OPENAI_BASE_URL",
    "fewer": "0 embeddings for 1 texts. Check that SALIENCE_OPENAI_BASE_URL",
    "zeros": "a vector of zeros. Check the model or the endpoint",
    "no JSON": "something else than embeddings. Check that SALIENCE_OPENAI_BASE_URL",
    "refused": "did not answer (ConnectError). Check SALIENCE_OPENAI_BASE_URL, the network",
}


@dataclass
class Endpoint:
    """A server that answers in the way that it is set to, and keeps the texts that it embedded well."""

    way: Way = WELL
    embedded: list[str] = field(default_factory=list)
    host: str = ""

    def answer(self, request: Posted) -> Reply | None:
        texts, way = request.json["input"], self.way
        if way.hangs:
            return None
        if way is WELL:
            self.embedded += texts
        return Reply(way.body(texts), way.status, way.headers)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    double = Endpoint()
    with answering(double.answer) as double.host:
        chosen(monkeypatch, double.host)
        yield double


def chosen(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """Let the settings choose the endpoint."""
    settings = {
        "BASE_URL": f"http://{host}/v1", "MODEL": "model-x", "DIMENSION": str(DIMENSION), "API_KEY": KEY,
        "TIMEOUT": "20", "RETRIES": "0",
    }  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(f"SALIENCE_OPENAI_{name}", value)
    monkeypatch.setenv("SALIENCE_EMBED_PATIENCE", "5")
    monkeypatch.setenv("SALIENCE_TOKEN_VECTORS", "off")  # or the first write would wait until minilm is loaded


@pytest.fixture
def nobody(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a host at which nobody listens, and have the settings name it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setenv("SALIENCE_OPENAI_BASE_URL", f"http://{host}/v1")
    return host


@pytest.fixture
def connect(target, clock):
    """Return a function that connects, again and again, to one store with the openai embedder."""
    made = []

    def call(**options):
        if target == ":memory:" and made:
            return made[0]
        made.append(salience.connect(target, embedder="openai", clock=clock, **options))
        return made[-1]

    yield call
    for engine in made:
        engine.close()


def contents(found):
    return [hit.memory.content for hit in found]


def pending(memory):
    return memory.stats(**EVERYWHERE).pending


@pytest.mark.parametrize("failure", FAILURES)
def test_a_memory_written_during_an_outage_is_found_by_words_and_embedded_later(
    endpoint, connect, monkeypatch, failure
):
    if failure == "hangs":
        monkeypatch.setenv("SALIENCE_EMBED_PATIENCE", "0.2")
        monkeypatch.setenv("SALIENCE_OPENAI_TIMEOUT", "0.4")
    memory = connect()
    memory.remember(OTHER)
    endpoint.way = FAILURES[failure]
    receipt = memory.remember(TEXT)
    assert receipt.status == "pending"
    assert receipt.warning.startswith("Stored without a vector for now")
    assert REMEDIES[failure] in receipt.warning
    assert (endpoint.host in receipt.warning) == (failure != "zeros")  # told once the numbers are read, by the model
    assert "openai:model-x" in receipt.warning
    assert "bees" not in receipt.warning
    assert KEY not in receipt.warning
    assert memory.get(receipt.memory.id).content == TEXT
    assert pending(memory) == 1

    found = memory.recall(ASKED, deadline_ms=300 if failure == "hangs" else None)
    assert found.degraded == ("embedding",)
    assert contents(found)[0] == TEXT

    report = memory.upkeep()
    assert (report.embedded, report.pending) == (0, 1)
    assert "openai:model-x" in report.warning

    endpoint.way = WELL
    found = memory.recall(ASKED)
    assert found.degraded == ()
    assert contents(found)[0] == TEXT
    assert contents(memory.recall(UNRELATED))[0] == OTHER

    report = memory.upkeep()
    assert (report.embedded, report.pending, report.warning) == (1, 0, None)
    assert endpoint.embedded[-1] == TEXT
    assert contents(memory.recall(ASKED))[0] == TEXT
    assert memory.recall(ASKED, profile="memlayer", min_score=0.0)[0].score_detail.final > 0


def test_a_provider_that_is_not_there_is_named(nobody, connect):
    receipt = connect().remember(TEXT)
    assert receipt.status == "pending"
    assert f"{nobody} {REMEDIES['refused']}" in receipt.warning


@pytest.mark.parametrize("name", profiles.NAMES)
def test_every_profile_finds_what_is_pending_by_its_words(endpoint, connect, name):
    memory = connect()
    memory.remember_many([Draft(content=f"Note {number} about {OTHER}") for number in range(9)])
    endpoint.way = FAILURES["500"]
    assert memory.remember(TEXT).status == "pending"
    degraded = memory.recall(ASKED, profile=name, dry_run=True)
    endpoint.way = WELL
    whole = memory.recall(ASKED, profile=name, dry_run=True)
    assert (degraded.degraded, whole.degraded) == (("embedding",), ())
    assert contents(degraded)[0] == contents(whole)[0] == TEXT
    assert TEXT not in contents(memory.recall(UNRELATED, profile=name, dry_run=True, limit=1))


def test_a_write_waits_no_longer_for_retry_after_than_its_patience(endpoint, connect, monkeypatch):
    monkeypatch.setenv("SALIENCE_OPENAI_RETRIES", "3")
    monkeypatch.setenv("SALIENCE_EMBED_PATIENCE", "0.2")
    memory = connect()
    endpoint.way = FAILURES["429"]  # to be asked again after 20 s
    receipt = memory.remember(TEXT)
    assert receipt.status == "pending"
    assert f"{endpoint.host} did not answer within 0.2 s" in receipt.warning


def test_all_ways_of_writing_leave_what_cannot_be_embedded_pending(endpoint, connect):
    memory = connect()
    kept = memory.remember("Ann keeps goats").memory
    endpoint.way = FAILURES["503"]
    many = memory.remember_many([Draft(content="One note"), Draft(content="Another note")])
    turns = memory.ingest([{"role": "user", "content": "Good morning"}], session_id="s")
    changed = memory.update(kept.id, content=TEXT)
    assert [receipt.status for receipt in (*many, *turns)] == ["pending"] * 3
    assert endpoint.host in changed.warning
    assert pending(memory) == 4
    assert contents(memory.recall(ASKED))[0] == TEXT
    endpoint.way = WELL
    assert TEXT in contents(memory.recall("goats", min_score=0.0, limit=10))
    endpoint.embedded.clear()
    assert (memory.upkeep().embedded, pending(memory)) == (4, 0)
    assert endpoint.embedded[-4:] == [TEXT, "One note", "Another note", "Good morning"]  # in the order of their ids


def test_the_next_write_that_succeeds_embeds_a_few_that_are_pending(endpoint, connect):
    memory = connect()
    endpoint.way = FAILURES["500"]
    for number in range(20):
        memory.remember(f"Note {number}")
    endpoint.way = WELL
    memory.remember("One more")
    assert pending(memory) == 4
    memory.remember("And one more")
    assert pending(memory) == 0


def test_an_empty_store_gets_its_first_vectors_after_an_outage(endpoint, connect, target):
    memory = connect()
    endpoint.way = FAILURES["500"]
    memory.remember(TEXT)
    report = memory.upkeep()
    assert (report.embedded, report.pending) == (0, 1)
    assert f"embed: embedder 'openai:model-x': {endpoint.host} answered with status 500" in report.warning
    endpoint.way = WELL
    assert memory.upkeep().embedded == 1
    assert contents(memory.recall(ASKED, profile="mememory")) == [TEXT]


def test_a_refused_text_does_not_block_the_texts_after_it(endpoint, connect):
    def picky(texts: list[str]) -> Any:
        return {"error": "too long"} if any("poison" in text for text in texts) else answer(texts)

    memory = connect()
    endpoint.way = FAILURES["500"]
    receipts = [memory.remember(f"Note {number}" + " poison" * (number in (0, 7))) for number in range(30)]
    endpoint.way = Way(picky)
    report = memory.upkeep()
    assert (report.embedded, report.pending) == (28, 2)
    for number in (0, 7):
        assert receipts[number].memory.short_id in report.warning
    assert "poison" not in report.warning
    assert contents(memory.recall("poison 7", dry_run=True))[0] == "Note 7 poison"
    endpoint.way = WELL
    assert memory.upkeep().embedded == 2


KILLED = """
import os, signal, sys
import salience
memory = salience.connect(sys.argv[1], embedder="openai")
receipts = [memory.remember(text) for text in sys.argv[2:]]
print(*(receipt.status for receipt in receipts), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_is_pending_when_its_process_is_killed_is_still_found_and_embedded_by_another(endpoint, tmp_path):
    file = str(tmp_path / "agent.db")
    endpoint.way = FAILURES["503"]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, file, TEXT, OTHER],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "pending pending\n"), killed.stderr
    with salience.connect(file, embedder="openai") as memory:
        assert pending(memory) == 2
        assert contents(memory.recall(ASKED))[0] == TEXT
        endpoint.way = WELL
        report = memory.upkeep()
        assert (report.embedded, report.pending, report.warning) == (2, 0, None)
        assert endpoint.embedded[:2] == [TEXT, OTHER]
        assert contents(memory.recall(ASKED))[0] == TEXT
