"""A model of a store in plain dictionaries: what was ever acknowledged, and how it stood after every step."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Fields = dict[str, Any]
KEPT = ("content", "importance", "weight", "tier", "supersedes", "expires_at", "tags", "fact_key", "kind")
"""Fields of a memory that the model follows; what a version has that the model says otherwise is a failure."""


@dataclass
class Held:
    """A memory: where it lives, its versions as they ended or stand, and its counters."""

    user: str | None
    versions: list[Fields]
    count: int = 0

    @property
    def now(self) -> Fields:
        return self.versions[-1]

    @property
    def live(self) -> bool:
        """Whether no version hides it; its time to live may be over."""
        return not self.now["gone"]

    def is_over(self, now: datetime) -> bool:
        return self.now["expires_at"] is not None and self.now["expires_at"] <= now


@dataclass
class Ledger:
    """The model; `seen` is the ledger of every instant at which a step ended."""

    held: dict[str, Held] = field(default_factory=dict)
    seen: list[tuple[datetime, dict[str, Held]]] = field(default_factory=list)
    erased: set[str] = field(default_factory=set)

    def note(self, at: datetime) -> None:
        self.seen.append((at, copy.deepcopy(self.held)))

    def add(self, memory: Any) -> None:
        assert memory.id not in self.held
        fields = {name: getattr(memory, name) for name in KEPT}
        self.held[memory.id] = Held(memory.scope.user_id, [{**fields, "change": "create", "gone": False}])

    def change(self, id: str, change: str, **values: Any) -> None:
        held = self.held[id]
        held.versions.append({**held.now, "change": change, **values})

    def touch(self, ids: list[str], boost: float) -> None:
        for touched in ids:
            held = self.held[touched]
            held.count += 1
            held.now["importance"] = min(1.0, held.now["importance"] + boost)

    def stale(self, id: str, beside: frozenset[str] = frozenset()) -> None:
        """Take the live reflection of a memory out of sight, unless it is itself among what changes."""
        reflection = self.held[id].now.get("reflection")
        if reflection in self.held and reflection not in beside and self.held[reflection].live:
            self.change(reflection, "stale", gone=True)

    def erase(self, ids: set[str]) -> set[str]:
        """Drop memories and the reflections that ever rested on them; return all that went."""
        gone = set(ids)
        while more := {
            id
            for id, held in self.held.items()
            if id not in gone and any(gone & set(version.get("sources", ())) for version in held.versions)
        }:
            gone |= more
        for id in gone:
            self.erased.add(id)
            del self.held[id]
        return gone

    def live(self, user: str | None, now: datetime) -> dict[str, Held]:
        return visible(self.held, user, now)

    def due(self, now: datetime) -> set[str]:
        """Return the memories that no version hides, though their time to live is over."""
        return {id for id, held in self.held.items() if held.live and held.is_over(now)}

    def expire(self, ids: set[str]) -> None:
        for id in ids:
            self.stale(id, frozenset(ids))
            self.change(id, "expire", gone=True)

    def latest_fact(self, user: str | None, key: str, now: datetime, updated: dict[str, datetime]) -> str | None:
        """Return the memory of a fact that a new one of `user` replaces."""
        seen = answered(self.held, user, now, superseded=True)
        held = [id for id, one in seen.items() if one.user == user and one.now["fact_key"] == key]
        return max(held, key=lambda id: (updated[id], id), default=None)


def visible(held: dict[str, Held], user: str | None, now: datetime) -> dict[str, Held]:
    """Return what a user sees of some memories: live ones, shared or their own."""
    return {id: one for id, one in held.items() if one.live and one.user in (None, user) and not one.is_over(now)}


def answered(held: dict[str, Held], user: str | None, now: datetime, *, superseded: bool = False) -> dict[str, Held]:
    """Return what a recall of a user that leaves out nothing but the expired and the superseded returns.

    With `superseded`, the superseded are among it.
    """
    seen = visible(held, user, now)
    targets = {one.now["supersedes"] for one in seen.values()} if not superseded else set()
    return {id: one for id, one in seen.items() if id not in targets}
