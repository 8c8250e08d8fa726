"""Verbs: the methods of every connection, and what the server and its clients need to know of each.

`Engine` carries out a verb in this process and `Client` on a server; `AsyncVerbs` has the same methods as coroutines.
Routes, MCP tools, options of the command line and reference pages are made from these signatures.
"""

import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar

from salience import arguments as args
from salience import records
from salience.arguments import Argument, argument, without_alias
from salience.records import ANY, UNSET, Receipt, Unset, checks
from salience.wire.responses import Schemas, from_json, to_json

if TYPE_CHECKING:
    from salience.ports import Calibration
    from salience.wire.requests import VerbRequest

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True, eq=False)
class Verb:
    """A verb: its signature, its route, and what it does.

    Attributes:
        name: of the method.
        signature: of the method.
        doc: the docstring.
        right: one of `RIGHTS` that a key needs.
        method, path: the route; braces mark arguments in the path. Empty for a verb that runs only where the store is.
        tag: the section of the REST API.
        result_key: the key of the result in the JSON object, for results that are not objects themselves.
        creates: whether it can create memories, which gives status 201.
        changes: the argument with the id of the memory that the verb changes; None for other verbs.
        also_reads: whether a verb that writes returns stored memories too, so that its key needs the right `read`.
        is_store_wide: whether it has no scope, which a bound of a key could restrict.
        is_long: whether it may scan a whole store.
        ranks: whether it uses the profile of the connection by default.
        schema: more of the schema of its request.
    """

    name: str
    signature: inspect.Signature
    doc: str
    right: str
    method: str = ""
    path: str = ""
    tag: str = "memories"
    result_key: str | None = None
    creates: bool = False
    changes: str | None = None
    also_reads: bool = False
    is_store_wide: bool = False
    is_long: bool = False
    ranks: bool = False
    schema: Mapping[str, Any] | None = None

    @property
    def summary(self) -> str:
        """The first sentence of the docstring."""
        return " ".join(self.doc.partition("\n\n")[0].split())

    @property
    def response(self) -> Any:
        """The type of the result."""
        return self.signature.return_annotation

    @cached_property
    def arguments(self) -> dict[str, Argument]:
        """Name -> argument, in the order of the signature."""
        return {name: argument(one) for name, one in self.signature.parameters.items() if name != "self"}

    @cached_property
    def request(self) -> "type[VerbRequest]":
        """The model of the arguments in JSON."""
        from salience.wire.requests import request

        name = "".join(word.capitalize() for word in self.name.split("_"))
        models = {"DraftLine": draft_line()} if "drafts" in self.arguments else {}
        return request(name, self.summary, self.arguments.values(), self.schema, models)

    def bind(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name, with the defaults but `UNSET`.

        Raises:
            InputError: an unknown name.
            TypeError: a required argument is missing, or one is given twice.
        """
        for name in named:
            if name not in self.signature.parameters or name == "self":
                checks.choice("keyword", name, tuple(self.arguments))
        try:
            bound = self.signature.bind(None, *given, **named)
        except TypeError as error:
            raise TypeError(f"{self.name}(): {error}. See help(salience.Verbs.{self.name}).") from None
        bound.apply_defaults()
        return {name: value for name, value in bound.arguments.items() if name != "self" and value is not UNSET}

    def to_json(self, result: object) -> dict[str, Any]:
        """Return a result as a JSON object."""
        data = to_json(result)
        return {self.result_key: data} if self.result_key else data

    def from_json(self, data: Mapping[str, Any]) -> Any:
        """Return the result in a JSON object; raises `InputError` for other objects."""
        return from_json(self.response, data[self.result_key] if self.result_key else data)

    def response_schema(self, schemas: Schemas) -> dict[str, Any]:
        """Return the schema of `to_json`; records go into `schemas`."""
        found = schemas.of(self.response)
        if self.result_key is None:
            return found
        return {"type": "object", "properties": {self.result_key: found}, "required": [self.result_key]}


ALL: Final[dict[str, Verb]] = {}
"""Every verb by name."""


Method = Callable[Concatenate[Any, P], R]


def verb(route: str, right: str, **facts: Any) -> Callable[[Method[P, R]], Method[P, R]]:
    """Return a decorator that makes a signature with a docstring a method that calls the verb.

    Args:
        route: such as `GET /v1/stats`; empty for a verb that runs only where the store is.
        right: the right that a key needs.
        **facts: other attributes of `Verb`.
    """

    def make(function: Method[P, R]) -> Method[P, R]:
        method, _, path = route.partition(" ")
        row = Verb(
            name=function.__name__, signature=inspect.signature(function), doc=inspect.getdoc(function) or "",
            right=right, method=method, path=path, **facts,
        )  # fmt: skip
        ALL[row.name] = row

        def call(self: Any, /, *given: P.args, **named: P.kwargs) -> R:
            result: R = self._call(row, row.bind(given, named))
            return result

        update_wrapper(call, function)
        lines = [f"    {name}: {one.description}" for name, one in row.arguments.items()]
        shown = [row.signature.parameters["self"], *map(without_alias, list(row.signature.parameters.values())[1:])]
        call.__signature__ = row.signature.replace(parameters=shown)  # type: ignore[attr-defined]
        call.__doc__ = "\n".join([row.doc, "", "Args:", *lines] if lines else [row.doc])
        return call

    return make


_ONE: Final = "/v1/memory/{id}"
NOTHING: Final = checks.Frozen()
_PERSONAL: Final = ("project", "user_id", "agent_id", "session_id")


def _any_of(*schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema that requires one of several.

    The `allOf` is for generators of types, which read an `anyOf` beside `properties` as an alternative to them.
    """
    return {"allOf": [{"anyOf": list(schemas)}]}


Receipts = list[Receipt]
Recalls = list[records.Recall]  # inside the class, `list` is the verb


class Verbs:
    """Memory for agents: the methods of `Engine` and `Client`.

    `environment`, `project`, `user_id`, `agent_id`, `session_id` and `scope` say which memories a call may see, and
    where it stores new ones. An instant is a datetime, a date, or text: ISO 8601, `2026-05`, `yesterday`, `last week`,
    or a length of time before now (`2d`); a day or month means its first moment, and an instant without an offset is in
    UTC. Every method raises the errors of `salience.errors`: InputError for an invalid value, NotFoundError for an id
    that is not visible, EmbedderError and StoreError if the model or the store fails.
    """

    def _call(self, verb: Verb, given: dict[str, Any]) -> Any:
        """Return the result of a verb for these arguments."""
        raise NotImplementedError

    # Write

    @verb("POST /v1/memories", "write", creates=True)
    def remember(
        self,
        content: args.Content,
        *,
        kind: args.Kind | None = None,
        importance: args.Importance | None = None,
        weight: args.Weight | None = None,
        tags: args.Labels | None = None,
        entities: args.Entities | None = None,
        fact_key: args.FactKey | None = None,
        supersedes: args.Supersedes | None = None,
        ttl: args.Ttl | None = None,
        tier: args.Tier | None = None,
        metadata: args.Metadata | None = None,
        key: args.Key | None = None,
        created_at: args.CreatedAt | None = None,
        memory_type: args.MemoryType | None = None,
        duplicate: args.Duplicate = False,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> Receipt:
        """Store one memory and return its receipt, which lists memories that it may contradict.

        If a current memory of the same project, user and agent has the same text and every field given here, nothing is
        stored: the receipt is `unchanged`, holds that memory, and counts as an access to it. To store the text again,
        pass `duplicate=True`, or a `key`, `created_at`, `ttl` or `supersedes`.
        """

    @verb("POST /v1/memories", "write", result_key="receipts", creates=True)
    def remember_many(
        self,
        drafts: args.Drafts,
        *,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> Receipts:
        """Store drafts in one transaction, all or none, and return a receipt for each, in order.

        A draft is a `Draft`, or a mapping of its fields and any scope keywords that differ from the call's. A text that
        is already stored, or repeated among the drafts, is not stored again, as in `remember`.
        """

    @verb(
        "POST /v1/ingest", "write", result_key="receipts", creates=True,
        schema={"required": ["session_id", "messages"]},
    )  # fmt: skip
    def ingest(
        self,
        messages: args.Messages,
        *,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | Unset = UNSET,
        scope: args.Level | None = None,
    ) -> Receipts:
        """Store a conversation turn by turn, verbatim and in order, and return a receipt for each turn.

        A message is a mapping with `content`, `speaker` (or `role`) and optionally `timestamp` (aware or ISO 8601),
        `metadata` and an idempotency `key`. `session_id` is required. Turns are not checked for contradictions.

        A message over the content limit is split at its paragraphs, lines, sentences or words. Each part becomes a turn
        with its own receipt and a warning; its metadata holds `part`, `parts`, and `message`, a hash of the whole text.
        """

    @verb(
        f"PATCH {_ONE}", "write", changes="id", also_reads=True,
        schema=_any_of(*({"required": [name]} for name in records.CHANGEABLE)),
    )  # fmt: skip
    def update(
        self,
        id: args.Id,
        *,
        content: args.Content | Unset = UNSET,
        kind: args.Kind | Unset = UNSET,
        importance: args.Importance | Unset = UNSET,
        weight: args.Weight | Unset = UNSET,
        tags: args.Labels | Unset = UNSET,
        entities: args.Entities | Unset = UNSET,
        fact_key: args.FactKey | Unset | None = UNSET,
        supersedes: args.Supersedes | Unset | None = UNSET,
        ttl: args.Ttl | Unset | None = UNSET,
        tier: args.Tier | Unset = UNSET,
        metadata: args.Metadata | Unset = UNSET,
        reason: args.Reason | None = None,
        if_version: args.IfVersion | None = None,
        key: args.Key | None = None,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> Receipt:
        """Change a memory and return its receipt. The previous version is kept, and `updated_at` becomes now.

        Fields that are left out stay as they are. `reason` is kept with the new version and shown by `history`.
        `if_version` is the expected current version: if the memory is at another one, StaleError, and nothing is
        written. `key` is an idempotency key of this call: a retry from the same scope writes nothing and returns the
        first receipt without its warning; a call for another memory or verb under the same key raises ConflictError.

        `supersedes` is the id of a memory that this one replaces, as in `remember`; None removes the relation, and the
        other memory gets its weight back. If the change makes this the latest memory of its fact, the receipt names the
        memory that it replaces.
        """

    @verb(f"DELETE {_ONE}", "write", changes="id", also_reads=True)
    def forget(
        self,
        id: args.Id,
        *,
        reason: args.Reason | None = None,
        if_version: args.IfVersion | None = None,
        key: args.Key | None = None,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> Receipt:
        """Remove a memory from every recall and return its receipt; its versions are kept, and `restore` undoes it.

        `reason`, `if_version` and `key` are as in `update`.
        """

    @verb(f"POST {_ONE}/restore", "write", changes="id", also_reads=True)
    def restore(
        self,
        id: args.Id,
        version: args.RestoredVersion | None = None,
        *,
        reason: args.Reason | None = None,
        key: args.Key | None = None,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> Receipt:
        """Make an older version of a memory its next version, and return the receipt.

        Without `version`, a memory that was forgotten, expired or stale is live again as it was. With one, `updated_at`
        becomes now. An expiry in the past is dropped. `reason` and `key` are as in `update`.
        """

    @verb(f"POST {_ONE}/dismiss", "write", tag="upkeep", changes="id", also_reads=True)
    def dismiss(
        self,
        id: args.Id,
        other_id: args.OtherId | None = None,
        *,
        undo: args.Undo = False,
        reason: args.Reason | None = None,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> Receipt:
        """Undo the relation of two memories, keep the pair or a stale reflection out of `review`, return the receipt.

        The memory of `id` gets a new version whose metadata names the other one; `updated_at` stays. `undo` removes
        that entry. If there is nothing to do, the receipt is `unchanged`.
        """

    @verb(
        "POST /v1/erase", "admin", tag="upkeep", is_long=True,
        schema=_any_of(
            {"required": ["ids"], "properties": {"ids": {"type": "array"}}},
            *({"required": [name], "properties": {one: {"type": "string"} for one in _PERSONAL}} for name in _PERSONAL),
        ),
    )  # fmt: skip
    def erase(
        self,
        ids: args.ErasedIds | None = None,
        *,
        where: args.Where = NOTHING,
        dry_run: args.DryRun = False,
        environment: args.Environment = "default",
        project: args.Project | Unset | None = UNSET,
        user_id: args.UserId | Unset | None = UNSET,
        agent_id: args.AgentId | Unset | None = UNSET,
        session_id: args.SessionId | Unset | None = UNSET,
        scope: args.Level | None = None,
    ) -> records.Erased:
        """Delete memories permanently, with everything derived from them, and return how many were deleted.

        Rows, versions, vectors, terms, counters and the reflections that sum them up are deleted, here and from the
        caches of other processes on the store. Exported files and backups stay as they are. This cannot be undone.
        Entries of the recall log go with them: those that name a deleted memory and, without `ids`, those of the scope.

        `ids` are of visible memories, live or not, and the scope is the caller's. Without `ids`, name at least one of
        project, user_id, agent_id and session_id: memories are deleted if each named coordinate is their own, so
        memories shared with others stay. `ANY` matches every value of a coordinate.
        """

    # Recall

    @verb("POST /v1/recall", "read", tag="recall", ranks=True)
    def recall(
        self,
        query: args.QueryText,
        *,
        limit: args.Limit | None = None,
        profile: args.ProfileName | None = None,
        min_score: args.MinScore | None = None,
        tags: args.Tags = (),
        kinds: args.Kinds = (),
        tiers: args.Tiers = (),
        sessions: args.Sessions = (),
        since: args.Since | None = None,
        until: args.Until | None = None,
        where: args.Where = NOTHING,
        dry_run: args.Uncounted = False,
        as_of: args.AsOf | None = None,
        now: args.Now | None = None,
        deadline_ms: args.DeadlineMs | None = None,
        weights: args.Weights | None = None,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> records.Recall:
        """Return the memories that answer `query`, best first, each with its score taken apart.

        `profile` is a name, the path of a TOML file, or a `Profile`. The answer `as_of` an instant of the past is the
        one that this call would have had then, by the contents, importances, weights, links, expiries and counters of
        that time; it changes no counter. What counts is when memories were stored and changed, not their `created_at`.
        After the deadline the answer is by words, or in the profile's order, and `degraded` says so.
        """

    @verb("POST /v1/recall", "read", tag="recall", result_key="recalls", ranks=True)
    def recall_many(
        self,
        queries: args.Queries,
        *,
        limit: args.Limit | None = None,
        profile: args.ProfileName | None = None,
        min_score: args.MinScore | None = None,
        tags: args.Tags = (),
        kinds: args.Kinds = (),
        tiers: args.Tiers = (),
        sessions: args.Sessions = (),
        since: args.Since | None = None,
        until: args.Until | None = None,
        where: args.Where = NOTHING,
        dry_run: args.Uncounted = False,
        as_of: args.AsOf | None = None,
        now: args.Now | None = None,
        deadline_ms: args.DeadlineMs | None = None,
        weights: args.Weights | None = None,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> Recalls:
        """Return the answer of `recall` to each of several questions, in order, faster than one by one.

        Each answer is that of `recall`, all at one instant; counters change only after the last answer. The other
        arguments are those of `recall` and apply to each question; `deadline_ms` covers all of them together.
        """

    @verb("POST /v1/graphrag", "read", tag="recall")
    def graph_recall(
        self,
        query: args.QueryText,
        *,
        graph_weight: args.GraphWeight | None = None,
        max_hops: args.MaxHops | None = None,
        limit: args.Limit | None = None,
        profile: args.ProfileName | None = None,
        tags: args.Tags = (),
        kinds: args.Kinds = (),
        tiers: args.Tiers = (),
        sessions: args.Sessions = (),
        since: args.Since | None = None,
        until: args.Until | None = None,
        where: args.Where = NOTHING,
        dry_run: args.Uncounted = False,
        now: args.Now | None = None,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> records.Recall:
        """Return memories by similarity and by proximity to the entities of the query in the entity graph.

        The score is (1 - w) x similarity + w x proximity, where w is `graph_weight`. The entities of a query are those
        that stored memories name. `profile` supplies the stages and the effects on counters; None for `zeromemory`.
        """

    @verb("POST /v1/explain", "read", tag="recall", ranks=True)
    def explain(
        self,
        query: args.QueryText,
        memory_id: args.Id,
        *,
        limit: args.Limit | None = None,
        profile: args.ProfileName | None = None,
        min_score: args.MinScore | None = None,
        tags: args.Tags = (),
        kinds: args.Kinds = (),
        tiers: args.Tiers = (),
        sessions: args.Sessions = (),
        since: args.Since | None = None,
        until: args.Until | None = None,
        where: args.Where = NOTHING,
        as_of: args.AsOf | None = None,
        now: args.Now | None = None,
        deadline_ms: args.DeadlineMs | None = None,
        weights: args.Weights | None = None,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> records.Explanation:
        """Return why a memory (by its whole or short id) is or is not in the answer of `recall` to these arguments.

        Nothing is changed. A call that names no project, user or agent is answered in the memory's own scope, and the
        reason says so. A memory of another user than the named one raises NotFoundError, as an unknown id does. To
        explain `graph_recall`, pass the profile `profiles.load(...).for_graph(graph_weight, max_hops)`.
        """

    @verb("POST /v1/scores", "read", tag="recall", ranks=True)
    def scores(
        self,
        query: args.QueryText,
        *,
        limit: args.Limit | None = None,
        profile: args.ProfileName | None = None,
        min_score: args.MinScore | None = None,
        tags: args.Tags = (),
        kinds: args.Kinds = (),
        tiers: args.Tiers = (),
        sessions: args.Sessions = (),
        since: args.Since | None = None,
        until: args.Until | None = None,
        where: args.Where = NOTHING,
        as_of: args.AsOf | None = None,
        now: args.Now | None = None,
        deadline_ms: args.DeadlineMs | None = None,
        weights: args.Weights | None = None,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> records.Scores:
        """Return the scores of all memories that `recall` ranks for these arguments, and the best ones not returned.

        Nothing is changed. `explain` says why one of them is not returned.
        """

    @verb("GET /v1/decay", "read", tag="recall", result_key="curves")
    def decay(
        self,
        ids: args.FadingIds,
        *,
        profile: args.BuiltIn | None = None,
        days: args.DaysAhead = 30.0,
        steps: args.Steps = 25,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> tuple[records.DecayCurve, ...]:
        """Return how the scores of live memories fade with age, if no recall returns the memories meanwhile.

        Ids of which no visible memory is live are left out.
        """

    @verb("GET /v1/profiles", "read", tag="recall")
    def profiles(self) -> records.Profiles:
        """Return the ranking profiles with their signals, weights, stages and decay."""

    @verb("POST /v1/context", "read", tag="recall", ranks=True)
    def context(
        self,
        query: args.QueryText,
        *,
        budget_tokens: args.Budget = 2000,
        limit: args.Limit | None = None,
        profile: args.ProfileName | None = None,
        min_score: args.MinScore | None = None,
        tags: args.Tags = (),
        kinds: args.Kinds = (),
        tiers: args.Tiers = (),
        sessions: args.Sessions = (),
        since: args.Since | None = None,
        until: args.Until | None = None,
        where: args.Where = NOTHING,
        dry_run: args.Uncounted = False,
        now: args.Now | None = None,
        deadline_ms: args.DeadlineMs | None = None,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> records.Context:
        """Return the memories for `query`, quoted as data within a budget of tokens; bootstrap memories come first.

        After the deadline they are found by words, or in the profile's order, and `degraded` says so.
        """

    # Look up

    @verb("GET /v1/memories", "read")
    def list(
        self,
        *,
        ids: args.Ids = (),
        words: args.Words = (),
        tags: args.Tags = (),
        kinds: args.Kinds = (),
        tiers: args.Tiers = (),
        sessions: args.OwnSessions = (),
        fact_keys: args.FactKeys = (),
        entities: args.Naming = (),
        linked_to: args.LinkedTo = (),
        statuses: args.Statuses = ("live",),
        projects: args.OwnProjects = (),
        users: args.OwnUsers = (),
        agents: args.OwnAgents = (),
        since: args.Since | None = None,
        until: args.Until | None = None,
        where: args.Where = NOTHING,
        order: args.Order = "id",
        descending: args.Descending = False,
        limit: args.PageSize = 100,
        cursor: args.ListCursor | None = None,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> records.Page:
        """Return one page of the visible memories that meet all conditions, and the cursor of the next page.

        A memory is live unless it was forgotten or has expired; replaced ones are live (see `replaced_by`).
        With `statuses`, the page has forgotten, expired or stale ones. The store finds ids and fact keys by an index.
        """

    @verb("GET /v1/facets", "read")
    def facets(
        self,
        *,
        fields: args.CountedFields = (),
        top: args.Top = 20,
        ids: args.Ids = (),
        words: args.Words = (),
        tags: args.Tags = (),
        kinds: args.Kinds = (),
        tiers: args.Tiers = (),
        sessions: args.OwnSessions = (),
        fact_keys: args.FactKeys = (),
        entities: args.Naming = (),
        linked_to: args.LinkedTo = (),
        statuses: args.Statuses = ("live",),
        projects: args.OwnProjects = (),
        users: args.OwnUsers = (),
        agents: args.OwnAgents = (),
        since: args.Since | None = None,
        until: args.Until | None = None,
        where: args.Where = NOTHING,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> records.Facets:
        """Return the number of memories that `list` pages through, and the most frequent values of their fields.

        The numbers of a field hold under the conditions on the other fields, so they say what another choice would
        give.
        """

    @verb("GET /v1/sessions", "read")
    def sessions(
        self,
        *,
        words: args.Words = (),
        sessions: args.Sessions = (),
        users: args.OwnUsers = (),
        limit: args.PageSize = 50,
        cursor: args.SessionCursor | None = None,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> records.SessionsPage:
        """Return one page of the sessions with visible live memories, the latest first, and the cursor of the next.

        With `words`, the sessions in which one memory contains all of them. Sessions of different users or environments
        are different ones, even if they have the same name.
        """

    @verb(f"GET {_ONE}", "read")
    def get(
        self,
        id: args.Id,
        *,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> records.Memory:
        """Return the live memory of an id (whole or short).

        The id is enough: a project, user or agent that is not named matches any.
        """

    @verb("GET /v1/stats", "read", tag="server")
    def stats(
        self,
        *,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> records.Stats:
        """Return counts of the visible live memories."""

    @verb(f"GET {_ONE}/history", "read", result_key="versions")
    def history(
        self,
        id: args.Id,
        *,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> tuple[records.Version, ...]:
        """Return every version of a memory, forgotten or not, oldest first: who changed what, when and why.

        The id is enough: a project, user or agent that is not named matches any.
        """

    @verb("GET /v1/review", "read", tag="upkeep")
    def review(
        self,
        *,
        id: args.ProblemsOf | None = None,
        kinds: args.Problems = (),
        limit: args.PageSize = 20,
        cursor: args.Cursor | None = None,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> records.ReviewPage:
        """Return a page of problems that a person should look at, those of the newest memory first.

        Problems are pairs of live memories that contradict each other, say the same or update one another, as a write
        reports them by rules; stale reflections; and memories without a vector. `kinds=["relation"]` lists the live
        memories that a newer one likely replaces though no caller said so. A page examines at most 200 memories
        and has all problems of each, so it may have more items than `limit`, or none and a cursor. With `id`, the one
        page has all problems of that memory, whether it is the newer one of a pair or the older one.
        """

    @verb("GET /v1/changes", "read")
    def changes(
        self,
        *,
        change: args.ChangeName | None = None,
        changed_by: args.ChangedBy | None = None,
        since: args.VersionSince | None = None,
        until: args.VersionUntil | None = None,
        limit: args.PageSize = 50,
        cursor: args.ChangeCursor | None = None,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> records.ChangesPage:
        """Return versions of the visible memories, live or not, newest first: who changed what, when and why."""

    @verb("GET /v1/activity", "read", result_key="days")
    def activity(
        self,
        *,
        since: args.VersionSince | None = None,
        until: args.VersionUntil | None = None,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> tuple[records.ActivityDay, ...]:
        """Return how many visible memories were stored, changed, forgotten, last recalled and dated on each day in UTC.

        Days without activity are left out. `since` is None for a year before `until`, and `until` None for now.
        """

    @verb("GET /v1/recalls", "read", tag="recall")
    def recalls(
        self,
        query: args.QueryPart | None = None,
        *,
        id: args.EntryId | None = None,
        memory_id: args.ReturnedId | None = None,
        limit: args.PageSize = 100,
        cursor: args.Cursor | None = None,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.OneSession | None = None,
        scope: args.Level | None = None,
    ) -> records.RecallLogPage:
        """Return one page of the recall log, newest first, and the cursor of the next page.

        The setting `recall_log` turns the log on. It has the recalls, graph recalls and contexts that were not asked
        for as dry runs. Their project, user and agent are those given here, or none if none is given; `ANY` matches
        every value.
        """

    @verb("GET /v1/help", "read", tag="server", result_key="text")
    def help(self, topic: args.Topic | None = None) -> str:
        """Return a short text for agents about a topic; without one, about the verbs."""

    # Maintain

    @verb("POST /v1/sessions/{session_id}/end", "write", tag="upkeep", is_long=True)
    def end_session(
        self,
        session_id: args.EndedSession,
        *,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        scope: args.Level | None = None,
    ) -> records.SessionReport:
        """Move the session's memories to the tiers that they have earned, and return which moved."""

    @verb("POST /v1/consolidate", "write", tag="upkeep", is_long=True)
    def consolidate(
        self,
        *,
        dry_run: args.DryRun = False,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        scope: args.Level | None = None,
    ) -> records.ConsolidateReport:
        """Move the visible memories to the tiers that they have earned, all or none, and return which moved."""

    @verb("POST /v1/reflect", "write", tag="upkeep", also_reads=True, is_long=True)
    def reflect(
        self,
        *,
        dry_run: args.DryRun = False,
        progress: args.OnProgress | None = None,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        scope: args.Level | None = None,
    ) -> records.ReflectReport:
        """Consolidate, then sum up each cluster of related memories in one semantic memory that names its sources.

        Sources stay. Reflections whose sources changed are made again; a second run without changes writes nothing.
        """

    @verb("POST /v1/upkeep", "admin", tag="upkeep", is_store_wide=True, is_long=True)
    def upkeep(self, *, dry_run: args.DryRun = False) -> records.UpkeepReport:
        """Do all maintenance that is due, for every scope of the tenant, and return what was done.

        Upkeep embeds pending memories, hides expired ones, moves tiers, and drops old versions as the setting
        `keep_versions` says. One process does it at a time: LeaseError while another is at work.
        """

    @verb("", "admin", is_store_wide=True)
    def reembed(
        self, embedder: args.Model | None = None, *, progress: args.OnTexts | None = None
    ) -> records.ReembedReport:
        """Embed every memory and version with another model, switch the store to it, and return what was done.

        Recalls and writes continue under the old model until all vectors are ready. An interrupted run resumes when it
        is started again. Other engines on the store switch at their next call if they can load the model by its name.
        Those that cannot answer by words and store memories as pending.
        """

    @verb("", "admin", is_store_wide=True)
    def calibrate(self) -> "Calibration":
        """Return the meaning of the embedder's cosines, measured on 60 included texts; nothing is stored.

        `connect` measures the embedders that it makes itself. An object takes the result as its `calibration`.
        """

    @verb("", "admin", is_store_wide=True)
    def doctor(
        self,
        *,
        repair: args.Repair = False,
        deep: args.Deep = False,
        progress: args.OnProgress | None = None,
    ) -> records.DoctorReport:
        """Check the whole store and return what is wrong with it."""

    # Move

    @verb("GET /v1/export", "read", tag="transfer", is_long=True)
    def export(
        self,
        file: args.File,
        *,
        format: args.Format = "jsonl",
        overwrite: args.Overwrite = False,
        progress: args.OnProgress | None = None,
        where: args.Where = NOTHING,
        environment: args.Environment = ANY,
        project: args.Project | None = ANY,
        user_id: args.UserId | None = ANY,
        agent_id: args.AgentId | None = ANY,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> records.TransferReport:
        """Write memories with their versions and vectors as lines of JSON, and return the counts.

        A coordinate that is not named matches every value, so an export without scope keywords is complete. An existing
        file is replaced only with `overwrite`, only if it is an export itself, and only once the new one is complete.
        For other systems, `format` writes the live memories as JSON of mem0, or as a new folder of Markdown notes.
        """

    @verb("POST /v1/import", "admin", tag="transfer", is_store_wide=True, is_long=True)
    def import_(
        self,
        file: args.File,
        *,
        source: args.Source | None = None,
        on_error: args.OnError | None = None,
        dry_run: args.DryRun = False,
        progress: args.OnProgress | None = None,
        environment: args.Environment = "default",
        project: args.Project | None = None,
        user_id: args.UserId | None = None,
        agent_id: args.AgentId | None = None,
        session_id: args.SessionId | None = None,
        scope: args.Level | None = None,
    ) -> records.TransferReport:
        """Store the memories of an export, drafts as lines of JSON, or another system's export; return the counts.

        `source` is one of `salience.transfer.importers.SOURCES`, whose export may be a file, a folder or a ZIP file.
        The scope is for drafts and records that name none. At an invalid line or record, `on_error="stop"` raises, and
        `"skip"`, the default with a source, reports it and continues.
        """

    @verb("", "admin", is_store_wide=True)
    def backup(
        self, file: args.BackupFile, *, overwrite: args.Overwrite = False, progress: args.OnPages | None = None
    ) -> None:
        """Write a copy of the store to a new file while others read and write; the copy is itself a store.

        An existing file is replaced only with `overwrite`, only if it is a store or empty, and only once the copy is
        complete.
        """

    def close(self) -> None:
        """Release the file or the connections."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


VERBS: Final[Mapping[str, Verb]] = {name: one for name, one in ALL.items() if one.path}
"""Verbs of a server, by name. The response of `export` and the body of `import_` are streams of JSON lines."""


@cache
def draft_line() -> "type[VerbRequest]":
    """Return the model of one draft of `remember_many` in JSON."""
    from salience.wire.requests import request

    fields = {name: one for name, one in VERBS["remember"].arguments.items() if name not in ("memory_type", "scope")}
    about = "One of several memories; its coordinates take precedence over those of the request."
    speaker = inspect.Parameter("speaker", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=args.Speaker | None)
    return request("DraftLine", about, [*fields.values(), argument(speaker)])


def coroutine(method: Method[P, R]) -> Method[P, Coroutine[Any, Any, R]]:
    """Return a verb as a coroutine method with the same arguments."""
    row = ALL[method.__name__]

    async def call(self: Any, /, *given: P.args, **named: P.kwargs) -> R:
        result: R = await self._call(row, row.bind(given, named))
        return result

    update_wrapper(call, method)
    return call


class AsyncVerbs:
    """The methods of `Verbs` as coroutines."""

    async def _call(self, verb: Verb, given: dict[str, Any]) -> Any:
        """Return the result of a verb for these arguments."""
        raise NotImplementedError

    remember = coroutine(Verbs.remember)
    remember_many = coroutine(Verbs.remember_many)
    ingest = coroutine(Verbs.ingest)
    update = coroutine(Verbs.update)
    forget = coroutine(Verbs.forget)
    restore = coroutine(Verbs.restore)
    dismiss = coroutine(Verbs.dismiss)
    erase = coroutine(Verbs.erase)

    recall = coroutine(Verbs.recall)
    recall_many = coroutine(Verbs.recall_many)
    graph_recall = coroutine(Verbs.graph_recall)
    explain = coroutine(Verbs.explain)
    scores = coroutine(Verbs.scores)
    decay = coroutine(Verbs.decay)
    profiles = coroutine(Verbs.profiles)
    context = coroutine(Verbs.context)

    list = coroutine(Verbs.list)
    facets = coroutine(Verbs.facets)
    sessions = coroutine(Verbs.sessions)
    get = coroutine(Verbs.get)
    stats = coroutine(Verbs.stats)
    history = coroutine(Verbs.history)
    review = coroutine(Verbs.review)
    changes = coroutine(Verbs.changes)
    activity = coroutine(Verbs.activity)
    recalls = coroutine(Verbs.recalls)
    help = coroutine(Verbs.help)

    end_session = coroutine(Verbs.end_session)
    consolidate = coroutine(Verbs.consolidate)
    reflect = coroutine(Verbs.reflect)
    upkeep = coroutine(Verbs.upkeep)
    reembed = coroutine(Verbs.reembed)
    calibrate = coroutine(Verbs.calibrate)
    doctor = coroutine(Verbs.doctor)

    export = coroutine(Verbs.export)
    import_ = coroutine(Verbs.import_)
    backup = coroutine(Verbs.backup)

    async def close(self) -> None:
        """Release the file or the connections."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
