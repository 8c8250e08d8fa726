"""Rerankers behind HTTP endpoints: the protocols of Text Embeddings Inference, Cohere and Jina, on loopback."""

from __future__ import annotations

import threading

import pytest

import salience
from posts import Reply, answering
from salience import settings as salience_settings
from salience.errors import InputError, RerankerError
from salience.models.registry import reranker
from salience.models.rerank_endpoint import EndpointReranker
from tests.contract.doubles import PlantedEmbedder
from waiting import PATIENCE

TEXTS = ["a cat", "a dog that barks", "a bird"]


def tei(asked):
    """Answer as Text Embeddings Inference: a list, best first."""
    scored = [{"index": place, "score": len(text) / 100} for place, text in enumerate(asked["texts"])]
    return sorted(scored, key=lambda one: -one["score"])


def cohere(asked):
    """Answer as Cohere and Jina: results, best first, at most `top_n`."""
    scored = [{"index": place, "relevance_score": len(text) / 100} for place, text in enumerate(asked["documents"])]
    return {"id": "1", "results": sorted(scored, key=lambda one: -one["relevance_score"])[: asked["top_n"]]}


class Endpoint:
    """A server that answers with what `answer` returns, and keeps what it was asked."""

    def __init__(self):
        self.answer, self.status, self.hangs = tei, 200, threading.Event()
        self.hangs.set()
        self.asked, self.keys, self.paths = [], [], []

    def reply(self, request):
        self.asked.append(request.json)
        self.keys.append(request.headers.get("authorization"))
        self.paths.append(request.path)
        self.hangs.wait(PATIENCE)
        return Reply(self.answer(request.json) if self.status == 200 else {"error": request.json}, self.status)


@pytest.fixture
def endpoint():
    double = Endpoint()
    with answering(double.reply) as double.host:
        double.url = f"http://{double.host}/rerank"
        yield double
        double.hangs.set()


def test_an_endpoint_without_a_model_gets_the_protocol_of_text_embeddings_inference(endpoint):
    assert EndpointReranker(endpoint.url).scores("pets", TEXTS).tolist() == [0.05, 0.16, 0.06]
    assert endpoint.asked == [{"query": "pets", "texts": TEXTS, "truncate": True}]
    assert endpoint.keys == [None]


@pytest.mark.parametrize("path", ["/v2/rerank", "/v1/rerank"])
def test_a_model_after_the_url_gets_the_protocol_of_cohere_and_jina(endpoint, path):
    endpoint.answer = cohere
    made = EndpointReranker(f"http://{endpoint.host}{path}#rerank-v3.5", api_key="sesame")
    assert made.scores("pets", TEXTS).tolist() == [0.05, 0.16, 0.06]
    assert endpoint.asked == [{"model": "rerank-v3.5", "query": "pets", "documents": TEXTS, "top_n": 3}]
    assert (endpoint.paths, endpoint.keys) == ([path], ["Bearer sesame"])
    assert made.name == f"{endpoint.host}{path}#rerank-v3.5"


def test_a_server_without_a_model_gets_at_most_32_texts_at_a_time(endpoint):
    texts = [f"text {number:03}" + "x" * number for number in range(70)]
    assert EndpointReranker(endpoint.url).scores("q", texts).tolist() == [len(text) / 100 for text in texts]
    assert [len(asked["texts"]) for asked in endpoint.asked] == [32, 32, 6]
    assert EndpointReranker(endpoint.url).scores("q", []).tolist() == []


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "SALIENCE_RERANKER_API_KEY"), (404, "the model after '#'"), (422, "SALIENCE_RERANKER"), (503, "status 503")],
)
def test_a_refusal_names_the_host_and_the_remedy_and_no_text(endpoint, status, words):
    endpoint.status = status
    with pytest.raises(RerankerError, match=words) as caught:
        EndpointReranker(endpoint.url, "sesame").scores("my question", ["my secret"])
    assert endpoint.host in str(caught.value)
    assert not any(hidden in str(caught.value) for hidden in ("my ", "sesame"))


@pytest.mark.parametrize(
    "answer",
    [
        {"results": []},
        [{"index": 0, "score": 1.0}],
        [{"index": place, "score": "high"} for place in range(3)],
        [{"index": place + 1, "score": 0.5} for place in range(3)],
        {"message": "my secret"},
        b"<html>busy</html>",
    ],
)
def test_an_answer_without_a_number_per_text_is_refused(endpoint, answer):
    endpoint.answer = lambda _: answer
    with pytest.raises(RerankerError, match="something else than a score per text"):
        EndpointReranker(endpoint.url).scores("pets", TEXTS)


def test_one_setting_chooses_the_endpoint(endpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(salience_settings, "config_file", lambda: tmp_path / "config.toml")
    chosen = salience_settings.load(reranker=f"{endpoint.url}#best", reranker_api_key="sesame")
    endpoint.answer = cohere
    assert reranker(None, chosen).scores("pets", TEXTS).tolist() == [0.05, 0.16, 0.06]
    assert (endpoint.asked[0]["model"], endpoint.keys) == ("best", ["Bearer sesame"])
    with pytest.raises(InputError, match="reranker"):
        reranker("http://", chosen)


def test_a_recall_is_in_the_order_of_the_endpoint_with_the_scores_of_the_profile(endpoint, clock):
    planted = PlantedEmbedder({"a cat": 0.9, "a dog that barks": 0.5, "a bird": 0.7})
    with salience.connect(
        ":memory:", embedder=planted, profile="zeromemory", clock=clock, reranker=endpoint.url
    ) as one:
        one.remember_many([{"content": text} for text in TEXTS])
        found = one.recall("query", limit=2, min_score=0.0)
    assert [hit.memory.content for hit in found] == ["a dog that barks", "a bird"]
    assert [hit.rerank for hit in found] == [0.16, 0.06]
    assert all(hit.score == pytest.approx(hit.score_detail.recompute()) for hit in found)
    assert (found.reranker, found.degraded) == (f"{endpoint.host}/rerank", ())


@pytest.mark.parametrize("deadline_ms", [None, 100])
def test_a_late_endpoint_leaves_the_order_of_the_profile(endpoint, clock, monkeypatch, deadline_ms):
    monkeypatch.setenv("SALIENCE_RERANK_TIMEOUT", "0.1")
    endpoint.hangs.clear()
    planted = PlantedEmbedder({"a cat": 0.9, "a dog that barks": 0.5, "a bird": 0.7})
    with salience.connect(
        ":memory:", embedder=planted, profile="zeromemory", clock=clock, reranker=endpoint.url
    ) as one:
        one.remember_many([{"content": text} for text in TEXTS])
        found = one.recall("query", limit=2, min_score=0.0, deadline_ms=deadline_ms)
    assert [hit.memory.content for hit in found] == ["a cat", "a bird"]
    assert (found.reranker, found.degraded) == (None, ("rerank",))
