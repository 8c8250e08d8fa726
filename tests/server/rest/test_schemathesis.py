"""Requests made up from the OpenAPI document: the answers are what it says. `make fuzz` does the same for longer."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.types import Message, Receive, Scope, Send

import salience
import servers
from bench.fuzz import PHASES, Found, fuzz
from salience import compose
from salience.server import auth as access
from tests.contract.doubles import PlantedEmbedder

pytestmark = pytest.mark.slow

BRIEFLY = ("examples", "fuzzing")
"""Each bound of each argument is tried on one store: they are judged before a store is asked."""


def tried(target: str, *, locked: bool, phases: tuple[str, ...]) -> Found:
    """Return what came of trying a server of a target, which asks for a key where it is locked."""
    keyring, token = None, None
    if locked:
        keyring = compose.keyring(":memory:")
        token, key = access.create_key("default", ("admin",), {}, None, None, datetime.now(UTC))
        keyring.add(key)
    with (
        closing(salience.connect(target, embedder=PlantedEmbedder())) as engine,
        servers.live(engine, keyring) as url,
    ):
        return fuzz(url, token, cases=2, chains=6, seed=1, phases=phases)


def test_a_server_on_sqlite_that_asks_for_a_key_answers_as_its_document_says(tmp_path: Path) -> None:
    found = tried(str(tmp_path / "memory.db"), locked=True, phases=PHASES)
    assert found.failures == []
    assert max(found.statuses) < 500
    assert {200, 201, 401, 404, 405, 415, 422} <= found.statuses.keys()
    assert found.checks["ignored_auth"]
    assert found.checks["use_after_free"]
    assert len(found.links) > 5


def test_a_server_on_postgres_that_asks_for_none_does_so_too(as_caretaker: str) -> None:
    found = tried(as_caretaker, locked=False, phases=BRIEFLY)
    assert found.failures == []
    assert max(found.statuses) < 500
    assert 401 not in found.statuses
    assert len(found.links) > 5


def test_an_answer_that_the_document_has_not_is_found(tmp_path: Path) -> None:
    async def otherwise(scope: Scope, receive: Receive, send: Send) -> None:
        async def changed(message: Message) -> None:
            is_recall = scope["path"] == "/v1/recall" and message.get("status") == 200
            await send({**message, "status": 202} if is_recall else message)

        await made(scope, receive, changed)

    with closing(salience.connect(str(tmp_path / "memory.db"), embedder=PlantedEmbedder())) as engine:
        made = servers.application(engine)
        with servers.served(otherwise) as url:
            found = fuzz(url, None, cases=1, chains=1, seed=1, phases=["examples"])
    assert found.failures
    assert all("/v1/recall" in failure and "202" in failure for failure in found.failures)
