"""Conversations in temporary stores of their own, and cached vectors."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from zipfile import BadZipFile

import numpy as np
import platformdirs
from numpy.typing import NDArray

from salience import compose
from salience.batch import Tokens, Vectors32
from salience.engine import Engine
from salience.evaluate.datasets import Conversation
from salience.models.cache import Wrapped
from salience.ports import Embedder, Services

WITHOUT_TIMES: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Time of a conversation whose messages have none."""


@dataclass(frozen=True, slots=True, eq=False)
class ConversationStore:
    """A conversation in a store.

    Attributes:
        name: of the conversation.
        engine: on the store.
        services: for queries; their embedder has no cache, so that its time can be measured.
        refs: id of a memory -> its ref; the parts of a long message have the same.
        sessions: id of a memory -> its session.
        end: a moment after the last message; time of a question whose file gives none.
    """

    name: str
    engine: Engine
    services: Services
    refs: Mapping[str, str]
    sessions: Mapping[str, str]
    end: datetime


@contextmanager
def opened(conversation: Conversation, embedder: Embedder, cache: Path | None) -> Iterator[ConversationStore]:
    """Yield the conversation in a temporary SQLite file: a memory per turn, or its beliefs.

    `cache` is the folder of cached vectors; None: no cache.
    """
    end = ending(conversation)
    cached = embedder if cache is None else OnDisk(embedder, cache)
    with (
        TemporaryDirectory(prefix="salience-eval-") as folder,
        compose.local(Path(folder) / "store.db", embedder=cached, clock=lambda: end) as engine,
    ):
        refs, sessions = _store(engine, conversation)
        services = replace(engine.services, embedder=Wrapped(embedder))
        yield ConversationStore(conversation.name, engine, services, refs, sessions, end)


def ending(conversation: Conversation) -> datetime:
    """Return a moment after the last time in a conversation or its beliefs."""
    times = [message.timestamp for message in conversation.messages]
    times += [belief.draft.created_at for belief in conversation.beliefs]
    return max((time for time in times if time is not None), default=WITHOUT_TIMES) + timedelta(seconds=1)


def _store(engine: Engine, conversation: Conversation) -> tuple[dict[str, str], dict[str, str]]:
    """Store everything; return id -> ref and id -> session."""
    refs, sessions = {}, {}
    for session in conversation.sessions:
        receipts = iter(engine.ingest(session.messages, session_id=session.session_id))
        for message in session.messages:
            first = next(receipts)
            others = islice(receipts, first.memory.metadata.get("parts", 1) - 1)  # of a message over the content limit
            for receipt in (first, *others):
                refs[receipt.memory.id], sessions[receipt.memory.id] = message.ref, session.session_id
    ids: dict[str, str] = {}
    for belief in conversation.beliefs:
        older = None if belief.supersedes is None else ids[belief.supersedes]
        made = engine.remember_many([replace(belief.draft, supersedes=older)])[0].memory
        ids[belief.ref] = made.id
        refs[made.id] = belief.ref
    return refs, sessions


def cache_folder() -> Path:
    """Return the default folder of cached vectors, in the platform's cache directory."""
    return Path(platformdirs.user_cache_dir("salience", appauthor=False)) / "vectors"


class OnDisk(Wrapped):
    """An embedder that caches the vectors of a call in a file.

    The key is a hash of the embedder's name and all texts of the call in order: the last digits of a vector may depend
    on the other texts of the call, and the cache must not change a figure. No text is stored.
    """

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        super().__init__(embedder)
        self._folder = folder

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), dimension], from a file if these texts were embedded before.

        Raises:
            EmbedderError: the embedder failed.
        """
        vectors: Vectors32 = self._cached(texts, lambda: [self._embedder.embed(texts)])[0]
        return vectors

    def embed_tokens(self, texts: Sequence[str], /) -> tuple[Vectors32, Sequence[Tokens]]:
        """Return the vectors and the token vectors, from a file if these texts were embedded before.

        Raises:
            EmbedderError: the embedder failed.
        """

        def make() -> list[NDArray[Any]]:
            vectors, tokens = super(OnDisk, self).embed_tokens(texts)
            return [vectors, np.concatenate(tokens), np.array([len(each) for each in tokens])]

        vectors, tokens, lengths = self._cached((*texts, "tokens"), make)
        return vectors, np.split(tokens, np.cumsum(lengths)[:-1])

    def _cached(self, texts: Sequence[str], make: Callable[[], list[NDArray[Any]]]) -> list[NDArray[Any]]:
        """Return the arrays of a file, or make and save them."""
        zeros = ("zeros",) if self.gives_zeros else ()
        parts = (self.name, str(self.dimension), *zeros, *texts)
        sizes = ",".join(str(len(part)) for part in parts)  # so that different lists of texts never join alike
        key = hashlib.sha256("\0".join((sizes, *parts)).encode("utf-8", "surrogatepass")).hexdigest()
        file = self._folder / f"{key}.npz"
        try:
            with np.load(file, allow_pickle=False) as known:
                return list(known.values())
        except (OSError, ValueError, EOFError, BadZipFile):
            pass
        made = make()
        with suppress(OSError):  # a folder that cannot be written caches nothing
            self._folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._folder, suffix=".part")
            with os.fdopen(handle, "wb") as part:
                np.savez(part, *made)
            Path(name).replace(file)  # a reader sees a whole file or none
        return made
