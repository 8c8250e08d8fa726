"""The values that pass between the rooms: frozen, and checked when they are made from what a caller gave."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Final, Literal

from salience import checks
from salience.errors import InputError
from salience.ids import short_id

KINDS: Final = ("fact", "rule", "decision", "feedback", "context", "bootstrap", "turn", "reflection")
"""Kinds with a meaning of their own; any other name is accepted as well."""
TIERS: Final = ("working", "episodic", "semantic")
"""Tiers in the order of promotion."""
CHANGES: Final = ("create", "update", "supersede", "forget", "promote")
"""What can make a version of a memory."""
SCOPE_LEVELS: Final = ("global", "project")
"""mememory's two levels of scope."""


class Wildcard(enum.Enum):
    """The type of `ANY`."""

    ANY = "*"

    def __repr__(self) -> str:
        return "salience.ANY"


ANY: Final = Wildcard.ANY
"""As a scope coordinate of a read: every value within the tenant."""
Coordinate = str | None | Wildcard
NARROWING: Final = ("project", "user_id", "agent_id")
"""Coordinates that are null on a more general memory."""


class Unset(enum.Enum):
    """The type of `UNSET`."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
"""As an argument of `update`: leave the field as it is."""


@dataclass(frozen=True, slots=True)
class Scope:
    """An address: of a memory, where it lives; of a query, who asks.

    `tenant` and `environment` match exactly. Of `project`, `user_id` and `agent_id`, a memory is visible when each
    is None on the memory or equals the caller's. `session_id` never hides anything. `ANY` asks for every value.
    """

    tenant: str = "default"
    environment: str | Wildcard = "default"
    project: Coordinate = None
    user_id: Coordinate = None
    agent_id: Coordinate = None
    session_id: str | None = None

    def __post_init__(self) -> None:
        checks.name("tenant", self.tenant)
        for coordinate in ("environment", *NARROWING):
            value = getattr(self, coordinate)
            if value is not ANY and (value is not None or coordinate == "environment"):
                checks.name(coordinate, value)
        if self.session_id is not None:
            checks.name("session_id", self.session_id)

    def as_home(self) -> Scope:
        """Return this scope if a memory can live in it.

        Raises:
            InputError: a coordinate is `ANY`, which asks and cannot be stored.
        """
        for coordinate in ("environment", *NARROWING):
            if getattr(self, coordinate) is ANY:
                raise InputError(coordinate, ANY, "Name one value (or none) where a memory is to be stored.")
        return self

    def sees(self, home: Scope) -> bool:
        """Return whether a memory that lives at `home` is visible to a caller at this scope."""
        if home.tenant != self.tenant or self.environment not in (ANY, home.environment):
            return False
        return all(
            (asked := getattr(self, coordinate)) is ANY or getattr(home, coordinate) in (None, asked)
            for coordinate in NARROWING
        )

    @property
    def home_key(self) -> str:
        """One text for the place where a memory lives, without the session; idempotency keys are distinct within it."""
        values = (getattr(self, coordinate) for coordinate in ("environment", *NARROWING))
        return "\x1f".join("" if value is None else str(value) for value in values)

    @property
    def session_key(self) -> str | None:
        """The identity of the session, whose turns are counted: a session belongs to one user of one environment."""
        if self.session_id is None:
            return None
        user = self.user_id if isinstance(self.user_id, str) else ""
        environment = self.environment if isinstance(self.environment, str) else ""
        return "\x1f".join((environment, user, self.session_id))

    def as_dict(self) -> dict[str, str]:
        """Return the coordinates that are set, without the tenant."""
        pairs = ((item.name, getattr(self, item.name)) for item in fields(self) if item.name != "tenant")
        return {key: value.value if value is ANY else value for key, value in pairs if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A memory as the caller gives it, before it is cleaned, embedded and stored.

    Attributes:
        content: the text; not blank.
        scope: where the memory is to live; None takes the scope of the call.
        kind: one of `KINDS` or any other name.
        importance: [0, 1]; None lets the extractor score the text.
        weight: confidence, [0.1, 1].
        tags, entities: names; entities None lets the extractor find them.
        fact_key: identity of the underlying fact, such as `user.theme`.
        supersedes: id of the memory that this one replaces; its weight falls to 0.1.
        ttl: time to live: seconds, a timedelta, or text such as `24h`.
        tier: working, episodic or semantic.
        metadata: JSON values, kept and returned, never ranked.
        key: idempotency key; a second remember with the same key stores nothing.
        created_at: aware instant at which it was said; None for now.
        speaker: who said it, for a turn of a conversation.
    """

    content: str
    scope: Scope | None = None
    kind: str = "fact"
    importance: float | None = None
    weight: float = 1.0
    tags: Sequence[str] = ()
    entities: Sequence[str] | None = None
    fact_key: str | None = None
    supersedes: str | None = None
    ttl: Any = None
    tier: str = "episodic"
    metadata: Mapping[str, Any] = field(default_factory=checks.Frozen)
    key: str | None = None
    created_at: datetime | None = None
    speaker: str | None = None

    def __post_init__(self) -> None:
        keep = object.__setattr__
        checks.text("content", self.content)
        keep(self, "kind", checks.name("kind", self.kind))
        if self.importance is not None:
            keep(self, "importance", checks.number("importance", self.importance, 0.0, 1.0))
        keep(self, "weight", checks.number("weight", self.weight, 0.1, 1.0))
        keep(self, "tags", checks.names("tags", self.tags))
        if self.entities is not None:
            keep(self, "entities", checks.names("entities", self.entities))
        for optional in ("fact_key", "supersedes", "key", "speaker"):
            if getattr(self, optional) is not None:
                checks.name(optional, getattr(self, optional))
        if self.ttl is not None:
            keep(self, "ttl", checks.ttl("ttl", self.ttl))
        checks.choice("tier", self.tier, TIERS)
        keep(self, "metadata", checks.metadata("metadata", self.metadata))
        if self.created_at is not None:
            keep(self, "created_at", checks.instant("created_at", self.created_at))


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A stored memory, as it stands now or as one of its versions stood.

    Attributes:
        id: 32 hexadecimal digits that sort by the time of storing.
        version: counts from 1; a change of anything but the recall counters makes the next one.
        change: what made this version: one of `CHANGES`.
        changed_at: when this version came to be; the next version's is where it ended.
        accessed_at: when a recall last returned it; None if none did.
        access_count: how many recalls returned it.
        tier_since: when it entered its tier.
        turn: its place in its session, from 1; None without a session.
        forgotten_at: when it was forgotten; None while it is live.
        content_hash: sha256 of the content.

    The other fields are those of `Draft`, filled in. Instants are aware and in UTC.
    """

    id: str
    scope: Scope
    content: str
    content_hash: str
    kind: str
    importance: float
    weight: float
    tier: str
    tags: tuple[str, ...]
    entities: tuple[str, ...]
    fact_key: str | None
    supersedes: str | None
    metadata: Mapping[str, Any]
    key: str | None
    speaker: str | None
    created_at: datetime
    updated_at: datetime
    tier_since: datetime
    accessed_at: datetime | None = None
    expires_at: datetime | None = None
    forgotten_at: datetime | None = None
    access_count: int = 0
    version: int = 1
    change: str = "create"
    changed_at: datetime
    turn: int | None = None

    @property
    def short_id(self) -> str:
        """The last 8 characters of the id; every verb that takes an id takes this too."""
        return short_id(self.id)

    @property
    def status(self) -> Literal["live", "forgotten"]:
        """Whether recalls can return it; expiry depends on the clock and is judged by the recall."""
        return "live" if self.forgotten_at is None else "forgotten"

    def changed(self, change: str, at: datetime, **values: Any) -> Memory:
        """Return the next version of this memory, made by `change` (one of `CHANGES`), with `values` in place."""
        return replace(self, version=self.version + 1, change=change, changed_at=at, **values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What a recall or list asks for beyond the scope; every condition must hold.

    Attributes:
        tags: the memory carries all of them.
        kinds, tiers, sessions: the memory's is one of them; empty for any.
        since, until: `since <= created_at < until`.
        level: mememory's scope level: `global` (no project), `project` (the caller's project), None for both.
    """

    tags: Sequence[str] = ()
    kinds: Sequence[str] = ()
    tiers: Sequence[str] = ()
    sessions: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    level: str | None = None

    def __post_init__(self) -> None:
        keep = object.__setattr__
        for plural in ("tags", "kinds", "tiers", "sessions"):
            keep(self, plural, checks.names(plural, getattr(self, plural)))
        for tier in self.tiers:
            checks.choice("tiers", tier, TIERS)
        for bound in ("since", "until"):
            if getattr(self, bound) is not None:
                keep(self, bound, checks.instant(bound, getattr(self, bound)))
        if self.since and self.until and self.since >= self.until:
            raise InputError("since", self.since.isoformat(), "Give an instant before `until`.")
        if self.level is not None:
            checks.choice("scope", self.level, SCOPE_LEVELS)

    def accepts(self, memory: Memory) -> bool:
        """Return whether `memory` meets every condition."""
        return (
            set(self.tags) <= set(memory.tags)
            and (not self.kinds or memory.kind in self.kinds)
            and (not self.tiers or memory.tier in self.tiers)
            and (not self.sessions or memory.scope.session_id in self.sessions)
            and (self.since is None or memory.created_at >= self.since)
            and (self.until is None or memory.created_at < self.until)
            and (self.level is None or (memory.scope.project is None) == (self.level == "global"))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question and who asks it.

    Attributes:
        text: the question; not blank.
        scope: who asks.
        filter: what the memories have to be.
        limit: most hits; None for the profile's default.
        min_score: least score; None for the profile's default.
        dry_run: whether to leave every counter and clock as it is.
        now: the instant at which the question is asked; None for the engine's clock.
        deadline_ms: milliseconds within which an answer is wanted; past them the embedding is not waited for.
    """

    text: str
    scope: Scope
    filter: Filter = Filter()
    limit: int | None = None
    min_score: float | None = None
    dry_run: bool = False
    now: datetime | None = None
    deadline_ms: float | None = None

    def __post_init__(self) -> None:
        checks.text("query", self.text)
        if self.min_score is not None:
            checks.number("min_score", self.min_score, 0.0, 100.0)
        if self.now is not None:
            object.__setattr__(self, "now", checks.instant("now", self.now))
        if self.deadline_ms is not None:
            checks.number("deadline_ms", self.deadline_ms, 0.0, 3_600_000.0)


@dataclass(frozen=True, slots=True)
class Intent:
    """What a query is after: the name of a profile's intent and the words that gave it away."""

    name: str = "default"
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One signal's share of a score.

    Attributes:
        signal: the signal's name, or the label that the profile gives it.
        raw: what the signal measured.
        weight: what the profile makes of it.
        contribution: `weight * raw` where the part is summed, `raw ** weight` where it multiplies.
        combine: `sum` or `product`.
    """

    signal: str
    raw: float
    weight: float
    contribution: float
    combine: Literal["sum", "product"]


@dataclass(frozen=True, slots=True)
class Via:
    """The memory that led to a hit which spreading activation brought in.

    Attributes:
        id: the parent memory.
        score: the parent's score.
        factor: what a hop keeps of it, (0, 1].
        hops: how many hops away.
        link: `neighbour` (vectors), `entity` (a shared name).
    """

    id: str
    score: float
    factor: float
    hops: int
    link: Literal["neighbour", "entity"]

    @property
    def activation(self) -> float:
        """The score that reaches the hit: `score * factor ** hops`."""
        return self.score * self.factor**self.hops


@dataclass(frozen=True, slots=True)
class ScoreDetail:
    """A score taken apart: the sum of the summed parts, times the product of the multiplying ones.

    A part's raw value is also an attribute: `score_detail.similarity`, or by its label, `score_detail.cosine`.

    Attributes:
        parts: in the profile's order.
        final: the score, equal to `recompute()` within 1e-9.
        via: set where spreading activation gave the memory more than its own score.
    """

    parts: tuple[Part, ...]
    final: float
    via: Via | None = None

    def recompute(self) -> float:
        """Return the score from the parts (or from the parent, where activation spread from it)."""
        if self.via is not None:
            return self.via.activation
        summed = [part.contribution for part in self.parts if part.combine == "sum"]
        score = sum(summed) if summed else 1.0
        for part in self.parts:
            if part.combine == "product":
                score *= part.contribution
        return score

    def __getattr__(self, name: str) -> float:
        for part in object.__getattribute__(self, "parts"):
            if part.signal == name:
                return float(part.raw)
        raise AttributeError(f"score_detail has no part {name!r}")

    def as_dict(self) -> dict[str, Any]:
        """Return the detail as JSON values."""
        parts = {
            part.signal: {
                "raw": part.raw,
                "weight": part.weight,
                "contribution": part.contribution,
                "combine": part.combine,
            }
            for part in self.parts
        }
        via = None if self.via is None else {item.name: getattr(self.via, item.name) for item in fields(self.via)}
        return {"parts": parts, "final": self.final, "via": via}


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that a recall returned, with its score taken apart.

    Attributes:
        memory: the memory as it stood before this recall.
        score: larger is better; the scale is the profile's.
        score_detail: recomputes to `score` within 1e-9.
        via: the parent that spreading activation came from, else None.
        absorbed: ids of the near-duplicates that were collapsed into this hit, best first.
    """

    memory: Memory
    score: float
    score_detail: ScoreDetail
    via: Via | None = None
    absorbed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recall(Sequence[Hit]):
    """The answer to a query: a sequence of hits, best first, and how it came about.

    Attributes:
        hits: the hits.
        profile: the name of the profile that ranked them.
        intent: what the query was taken to be after.
        exact: whether no visible memory outside the candidates could have reached the answer.
        degraded: the steps that could not do their work, such as `embedding`; empty when all is well.
        timings: milliseconds by step.
    """

    hits: tuple[Hit, ...]
    profile: str
    intent: Intent = Intent()
    exact: bool = True
    degraded: tuple[str, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict, compare=False)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, index: Any) -> Any:
        return self.hits[index]

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A live memory that says nearly what a new one says, and so may conflict with it.

    Attributes:
        memory: the memory that was there.
        similarity: cosine to the new one, [0, 1] (on the profile's threshold scale).
    """

    memory: Memory
    similarity: float


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a write did; when it is returned, the write is durable.

    Attributes:
        memory: the memory as it now stands.
        status: `created`; `updated`; `forgotten`; `unchanged` (the key or version was already there).
        contradictions: memories that may conflict, most similar first; they never block the write.
        warning: the same as text for an agent to read, or that the memory of the key was forgotten; else None.
    """

    memory: Memory
    status: Literal["created", "updated", "forgotten", "unchanged"]
    contradictions: tuple[Contradiction, ...] = ()
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """Memories packed for a prompt.

    Attributes:
        text: quoted data, one JSON line a memory; empty when nothing fits.
        hits: what was packed: bootstrap memories first, then hits in their order.
        tokens: the estimate for `text`, never over the budget.
        omitted: how many memories were left out because the budget was full.
    """

    text: str
    hits: tuple[Hit, ...]
    tokens: int
    omitted: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing: `memories` in the order of their ids, and the `cursor` of the next page or None."""

    memories: tuple[Memory, ...]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of the live memories visible in a scope, whole and by kind, tier, project, user and agent.

    `embedder` and `dimension` are those the engine embeds with.
    """

    memories: int
    by_kind: Mapping[str, int]
    by_tier: Mapping[str, int]
    by_project: Mapping[str, int]
    by_user: Mapping[str, int]
    by_agent: Mapping[str, int]
    sessions: int
    embedder: str
    dimension: int


@dataclass(frozen=True, slots=True)
class SessionReport:
    """What ending a session changed: ids of the memories promoted to the next tier."""

    session_id: str
    promoted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TransferReport:
    """What an export or import did.

    Attributes:
        written: records written (for an import, memories that are new).
        unchanged: records that were already there.
        skipped: lines that were refused, each as (number, reason); empty unless asked to skip.
    """

    written: int
    unchanged: int = 0
    skipped: tuple[tuple[int, str], ...] = ()
