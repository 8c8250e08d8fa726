"""One caller does not keep the others waiting, and holds no more memory than its share."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from types import SimpleNamespace

import anyio
import httpx
import pytest
from starlette.requests import ClientDisconnect

from salience.errors import LimitError
from salience.records import Grant
from salience.server import process
from salience.server.auth import Authenticator
from salience.server.gate import Gate
from salience.server.rest.app import SMALL_BODY, Options, app
from salience.server.rest.responses import CHUNK
from salience.server.shares import Budget, Threads
from waiting import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Work:
    """Work that stays in its thread until it is released."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.released = threading.Event()
        self.count = 0

    def __call__(self) -> None:
        self.count += 1
        self.begun.release()
        assert self.released.wait(PATIENCE)

    async def begins(self, times: int) -> None:
        for _ in range(times):
            assert await anyio.to_thread.run_sync(self.begun.acquire, True, PATIENCE)


async def test_a_caller_holds_its_share_of_the_threads_and_others_are_served() -> None:
    threads, slow = Threads(total=4, per_caller=2), Work()
    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(threads.run, "A", slow)
        await slow.begins(2)
        assert await threads.run("B", lambda: "served") == "served"
        assert slow.count == 2
        slow.released.set()
    assert slow.count == 6


async def test_more_waiting_requests_of_a_caller_than_allowed_are_refused() -> None:
    threads, slow = Threads(total=4, per_caller=1, waiting=2), Work()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(threads.run, "A", slow)
        await slow.begins(1)
        for _ in range(2):
            tasks.start_soon(threads.run, "A", slow)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(LimitError, match="2 of this key wait already"):
            await threads.run("A", slow)
        slow.released.set()
    assert slow.count == 3


async def test_work_is_dropped_if_its_client_leaves_before_it_begins() -> None:
    threads, slow, left = Threads(total=4, per_caller=1), Work(), anyio.Event()

    async def receive() -> dict[str, str]:
        await left.wait()
        return {"type": "http.disconnect"}

    async def leaves() -> None:
        with pytest.raises(ClientDisconnect):
            await threads.run("A", slow, receive)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(threads.run, "A", slow)
        await slow.begins(1)
        tasks.start_soon(leaves)
        await anyio.wait_all_tasks_blocked()
        left.set()
        await anyio.wait_all_tasks_blocked()
        slow.released.set()
    assert slow.count == 1


async def test_an_error_of_work_reaches_the_caller_as_it_is() -> None:
    def fail() -> None:
        raise KeyError("x")

    for receive in (None, anyio.sleep_forever):
        with pytest.raises(KeyError):
            await Threads().run("A", fail, receive)


@pytest.fixture
def two_keys(engine) -> Callable[..., httpx.AsyncClient]:
    """Return a function from options of a server to a client; the token is the name of a key."""

    def build(gate: Gate | None = None, **options) -> httpx.AsyncClient:
        def verify(token: str) -> Grant:
            return Grant(tenant=engine.services.tenant, rights=("read", "write"), name=token)

        built = app(gate or Gate(engine), Authenticator([verify]), Options(**options))
        return httpx.AsyncClient(transport=httpx.ASGITransport(built), base_url="http://localhost", timeout=PATIENCE)

    return build


async def test_a_key_is_served_while_the_queue_of_another_is_full(engine, two_keys) -> None:
    slow, gate = Work(), Gate(engine)

    class Blocking:
        def answer(self, grant, verb, request):
            if grant.name == "A":
                slow()
            return gate.answer(grant, verb, request)

    answers: list[int] = []
    async with two_keys(Blocking(), threads=Threads(total=4, per_caller=2, waiting=3)) as client:

        async def ask(key: str) -> None:
            answer = await client.post("/v1/recall", json={"query": "tea"}, headers={"Authorization": f"Bearer {key}"})
            answers.append(answer.status_code)

        async with anyio.create_task_group() as tasks:
            for _ in range(6):  # two work, three wait, and one is refused
                tasks.start_soon(ask, "A")
            await slow.begins(2)
            await ask("B")
            assert sorted(answers) == [200, 429]
            slow.released.set()
    assert sorted(answers) == [200] * 6 + [429]


