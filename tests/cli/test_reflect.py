"""`salience reflect`: what it tells people, pipes and programs."""

from __future__ import annotations

import pytest

from salience.models import registry
from tests.contract.doubles import PlantedEmbedder

TEA = ("Ana drinks green tea at breakfast", "Ana buys her tea in Porto", "Tea keeps Ana awake")


@pytest.fixture
def tea(run_json, monkeypatch):
    """Store three memories that belong together; return their ids."""
    embedder = PlantedEmbedder(dict.fromkeys(TEA, 0.9), axes=dict.fromkeys(TEA, 1))
    monkeypatch.setitem(registry.EMBEDDERS, "planted", lambda _: embedder)
    return [run_json("remember", text, "--user", "ana")["memory"]["id"] for text in TEA]


def test_a_pipe_gets_a_line_a_reflection_and_the_counts(run, run_json, tea):
    lines = run("reflect", "--user", "ana").stdout.splitlines()
    made = run_json("list", "--user", "ana", "--kind", "reflection")["memories"][0]
    assert lines == [
        f"made\t{made['id']}\t3 memories\ttea\t{made['content']}",
        "3 memories examined: 1 made, 0 renewed, 0 retired, 0 unchanged",
    ]
    assert run("reflect", "--user", "ana").stdout == "3 memories examined: 0 made, 0 renewed, 0 retired, 1 unchanged\n"


def test_json_has_the_reflections_with_their_sources(run_json, tea):
    found = run_json("reflect", "--user", "*")
    assert [made["sources"] for made in found["made"]] == [tea]
    assert found["made"][0]["metadata"]["subject"] == "tea"
    assert (found["examined"], found["unchanged"], found["fell_back"], found["dry_run"]) == (3, 0, 0, False)


def test_renewed_and_retired_reflections_is_reported(run, tea):
    run("reflect", "--user", "ana")
    run("update", tea[0], "--content", TEA[1], "--user", "ana")
    assert run("reflect", "--user", "ana").stdout.startswith("renewed\t")
    printed = run("reflect", "--user", "ana", env={"SALIENCE_REFLECT_LEAST": "4"}).stdout
    assert printed.startswith("retired\t")
    assert "1 retired" in printed


def test_an_empty_scope_says_where_memories_are_seen(run, tea):
    assert "--user" in run("reflect", terminal=True).stdout
    assert run("reflect").stdout == "0 memories examined: 0 made, 0 renewed, 0 retired, 0 unchanged\n"


def test_a_summariser_that_fails_is_reported(run, tea):
    env = {
        "SALIENCE_SUMMARISER": "openai",
        "SALIENCE_LLM_BASE_URL": "http://127.0.0.1:1/v1",
        "SALIENCE_LLM_RETRIES": "0",
    }
    printed = run("reflect", "--user", "ana", env=env).stdout
    assert printed.splitlines()[-1].endswith("; 1 without a summary, since the summariser failed")
