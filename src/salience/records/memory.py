"""Scopes, drafts and memories."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Final, Literal, Self, get_args

from salience.errors import InputError
from salience.records import checks
from salience.records.ids import short_id

KINDS: Final = ("fact", "rule", "decision", "feedback", "context", "bootstrap", "turn", "reflection")
"""Kinds with a meaning of their own; any other name is accepted too."""
TIERS: Final = ("working", "episodic", "semantic")
"""Tiers in the order of promotion."""
Status = Literal["live", "forgotten", "expired", "stale"]
"""Whether recalls return a memory, or why not."""
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
CHANGES: Final = (
    "create", "update", "supersede", "forget", "restore", "promote", "expire", "reflect", "stale",
)  # fmt: skip
"""Changes that make a version of a memory."""
CHANGEABLE: Final = (
    "content", "kind", "importance", "weight", "tags", "entities", "fact_key", "supersedes", "ttl", "tier", "metadata",
)  # fmt: skip
"""Fields that an update can change."""
CALLER: Final = "caller"
FACT: Final = "fact"
"""Values of `Relation.by` that leave no doubt."""
RELATIONS: Final = ("replaces", "repeats", "adds")
"""What a memory can be to an older one."""
LIKELY: Final = 0.5
"""Probability from which a memory is shown as replaced."""
SCOPE_LEVELS: Final = ("global", "project")
"""mememory's two levels of scope."""


class Wildcard(enum.Enum):
    """The type of `ANY`."""

    ANY = "*"

    def __repr__(self) -> str:
        return "salience.ANY"


ANY: Final = Wildcard.ANY
"""As a coordinate of a read: every value within the tenant."""
Coordinate = str | None | Wildcard
NARROWING: Final = ("project", "user_id", "agent_id")
"""Coordinates that are None on a memory that several projects, users or agents share."""


