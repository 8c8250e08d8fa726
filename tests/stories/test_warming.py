"""What a first recall would wait for, loaded ahead of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

import salience
from salience import InputError, compose
from salience import engine as engines
from salience.errors import EmbedderError
from salience.ports import FINGERPRINTED
from tests.contract.doubles import PlantedEmbedder
from waiting import PATIENCE


@pytest.fixture
def target(tmp_path):
    return tmp_path / "agent.db"


def joined():
    """Wait until nothing is warmed any more, and return how many engines were."""
    found = [thread for thread in threading.enumerate() if thread.name == "salience-warm"]
    for thread in found:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    return len(found)


@pytest.fixture
def begun(monkeypatch):
    """The engines whose warming was begun, of which none is warmed."""
    found = []
    monkeypatch.setattr(compose, "warm_in_background", found.append)
    return found


def test_nothing_is_warmed_by_default(target, begun, monkeypatch):
    salience.connect(target).close()
    salience.connect(target, warm=False).close()
    assert begun == []
    engine = salience.connect(target, warm=True)
    engine.close()
    assert begun == [engine]
    monkeypatch.setenv("SALIENCE_WARM", "true")
    salience.connect(target).close()
    salience.connect(target, warm=False).close()
    assert len(begun) == 2


def test_so_it_is_with_coroutines(target, begun):
    async def opened():
        async with salience.aconnect(target, warm=True) as memory:
            return memory.engine

    assert begun == [asyncio.run(opened())]


def test_a_server_has_loaded_its_own(begun):
    salience.connect("https://memory.example.org", warm=True).close()
    assert begun == []


def test_what_is_neither_true_nor_false_is_refused(target):
    with pytest.raises(InputError, match="warm"):
        salience.connect(target, warm="yes")


def test_warming_embeds_once_reads_the_store_and_counts_no_access(target, clock):
    embedder = PlantedEmbedder()
    with salience.connect(target, embedder=embedder, clock=clock) as memory:
        memory.remember("tea", user_id="alice", project="kitchen")
    embedder.texts.clear()
    with salience.connect(target, embedder=embedder, clock=clock) as memory:
        needs = []
        gather = memory.services.store.gather
        memory.services.store.gather = lambda need: needs.append(need) or gather(need)
        engines.warm_in_background(memory).join(PATIENCE)
        assert embedder.texts == [FINGERPRINTED]
        assert needs
        assert memory.get(memory.list(user_id="alice", project="kitchen").memories[0].id[-8:], user_id="alice",
                          project="kitchen").access_count == 0  # fmt: skip


def test_a_remote_embedder_is_not_called(target):
    embedder = PlantedEmbedder()
    embedder.remote = "embedder.example"
    with salience.connect(target, embedder=embedder) as memory:
        memory.remember("tea")
        embedder.texts.clear()
        engines.warm(memory)
        assert embedder.texts == []


def test_what_fails_ahead_is_left_to_the_first_recall(target):
    class Failing(PlantedEmbedder):
        def embed(self, texts, /):
            raise EmbedderError("embedder 'planted' failed. Wait.")

    with salience.connect(target, embedder=Failing(), warm=True) as memory:
        joined()
        assert memory.recall("tea").degraded == ("embedding",)
    engines.warm_in_background(memory).join(PATIENCE)  # one that is closed


@pytest.mark.slow
def test_a_process_may_end_while_the_model_loads(target):
    code = f"import salience; salience.connect({str(target)!r}, warm=True)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
