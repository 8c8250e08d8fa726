"""What the engine costs beside the model: storing and recalling, with the embedding alone measured in turn with it.

Run as `python -m salience.lab.bench [FOLDER]`, where FOLDER has `locomo/*.json`; without it the texts are those of the
sample, over and over.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from salience import compose, profiles
from salience.engine import Engine
from salience.lab import datasets, sample
from salience.lab.datasets import Message

ROUNDS = 3
"""How often each of two things is done, turn about."""
QUERIES = 50
STEPS = ("need", "embed", "gather", "rank", "fetch", "touch")


@dataclass(frozen=True, slots=True)
class Corpus:
    """Messages by session, and questions on them."""

    name: str
    sessions: tuple[tuple[str, tuple[Message, ...]], ...]
    questions: tuple[str, ...]

    @property
    def texts(self) -> list[str]:
        """The contents, in order."""
        return [message.content for _, messages in self.sessions for message in messages]


def corpora(folder: Path | None) -> Iterator[Corpus]:
    """Yield what is to be stored: each conversation of `folder`, or the sample."""
    paths = sorted((folder / "locomo").glob("*.json")) if folder else []
    for path in paths:
        for conversation in datasets.conversations(path):
            sessions = tuple((session.session_id, session.messages) for session in conversation.sessions)
            questions = tuple(item.question for item in conversation.questions)
            yield Corpus(path.name, sessions, questions[:QUERIES])
    if not paths:
        messages = tuple(Message("user", item.draft.content) for item in sample.memories())
        questions = tuple(item.question for item in sample.questions())
        yield Corpus("the sample, five times", tuple((f"s{number}", messages) for number in range(5)), questions)


def seconds(work: Callable[[], object]) -> float:
    """Return how long `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def storing(corpus: Corpus, folder: Path) -> tuple[float, float]:
    """Return seconds to embed the texts alone and to ingest them: medians of rounds done in turn."""
    alone, whole = [], []
    for number in range(ROUNDS):
        with compose.local(folder / f"{number}.db") as memory:
            memory.world.embedder.embed(["warm up"])
            alone.append(seconds(partial(embed, memory, corpus)))
            whole.append(seconds(partial(ingest, memory, corpus)))
    return statistics.median(alone), statistics.median(whole)


def embed(memory: Engine, corpus: Corpus) -> None:
    """Embed the corpus session by session and keep nothing."""
    for _, messages in corpus.sessions:
        memory.world.embedder.embed([message.content for message in messages])


def ingest(memory: Engine, corpus: Corpus) -> None:
    """Store the corpus session by session."""
    for session_id, messages in corpus.sessions:
        memory.ingest(messages, session_id=session_id)


def recalling(memory: Engine, questions: Sequence[str], profile: str) -> dict[str, float]:
    """Return the median milliseconds of each step of recall over `questions`."""
    laps = [memory.recall(question, profile=profile).timings for question in questions]
    return {step: statistics.median(lap[step] for lap in laps if step in lap) for step in laps[0]}


def main(arguments: Sequence[str]) -> None:
    """Print both tables."""
    console = Console()
    folder = Path(arguments[0]) if arguments else None
    store = Table("stored", "memories", "embed only /s", "ingest /s", "engine adds", title="Storing")
    recall = Table("profile", "memories", *STEPS, title="Recall, median ms by step")
    with tempfile.TemporaryDirectory() as temporary:
        everything = compose.local(Path(temporary) / "all.db")
        questions: list[str] = []
        for place, corpus in enumerate(corpora(folder)):
            (own := Path(temporary) / str(place)).mkdir()
            alone, whole = storing(corpus, own)
            count = len(corpus.texts)
            added = f"{whole / alone - 1:+.1%}"
            store.add_row(corpus.name, str(count), f"{count / alone:.0f}", f"{count / whole:.0f}", added)
            ingest(everything, corpus)
            questions += corpus.questions
        for name in profiles.NAMES:
            steps = recalling(everything, questions, name)
            recall.add_row(name, str(everything.stats().memories), *(f"{steps.get(step, 0):.2f}" for step in STEPS))
        everything.close()
    console.print(store, recall)


if __name__ == "__main__":
    main(sys.argv[1:])
