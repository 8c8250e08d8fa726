"""The OpenAI-compatible endpoint, against a real server on loopback that plays a script of answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import numpy as np
import pytest

from posts import Posted, Reply, answering
from salience.deadline import RETRY_AFTER_LIMIT, retry_after
from salience.errors import EmbedderError, InputError
from salience.models.openai import OpenAI

KEY = "sk-very-secret"
TEXT = "a very private text"


def vector(text: str) -> list[float]:
    return [float(len(text)), 1.0, 0.0]


def answer(texts: list[str]) -> dict[str, Any]:
    return {"data": [{"index": place, "embedding": vector(text)} for place, text in enumerate(texts)]}


@dataclass
class Endpoint:
    """A server that gives the replies of `script` in turn, then good ones, and keeps what it was asked.

    The body of a reply is a function of the texts, and None stands for no reply.
    """

    script: list[Reply | None] = field(default_factory=list)
    requests: list[Posted] = field(default_factory=list)
    url: str = ""

    def answer(self, request: Posted) -> Reply | None:
        self.requests.append(request)
        reply = self.script.pop(0) if self.script else Reply(answer)
        return reply and replace(reply, body=(reply.body or answer)(request.json["input"]))


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    double = Endpoint()
    with answering(double.answer) as host:
        double.url = f"http://{host}/v1"
        yield double


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def embedder(endpoint: Endpoint, waits: list[float]) -> OpenAI:
    return OpenAI(endpoint.url + "/", "model-x", 3, KEY, 5.0, 2, sleep=waits.append)


def refusal(embedder: OpenAI, texts: list[str] | None = None) -> str:
    """Return the message of the error, after checking that it keeps the house's rules."""
    with pytest.raises(EmbedderError) as caught:
        embedder.embed(texts or [TEXT])
    message = str(caught.value)
    assert "127.0.0.1:" in message or "openai:model-x" in message
    assert TEXT not in message
    assert KEY not in message
    return message


def test_the_remote_host_has_no_password(endpoint):
    host = endpoint.url.removeprefix("http://").removesuffix("/v1")
    assert OpenAI(f"http://user:hunter2@{host}/v1", "model-x", 3).remote == host


def test_a_request_is_as_the_protocol_says(embedder, endpoint):
    vectors = embedder.embed(["abc", "a"])
    np.testing.assert_allclose(vectors, np.array([[3, 1, 0], [1, 1, 0]]) / np.sqrt([[10], [2]]), rtol=1e-6)
    assert vectors.dtype == np.float32
    assert [request.json for request in endpoint.requests] == [
        {"model": "model-x", "encoding_format": "float", "input": ["abc", "a"]}
    ]
    assert endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert [request.path for request in endpoint.requests] == ["/v1/embeddings"]


def test_the_dimension_is_sent_only_on_request(endpoint):
    OpenAI(endpoint.url, "model-x", 3, send_dimension=True).embed(["abc"])
    assert endpoint.requests[0].json["dimensions"] == 3
    assert "authorization" not in endpoint.requests[0].headers


def test_a_query_of_the_base_url_is_kept(endpoint):
    OpenAI(endpoint.url + "?api-version=1", "model-x", 3).embed(["abc"])
    assert [request.path for request in endpoint.requests] == ["/v1/embeddings?api-version=1"]


def test_many_texts_go_in_requests_of_at_most_128(embedder, endpoint):
    texts = ["x" * length for length in range(1, 301)]
    vectors = embedder.embed(texts)
    assert [len(request.json["input"]) for request in endpoint.requests] == [128, 128, 44]
    np.testing.assert_allclose(vectors[:, 0] / vectors[:, 1], np.arange(1, 301), rtol=1e-5)


def test_answers_are_put_into_the_order_of_the_texts(embedder, endpoint):
    endpoint.script = [Reply(body=lambda texts: {"data": answer(texts)["data"][::-1]})]
    vectors = embedder.embed(["a", "bb", "ccc"])
    np.testing.assert_allclose(vectors[:, 0] / vectors[:, 1], [1, 2, 3], rtol=1e-6)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_a_failure_that_may_pass_is_tried_again(embedder, endpoint, waits, status):
    endpoint.script = [Reply(status=status)]
    assert embedder.embed([TEXT]).shape == (1, 3)
    assert len(endpoint.requests) == 2
    assert len(waits) == 1


@pytest.mark.parametrize(("status", "remedy"), [(503, "BASE_URL"), (429, "quota")])
def test_tries_end_and_waits_rise_with_jitter(embedder, endpoint, waits, status, remedy):
    endpoint.script = [Reply(status=status)] * 9
    message = refusal(embedder)
    assert f"status {status}" in message
    assert remedy in message
    assert len(endpoint.requests) == 3
    assert 0.5 <= waits[0] <= 1.0 <= waits[1] <= 1.5


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"Retry-After": "7"}, 7, 7),
        ({"Retry-After": "86400"}, RETRY_AFTER_LIMIT, RETRY_AFTER_LIMIT),
        ({"Retry-After": "0"}, 0.5, 1),
        ({"Retry-After": "-5"}, 0.5, 1),
        ({"Retry-After": "nan"}, 0.5, 1),
        ({"Retry-After": "soon"}, 0.5, 1),
        ({"Retry-After": "Fri, 01 May 2099 12:00:09 GMT"}, RETRY_AFTER_LIMIT, RETRY_AFTER_LIMIT),
        ({"Retry-After": "Fri, 01 May 1999 12:00:09 GMT"}, 0.5, 1),
    ],
)
def test_the_endpoints_wait_is_kept_within_bounds(embedder, endpoint, waits, headers, low, high):
    endpoint.script = [Reply(status=429, headers=headers)]
    embedder.embed([TEXT])
    assert low <= waits[0] <= high


