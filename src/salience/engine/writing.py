"""The verbs that write memories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from salience import remember
from salience.engine.base import Base
from salience.keywords import ScopeKeywords
from salience.maintain import erase
from salience.records import UNSET, Draft, Receipt, Unset


class Writing(Base):
    """Remember, change, take back, delete."""

    def remember(
        self,
        content: str,
        *,
        kind: str | None = None,
        importance: float | None = None,
        weight: float | None = None,
        tags: Sequence[str] | None = None,
        entities: Sequence[str] | None = None,
        fact_key: str | None = None,
        supersedes: str | None = None,
        ttl: Any = None,
        tier: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
        created_at: Any = None,
        memory_type: str | None = None,
        duplicate: bool = False,
        **where: Unpack[ScopeKeywords],
    ) -> Receipt:
        """Store one memory and return its receipt, with the memories that it may contradict.

        Nothing is stored where a current memory of the same project, user and agent has the same text and every field
        that is given here: the receipt is `unchanged`, with that memory, and counts as an access to it. To store the
        text again, give `duplicate=True`, or a `key`, `created_at`, `ttl` or `supersedes`.

        The arguments are the fields of `Draft`, None for its default; `memory_type` is MemLayer's and ZeroMemory's word
        for `tier`.
        """
        given = {
            "kind": kind,
            "importance": importance,
            "weight": weight,
            "tags": tags,
            "entities": entities,
            "fact_key": fact_key,
            "supersedes": supersedes,
            "ttl": ttl,
            "tier": tier if memory_type is None else memory_type,
            "metadata": metadata,
            "key": key,
            "created_at": created_at,
        }
        fields: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return self.remember_many([Draft(content=content, duplicate=duplicate, **fields)], **where)[0]

    def remember_many(
        self, drafts: Iterable[Draft | Mapping[str, Any]], **where: Unpack[ScopeKeywords]
    ) -> list[Receipt]:
        """Store drafts in one transaction, all or none, and return a receipt for each, in order.

        A draft is a `Draft`, or a mapping of its fields and, if it lives elsewhere, coordinates of its scope. A text
        that is there already, or before it among the drafts, is not stored again, as with `remember`.
        """
        home = self._home(where)
        return remember.remember(self.services, self.profile, remember.drafts(drafts, home), home)

    def ingest(self, messages: Iterable[object], **where: Unpack[ScopeKeywords]) -> list[Receipt]:
        """Store a conversation turn by turn, verbatim and in order, and return a receipt for each turn.

        A message is a mapping with `content`, `speaker` (or `role`) and, if known, `timestamp` (aware or ISO 8601),
        `metadata` and an idempotency `key`. `session_id` is needed. Turns are not searched for contradictions: what is
        said is not yet what is held.

        A message over the content limit is split at its paragraphs, lines, sentences or words. Each part is a turn with
        a receipt of its own, whose warning says so; its metadata names `part`, `parts`, and `message`, a hash of the
        whole text.
        """
        home = self._home(where)
        drafts, warnings = [], []
        for draft, warning in remember.split_turns(remember.turns(messages, home), self.services.content_limit):
            drafts.append(draft)
            warnings.append(warning)
        receipts = remember.remember(self.services, self.profile, drafts, home, look=False)
        return [
            receipt if warning is None else replace(receipt, warning=" ".join(filter(None, (warning, receipt.warning))))
            for receipt, warning in zip(receipts, warnings, strict=True)
        ]

    def update(
        self,
        id: str,
        *,
        content: str | Unset = UNSET,
        kind: str | Unset = UNSET,
        importance: float | Unset = UNSET,
        weight: float | Unset = UNSET,
        tags: Sequence[str] | Unset = UNSET,
        entities: Sequence[str] | Unset = UNSET,
        fact_key: str | Unset | None = UNSET,
        ttl: Any = UNSET,
        tier: str | Unset = UNSET,
        metadata: Mapping[str, Any] | Unset = UNSET,
        reason: str | None = None,
        if_version: int | None = None,
        key: str | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> Receipt:
        """Change a memory and return its receipt; the version before is kept, and `updated_at` becomes now.

        `reason` is kept with the new version, for `history`. `if_version` is the version that the memory has to be at:
        at another one, StaleError, and nothing is written. `key` is an idempotency key of the call: a retry under it
        from the same scope writes nothing, and returns the first receipt without its warning; a call for another
        memory, or of another verb, is a ConflictError.

        Where the change makes this the latest memory of its fact, the receipt names the one that it replaces.
        """
        changes = {
            "content": content,
            "kind": kind,
            "importance": importance,
            "weight": weight,
            "tags": tags,
            "entities": entities,
            "fact_key": fact_key,
            "ttl": ttl,
            "tier": tier,
            "metadata": metadata,
        }
        return remember.update(
            self.services, self.profile, self._scope(where)[0], id, changes, reason, if_version=if_version, key=key
        )

    def forget(
        self,
        id: str,
        *,
        reason: str | None = None,
        if_version: int | None = None,
        key: str | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> Receipt:
        """Take a memory out of every recall and return its receipt; its versions are kept.

        `reason`, `if_version` and `key` are as in `update`.
        """
        return remember.forget(self.services, self._scope(where)[0], id, reason, if_version=if_version, key=key)

    def restore(
        self,
        id: str,
        version: int | None = None,
        *,
        reason: str | None = None,
        key: str | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> Receipt:
        """Put an older version of a memory in its place again, as its next version, and return its receipt.

        Without `version`, what was forgotten, expired or stale is live again as it was before. A version that is named
        is held anew: `updated_at` becomes now. An expiry that is past is dropped.
        `reason` and `key` are as in `update`.
        """
        return remember.restore(self.services, self.profile, self._scope(where)[0], id, version, reason, key=key)

    def erase(self, ids: Sequence[str] | None = None, *, dry_run: bool = False, **where: Unpack[ScopeKeywords]) -> int:
        """Delete memories for good, with all that was made of them, and return how many.

        Rows, versions, vectors, terms, counters and the reflections that sum them up go, here and from the caches of
        other processes on the store; files that were exported or backed up before do not. There is no way back.

        Args:
            ids: of visible memories, live or not (whole or short ids); None for all that live in the scope.
            dry_run: count, and delete nothing.
            **where: with `ids`, who asks; without, at least one of project, user_id, agent_id and session_id: memories
                are deleted where each that is named is their own, so that what others share stays. `ANY` as one of
                them deletes whatever they are.
        """
        return erase.erase(self.services, where, ids, dry_run=dry_run)