# memory


async def test_bodies_of_a_key_take_no_more_than_its_share_and_give_it_back(engine, two_keys) -> None:
    budget, slow, gate = Budget(total=1000, per_caller=400), Work(), Gate(engine)
    body = json.dumps({"query": "tea", "user_id": "u" * 200}).encode()

    class Blocking:
        def answer(self, grant, verb, request):
            slow()
            return gate.answer(grant, verb, request)

    answers: list[int] = []
    async with two_keys(Blocking(), budget=budget) as client:

        async def ask(key: str) -> None:
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            answers.append((await client.post("/v1/recall", content=body, headers=headers)).status_code)

        async with anyio.create_task_group() as tasks:
            for key in ("A", "B"):
                tasks.start_soon(ask, key)
            await slow.begins(2)
            assert budget.used() == 2 * len(body)
            await ask("A")
            assert answers == [429]
            assert budget.used() == 2 * len(body)
            slow.released.set()
    assert answers == [429, 200, 200]
    assert budget.used() == 0


async def test_a_body_without_a_length_is_counted_as_it_comes() -> None:
    budget = Budget(total=100, per_caller=60)
    with budget.reserve("A") as take:
        take(50)
        with pytest.raises(LimitError, match="this key hold 60 bytes"):
            take(20)
        with budget.reserve("B") as other, pytest.raises(LimitError, match="all keys hold 100 bytes"):
            other(55)
        assert budget.used("A") == budget.used() == 50
    assert budget.used() == 0


@pytest.mark.parametrize(("path", "size", "status"), [
    ("/v1/recall", SMALL_BODY + 1, 413), ("/v1/memories", SMALL_BODY + 1, 422), ("/v1/recall", SMALL_BODY - 1, 422),
])  # fmt: skip
async def test_only_verbs_that_store_contents_take_large_bodies(two_keys, path, size, status) -> None:
    async with two_keys() as client:
        headers = {"Authorization": "Bearer A", "Content-Type": "application/json"}
        answer = await client.post(path, content=b'"' + b"x" * (size - 2) + b'"', headers=headers)
        assert answer.status_code == status


async def test_a_large_answer_is_sent_in_chunks_from_disk(engine, two_keys) -> None:
    engine.remember_many([{"content": "tea " * 10_000, "metadata": {"n": n}, "duplicate": True} for n in range(20)])
    whole = await anyio.to_thread.run_sync(lambda: engine.list(limit=20))
    sizes = list[int]()

    async def watched(scope, receive, send) -> None:
        async def count(message) -> None:
            sizes.append(len(message.get("body", b"")))
            await send(message)

        await client._transport.app(scope, receive, count)

    async with (
        two_keys() as client,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(watched), base_url="http://localhost", timeout=PATIENCE
        ) as watching,
    ):
        answer = await watching.get("/v1/memories", params={"limit": 20}, headers={"Authorization": "Bearer A"})
    assert [one["content"] for one in answer.json()["memories"]] == [one.content for one in whole.memories]
    assert int(answer.headers["content-length"]) == len(answer.content) > 800_000
    assert max(sizes) == CHUNK


@pytest.mark.parametrize("library", [SimpleNamespace(), None])
def test_a_server_asks_the_c_library_to_return_memory_if_it_can(monkeypatch, library) -> None:
    options: list[tuple[int, int]] = []
    found = library or SimpleNamespace(mallopt=lambda *option: options.append(option))
    monkeypatch.setattr(process.ctypes, "CDLL", lambda _: found)
    process.return_freed_memory()
    assert [option for option, _ in options] == ([] if library else [-8, -3, -1])
