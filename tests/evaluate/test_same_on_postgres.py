"""Real conversations are answered alike from a file and from a server: the same memories, in order, with their scores.

From indexes alone (`exact_rows=0`) an answer may be another, unless it says of itself that it is exact.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path

import pytest

from salience import compose, settings
from salience.engine import Engine
from salience.evaluate import datasets
from salience.evaluate.datasets import Conversation
from salience.evaluate.stores import OnDisk, ending
from salience.models import registry
from salience.rank import profiles
from salience.records import Recall

CONVERSATIONS = ["conv-26"]
LIMIT = 10
BY_INDEXES = 7
"""Of so many questions one is asked of the indexes too."""


def conversation(name: str) -> Conversation:
    folder = os.environ.get("SALIENCE_TEST_DATA")
    file = Path(folder or "", "locomo", f"{name}.json")
    if not folder or not file.exists():
        pytest.skip(f"SALIENCE_TEST_DATA names no folder with locomo/{name}.json")
    (found,) = datasets.conversations(file)
    return found


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of vectors, so that each text is embedded once and is the same to all."""
    return tmp_path_factory.mktemp("vectors")


def opened(place: str, held: Conversation, vectors: Path, exact_rows: int = 5000) -> Engine:
    """An engine whose memories have the ids 1, 2 and so on, and whose clock stands at the end of a conversation."""
    chosen = settings.load().model_copy(update={"exact_rows": exact_rows})
    embedder, end, numbers = OnDisk(registry.embedder("minilm", chosen), vectors), ending(held), itertools.count(1)
    engine = compose.engine(chosen, place, embedder=embedder, clock=lambda: end)
    engine.services = replace(engine.services, new_id=lambda _: f"{next(numbers):032x}")
    return engine


def asked(engine: Engine, question: str, profile: str) -> Recall:
    return engine.recall(question, limit=LIMIT, profile=profile, dry_run=True)


def scores(answer: Recall) -> list[tuple[str, float]]:
    return [(hit.memory.id, hit.score) for hit in answer]


@pytest.mark.data
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_is_answered_alike_under_every_profile(tables: str, tmp_path: Path, vectors: Path, name: str):
    held = conversation(name)
    questions = [question.question for question in held.questions[::3] if question.question.strip()]
    with (
        opened(str(tmp_path / "a.db"), held, vectors) as file,
        opened(tables, held, vectors) as server,
        opened(tables, held, vectors, exact_rows=0) as indexes,
    ):
        for engine in (file, server):
            for session in held.sessions:
                engine.ingest(session.messages, session_id=session.session_id)
        for number, question in enumerate(questions):
            for profile in profiles.NAMES:
                expected = scores(asked(file, question, profile))
                assert scores(asked(server, question, profile)) == expected, (profile, question)
                if number % BY_INDEXES == 0 and (answer := asked(indexes, question, profile)).exact:
                    assert scores(answer) == expected, (profile, question)
    assert len(questions) > 33
