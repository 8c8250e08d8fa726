"""Engine: every public verb, each a call of its story."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, Self, Unpack

from salience import context as contexts
from salience import explain as explanations
from salience import keywords, listing, remember
from salience import recall as recalls
from salience.errors import InputError, Words
from salience.help import TOPICS
from salience.keywords import CallerKeywords, ScopeKeywords
from salience.maintain import calibrate as calibrations
from salience.maintain import doctor, erase, reembed, reflect, tiers, upkeep, versions
from salience.maintain import review as reviews
from salience.models import calibration
from salience.ports import FINGERPRINTED, Calibration, Embedder, RevisionFilter, Services
from salience.rank import profiles
from salience.rank.profile import Profile
from salience.rank.profiles import ProfileLike
from salience.records import (
    ANY,
    CHANGES,
    NARROWING,
    UNSET,
    ActivityDay,
    ChangesPage,
    ConsolidateReport,
    Context,
    DoctorReport,
    Draft,
    Erased,
    Explanation,
    Filter,
    Memory,
    Page,
    Query,
    Recall,
    RecallLogPage,
    Receipt,
    ReembedReport,
    ReflectReport,
    ReviewPage,
    Scope,
    SessionReport,
    Stats,
    TransferReport,
    Unset,
    UpkeepReport,
    Version,
    checks,
)
from salience.records.checks import Instant
from salience.relations import with_replacements
from salience.steps import get_memory
from salience.transfer import export, files, formats, import_, importers

Recalls = list[Recall]  # inside the class, `list` is the verb
Receipts = list[Receipt]
WithEmbedder = Callable[[Services, str | Embedder], Services]
"""From services and an embedder (or its name) to the same services with that embedder."""
FollowModel = Callable[[Services], Services | None]
"""From services to the same services with the model that the store is pinned to; None if it cannot be loaded."""
FOLLOW_PAUSE: Final = 60.0
"""Seconds between attempts to load the store's model."""
YEAR: Final = timedelta(days=365)
TURN: Final = frozenset({"turns_since_activation"})