def test_a_date_to_wait_for_counts_from_the_answers_own_date():
    later, now = "Fri, 01 May 2099 12:00:09 GMT", "Fri, 01 May 2099 12:00:00 GMT"
    assert retry_after(httpx.Headers({"Retry-After": later, "Date": now})) == 9
    assert retry_after(httpx.Headers({"Retry-After": later})) == 0


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (400, "longest input"),
        (401, "SALIENCE_OPENAI_API_KEY"),
        (403, "SALIENCE_OPENAI_API_KEY"),
        (404, "SALIENCE_OPENAI_MODEL"),
        (413, "SALIENCE_CONTENT_LIMIT"),
        (422, "SALIENCE_OPENAI_MODEL"),
        (301, "SALIENCE_OPENAI_BASE_URL"),
    ],
)
def test_a_refusal_is_final_and_names_host_status_and_remedy(embedder, endpoint, status, remedy):
    endpoint.script = [Reply(status=status, body=lambda texts: {"error": f"{texts} {KEY}"})]
    message = refusal(embedder)
    assert f"status {status}" in message
    assert remedy in message
    assert len(endpoint.requests) == 1


def test_an_endpoint_that_hangs_is_given_up_after_the_timeout(endpoint, waits):
    endpoint.script = [None] * 2
    message = refusal(OpenAI(endpoint.url, "model-x", 3, KEY, 0.05, 1, sleep=waits.append))
    assert "did not answer (ReadTimeout)" in message
    assert len(waits) == 1


def test_an_endpoint_that_is_not_there_is_named(waits):
    embedder = OpenAI("http://127.0.0.1:1/v1", "model-x", 3, KEY, 1.0, 1, sleep=waits.append)
    assert "127.0.0.1:1 did not answer (ConnectError)" in refusal(embedder)
    assert len(waits) == 1


def test_texts_or_hosts_that_cannot_be_sent_are_an_error_of_ours(embedder):
    assert "could not send the texts (UnicodeEncodeError)" in refusal(embedder, ["\ud800"])
    refusal(OpenAI(f"http://{'x' * 70}.invalid", "model-x", 3, KEY, 1.0, 0))


def one(embedding: Any) -> Callable[[list[str]], Any]:
    return lambda texts: {"data": [{"index": 0, "embedding": embedding}]}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (one([1.0, 2.0]), "dimension 2; expected 3.*SALIENCE_OPENAI_DIMENSION"),
        (one([1.0, float("nan"), 2.0]), "NaN"),
        (one([1.0, float("inf"), 2.0]), "infinity"),
        (one([1e300, 1.0, 2.0]), "infinity"),
        (one([0, 0, 0]), "zeros"),
        (one(["1.0", "2", "3"]), "not numbers"),
        (one([True, False, True]), "not numbers"),
        (one([None, 1.0, 2.0]), "not numbers"),
        (one(1.0), "something else|dimension"),
        (one("AAAA"), "not numbers"),
        (one([[1.0, 2.0, 3.0]]), "dimension|shape"),
        (lambda texts: {"data": []}, "0 embeddings for 1 texts"),
        (lambda texts: {"data": answer(["a", "b"])["data"]}, "2 embeddings for 1 texts"),
        (lambda texts: {"data": [{"index": 5, "embedding": [1, 2, 3]}]}, "indices"),
        (lambda texts: {"data": [{"embedding": [1, 2, 3]}]}, "something else than embeddings"),
        (lambda texts: {"data": None}, "something else than embeddings"),
        (lambda texts: {"error": TEXT}, "something else than embeddings"),
        (lambda texts: [TEXT], "something else than embeddings"),
        (lambda texts: b"<html>" + TEXT.encode(), "something else than embeddings"),
        (lambda texts: b"\xff", "something else than embeddings"),
    ],
)
def test_an_answer_that_is_not_a_vector_a_text_is_refused(embedder, endpoint, body, words):
    endpoint.script = [Reply(body=body)]
    message = refusal(embedder)
    assert re.search(words, message), message
    assert len(endpoint.requests) == 1


def test_vectors_of_differing_length_or_doubled_indices_are_refused(embedder, endpoint):
    ragged = {"data": [{"index": 0, "embedding": [1, 2, 3]}, {"index": 1, "embedding": [1, 2]}]}
    doubled = {"data": [{"index": 0, "embedding": [1, 2, 3]}] * 2}
    endpoint.script = [Reply(body=lambda texts: ragged), Reply(body=lambda texts: doubled)]
    refusal(embedder, [TEXT, TEXT])
    assert "indices" in refusal(embedder, [TEXT, TEXT])


def test_the_key_is_in_no_representation(embedder):
    assert KEY not in repr(embedder)
    assert KEY not in repr(vars(embedder))


@pytest.mark.parametrize(
    "url", ["", "api.example.com/v1", "ftp://host/v1", "http://", "http://user:hunter2@host:port", None]
)
def test_a_base_url_that_is_none_is_refused_without_being_shown(url):
    with pytest.raises(InputError, match="openai_base_url") as caught:
        OpenAI(url, "model-x", 3)
    assert "hunter2" not in str(caught.value)


def test_a_password_in_the_base_url_is_not_shown(endpoint):
    endpoint.script = [Reply(status=404)]
    with_password = endpoint.url.replace("127", "user:hunter2@127")
    assert "hunter2" not in refusal(OpenAI(with_password, "model-x", 3))


@pytest.mark.parametrize("key", ["sk-se\ncret", "sk-sécret", "sk\x00"])
def test_a_key_that_cannot_be_sent_is_refused_without_being_shown(key):
    with pytest.raises(InputError, match="openai_api_key") as caught:
        OpenAI("http://127.0.0.1:1", "model-x", 3, key)
    assert key not in str(caught.value)
