"""The gate: enforces rights, bounds and limits on every request of REST and MCP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import limits as rates
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from salience import keywords, remember
from salience.arguments import QUERIES_LIMIT
from salience.deadline import slots, within
from salience.engine import Engine
from salience.errors import ConflictError, ForbiddenError, InputError, LimitError, StoreError, Words, shown
from salience.rank import profiles
from salience.rank.profile import Profile, parse
from salience.records import (
    ANY,
    BOUNDS,
    ConsolidateReport,
    Contradiction,
    Grant,
    Memory,
    Receipt,
    SessionReport,
    checks,
)
from salience.steps import memory_size
from salience.verbs import Verb
from salience.wire.requests import ProfileText, VerbRequest

_BATCHES: Final = ("drafts", "messages", "ids")
_NAME_LISTS: Final = (
    "tags", "entities", "kinds", "tiers", "sessions", "fact_keys", "words", "linked_to", "projects", "users", "agents",
)  # fmt: skip
NAMES_LIMIT: Final = 1000
"""Maximum number of names in a list."""
OVERHEAD: Final = 800
"""Bytes of a memory in a response besides its text, tags and metadata."""
SHORTENED: Final = 1000
"""Maximum length of a warning in a response at its size limit, characters."""
PROFILE_LIMIT: Final = 8192
"""Maximum length of a profile's TOML, characters; parsing takes quadratic time. The built-in ones have up to 1,800."""

READY_SECONDS: Final = 1.0
"""Maximum seconds of a check of the store."""
_late_probes: Final = slots()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits per request.

    Attributes:
        batch: maximum number of memories, turns, ids or queries; for queries at most `QUERIES_LIMIT`.
        answer: maximum size of a response with memories, bytes; exports are unlimited.
        deadline_ms: default deadline of a recall.
    """

    batch: int = 1000
    answer: int = 16 * 1024 * 1024
    deadline_ms: float | None = None


class Observer(Protocol):
    """Receives every verb, without user text."""

    def observe(self, verb: str, grant: Grant, seconds: float, outcome: object) -> None:
        """Record a verb: the caller, the duration, and the result or the error."""
        ...


@dataclass(frozen=True, slots=True)
class Gate:
    """An engine behind rights, bounds and limits; safe to share between threads.

    Args:
        engine: the engine of any tenant; each caller uses the engine of their own tenant.
        limits: limits per request.
        check_rate: takes a `Grant.caller`; raises `LimitError` above the rate.
        observer: receives every verb.
    """

    engine: Engine
    limits: Limits = Limits()
    check_rate: Callable[[str], None] = lambda _: None
    observer: Observer | None = None

    def answer(self, grant: Grant, verb: Verb, request: VerbRequest) -> Any:
        """Return the engine's result for a request.

        Recalls of read-only callers are dry runs. Write-only callers learn nothing about stored memories. Callers with
        a bound see the memories visible there, but change only memories stored there, not shared ones.

        Raises:
            ForbiddenError: the grant lacks the right, or the request is outside its bound.
            LimitError: the request or the response exceeds a limit.
            SalienceError: errors of the engine.
        """
        return self.call(grant, verb, request.arguments())

    def call(self, grant: Grant, verb: Verb, given: Mapping[str, Any], **local: Any) -> Any:
        """As `answer`, with arguments by name; `local` has arguments that no request contains, such as a file."""
        return self.apply(grant, verb, given, lambda engine, **named: getattr(engine, verb.name)(**named, **local))

    def apply(self, grant: Grant, verb: Verb, given: Mapping[str, Any], function: Callable[..., Any]) -> Any:
        """As `call`, with a function of the caller's engine and the arguments in place of the engine's method."""
        began = time.perf_counter()
        outcome: object = None
        try:
            engine, arguments = self._prepare(grant, verb, given)
            outcome = function(engine, **arguments)
            outcome = outcome if grant.may("read") else _redacted(outcome, arguments)
            outcome = _within_size(self.limits.answer, outcome)
        except ConflictError as error:
            outcome = error
            if grant.may("read"):
                raise
            raise ConflictError("key: another memory or call has it. Use a new key.") from None
        except Exception as error:
            outcome = error
            raise
        finally:
            if self.observer is not None:
                self.observer.observe(verb.name, grant, time.perf_counter() - began, outcome)
        return outcome

    def require_right(self, grant: Grant, verb: Verb) -> None:
        """Raise `ForbiddenError` unless a grant has the rights for a verb; `answer` also checks this."""
        for right in _rights(verb):
            if not grant.may(right):
                raise ForbiddenError(f"{verb.name}: needs the right {right!r}. Use a key that has it.")

    def may(self, grant: Grant, verb: Verb) -> bool:
        """Return whether a grant has the rights for a verb, and no bound that excludes it."""
        return all(map(grant.may, _rights(verb))) and not (grant.bound and verb.is_store_wide)

    def ready(self) -> bool:
        """Return whether the store serves every tenant.

        Raises:
            StoreError: it does not respond within `READY_SECONDS`, or has no tables.
        """
        store = self.engine.services.store
        try:
            within(READY_SECONDS, store.pinned, _late_probes)
        except TimeoutError:
            raise StoreError(f"store: no answer within {READY_SECONDS:g} s. Check the database.") from None
        return not store.is_degraded

    def _prepare(self, grant: Grant, verb: Verb, given: Mapping[str, Any]) -> tuple[Engine, dict[str, Any]]:
        """Return the engine of the caller's tenant, and the arguments that the caller may pass to it."""
        self.check_rate(grant.caller)
        self.require_right(grant, verb)
        batch = self.limits.batch
        for name, limit in {**dict.fromkeys(_BATCHES, batch), "queries": min(batch, QUERIES_LIMIT)}.items():
            if (count := len(given.get(name) or ())) > limit:
                raise LimitError(f"{name}: {count:,} are more than the {limit:,} allowed per request. Send fewer.")
        arguments = {**given, **_wildcards(given)}
        if given.get("profile") is not None:
            arguments["profile"] = read_profile(given["profile"])
        for name in ("drafts", "messages"):
            if name in given:
                items = [item.model_dump(exclude_unset=True) for item in given[name]]
                arguments[name] = [{**item, **_wildcards(item)} for item in items]
        for path, part in _with_drafts(arguments):
            for name in _NAME_LISTS:
                if (count := len(part.get(name) or ())) > NAMES_LIMIT:
                    value, remedy = Words(f"a list of {count:,} names"), f"Give up to {NAMES_LIMIT:,}."
                    raise InputError(f"{path}{name}", value, remedy, f"has {count:,} names")
        # a custom profile of a bound caller could change the importance of shared memories
        records_access = grant.may("write") and not (grant.bound and isinstance(given.get("profile"), ProfileText))
        engine = self.engine.of(grant.tenant, self.limits.answer, records_access=records_access)
        if "deadline_ms" in verb.arguments and arguments.get("deadline_ms") is None:
            arguments["deadline_ms"] = self.limits.deadline_ms
        if verb.name in ("remember", "remember_many") and not grant.may("read"):
            for one in arguments.get("drafts", [arguments]):
                one["duplicate"] = True  # write-only callers must not learn which texts exist
        if grant.bound:
            arguments |= _bound_arguments(engine, grant, verb, arguments)
        return engine, arguments


