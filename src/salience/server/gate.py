"""The gate: one verb, asked by somebody with a grant. What no surface may pass by stands here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from salience import keywords, remember
from salience.engine import Engine
from salience.errors import ForbiddenError, InputError, LimitError, Words, shown
from salience.rank import profiles
from salience.rank.profile import Profile, parse
from salience.records import ANY, BOUNDS, Contradiction, Grant, Receipt, checks
from salience.steps import memory_size
from salience.wire.requests import QUERIES_LIMIT, ProfileText, VerbRequest
from salience.wire.verbs import Verb

_MANY: Final = ("drafts", "messages", "ids")
"""Arguments that hold one thing after another."""
_STORE_WIDE: Final = ("upkeep", "import_")
"""Verbs that go beyond any coordinate, so that no bound can hold them."""
_TELLING: Final = ("update", "forget", "restore", "reflect")
"""Verbs that write, and answer with what was stored before."""
_NAMING: Final = ("tags", "entities", "kinds", "tiers", "sessions")
"""Arguments, of a draft too, that hold names."""
NAMES_LIMIT: Final = 1000
"""Most names that one of them may hold."""
OVERHEAD: Final = 800
"""Bytes of a memory in an answer besides what callers store in it."""
SHORTENED: Final = 1000
"""Characters that are left of a warning where an answer is full."""
PROFILE_LIMIT: Final = 8192
"""Longest text of a profile, characters; to read one takes up to the square of it. Those that ship have up to 1,800."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one request may ask.

    Attributes:
        batch: most memories, turns, ids or questions; of these no more than `QUERIES_LIMIT`, whatever it says.
        answer: largest answer with memories, bytes; of an export there is no limit.
        deadline_ms: of a recall that names none; None: no deadline.
    """

    batch: int = 1000
    answer: int = 16 * 1024 * 1024
    deadline_ms: float | None = None


class Watch(Protocol):
    """Is told of every verb that was asked for; never of a text."""

    def asked(self, verb: str, grant: Grant, seconds: float, outcome: object) -> None:
        """Take notice of a verb: who asked, how long it took, and the result or the error that it ended with."""
        ...


class Gate:
    """An engine behind rights, bounds and limits; safe to share between threads.

    Args:
        engine: of any tenant; each caller has the one of theirs.
        limits: what one request may ask.
        admit: called with the name of each caller, to keep to a rate; raises `LimitError`.
        watch: is told of every verb.
    """

    def __init__(
        self,
        engine: Engine,
        limits: Limits = Limits(),
        admit: Callable[[str], None] = lambda _: None,
        watch: Watch | None = None,
    ) -> None:
        self.engine = engine
        self.limits = limits
        self._admit = admit
        self._watch = watch

    def answer(self, grant: Grant, verb: Verb, request: VerbRequest) -> Any:
        """Return what the engine answers to a request of somebody with a grant.

        A caller that may only read leaves no trace: its recalls are dry runs. One that may only write is told nothing
        of what was stored before. A caller that is bound to a value of a coordinate sees what is visible there, and
        changes what lives there alone; what others share with it stays.

        Raises:
            ForbiddenError: the grant has not the right, or asks beyond its bound.
            LimitError: more than one request, or its answer, may hold.
            SalienceError: whatever the engine raises.
        """
        return self.call(grant, verb, request.arguments())

    def call(self, grant: Grant, verb: Verb, given: Mapping[str, Any], **ours: Any) -> Any:
        """Return the same for arguments by their names; `ours` are those that no request can hold."""
        began = time.perf_counter()
        outcome: object = None
        try:
            engine, arguments = self._admitted(grant, verb, given)
            outcome = _seen_by(grant, getattr(engine, verb.name)(**arguments, **ours))
            outcome = _within_answer(self.limits.answer, outcome)
        except Exception as error:
            outcome = error
            raise
        finally:
            if self._watch is not None:
                self._watch.asked(verb.name, grant, time.perf_counter() - began, outcome)
        return outcome

    def allow(self, grant: Grant, verb: Verb) -> None:
        """Return if a grant has what a verb takes; `answer` asks this too.

        Raises:
            ForbiddenError: it has not.
        """
        for right in _rights(verb):
            if not grant.may(right):
                raise ForbiddenError(f"{verb.name}: this needs the right {right!r}. Use a key that has it.")

    def may(self, grant: Grant, verb: Verb) -> bool:
        """Return whether a grant has what a verb takes."""
        return all(map(grant.may, _rights(verb)))

    def ready(self) -> None:
        """Return if the store answers and has its tables; `StoreError` says what is wrong."""
        self.engine.services.store.pinned()

    def _admitted(self, grant: Grant, verb: Verb, given: Mapping[str, Any]) -> tuple[Engine, dict[str, Any]]:
        """Return the engine of the caller's tenant, and the arguments with which it may be asked."""
        self._admit(grant.name)
        self.allow(grant, verb)
        _within(self.limits.batch, given)
        arguments = {**given, **_meant(given)}
        _within_names(arguments)
        engine = self.engine.of(grant.tenant, self.limits.answer)
        if "deadline_ms" in verb.request.model_fields and arguments.get("deadline_ms") is None:
            arguments["deadline_ms"] = self.limits.deadline_ms
        if "dry_run" in verb.request.model_fields and verb.right == "read" and not _leaves_traces(grant, given):
            arguments["dry_run"] = True
        if verb.name in ("remember", "remember_many") and not grant.may("read"):
            for one in arguments.get("drafts", [arguments]):
                one["duplicate"] = True  # who may not read is not told which texts are there
        if grant.bound:
            arguments |= _bounded(engine, grant, verb, arguments)
        return engine, arguments


