"""What Prometheus reads: the table, what a session of verbs leaves in it, and who may read it."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from salience import compose
from salience.server.auth import create_key
from salience.server.metrics import METRICS

pytestmark = pytest.mark.slow

MANY = {"content": "Alice drinks tea", "user_id": "alice"}


def samples(client, **headers):
    page = client.get("/metrics", headers=headers)
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page.text)
        for sample in family.samples
    }


def counted(found, name, **labels):
    return found.get((name, *sorted(labels.items())))


@pytest.fixture
def key(tmp_path):
    """Return a function that makes a first key for the store, and returns its token."""

    def make(**given):
        with_rights = {"tenant": "default", "rights": ("read", "write"), "bound": {}, "expires_at": None, "note": None}
        from datetime import UTC, datetime

        token, kept = create_key(**{**with_rights, **given}, now=datetime.now(UTC))
        ring = compose.keyring(str(tmp_path / "agent.db"))
        ring.add(kept)
        ring.close()
        return token

    return make


def test_the_page_has_each_metric_of_the_table_and_no_other(started):
    page = started().get("/metrics").text
    result = {line.split()[2]: line.split()[3] for line in page.splitlines() if line.startswith("# TYPE")}
    assert result == {name: metric.kind for name, metric in METRICS.items()}


def test_a_session_is_counted_by_surface_verb_and_status(started):
    client = started()
    client.post("/v1/memories", json=MANY)
    client.post("/v1/recall", json={"query": "query", "user_id": "alice"})
    client.post("/v1/recall", json={"query": "query", "limit": 5000})
    client.get("/v1/memory/00000000")
    client.get("/v1/nowhere")
    client.get("/healthz")
    call = {"name": "forget", "arguments": {"id": "00000000"}}
    arguments = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    assert (
        client.post("/mcp", json=arguments, headers={"accept": "application/json, text/event-stream"}).status_code
        == 200
    )
    found = samples(client)
    for surface, verb, status in (
        ("rest", "remember", 201), ("rest", "recall", 200), ("rest", "recall", 422), ("rest", "get", 404),
        ("rest", "none", 404), ("mcp", "forget", 404),
    ):  # fmt: skip
        assert counted(found, "salience_requests_total", surface=surface, verb=verb, status=str(status)) == 1
    assert sum(value for (name, *_), value in found.items() if name == "salience_requests_total") == 6
    assert counted(found, "salience_request_seconds_count", surface="rest", verb="recall") == 2
    assert counted(found, "salience_requests_in_progress") == 0
    assert counted(found, "salience_recall_step_seconds_count", step="rank") == 1


def test_the_steps_of_each_of_several_recalls_are_counted(started):
    client = started()
    client.post("/v1/memories", json=MANY)
    client.post("/v1/recall", json={"queries": ["query", "query too"], "user_id": "alice"})
    found = samples(client)
    assert counted(found, "salience_requests_total", surface="rest", verb="recall_many", status="200") == 1
    assert counted(found, "salience_recall_step_seconds_count", step="rank") == 2


def test_embedded_texts_are_counted_once(started):
    client = started()
    before = counted(samples(client), "salience_embedded_texts_total", outcome="embedded") or 0
    client.post("/v1/memories", json={"drafts": [{"content": "One"}, {"content": "Two"}]})
    for _ in range(3):
        client.post("/v1/recall", json={"query": "query of one"})
    after = counted(samples(client), "salience_embedded_texts_total", outcome="embedded")
    assert before == 1  # the fingerprint of the model, which is written with the first vectors
    assert after - before == 3


def test_what_fails_is_counted_as_failed_and_degraded(started, monkeypatch):
    monkeypatch.setenv("SALIENCE_OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("SALIENCE_OPENAI_RETRIES", "0")
    client = started(embedder="openai")
    assert client.post("/v1/memories", json=MANY).json()["status"] == "pending"
    assert client.post("/v1/recall", json={"query": "tea", "user_id": "alice"}).json()["degraded"] == ["embedding"]
    found = samples(client)
    assert counted(found, "salience_embedded_texts_total", outcome="failed") >= 2
    assert counted(found, "salience_embedded_texts_total", outcome="embedded") is None
    assert counted(found, "salience_degraded_total", step="embedding") == 1


def test_upkeep_is_counted_and_tells_what_is_pending(started, monkeypatch):
    monkeypatch.setenv("SALIENCE_OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("SALIENCE_OPENAI_RETRIES", "0")
    client = started(embedder="openai")
    client.post("/v1/memories", json=MANY)
    assert client.post("/v1/upkeep", json={}).status_code == 200
    found = samples(client)
    assert counted(found, "salience_pending_memories") == 1
    assert counted(found, "salience_upkeep_passes_total", outcome="partial") == 1


def test_a_rate_that_is_reached_is_counted(started):
    client = started(server_rate="1/hour")
    assert [client.get("/v1/stats").status_code for _ in range(3)] == [200, 429, 429]
    assert counted(samples(client), "salience_rate_limited_total") == 2


def test_the_connection_pool_has_metrics(started, tables):
    client = started(url=tables)
    client.get("/v1/stats")
    found = samples(client)
    assert counted(found, "salience_pool_connections", state="in_use") == 0
    assert counted(found, "salience_pool_connections", state="idle") >= 1


def test_with_a_key_and_no_token_there_is_no_page(started, key):
    client = started()
    assert client.get("/metrics").status_code == 200
    token = key()
    found = client.get("/metrics", headers={"authorization": f"Bearer {token}"})
    assert (found.status_code, found.headers["content-type"]) == (404, "application/problem+json")


def test_an_empty_token_opens_no_page(started, key):
    client = started(metrics_token="")
    key()
    for shown in ("Bearer", ""):
        assert client.get("/metrics", headers={"authorization": shown}).status_code == 404


def test_with_a_key_the_page_takes_its_own_token_alone(started, key):
    client = started(metrics_token="scraper")  # noqa: S106
    token = key()
    for shown in (None, "Bearer", "Bearer scrapes", "Basic scraper", f"Bearer {token}"):
        refused = client.get("/metrics", headers={"authorization": shown} if shown else {})
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert samples(client, authorization="Bearer scraper")


def test_anonymous_access_ends_with_the_first_key(started, key):
    client = started()
    assert client.post("/v1/memories", json=MANY).status_code == 201
    token = key()
    assert client.post("/v1/memories", json=MANY).status_code == 401
    assert client.get("/v1/stats", headers={"authorization": f"Bearer {token}"}).status_code == 200
