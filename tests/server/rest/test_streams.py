"""Export and import over HTTP: lines that are never whole in memory, and a client that may go at any time."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import tracemalloc
import zipfile
from contextlib import closing
from typing import IO, Any

import httpx
import pytest

import salience
import servers
from salience.engine import Engine
from salience.errors import BusyError, StoreError
from tests.contract.doubles import PlantedEmbedder, StoppedClock
from waiting import PATIENCE

pytestmark = pytest.mark.slow

LINES = {"content-type": "application/x-ndjson"}
LONG = "a text of some length " * 20


def fill(engine: Engine, count: int) -> None:
    """Store so many memories in an engine."""
    engine.import_([json.dumps({"content": f"{n} {LONG}", "user_id": "alice"}) for n in range(count)])


def test_an_export_equals_the_engines_and_can_be_imported(engine: Engine, http: httpx.Client, tmp_path: Any) -> None:
    fill(engine, 30)
    engine.remember("of bob", user_id="bob", environment="test")
    engine.export(tmp_path / "own.jsonl")
    answer = http.get("/v1/export")
    assert answer.headers["content-type"] == LINES["content-type"]
    assert answer.text == (tmp_path / "own.jsonl").read_text("utf-8")
    with (
        closing(salience.connect(":memory:", embedder=PlantedEmbedder())) as other,
        servers.live(other) as url,
        servers.client(url) as client,
    ):
        counts = [client.post("/v1/import", content=answer.content, headers=LINES).json() for _ in range(2)]
        assert [(one["written"], one["unchanged"]) for one in counts] == [(31, 0), (0, 31)]
        assert client.get("/v1/export").text == answer.text


def test_an_export_is_limited_to_its_scope(engine: Engine, http: httpx.Client) -> None:
    engine.remember("of alice", user_id="alice")
    engine.remember("of bob", user_id="bob")
    answer = http.get("/v1/export", params={"user_id": "bob"})
    assert [json.loads(line)["memory"]["content"] for line in answer.text.splitlines()[1:]] == ["of bob"]


def test_an_import_stores_drafts_in_the_given_scope(engine: Engine, http: httpx.Client) -> None:
    lines = b'{"content": "one"}\n{"content": "two", "user_id": "bob"}\n'
    answer = http.post("/v1/import", params={"user_id": "alice"}, content=lines, headers=LINES)
    assert answer.json()["written"] == 2
    assert [engine.stats(user_id=user).memories for user in ("alice", "bob")] == [1, 1]


def test_an_invalid_line_stops_an_import_or_is_reported(engine: Engine, http: httpx.Client) -> None:
    lines = b'{"content": "one"}\n{nonsense}\n{"content": "three"}\n'
    refused = http.post("/v1/import", content=lines, headers=LINES)
    assert (refused.status_code, refused.json()["line"], engine.stats().memories) == (422, 2, 0)
    passed = http.post("/v1/import", params={"on_error": "skip"}, content=lines, headers=LINES)
    assert (passed.json()["written"], [number for number, _ in passed.json()["skipped"]]) == (2, [2])


def test_records_of_another_system_that_cannot_be_read_are_reported(engine: Engine, http: httpx.Client) -> None:
    chats, headers = [{"mapping": None}], {"content-type": "application/zip"}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("conversations-000.json", json.dumps(chats))
    answer = http.post("/v1/import", params={"source": "chatgpt"}, content=file.getvalue(), headers=headers)
    reason = "record 1 of conversations-000.json: mapping is missing. Correct the record and import it again."
    assert (answer.json()["written"], answer.json()["skipped"]) == (0, [[1, reason]])
    stopped = {"source": "chatgpt", "on_error": "stop"}
    assert http.post("/v1/import", params=stopped, content=file.getvalue(), headers=headers).status_code == 422


@pytest.mark.parametrize(
    ("params", "headers", "status"),
    [
        ({"on_error": "perhaps"}, LINES, 422),
        ({"nothing": "x"}, LINES, 422),
        ({}, {"content-type": "application/json"}, 415),
        ({}, {}, 415),
    ],
)
def test_an_import_with_another_media_type_is_refused(
    params: dict[str, str], headers: dict[str, str], status: int, http: httpx.Client
) -> None:
    assert http.post("/v1/import", params=params, content=b"{}", headers=headers).status_code == status


def test_imports_above_the_limit_are_refused_without_content_length(engine: Engine) -> None:
    line = json.dumps({"content": LONG}).encode() + b"\n"
    with servers.live(engine, import_limit=5_000, body_limit=1) as url, servers.client(url) as client:
        for content in (line * 20, iter([line] * 20)):
            assert client.post("/v1/import", content=content, headers=LINES).status_code == 413
        assert client.post("/v1/import", content=iter([line] * 2), headers=LINES).json()["written"] == 2
    assert engine.stats().memories == 2


def test_exports_use_constant_memory(clock: StoppedClock, tmp_path: Any) -> None:
    lines = [{"content": str(n), "user_id": "ab"[n >= 1_000], "metadata": {"note": "x" * 2_000}} for n in range(3_000)]
    embedder = PlantedEmbedder(dimension=8)
    with (
        closing(salience.connect(tmp_path / "a.db", embedder=embedder, clock=clock)) as engine,
        servers.live(engine) as url,
        httpx.Client(base_url=url, timeout=PATIENCE) as client,
    ):
        engine.import_([json.dumps(line) for line in lines])
        few, many = peak(client, "a", 1_000), peak(client, "*", 3_000)
    assert many - few < 2_000_000  # the lines that are more are 4 MB


def peak(client: httpx.Client, user: str, count: int) -> int:
    """Return the most memory in use while the memories of a user are exported to a client that keeps none of them."""
    lines = 0
    tracemalloc.start()
    with client.stream("GET", "/v1/export", params={"user_id": user}) as answer:
        for chunk in answer.iter_raw():
            lines += chunk.count(b"\n")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert lines == count + 1
    return most


def test_an_export_that_fails_at_once_is_an_error_response(engine: Engine, monkeypatch: Any) -> None:
    def export(self: Engine, file: IO[str], **where: object) -> None:
        file.write("a little")
        raise BusyError("store: busy. Try again.")

    monkeypatch.setattr(type(engine), "export", export)
    with servers.live(engine) as url, servers.client(url) as client:
        answer = client.get("/v1/export")
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:salience:problem:busy")


def test_an_export_that_fails_later_is_cut_off(engine: Engine, monkeypatch: Any) -> None:
    def export(self: Engine, file: IO[str], **where: object) -> None:
        file.write("x" * 1_000_000)
        raise StoreError("store: gone. Mend it.")

    monkeypatch.setattr(type(engine), "export", export)
    with servers.live(engine) as url, servers.client(url) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            client.get("/v1/export")
        assert client.get("/healthz").status_code == 200


def test_an_export_stops_when_the_client_disconnects(engine: Engine, monkeypatch: Any) -> None:
    stopped = threading.Event()

    def export(self: Engine, file: IO[str], **where: object) -> None:
        try:
            while True:
                file.write("x" * 100_000)
        finally:
            stopped.set()

    monkeypatch.setattr(type(engine), "export", export)
    with servers.live(engine, exports=1) as url:
        with servers.client(url) as client, client.stream("GET", "/v1/export") as answer:
            assert len(next(answer.iter_raw(1000))) == 1000
        assert stopped.wait(PATIENCE)
        stopped.clear()
        with servers.client(url) as client, client.stream("GET", "/v1/export") as answer:
            assert answer.status_code == 200  # the turn of the first one is free
        assert stopped.wait(PATIENCE)


def test_an_unread_export_is_cut_off_and_frees_its_slot(engine: Engine, monkeypatch: Any) -> None:
    monkeypatch.setattr("salience.server.rest.responses.STALLED", 0.3)

    def export(self: Engine, file: IO[str], **where: object) -> None:
        for _ in range(300):
            file.write("x" * 100_000)

    monkeypatch.setattr(type(engine), "export", export)
    with (
        servers.live(engine, exports=1) as url,
        servers.client(url) as first,
        first.stream("GET", "/v1/export") as slow,
    ):
        second = httpx.get(f"{url}/v1/export", timeout=PATIENCE)
        assert len(second.content) == 30_000_000
        with pytest.raises(httpx.RemoteProtocolError):
            slow.read()


def test_an_interrupted_upload_stores_nothing(engine: Engine, http: httpx.Client) -> None:
    async def upload() -> None:
        head = "POST /v1/import HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
        _, writer = await asyncio.open_connection(http.base_url.host, http.base_url.port)
        writer.write(f'{head}Content-Length: 100000\r\n\r\n{{"content": "one"}}\n'.encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    asyncio.run(upload())
    assert http.get("/v1/stats").json()["memories"] == 0