def _within(batch: int, given: Mapping[str, Any]) -> None:
    for name, most in {**dict.fromkeys(_MANY, batch), "queries": min(batch, QUERIES_LIMIT)}.items():
        count = len(given.get(name) or ())
        if count > most:
            raise LimitError(f"{name}: {count:,} are more than the {most:,} that one request may hold. Send fewer.")


def _within_names(arguments: Mapping[str, Any]) -> None:
    for path, given in _parts(arguments):
        for name in _NAMING:
            count = len(given.get(name) or ())
            if count > NAMES_LIMIT:
                raise InputError(
                    f"{path}{name}",
                    Words(f"a list of {count:,} names"),
                    f"Give up to {NAMES_LIMIT:,}.",
                    f"has {count:,} names",
                )


def _parts(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the arguments, and each draft in them, after what stands before the names of its fields in an error."""
    yield "", arguments
    for place, draft in enumerate(arguments.get("drafts", ())):
        yield f"drafts[{place}].", draft


def _rights(verb: Verb) -> tuple[str, ...]:
    """Return the rights that a verb takes."""
    return (verb.right, "read") if verb.name in _TELLING else (verb.right,)


def _leaves_traces(grant: Grant, given: Mapping[str, Any]) -> bool:
    """Return whether a recall counts. Under a profile of one's own it could set the importance of what others share."""
    return grant.may("write") and not (grant.bound and isinstance(given.get("profile"), ProfileText))


def _seen_by(grant: Grant, result: Any) -> Any:
    """Return a result without what the caller may not read: the memories that a new one contradicts or replaces."""
    if grant.may("read"):
        return result
    if isinstance(result, list):
        return [_seen_by(grant, one) for one in result]
    if isinstance(result, Receipt) and (result.contradictions or result.superseded):
        return replace(result, contradictions=(), warning=None, superseded=result.memory.supersedes)
    return result


def _within_answer(limit: int, result: Any) -> Any:
    """Return receipts with as many contradictions, the most similar first, as an answer of `limit` bytes holds.

    The warning of each says how many there are. All other results are returned as they are.
    """
    receipts = result if isinstance(result, list) else [result]
    if not all(isinstance(one, Receipt) for one in receipts):
        return result
    kept = list[Receipt]()
    for receipt in receipts:
        warning, rivals = receipt.warning, list[Contradiction]()
        limit -= len((warning or "").encode())
        if limit < 0 and warning is not None and len(warning) > SHORTENED:
            warning = f"{warning[: SHORTENED - 1]}…"
        for rival in receipt.contradictions:
            limit -= OVERHEAD + memory_size(rival.memory)
            if limit < 0:
                break
            rivals.append(rival)
        kept.append(replace(receipt, contradictions=tuple(rivals), warning=warning))
    return kept if isinstance(result, list) else kept[0]


def _meant(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the arguments that the wire writes otherwise than the engine has them."""
    meant: dict[str, Any] = _everywhere(arguments)
    if arguments.get("profile") is not None:
        meant["profile"] = _profile(arguments["profile"])
    for name in ("drafts", "messages"):
        if name in arguments:
            items = [item.model_dump(exclude_unset=True) for item in arguments[name]]
            meant[name] = [{**item, **_everywhere(item)} for item in items]
    return meant


def _everywhere(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the coordinates of which every value is asked for."""
    return {name: ANY for name in BOUNDS if given.get(name) == ANY.value}


def _profile(given: str | ProfileText) -> Profile:
    """Return the profile of a name or a text; a name is never taken for a path of the server's."""
    if isinstance(given, str):
        return profiles.load(checks.choice("profile", given, profiles.NAMES))
    if len(given.toml) > PROFILE_LIMIT:
        raise InputError(
            "profile.toml",
            Words(f"text of {len(given.toml):,} characters"),
            f"Keep it within {PROFILE_LIMIT:,}.",
            f"has {len(given.toml):,} characters",
        )
    return parse(given.toml, "profile")


def _bounded(engine: Engine, grant: Grant, verb: Verb, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that a bound sets.

    Raises:
        ForbiddenError: the request goes beyond the bound.
        NotFoundError: it explains a memory that the caller may not know of.
    """
    if verb.name in _STORE_WIDE:
        raise ForbiddenError(f"{verb.name}: a key that is bound to {_said(grant)} may not. Use one without a bound.")
    if verb.name == "help":
        return {}
    where = dict(grant.bound)  # what is asked for every value is asked for the one
    for path, given in _parts(arguments):
        _require_within(grant, given, path)
    seen = {name: value for name, value in {**arguments, **where}.items() if name in keywords.NAMES}
    for one in [arguments[verb.changes]] if verb.changes else arguments.get("ids") or ():
        _own(engine, grant, one, seen)
    for _, draft in _parts(arguments):
        if draft.get("supersedes") is not None:
            own = {name: value for name, value in draft.items() if name in keywords.NAMES}
            _own(engine, grant, draft["supersedes"], {**seen, **own, **where})
    if verb.name == "explain":
        engine.history(arguments["memory_id"], **seen)  # one out of scope is, to this caller, not there
    return where


def _require_within(grant: Grant, given: Mapping[str, Any], path: str) -> None:
    for name, value in grant.bound.items():
        if given.get(name, value) not in (value, ANY):
            raise ForbiddenError(
                f"{path}{name}: {shown(given[name])} is beyond this key, which is bound to {_said(grant)}."
            )


def _own(engine: Engine, grant: Grant, id: str, where: Mapping[str, Any]) -> None:
    """Let pass a memory that lives where the grant is bound to; one that others share is theirs too."""
    home = remember.versions_of(engine.services, keywords.scope(grant.tenant, where)[0], id)[-1].memory.scope
    if any(getattr(home, name) != value for name, value in grant.bound.items()):
        raise ForbiddenError(
            f"id: memory {shown(id)} is shared beyond {_said(grant)}. Use a key that is not bound to it."
        )


def _said(grant: Grant) -> str:
    return ", ".join(f"{name} {shown(value)}" for name, value in grant.bound.items())