class Engine:
    """Memory for agents, embedded in this process. Made by `salience.connect`; safe to share between threads.

    Every verb takes the scope keywords `environment`, `project`, `user_id`, `agent_id` and `session_id`. An instant is
    a datetime, a date, or text: ISO 8601, `2026-05`, `yesterday`, `last week`, or a length of time before now (`2d`); a
    day or month means its first moment, and what has no offset is in UTC. Verbs raise the errors of `salience.errors`:
    InputError for an invalid value, NotFoundError for an id that is not visible, EmbedderError and StoreError if the
    model or the store fails.

    Args:
        services: the ports. Replaced as a whole when the store is given another model.
        profile: ranks recalls that name no profile.
        with_embedder: makes services for `reembed` with a model by name.
        follow: makes services for the store's model after another process changed it.
    """

    def __init__(
        self,
        services: Services,
        profile: ProfileLike = "salience",
        with_embedder: WithEmbedder | None = None,
        follow: FollowModel | None = None,
    ) -> None:
        self._services = services
        self.profile = profiles.load(profile)
        self._with_embedder = with_embedder
        self._follow = follow
        self._following = threading.Lock()
        self._follow_after = 0.0

    @property
    def services(self) -> Services:
        """The ports, with the store's current model if another process changed it and it can be loaded here."""
        if self._follow is not None and getattr(self._services.store, "moved", False):
            self._follow_model(self._follow)
        return self._services

    @services.setter
    def services(self, services: Services) -> None:
        self._services = services

    def _follow_model(self, follow: FollowModel) -> None:
        """Change to the store's model; concurrent calls continue without it."""
        if time.monotonic() < self._follow_after or not self._following.acquire(blocking=False):
            return
        try:
            found = follow(self._services)
            if found is None:
                self._follow_after = time.monotonic() + FOLLOW_PAUSE
            else:
                self._services = found
        finally:
            self._following.release()

    @property
    def _flushed(self) -> Services:
        """The services, once the access log is written: for verbs that show or change counters."""
        services = self.services
        services.access_log.flush()
        return services

    def of(self, tenant: str, answer_limit: int | None = None, *, records_access: bool = True) -> Self:
        """Return an engine for another tenant that shares this engine's store, models and profile.

        Closing one closes both. Answers over `answer_limit` bytes raise LimitError. Without `records_access`, recalls
        leave all counters unchanged.
        """
        tenant = checks.name("tenant", tenant)
        services = replace(self.services, tenant=tenant, answer_limit=answer_limit, records_access=records_access)
        return type(self)(services, self.profile, self._with_embedder)

    def _profile(self, profile: ProfileLike | None, weights: Mapping[str, float] | None = None) -> Profile:
        chosen = self.profile if profile is None else profiles.load(profile)
        return chosen if weights is None else chosen.with_weights(weights)

    def _scope(self, where: Mapping[str, object]) -> Scope:
        return keywords.scope(self._services.tenant, where)[0]

    def _scope_and_filter(self, where: Mapping[str, object], **conditions: Any) -> tuple[Scope, Filter]:
        scope, level = keywords.scope(self._services.tenant, where)
        for name in ("since", "until"):
            conditions[name] = self._instant(name, conditions.get(name))
        return scope, Filter(level=level, **conditions)

    def _instant(self, field: str, value: Instant | None) -> datetime | None:
        return None if value is None else checks.instant(field, value, now=self._services.clock())

    def _home(self, where: Mapping[str, object]) -> Scope:
        home = keywords.home(self._services.tenant, where)
        if home.session_id is not None:  # queued recalls of this session take their turns before a new memory does
            self._services.access_log.flush(TURN)
        return home

    # Write

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
        created_at: Instant | None = None,
        memory_type: str | None = None,
        duplicate: bool = False,
        **where: Unpack[ScopeKeywords],
    ) -> Receipt:
        """Store one memory and return its receipt, which lists memories that it may contradict.

        If a current memory of the same project, user and agent has the same text and every field given here, nothing is
        stored: the receipt is `unchanged`, holds that memory, and counts as an access to it. To store the text again,
        pass `duplicate=True`, or a `key`, `created_at`, `ttl` or `supersedes`.

        The arguments are the fields of `Draft`; None takes the field's default. `memory_type` is another name for
        `tier`, as in MemLayer and ZeroMemory.
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
            "created_at": self._instant("created_at", created_at),
        }
        fields: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return self.remember_many([Draft(content=content, duplicate=duplicate, **fields)], **where)[0]

    def remember_many(self, drafts: Iterable[Draft | Mapping[str, Any]], **where: Unpack[ScopeKeywords]) -> Receipts:
        """Store drafts in one transaction, all or none, and return a receipt for each, in order.

        A draft is a `Draft`, or a mapping of its fields and any scope keywords that differ from the call's. A text that
        is already stored, or repeated among the drafts, is not stored again, as in `remember`.
        """
        home = self._home(where)
        return remember.remember(self.services, self.profile, remember.drafts(drafts, home), home)

    def ingest(self, messages: Iterable[object], **where: Unpack[ScopeKeywords]) -> Receipts:
        """Store a conversation turn by turn, verbatim and in order, and return a receipt for each turn.

        A message is a mapping with `content`, `speaker` (or `role`) and optionally `timestamp` (aware or ISO 8601),
        `metadata` and an idempotency `key`. `session_id` is required. Turns are not checked for contradictions.

        A message over the content limit is split at its paragraphs, lines, sentences or words. Each part becomes a turn
        with its own receipt and a warning; its metadata holds `part`, `parts`, and `message`, a hash of the whole text.
        """
        home = self._home(where)
        drafts, warnings = [], []
        for draft, warning in remember.split_turns(remember.turns(messages, home), self.services.content_limit):
            drafts.append(draft)
            warnings.append(warning)
        receipts = remember.remember(self.services, self.profile, drafts, home, check_existing=False)
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
        supersedes: str | Unset | None = UNSET,
        ttl: Any = UNSET,
        tier: str | Unset = UNSET,
        metadata: Mapping[str, Any] | Unset = UNSET,
        reason: str | None = None,
        if_version: int | None = None,
        key: str | None = None,
        **where: Unpack[ScopeKeywords],
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
        changes = {
            "content": content,
            "kind": kind,
            "importance": importance,
            "weight": weight,
            "tags": tags,
            "entities": entities,
            "fact_key": fact_key,
            "supersedes": supersedes,
            "ttl": ttl,
            "tier": tier,
            "metadata": metadata,
        }
        return remember.update(
            self._flushed, self.profile, self._scope(where), id, changes, reason, if_version=if_version, key=key
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
        """Remove a memory from every recall and return its receipt; its versions are kept, and `restore` undoes it.

        `reason`, `if_version` and `key` are as in `update`.
        """
        return remember.forget(self._flushed, self._scope(where), id, reason, if_version=if_version, key=key)

    def restore(
        self,
        id: str,
        version: int | None = None,
        *,
        reason: str | None = None,
        key: str | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> Receipt:
        """Make an older version of a memory its next version, and return the receipt.

        Without `version`, a memory that was forgotten, expired or stale is live again as it was. With one, `updated_at`
        becomes now. An expiry in the past is dropped. `reason` and `key` are as in `update`.
        """
        return remember.restore(self._flushed, self.profile, self._scope(where), id, version, reason, key=key)

    def dismiss(
        self,
        id: str,
        other_id: str | None = None,
        *,
        undo: bool = False,
        reason: str | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> Receipt:
        """Keep a pair of memories, or a stale reflection (without `other_id`), out of `review`, and return the receipt.

        The memory of `id` gets a new version whose metadata names the other one; `updated_at` stays. `undo` removes
        that entry. If there is nothing to do, the receipt is `unchanged`.
        """
        checks.flag("undo", undo)
        return reviews.dismiss(self._flushed, self._scope(where), id, other_id, reason, undo=undo)

    def erase(
        self, ids: Sequence[str] | None = None, *, dry_run: bool = False, **where: Unpack[ScopeKeywords]
    ) -> Erased:
        """Delete memories permanently, with everything derived from them, and return how many were deleted.

        Rows, versions, vectors, terms, counters and the reflections that sum them up are deleted, here and from the
        caches of other processes on the store. Exported files and backups stay as they are. This cannot be undone.
        Entries of the recall log go with them: those that name a deleted memory and, without `ids`, those of the scope.

        Args:
            ids: of visible memories, live or not (whole or short ids); None for all memories that belong to the scope.
            dry_run: count, and delete nothing.
            **where: with `ids`, the caller's scope. Without, at least one of project, user_id, agent_id and session_id:
                memories are deleted if each named coordinate is their own, so memories shared with others stay. `ANY`
                matches every value of a coordinate.
        """
        return erase.erase(self._flushed, where, ids, dry_run=dry_run)

    # Recall

    def recall(
        self,
        query: str,
        *,
        limit: int | None = None,
        profile: ProfileLike | None = None,
        min_score: float | None = None,
        tags: Sequence[str] = (),
        kinds: Sequence[str] = (),
        tiers: Sequence[str] = (),
        sessions: Sequence[str] = (),
        since: Instant | None = None,
        until: Instant | None = None,
        dry_run: bool = False,
        as_of: Instant | None = None,
        now: Instant | None = None,
        deadline_ms: float | None = None,
        weights: Mapping[str, float] | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> Recall:
        """Return the memories that answer `query`, best first, each with its score taken apart.

        Args:
            query: the question.
            limit: maximum number of hits; None for the profile's default.
            profile: name, path of a TOML file, or `Profile`; None for the engine's.
            min_score: lowest score of a hit, on the profile's scale.
            tags: tags that a hit must have, all of them.
            kinds: kinds that a hit may have; empty for any.
            tiers: tiers that a hit may be in; empty for any.
            sessions: sessions that a hit may come from; empty for any.
            since: earliest `created_at`, inclusive.
            until: latest `created_at`, exclusive.
            dry_run: leave all counters unchanged.
            as_of: an instant of the past. The answer is the one that this call would have had then, by the contents,
                importances, weights, links, expiries and counters of that time. It changes no counter. What counts is
                when memories were stored and changed, not their `created_at`.
            now: the instant at which the question is asked; None for `as_of`, else for the engine's clock.
            deadline_ms: milliseconds to wait for the embedder and the reranker. After that the answer is lexical, or in
                the profile's order, and `degraded` says so.
            weights: other weights for signals of the profile, by label.
            **where: the scope keywords.
        """
        scope, accepts = self._scope_and_filter(
            where, tags=tags, kinds=kinds, tiers=tiers, sessions=sessions, since=since, until=until
        )
        request = Query(
            text=query,
            scope=scope,
            filter=accepts,
            limit=limit,
            min_score=min_score,
            dry_run=dry_run,
            now=self._instant("now", now),
            as_of=self._instant("as_of", as_of),
            deadline_ms=deadline_ms,
        )
        return recalls.recall(self.services, self._profile(profile, weights), request)

    def recall_many(
        self,
        queries: Sequence[str],
        *,
        limit: int | None = None,
        profile: ProfileLike | None = None,
        min_score: float | None = None,
        tags: Sequence[str] = (),
        kinds: Sequence[str] = (),
        tiers: Sequence[str] = (),
        sessions: Sequence[str] = (),
        since: Instant | None = None,
        until: Instant | None = None,
        dry_run: bool = False,
        as_of: Instant | None = None,
        now: Instant | None = None,
        deadline_ms: float | None = None,
        weights: Mapping[str, float] | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> Recalls:
        """Return the answer of `recall` to each of several questions, in order, faster than one by one.

        Each answer is that of `recall`, all at one instant; counters change only after the last answer. The other
        arguments are those of `recall` and apply to each question; `deadline_ms` covers all of them together.
        """
        texts = checks.texts("queries", queries, self._services.content_limit)
        scope, accepts = self._scope_and_filter(
            where, tags=tags, kinds=kinds, tiers=tiers, sessions=sessions, since=since, until=until
        )
        requests = [
            Query(
                text=text,
                scope=scope,
                filter=accepts,
                limit=limit,
                min_score=min_score,
                dry_run=dry_run,
                now=self._instant("now", now),
                as_of=self._instant("as_of", as_of),
                deadline_ms=deadline_ms,
            )
            for text in texts
        ]
        return recalls.recall_many(self.services, self._profile(profile, weights), requests)

    def graph_recall(
        self,
        query: str,
        *,
        graph_weight: float | None = None,
        max_hops: int | None = None,
        limit: int | None = None,
        profile: ProfileLike | None = None,
        tags: Sequence[str] = (),
        dry_run: bool = False,
        now: Instant | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> Recall:
        """Return memories by similarity and by proximity to the entities of the query in the entity graph.

        The score is (1 - w) x similarity + w x proximity.

        Args:
            query: the question. Its entities are those that stored memories name.
            graph_weight: w, [0, 1]; None for the profile's, by default 0.3.
            max_hops: [0, 10]; None for the profile's, by default 2.
            limit: maximum number of hits; None for the profile's default.
            profile: supplies the stages and the effects on counters; None for `zeromemory`.
            tags: tags that a hit must have, all of them.
            dry_run: leave all counters unchanged.
            now: the instant at which the question is asked; None for the engine's clock.
            **where: the scope keywords.
        """
        base = profiles.load("zeromemory" if profile is None else profile)
        weight = base.graph_weight if graph_weight is None else checks.number("graph_weight", graph_weight, 0.0, 1.0)
        hops = base.max_hops if max_hops is None else checks.whole("max_hops", max_hops, 0, 10)
        scope, accepts = self._scope_and_filter(where, tags=tags)
        request = Query(
            text=query, scope=scope, filter=accepts, limit=limit, dry_run=dry_run, now=self._instant("now", now)
        )
        return recalls.recall(self.services, base.for_graph(weight, hops), request)

    def explain(
        self,
        query: str,
        memory_id: str,
        *,
        limit: int | None = None,
        profile: ProfileLike | None = None,
        min_score: float | None = None,
        tags: Sequence[str] = (),
        kinds: Sequence[str] = (),
        tiers: Sequence[str] = (),
        sessions: Sequence[str] = (),
        since: Instant | None = None,
        until: Instant | None = None,
        as_of: Instant | None = None,
        now: Instant | None = None,
        deadline_ms: float | None = None,
        weights: Mapping[str, float] | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> Explanation:
        """Return why a memory (by its whole or short id) is or is not in the answer of `recall` to these arguments.

        Nothing is changed. A call that names no project, user or agent is answered in the memory's own scope, and the
        reason says so. A memory of another user than the named one raises NotFoundError, as an unknown id does. To
        explain `graph_recall`, pass the profile `profiles.load(...).for_graph(graph_weight, max_hops)`.
        """
        scope, accepts = self._scope_and_filter(
            where, tags=tags, kinds=kinds, tiers=tiers, sessions=sessions, since=since, until=until
        )
        request = Query(
            text=query,
            scope=scope,
            filter=accepts,
            limit=limit,
            min_score=min_score,
            now=self._instant("now", now),
            as_of=self._instant("as_of", as_of),
            deadline_ms=deadline_ms,
        )
        return explanations.explain(self._flushed, self._profile(profile, weights), request, memory_id)

    def context(
        self,
        query: str,
        *,
        budget_tokens: int = 2000,
        limit: int | None = None,
        profile: ProfileLike | None = None,
        min_score: float | None = None,
        tags: Sequence[str] = (),
        dry_run: bool = False,
        now: Instant | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> Context:
        """Return the memories for `query`, quoted as data within a budget of tokens; bootstrap memories come first."""
        scope, accepts = self._scope_and_filter(where, tags=tags)
        request = Query(
            text=query,
            scope=scope,
            filter=accepts,
            limit=limit,
            min_score=min_score,
            dry_run=dry_run,
            now=self._instant("now", now),
        )
        return contexts.context(self.services, self._profile(profile), request, budget_tokens)

    # Look up

    def get(self, id: str, **where: Unpack[ScopeKeywords]) -> Memory:
        """Return the live memory of an id (whole or short).

        The id is enough: a project, user or agent that is not named matches any.
        """
        services, named = self._flushed, self._scope(where)
        memory = get_memory(services, named.widened(), id)
        own = {name: getattr(memory.scope, name) for name in NARROWING if getattr(named, name) is None}
        return with_replacements(services, replace(named, **own), [memory])[0]

    def list(
        self,
        *,
        tags: Sequence[str] = (),
        kinds: Sequence[str] = (),
        tiers: Sequence[str] = (),
        sessions: Sequence[str] = (),
        fact_keys: Sequence[str] = (),
        since: Instant | None = None,
        until: Instant | None = None,
        limit: int = 100,
        cursor: str | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> Page:
        """Return one page of the visible live memories, in the order of storing, and the cursor of the next page.

        With `fact_keys`, the page has only memories of these facts. The store finds them by an index.
        """
        scope, accepts = self._scope_and_filter(
            where,
            tags=tags,
            kinds=kinds,
            tiers=tiers,
            sessions=sessions,
            fact_keys=fact_keys,
            since=since,
            until=until,
        )
        return listing.page(self._flushed, scope, accepts, checks.whole("limit", limit, 1, 1000), cursor)

    def stats(self, **where: Unpack[ScopeKeywords]) -> Stats:
        """Return counts of the visible live memories."""
        return listing.stats(self._flushed, self._scope(where))

    def history(self, id: str, **where: Unpack[ScopeKeywords]) -> tuple[Version, ...]:
        """Return every version of a memory, forgotten or not, oldest first: who changed what, when and why.

        The id is enough: a project, user or agent that is not named matches any.
        """
        return versions.history(self._flushed, self._scope(where).widened(), id)

    def review(
        self,
        *,
        id: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> ReviewPage:
        """Return a page of problems that a person should look at, those of the newest memory first.

        Problems are pairs of live memories that contradict each other, say the same or update one another, as a write
        reports them by rules; stale reflections; and memories without a vector. A page examines at most 200 memories
        and has all problems of each, so it may have more items than `limit`, or none and a cursor. With `id`, the one
        page has all problems of that memory, whether it is the newer one of a pair or the older one.
        """
        scope, accepts = self._scope_and_filter(where)
        limit = checks.whole("limit", limit, 1, 1000)
        if id is not None:
            return reviews.review_of(self._flushed, self.profile, scope, id)
        return reviews.review(self._flushed, self.profile, scope, accepts, limit, cursor)

    def changes(
        self,
        *,
        change: str | None = None,
        changed_by: str | None = None,
        since: Instant | None = None,
        until: Instant | None = None,
        limit: int = 50,
        cursor: str | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> ChangesPage:
        """Return versions of the visible memories, live or not, newest first: who changed what, when and why.

        Args:
            change: only this change: `create`, `update`, `forget`, `expire`, `promote` and others.
            changed_by: only by this author: `agent:NAME`, `user:NAME` or `upkeep`.
            since: earliest time of the change, inclusive.
            until: latest time of the change, exclusive.
            limit: maximum number of versions.
            cursor: of the page before.
            **where: the scope keywords.
        """
        scope, accepts = self._scope_and_filter(where, since=since, until=until)
        condition = RevisionFilter(
            change=None if change is None else checks.choice("change", change, CHANGES),
            changed_by=None if changed_by is None else checks.name("changed_by", changed_by),
            since=accepts.since,
            until=accepts.until,
            level=accepts.level,
        )
        return reviews.changes(self._flushed, scope, condition, checks.whole("limit", limit, 1, 1000), cursor)

    def activity(
        self, *, since: Instant | None = None, until: Instant | None = None, **where: Unpack[ScopeKeywords]
    ) -> tuple[ActivityDay, ...]:
        """Return how many visible memories were created, changed, forgotten and last recalled on each day in UTC.

        Days without activity are left out. `since` is None for a year before `until`, and `until` None for now.
        """
        services = self._flushed
        scope, accepts = self._scope_and_filter(where, since=since, until=until)
        end = accepts.until or services.clock() + timedelta(microseconds=1)
        period = RevisionFilter(since=accepts.since or end - YEAR, until=end, level=accepts.level)
        return reviews.activity(services, scope, period)

    def recalls(
        self,
        query: str | None = None,
        *,
        id: str | None = None,
        memory_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> RecallLogPage:
        """Return one page of the recall log, newest first, and the cursor of the next page.

        The setting `recall_log` turns the log on. It has the recalls, graph recalls and contexts that were not asked
        for as dry runs.

        Args:
            query: a part of the question, in upper or lower case; None for any question.
            id: of the only wanted entry.
            memory_id: whole or short id of a memory; None for the entries of any memory.
            limit: maximum number of entries.
            cursor: of the page before.
            **where: the scope of the recalls: their project, user and agent are those given here, or none if none is
                given; `ANY` matches every value. `session_id` chooses the recalls of one session.
        """
        scope = self._scope(where)
        return listing.recalls(
            self._flushed, scope, checks.whole("limit", limit, 1, 1000), cursor, query, id, memory_id
        )

    def help(self, topic: str | None = None) -> str:
        """Return a short text for agents about a topic; without one, about the verbs."""
        return TOPICS[checks.choice("topic", "verbs" if topic is None else topic, TOPICS)]

    # Maintain

    def end_session(self, session_id: str, **where: Unpack[CallerKeywords]) -> SessionReport:
        """Move the session's memories to the tiers that they have earned, and return which moved."""
        return tiers.end_session(self._flushed, self._scope({**where}), session_id)

    def consolidate(self, *, dry_run: bool = False, **where: Unpack[CallerKeywords]) -> ConsolidateReport:
        """Move the visible memories to the tiers that they have earned, all or none, and return which moved."""
        return tiers.consolidate(self._flushed, self._scope({**where}), dry_run=dry_run)

    def reflect(
        self, *, dry_run: bool = False, progress: reflect.Progress | None = None, **where: Unpack[CallerKeywords]
    ) -> ReflectReport:
        """Consolidate, then sum up each cluster of related memories in one semantic memory that names its sources.

        Sources stay. Reflections whose sources changed are made again; a second run without changes writes nothing.
        `progress` is called with the number of memories read since the last call.
        """
        services, scope = self._flushed, self._scope({**where})
        tiers.consolidate(services, scope, dry_run=dry_run)
        return reflect.reflect(services, scope, dry_run=dry_run, progress=progress or (lambda _: None))

    def upkeep(self, *, dry_run: bool = False) -> UpkeepReport:
        """Do all maintenance that is due, for every scope of the tenant, and return what was done.

        Upkeep embeds pending memories, hides expired ones, moves tiers, and drops old versions as the setting
        `keep_versions` says. One process does it at a time: LeaseError while another is at work.
        """
        return upkeep.upkeep(self._flushed, dry_run=dry_run)

    def reembed(
        self, embedder: str | Embedder | None = None, *, progress: reembed.Progress | None = None
    ) -> ReembedReport:
        """Embed every memory and version with another model, switch the store to it, and return what was done.

        Recalls and writes continue under the old model until all vectors are ready. An interrupted run resumes when it
        is started again. Other engines on the store switch at their next call if they can load the model by its name.
        Those that cannot answer by words and store memories as pending.

        Args:
            embedder: the model, or its name; None for this engine's.
            progress: called with the number of texts done, and of all texts.
        """
        services = self._flushed
        if embedder is not None:
            if self._with_embedder is None:
                raise InputError(
                    "embedder",
                    Words(str(embedder)),
                    "Connect with salience.connect, then reembed.",
                    f"{embedder!r} cannot be made here",
                )
            services = self._with_embedder(services, embedder)
        report = reembed.reembed(services, progress)
        self.services = services
        return report

    def calibrate(
        self,
        pairs: Iterable[object] | None = None,
        *,
        source: str = "pairs of this installation",
        file: str | Path | None = None,
        progress: calibrations.Progress | None = None,
    ) -> Calibration:
        """Return the meaning of the embedder's cosines, fitted on judged pairs of texts; nothing is stored.

        Without pairs, it is measured on 60 included texts, as `connect` does it for the embedders that it makes itself.

        This engine keeps its calibration. `connect` reads calibrations from the file of the setting `calibrations`.

        Args:
            pairs: `Judged`, or (text, text, relatedness from 0 to 1); at least 20 from 0.75 on and 20 below 0.5. None
                for the included texts.
            source: name of the data, kept in the calibration.
            file: file to save the calibration in, under the embedder's name; None saves it nowhere.
            progress: called with the number of texts embedded so far.
        """
        if pairs is None:
            fitted = calibration.measured(self.services.embedder)
        else:
            fitted = calibrations.calibrate(self.services, calibrations.judged(pairs), source, progress)
        if file is not None:
            calibration.save(Path(file), self.services.embedder.name, fitted)
        return fitted

    def doctor(
        self, *, repair: bool = False, deep: bool = False, progress: doctor.Progress | None = None
    ) -> DoctorReport:
        """Check the whole store and return what is wrong with it.

        Args:
            repair: rebuild derived data that is wrong.
            deep: embed every text again, and compare the vectors.
            progress: called with the number of memories read so far.
        """
        return doctor.doctor(self._flushed, repair=repair, deep=deep, progress=progress)

    # Move

    def export(
        self,
        file: files.File,
        *,
        format: Literal["jsonl", "markdown", "mem0"] = "jsonl",
        overwrite: bool = False,
        progress: files.Progress | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> TransferReport:
        """Write memories with their versions and vectors as lines of JSON, and return the counts.

        A coordinate that is not named matches every value, so an export without scope keywords is complete. An existing
        file is replaced only with `overwrite`, only if it is an export itself, and only once the new one is complete.
        For other systems, `format` writes the live memories as JSON of mem0, or as a new folder of Markdown notes.
        """
        scope = self._scope({**keywords.EVERYWHERE, **where})
        if checks.choice("format", format, formats.FORMATS) != "jsonl":
            with formats.writer(format, file, overwrite) as write:
                return export.export_as(self._flushed, scope, write, progress)
        with files.writing(file, overwrite) as target:
            return export.export(self._flushed, scope, target, progress)

    def import_(
        self,
        file: files.File,
        *,
        source: str | None = None,
        on_error: Literal["stop", "skip"] = "stop",
        dry_run: bool = False,
        progress: files.Progress | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> TransferReport:
        """Store the memories of an export, drafts as lines of JSON, or another system's export; return the counts.

        Args:
            file: a path or an open file; a folder for the sources in `salience.transfer.importers.FOLDERS`.
            source: name of the other system, from `salience.transfer.importers.SOURCES`; None: an export or drafts.
            on_error: at an invalid line or record, `"stop"` stores nothing and raises; `"skip"` reports it and
                continues.
            dry_run: read and check everything, and count what would be stored.
            progress: called with the number of memories done so far.
            where: coordinates for the drafts and records that name none.
        """
        skip = checks.choice("on_error", on_error, ("stop", "skip")) == "skip"
        home, dry = self._home(where), checks.flag("dry_run", dry_run)
        if source is not None:
            with importers.records(source, file) as items:
                return import_.import_records(self._flushed, home, items, skip=skip, dry_run=dry, progress=progress)
        with files.reading(file) as lines:
            return import_.import_(self._flushed, home, lines, skip=skip, dry_run=dry, progress=progress)

    def backup(
        self, file: str | Path, *, overwrite: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Write a copy of the store to a new file while others read and write; the copy is itself a store.

        An existing file is replaced only with `overwrite`, only if it is a store or empty, and only once the copy is
        complete. `progress` is called with the pages left and the pages in all.
        """
        self._flushed.store.backup(str(file), progress, overwrite=overwrite)

    def close(self) -> None:
        """Write the access log and release the file or connection."""
        services = self._services
        services.access_log.close()
        services.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def warm_in_background(engine: Engine) -> threading.Thread:
    """Warm an engine in a new thread, and return the thread.

    Errors are dropped: they come again at the first recall. The thread is no daemon, since some model runtimes crash if
    the process ends while they load.
    """

    def work() -> None:
        with suppress(Exception):
            warm(engine)

    thread = threading.Thread(target=work, name="salience-warm")
    thread.start()
    return thread


def warm(engine: Engine) -> None:
    """Load the model and the index by a recall that changes no counter. A remote embedder is not called.

    Raises:
        SalienceError: as `Engine.recall`.
    """
    engine.recall(
        FINGERPRINTED,  # a text whose vector the store needs anyway, to check the model
        limit=1,
        dry_run=True,
        deadline_ms=0.0 if getattr(engine.services.embedder, "remote", False) else None,
        environment=ANY,
        project=ANY,
        user_id=ANY,
        agent_id=ANY,
    )