class Unset(enum.Enum):
    """The type of `UNSET`."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "salience.UNSET"


UNSET: Final = Unset.UNSET
"""As an argument of `update`: leave the field unchanged."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The address of a memory, or the place from which a caller reads.

    `tenant` and `environment` must be equal. A memory is visible if each of its `project`, `user_id` and `agent_id` is
    None or equal to the caller's. `session_id` hides nothing. `ANY` matches every value.
    """

    tenant: str = "default"
    environment: str | Wildcard = "default"
    project: Coordinate = None
    user_id: Coordinate = None
    agent_id: Coordinate = None
    session_id: str | None = None

    def __post_init__(self) -> None:
        checks.name("tenant", self.tenant)
        if self.environment is not ANY:
            checks.name("environment", self.environment)
        for coordinate in NARROWING:
            value = getattr(self, coordinate)
            if value is not None and value is not ANY:
                checks.name(coordinate, value)
        if self.session_id is not None:
            checks.name("session_id", self.session_id)

    def as_home(self) -> Scope:
        """Return this scope if a memory can be stored in it.

        Raises:
            InputError: a coordinate is `ANY`, or `*`, which means `ANY` in requests.
        """
        for coordinate in ("environment", *NARROWING):
            value = getattr(self, coordinate)
            if value in (ANY, ANY.value):
                raise InputError(coordinate, value, "Name one value (or none) where a memory is to be stored.")
        return self

    def sees(self, home: Scope) -> bool:
        """Return whether a memory stored at `home` is visible to a caller at this scope.

        `store.statements.visible` and `store.index.view.visible` say the same in SQL and on columns.
        """
        return (
            self.tenant == home.tenant
            and (self.environment is ANY or self.environment == home.environment)
            and (self.project is ANY or home.project is None or home.project == self.project)
            and (self.user_id is ANY or home.user_id is None or home.user_id == self.user_id)
            and (self.agent_id is ANY or home.agent_id is None or home.agent_id == self.agent_id)
        )

    def widened(self) -> Scope:
        """Return this scope with `ANY` for each project, user and agent that it does not name."""
        project, user, agent = (
            ANY if value is None else value for value in (self.project, self.user_id, self.agent_id)
        )
        return replace(self, project=project, user_id=user, agent_id=agent)

    @property
    def without_session(self) -> Scope:
        """This scope without its session."""
        return self if self.session_id is None else replace(self, session_id=None)

    @property
    def home_key(self) -> str:
        """The coordinates without the session as one text; idempotency keys are unique within it."""
        values = (self.environment, self.project, self.user_id, self.agent_id)
        return "\x1f".join(["" if value is None else str(value) for value in values])

    @property
    def session_key(self) -> str | None:
        """Identity of the session, which belongs to one user of one environment; None without a session."""
        if self.session_id is None:
            return None
        user = self.user_id if isinstance(self.user_id, str) else ""
        environment = self.environment if isinstance(self.environment, str) else ""
        return "\x1f".join((environment, user, self.session_id))

    @property
    def who(self) -> str | None:
        """The caller as recorded in `Memory.changed_by`: the agent, else the user, else None."""
        for coordinate in ("agent_id", "user_id"):
            value = getattr(self, coordinate)
            if isinstance(value, str):
                return f"{coordinate.removesuffix('_id')}:{value}"
        return None

    def who_at(self, home: Scope) -> str | None:
        """Return `who`, or None if memories at `home` are shared with other users, who must not see it."""
        return None if isinstance(self.user_id, str) and home.user_id != self.user_id else self.who

    def as_dict(self) -> dict[str, str]:
        """Return the coordinates that are set, without the tenant."""
        pairs = ((name, getattr(self, name)) for name in ("environment", *NARROWING, "session_id"))
        return {key: value.value if value is ANY else value for key, value in pairs if value is not None}


@dataclass(frozen=True, slots=True)
class OutOfScope:
    """Live memories of one place that an answer leaves out because the call does not name their project, user or agent.

    Attributes:
        scope: the place; a call that names its project, user and agent sees them.
        count: number of memories.
    """

    scope: Scope
    count: int

    def describe(self, argument: Callable[[str, str], str] = lambda name, value: f"{name}={value!r}") -> str:
        """Return a sentence such as `3 memories of user 'alice' are not in view; add user_id='alice'`.

        Args:
            argument: returns a coordinate as call syntax, from its name and value.
        """
        named = {name: str(value) for name in NARROWING if (value := getattr(self.scope, name)) is not None}
        of = " and ".join(f"{name.removesuffix('_id')} {value!r}" for name, value in named.items())
        verb = "memory of {} is" if self.count == 1 else "memories of {} are"
        add = " ".join(argument(name, value) for name, value in named.items())
        return f"{self.count:,} {verb.format(of)} not in view; add {add}"


class _Given:
    """Base of `Draft` that records the names of the constructor arguments."""

    __slots__ = ("_given",)
    _given: frozenset[str]

    def __new__(cls, **arguments: Any) -> Self:
        """Return the object before `__init__` fills it."""
        made = super().__new__(cls)
        object.__setattr__(made, "_given", frozenset(arguments))
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(_Given):
    """A memory to store, as the caller gives it.

    Attributes:
        content: the text; not blank.
        scope: where to store it; None: the scope of the call.
        kind: one of `KINDS`, or any other name.
        importance: [0, 1]; None: scored from the text.
        weight: confidence, [0.1, 1].
        tags, entities: names, at most 1,000 of 32,768 bytes together; entities None: found in the text.
        fact_key: identity of the fact that the text states, such as `user.theme`.
        supersedes: id of the memory that this one replaces; its weight falls to 0.1.
        ttl: time to live: seconds, a timedelta, or text such as `24h`, `7d` or `2w`.
        tier: working, episodic or semantic.
        metadata: JSON values, stored and returned, never ranked; at most 65,536 bytes.
        key: idempotency key; a second `remember` with the same key stores nothing.
        created_at: aware instant of the text; None: now.
        speaker: speaker of a turn of a conversation.
        duplicate: whether to store it even if a current memory of the same scope has the same text.
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
    duplicate: bool = False

    @property
    def given(self) -> frozenset[str]:
        """Names of the fields that the caller gave, even with the default value."""
        return self._given

    def __post_init__(self) -> None:
        keep = object.__setattr__
        checks.text("content", self.content)
        keep(self, "kind", checks.name("kind", self.kind))
        if self.importance is not None:
            keep(self, "importance", checks.number("importance", self.importance, 0.0, 1.0))
        keep(self, "weight", checks.number("weight", self.weight, 0.1, 1.0))
        keep(self, "tags", checks.labels("tags", self.tags))
        if self.entities is not None:
            keep(self, "entities", checks.labels("entities", self.entities))
        for optional in ("fact_key", "supersedes", "key", "speaker"):
            if getattr(self, optional) is not None:
                checks.name(optional, getattr(self, optional))
        if self.ttl is not None:
            keep(self, "ttl", checks.duration("ttl", self.ttl))
        checks.choice("tier", self.tier, TIERS)
        keep(self, "metadata", checks.metadata("metadata", self.metadata))
        if self.created_at is not None:
            keep(self, "created_at", checks.instant("created_at", self.created_at))
        checks.flag("duplicate", self.duplicate)


@dataclass(frozen=True, slots=True)
class Relation:
    """What a memory is to an older one; stored with the newer memory and decided when that is written.

    Attributes:
        id: id of the older memory.
        kind: `replaces` (it states a later value of the same thing), `repeats` (it says the same) or `adds` (it says
            more of the same thing); both memories are true of the last two kinds.
        probability: [0, 1]; 1 for what a caller said.
        by: who said so: `caller` (`supersedes`, or a `fact_key` that the caller gave), `fact` (a fact key found in both
            texts), `rule` (their words), `model` (the fitted model), or the name of the configured judge.
        reason: the evidence in a few words. It quotes no value of the older text, which may be erased.
        at: when it was decided, if that was after this version of the memory was written: as the older memory was
            stored later, under an earlier date.
    """

    id: str
    kind: Literal["replaces", "repeats", "adds"]
    probability: float
    by: str
    reason: str = ""
    at: datetime | None = None

    def __post_init__(self) -> None:
        checks.name("relations.id", self.id)
        checks.choice("relations.kind", self.kind, RELATIONS)
        checks.number("relations.probability", self.probability, 0.0, 1.0)
        checks.name("relations.by", self.by)
        if self.at is not None:
            object.__setattr__(self, "at", checks.aware("relations.at", self.at))

    @property
    def hides(self) -> bool:
        """Whether recalls leave the older memory out, since a caller said that it is replaced."""
        return self.kind == "replaces" and self.by == CALLER

    def as_dict(self) -> dict[str, Any]:
        """Return the relation as JSON values; without `at` if it is None."""
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "at"}
        return values if self.at is None else values | {"at": self.at.isoformat()}