def _with_drafts(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the arguments and each of their drafts, with the prefix of field names in errors."""
    yield "", arguments
    for position, draft in enumerate(arguments.get("drafts", ())):
        yield f"drafts[{position}].", draft


def _rights(verb: Verb) -> tuple[str, ...]:
    return (verb.right, "read") if verb.also_reads else (verb.right,)


def _redacted(result: Any, arguments: Mapping[str, Any]) -> Any:
    """Return a result without what it tells of stored memories, for a caller that must not read."""
    match result:
        case Receipt():
            return _own(result, arguments)
        case list():
            sent: list[Mapping[str, Any]] = [{**arguments, **draft} for draft in arguments.get("drafts", ())]
            return [_own(*pair) for pair in zip(result, sent or [arguments] * len(result), strict=True)]
        case SessionReport():
            return replace(result, promoted=())
        case ConsolidateReport():
            return replace(result, examined=0, promoted=dict.fromkeys(result.promoted, ()), reasons={})
    return result


def _own(receipt: Receipt, sent: Mapping[str, Any]) -> Receipt:
    """Return a receipt without what others did; of a memory that was stored before, what the caller `sent`."""
    memory = replace(receipt.memory, relations=(), replaced_by=None)
    if receipt.status == "unchanged":
        at = memory.created_at
        memory = Memory(
            id=memory.id, scope=replace(memory.scope, session_id=sent.get("session_id")), key=memory.key,
            content=sent.get("content", ""), content_hash="", kind="fact", importance=0.0, weight=1.0, tier="episodic",
            tags=(), entities=(), fact_key=None, supersedes=None, metadata={}, speaker=None, relations=(),
            created_at=at, updated_at=at, tier_since=at, changed_at=at,
        )  # fmt: skip
        return Receipt(memory, "unchanged")
    if receipt.status == "superseded" and memory.supersedes is None:  # it tells of an older memory of the same fact
        receipt = replace(receipt, status="created")
    tells = receipt.contradictions or receipt.superseded
    warning = None if tells else receipt.warning
    return replace(receipt, memory=memory, contradictions=(), warning=warning, superseded=memory.supersedes)


def _within_size(limit: int, result: Any) -> Any:
    """Return receipts with the most similar conflicts that fit into `limit` bytes; other results unchanged.

    The warning of each receipt still counts all conflicts.
    """
    receipts = result if isinstance(result, list) else [result]
    if not all(isinstance(one, Receipt) for one in receipts):
        return result
    fitted = list[Receipt]()
    for receipt in receipts:
        warning, conflicts = receipt.warning, list[Contradiction]()
        limit -= len((warning or "").encode())
        if limit < 0 and warning is not None and len(warning) > SHORTENED:
            warning = f"{warning[: SHORTENED - 1]}…"
        for conflict in receipt.contradictions:
            limit -= OVERHEAD + memory_size(conflict.memory)
            if limit < 0:
                break
            conflicts.append(conflict)
        fitted.append(replace(receipt, contradictions=tuple(conflicts), warning=warning))
    return fitted if isinstance(result, list) else fitted[0]


def _wildcards(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: ANY for name in BOUNDS if given.get(name) == ANY.value}


def read_profile(given: str | ProfileText) -> Profile:
    """Return a built-in profile by name, or a parsed one. A name cannot be a path on the server.

    Raises:
        InputError: an unknown name, or a text that is too long or no valid profile.
    """
    if isinstance(given, str):
        return profiles.load(checks.choice("profile", given, profiles.NAMES))
    count = len(given.toml)
    if count > PROFILE_LIMIT:
        value, remedy = Words(f"text of {count:,} characters"), f"Keep it within {PROFILE_LIMIT:,}."
        raise InputError("profile.toml", value, remedy, f"has {count:,} characters")
    return parse(given.toml, "profile")


def _bound_arguments(engine: Engine, grant: Grant, verb: Verb, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the coordinates that a bound sets.

    Raises:
        ForbiddenError: the request is outside the bound, or changes a memory that is stored outside it.
        NotFoundError: the request explains or changes a memory that the caller cannot see.
    """
    if verb.is_store_wide:
        raise ForbiddenError(f"{verb.name}: not allowed for a key bound to {_bound_text(grant)}. Use an unbound key.")
    if "environment" not in verb.arguments:  # it reads no memory
        return {}
    where = dict(grant.bound)  # overrides wildcards too
    for path, given in _with_drafts(arguments):
        for name, value in grant.bound.items():
            if given.get(name, value) not in (value, ANY):
                argument = f"{path}{name}: {shown(given[name])}"
                raise ForbiddenError(f"{argument} is outside the bound of this key, {_bound_text(grant)}.")
    scope = {name: value for name, value in {**arguments, **where}.items() if name in keywords.NAMES}
    ids = [arguments[verb.changes]] if verb.changes else arguments.get("ids") or ()
    changed = [(memory_id, scope) for memory_id in ids if verb.right != "read"]
    for _, draft in _with_drafts(arguments):
        if draft.get("supersedes") is not None:
            own = {name: value for name, value in draft.items() if name in keywords.NAMES}
            changed.append((draft["supersedes"], {**scope, **own, **where}))
    for memory_id, at in changed:
        home = remember.versions_of(engine.services, keywords.scope(grant.tenant, at)[0], memory_id)[-1].memory.scope
        if any(getattr(home, name) != value for name, value in grant.bound.items()):
            text = f"id: memory {shown(memory_id)} is not limited to {_bound_text(grant)}."
            raise ForbiddenError(f"{text} Use a key without this bound.")
    if verb.name == "explain":
        engine.history(arguments["memory_id"], **scope)  # raises NotFoundError for memories outside the scope
    return where


def _bound_text(grant: Grant) -> str:
    return ", ".join(f"{name} {shown(value)}" for name, value in grant.bound.items())


def rate_limiter(rate: str | None) -> Callable[[str], None]:
    """Return a function that takes the name of a caller and raises `LimitError` above the rate.

    The limiter uses a sliding window; rejected requests do not count. Each worker process counts separately.

    Args:
        rate: such as `600/minute`, `10/second` or `1000 per 5 minutes`; None for no limit.

    Raises:
        InputError: an invalid rate.
    """
    if rate is None:
        return lambda _: None
    try:
        found = rates.parse_many(rate)
    except ValueError:
        found = []
    if len(found) != 1 or found[0].amount < 1:
        raise InputError("server_rate", rate, "Write one number and a span: 600/minute, 10/second, 100 per 5 minutes.")
    limit, limiter = found[0], MovingWindowRateLimiter(MemoryStorage())

    def check(name: str) -> None:
        if not limiter.hit(limit, name):
            wait = max(0.0, limiter.get_window_stats(limit, name).reset_time - time.time())
            raise LimitError(f"rate: more than {rate} with one key. Retry in {wait:.1f} s.", wait)

    return check
