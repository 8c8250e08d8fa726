"""A storage backend for CrewAI's unified memory."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Self

from salience.errors import InputError, MissingExtraError, Words
from salience.integrations import QUERY, Memory, in_thread, named, scan
from salience.rank.profiles import ProfileLike
from salience.records import Hit
from salience.records import Memory as Stored

try:
    from crewai.memory.types import MemoryRecord, ScopeInfo
    from crewai.memory.unified_memory import Memory as CrewMemory
except ImportError as error:
    raise MissingExtraError("salience.integrations.crewai", "crewai") from error

FIELD: Final = "crewai"
"""Key of the metadata that holds what a memory has no field for; start of tags and keys."""
TEXTS: Final = 10_000
"""Number of texts whose fingerprints are known."""
FILTERED: Final = 1000
"""Number of hits that a filter by metadata is applied to."""


def crew_memory(
    memory: Memory,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    project: str | None = None,
    profile: ProfileLike | None = None,
    **options: Any,
) -> CrewMemory:
    """Return a CrewAI memory, for a crew or an agent, that is stored in Salience.

    Args:
        memory: a connection.
        user_id: owner of the memories; None: memories that no user owns.
        agent_id: agent of the memories.
        project: project of the memories.
        profile: finds the memories; None for the connection's.
        **options: those of CrewAI's `Memory`, such as `llm` and `root_scope`.
    """
    storage = SalienceStorage(memory, user_id=user_id, agent_id=agent_id, project=project, profile=profile)
    return CrewMemory(storage=storage, embedder=storage.embed, **options)


class SalienceStorage:
    """A `StorageBackend` whose records are memories.

    CrewAI hands over vectors instead of questions, so its embedder must be the method `embed`: its vectors are
    fingerprints from which `search` knows the text again. Salience embeds the text itself.

    Args:
        memory: a connection.
        user_id: owner of the memories; None: memories that no user owns.
        agent_id: agent of the memories.
        project: project of the memories.
        profile: finds the memories; None for the connection's.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        project: str | None = None,
        profile: ProfileLike | None = None,
    ) -> None:
        self._memory, self._profile = memory, profile
        self._where = named(user_id=user_id, agent_id=agent_id, project=project)
        self._texts: OrderedDict[tuple[float, ...], str] = OrderedDict()
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: object) -> Self:
        """Return this storage: copies of a crew share its memory."""
        return self

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a fingerprint for each text."""
        found = [_fingerprint(text) for text in texts]
        with self._lock:
            for text, vector in zip(texts, found, strict=True):
                self._texts[vector] = text
                self._texts.move_to_end(vector)
            while len(self._texts) > max(TEXTS, len(texts)):
                self._texts.popitem(last=False)
        return [list(vector) for vector in found]

    def save(self, records: list[MemoryRecord]) -> None:
        """Store records, all or none; a record whose id is stored already is not stored again."""
        for record in records:
            self._check(record)
        drafts = [{**_fields(record), **_identity(record)} for record in records]
        if drafts:
            self._memory.remember_many(drafts, **self._where)

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """Return records with scores in [0, 1]: the cosine, or the confidence if it is larger; best first.

        A record must have one of the categories and all of the metadata.
        """
        if limit < 1:
            return []
        with self._lock:
            text = self._texts.get(tuple(query_embedding))
        if text is None:
            raise _wrong_embedder()
        scores: dict[str, tuple[MemoryRecord, float]] = {}
        for category in categories or (None,):
            tags = (_tag(scope_prefix), *((category,) if category else ()))
            most = FILTERED if metadata_filter else limit
            for hit in self._memory.recall(text[:QUERY], limit=most, profile=self._profile, tags=tags, **self._where):
                record, score = _as_record(hit.memory), _score(hit)
                if score >= min_score and _has(record, metadata_filter):
                    scores[record.id] = (record, score)
        return sorted(scores.values(), key=lambda one: -one[1])[:limit]

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Forget the records that match every condition, and return their number; `restore` undoes it."""
        count = 0
        for stored in self._stored(scope_prefix, record_ids):
            record = _as_record(stored)
            matches = not categories or bool({*categories} & {*record.categories})
            if matches and _has(record, metadata_filter) and (not older_than or stored.created_at < _aware(older_than)):
                self._memory.forget(stored.id, **self._where)
                count += 1
        return count

    def update(self, record: MemoryRecord) -> None:
        """Make a record the next version of the one with its id, or store it."""
        self._check(record)
        stored = next(iter(self._stored(None, [record.id])), None)
        if stored is None:
            self.save([record])
        else:
            self._memory.update(stored.id, **_fields(record), **self._where)

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """Return a record, or None if there is none of this id."""
        stored = next(iter(self._stored(None, [record_id])), None)
        return None if stored is None else _as_record(stored)

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """Return records of a scope and the scopes below it, newest first."""
        newest = sorted(self._records(scope_prefix), key=lambda record: record.created_at, reverse=True)
        return newest[max(offset, 0) : max(offset, 0) + max(limit, 0)]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """Return counts, categories, dates and children of a scope."""
        records = self._records(scope)
        created = [record.created_at for record in records]
        return ScopeInfo(
            path=_path(scope),
            record_count=len(records),
            categories=sorted({category for record in records for category in record.categories}),
            oldest_record=min(created, default=None),
            newest_record=max(created, default=None),
            child_scopes=self.list_scopes(scope),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the paths of the scopes directly below a scope."""
        above = _path(parent).rstrip("/") + "/"
        below = (_path(record.scope).removeprefix(above) for record in self._records(parent))
        return sorted({above + path.split("/", 1)[0] for path in below if path and not path.startswith("/")})

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return the number of records of each category."""
        return dict(Counter(category for record in self._records(scope_prefix) for category in record.categories))

    def count(self, scope_prefix: str | None = None) -> int:
        """Return the number of records of a scope and the scopes below it."""
        return len(self._stored(scope_prefix))

    def reset(self, scope_prefix: str | None = None) -> None:
        """Forget all records of a scope and the scopes below it."""
        self.delete(scope_prefix)

    async def asave(self, records: list[MemoryRecord]) -> None:
        """Store records."""
        await in_thread(self.save, records)

    async def asearch(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """Return what `search` returns."""
        return await in_thread(
            self.search, query_embedding, scope_prefix, categories, metadata_filter, limit, min_score
        )

    async def adelete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Forget the records that match."""
        return await in_thread(self.delete, scope_prefix, categories, record_ids, older_than, metadata_filter)

    def _records(self, scope: str | None) -> list[MemoryRecord]:
        return [_as_record(stored) for stored in self._stored(scope)]

    def _stored(self, scope: str | None, ids: Sequence[str] | None = None) -> list[Stored]:
        """Return the memories of a scope (and of some ids) that belong to this user, agent and project themselves."""
        if ids is not None and not ids:
            return []
        keys = [f"{FIELD}:{one}" for one in ids or ()]
        return list(scan(self._memory, self._where, tags=(_tag(scope),), fact_keys=keys))

    def _check(self, record: MemoryRecord) -> None:
        vector = tuple(record.embedding or ())
        with self._lock:
            known = not vector or vector in self._texts or vector == _fingerprint(record.content)
        if not known:
            raise _wrong_embedder()


def _wrong_embedder() -> InputError:
    remedy = "Give CrewAI's Memory the embedder of this storage, or make it with crew_memory."
    return InputError("embedder", Words("a vector"), remedy, "made a vector that this storage does not know")


def _fingerprint(text: str) -> tuple[float, ...]:
    return tuple(byte / 127.5 - 1 for byte in hashlib.sha512(text.encode("utf-8", "surrogatepass")).digest())


def _path(scope: str | None) -> str:
    return "/" + "/".join(part for part in (scope or "").split("/") if part)


def _tag(scope: str | None) -> str:
    return f"{FIELD}:{_path(scope)}"


def _aware(instant: datetime) -> datetime:
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _naive(instant: datetime) -> datetime:
    return instant.astimezone(UTC).replace(tzinfo=None)  # CrewAI compares with datetime.utcnow()


def _fields(record: MemoryRecord) -> dict[str, Any]:
    """Return the fields of a memory that an update can change; the tags are its categories and its scopes."""
    parts = _path(record.scope).split("/")[1:]
    scopes = ["/", *("/".join(("", *parts[: depth + 1])) for depth in range(len(parts)) if parts[depth])]
    rest = record.model_dump_json(include={"id", "scope", "categories", "metadata", "source", "private"})
    return {
        "content": record.content,
        "importance": record.importance,
        "tags": list(dict.fromkeys((*filter(str.strip, record.categories), *map(_tag, scopes)))),
        "metadata": {FIELD: rest},
    }


def _identity(record: MemoryRecord) -> Mapping[str, Any]:
    key = f"{FIELD}:{record.id}"
    return {"key": key, "fact_key": key, "created_at": _aware(record.created_at)}


def _as_record(memory: Stored) -> MemoryRecord:
    return MemoryRecord(
        **json.loads(memory.metadata[FIELD]),
        content=memory.content,
        importance=memory.importance,
        created_at=_naive(memory.created_at),
        last_accessed=_naive(memory.accessed_at or memory.updated_at),
    )


def _score(hit: Hit) -> float:
    cosine = max((part.raw for part in hit.score_detail.parts if part.signal == "similarity"), default=0.0)
    return min(1.0, max(0.0, cosine, hit.confidence or 0.0))


def _has(record: MemoryRecord, metadata: Mapping[str, Any] | None) -> bool:
    return all(record.metadata.get(name) == value for name, value in (metadata or {}).items())