@dataclass(frozen=True, slots=True)
class Replacement:
    """The memory that replaces another one.

    Attributes:
        id: its id.
        at: its `created_at`.
        probability, by, reason: as in `Relation`.
    """

    id: str
    at: datetime
    probability: float
    by: str
    reason: str = ""

    @property
    def short_id(self) -> str:
        """The last 8 characters of the id."""
        return short_id(self.id)

    def __str__(self) -> str:
        """Return `replaced on 3 May 2026 by c7a0db33`, with `probably` unless a caller or a fact key said so."""
        sure = "" if self.by in (CALLER, FACT) else "probably "
        return f"{sure}replaced on {self.at.day} {self.at:%b %Y} by {self.short_id}"


WIDTH: Final = 80
"""Characters of a content on one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A stored memory, or one version of it.

    Attributes:
        id: 32 hexadecimal digits that sort by the time of storing.
        version: counts from 1; every change except of the recall counters makes a version.
        change: what made this version, one of `CHANGES`.
        changed_at: when this version began; it ends when the next one begins.
        updated_at: when its fields were last given: by remember, update, or restore of a version; dismiss and restore
            without a version leave it.
        changed_by: author of this version: `agent:NAME`, `user:NAME` or `upkeep`; None: unknown.
        reason: why this version was made; None if the caller gave no reason.
        accessed_at: when a recall last returned the memory; None: never.
        access_count: number of recalls that returned the memory.
        tier_since: when it entered its tier.
        turn: position in its session, from 1; None without a session.
        forgotten_at: when it was forgotten, expired or became stale; None while it is live.
        relations: what it is to older memories; None while that is not decided, as for imported memories until upkeep.
        replaced_by: the live memory that replaces this one, as the caller sees it; None: none, or not looked up. It is
            not stored with the memory.
        sources: of a reflection, the ids of the memories that it sums up.
        reflection: id of the reflection that sums up this memory.
        content_hash: sha256 of the content.

    The other fields are as in `Draft`, filled in. Instants are aware and in UTC.
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
    changed_by: str | None = None
    reason: str | None = None
    relations: tuple[Relation, ...] | None = None
    sources: tuple[str, ...] = ()
    reflection: str | None = None
    replaced_by: Replacement | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"Memory({self})"

    def __str__(self) -> str:
        """Return one line: short id, kind, day, shortened content with invisible characters escaped, replacement."""
        content = " ".join(self.content.split())
        short = content if len(content) <= WIDTH else content[: WIDTH - 1].rstrip() + "…"
        replaced = "" if self.replaced_by is None else f" [{self.replaced_by}]"
        return f"[{self.short_id}] {repr(self.kind)[1:-1]} {self.created_at:%Y-%m-%d} {short!r}{replaced}"

    @property
    def short_id(self) -> str:
        """The last 8 characters of the id; every verb that takes an id takes this too."""
        return short_id(self.id)

    @property
    def replaced_ids(self) -> tuple[str, ...]:
        """Ids of the older memories that it replaces, the surest first."""
        return tuple(one.id for one in self.relations or () if one.kind == "replaces")

    @property
    def status(self) -> Status:
        """`live`, or why recalls do not return the memory."""
        if self.forgotten_at is None:
            return "live"
        if self.change == "expire" or self.forgotten_at == self.expires_at:
            return "expired"
        return "stale" if self.change == "stale" else "forgotten"

    def is_live(self, now: datetime) -> bool:
        """Return whether the memory is not hidden, and its time to live is not over at an instant.

        `store.statements.live` and `store.index.view.live` say the same in SQL and on columns.
        """
        return self.forgotten_at is None and (self.expires_at is None or self.expires_at > now)

    def seen_at(self, now: datetime) -> Memory:
        """Return the memory as a call at an instant shows it: hidden from `expires_at` on."""
        is_over = self.forgotten_at is None and not self.is_live(now)
        return replace(self, forgotten_at=self.expires_at) if is_over else self

    def changed(
        self, change: str, at: datetime, *, by: str | None = None, reason: str | None = None, **values: Any
    ) -> Memory:
        """Return the next version of this memory, made by `change` (one of `CHANGES`), with the given field values.

        `changed_at` never decreases, even if the clock steps back.
        """
        at = max(at, self.changed_at)
        made = {"version": self.version + 1, "change": change, "changed_at": at, "changed_by": by, "reason": reason}
        return replace(self, **{**made, **values})
