"""Salience, embedded: one file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.recall import export
from bench.recall.clocks import Watch
from bench.recall.contender import Mode
from bench.recall.corpus import Block, Entry, Question
from bench.recall.lookup import Lookup
from bench.recall.truth import LIMIT
from salience import compose
from salience.batch import Vectors32
from salience.engine import Engine
from salience.evaluate.run import contender
from salience.rank.profile import Profile
from salience.records import ANY, Draft, Recall

FILE: Final = "agent.db"
PROFILES: Final[Mapping[Mode, Profile]] = {
    "hybrid": contender("salience"),
    "dense": contender("cosine"),
    "cut off": contender("salience"),
}
LEAST: Final[Mapping[Mode, float]] = {"hybrid": 0.0}
"""The least score, where the ten best are to be returned whatever they score, as others return them."""


class Ours:
    """An engine with a table for an embedder."""

    def __init__(self, engine: Engine, folder: Path, lookup: Lookup) -> None:
        self.engine = engine
        self._folder = folder
        self.lookup = lookup

    def load(self, blocks: Iterable[Block], watch: Watch) -> None:
        """Import an export file with vectors; to write that file is out of `watch`."""
        path = self._folder / "export.jsonl"
        export.write(path, blocks)
        with watch:
            self.engine.import_(path)
        path.unlink()

    def recall(self, question: Question, mode: Mode) -> list[int]:
        """Return the rows of the best memories, and have the recall noted on them, as the profile says."""
        return rows(self.answer(question, mode))

    def answer(self, question: Question, mode: Mode, dry_run: bool = False) -> Recall:
        """Return the whole answer; one that is a `dry_run` is noted nowhere."""
        self.lookup.learn([question.text], question.vector[None])
        return self.engine.recall(
            question.text,
            limit=LIMIT,
            profile=PROFILES[mode],
            min_score=LEAST.get(mode),
            tags=(question.tag,) if question.tag else (),
            user_id=question.user or ANY,
            project=ANY,
            dry_run=dry_run,
        )

    def write(self, entry: Entry, vector: Vectors32, how: str) -> None:
        """Remember a fact, with the memories that it may contradict sought; or ingest a turn, which seeks none."""
        self.lookup.learn([entry.text], vector[None])
        if how == "turn":
            self.engine.ingest(
                [{"content": entry.text, "speaker": "user"}],
                session_id="now",
                user_id=entry.user,
                project=entry.project,
            )
        else:
            self.engine.remember(entry.text, user_id=entry.user, project=entry.project, duplicate=True)

    def learn(self, texts: Sequence[str], vectors: Vectors32) -> None:
        """Know the vectors of texts that are to be written."""
        self.lookup.learn(texts, vectors)

    def write_many(self, entries: Iterable[Entry]) -> None:
        """Remember many, in one transaction; their vectors are known."""
        drafts = [Draft(content=entry.text, duplicate=True) for entry in entries]
        self.engine.remember_many(drafts, user_id="user1", project="project1")

    def close(self) -> None:
        """Release the file."""
        self.engine.close()


def rows(found: Recall) -> list[int]:
    """Return the rows of an answer."""
    return [export.row_of(hit.memory.id) for hit in found]


def open_(folder: Path, lookup: Lookup) -> Ours:
    """Return an engine on a file in a folder."""
    return Ours(compose.local(folder / FILE, embedder=lookup), folder, lookup)
