"""The engine: one line per public verb over the stories. It holds the ports, the profile and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, Unpack

from salience import calibrate as calibrations
from salience import checks, keywords, profiles, remember, upkeep
from salience import context as contexts
from salience import recall as recalls
from salience.derived import one
from salience.embed import calibration_file
from salience.explain import story
from salience.help import TOPICS
from salience.keywords import CallerKeywords, ScopeKeywords
from salience.ports import Calibration, World
from salience.profiles import ProfileLike
from salience.rank.profile import Profile
from salience.records import (
    UNSET,
    Context,
    Draft,
    Explanation,
    Filter,
    Memory,
    Page,
    Query,
    Recall,
    Receipt,
    Scope,
    SessionReport,
    Stats,
    TransferReport,
    Unset,
)
from salience.transfer import export, files, import_


class Engine:
    """Memory for agents, embedded in this process. Made by `salience.connect`; safe to share between threads.

    Every verb takes the scope keywords `environment`, `project`, `user_id`, `agent_id` and `session_id`, and raises
    the errors of `salience.errors`: InputError for a value that cannot be accepted, NotFoundError for an id that is
    not visible, EmbedderError and StoreError where the world fails.
    """

    def __init__(self, world: World, profile: ProfileLike = "salience") -> None:
        self.world = world
        self.profile = profiles.load(profile)

    def remember(
        self,
        content: str,
        *,
        kind: str = "fact",
        importance: float | None = None,
        weight: float = 1.0,
        tags: Sequence[str] = (),
        entities: Sequence[str] | None = None,
        fact_key: str | None = None,
        supersedes: str | None = None,
        ttl: Any = None,
        tier: str = "episodic",
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
        created_at: Any = None,
        memory_type: str | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> Receipt:
        """Store one memory and return its receipt, with the memories that it may contradict.

        The arguments are the fields of `Draft`; `memory_type` is MemLayer's and ZeroMemory's word for `tier`.
        """
        draft = Draft(
            content=content,
            kind=kind,
            importance=importance,
            weight=weight,
            tags=tags,
            entities=entities,
            fact_key=fact_key,
            supersedes=supersedes,
            ttl=ttl,
            tier=tier if memory_type is None else memory_type,
            metadata=metadata or {},
            key=key,
            created_at=created_at,
        )
        return self.remember_many([draft], **where)[0]

    def remember_many(
        self, drafts: Iterable[Draft | Mapping[str, Any]], **where: Unpack[ScopeKeywords]
    ) -> list[Receipt]:
        """Store drafts in one transaction, all or none, and return a receipt for each, in order.

        A draft is a `Draft`, or a mapping of its fields and, if it lives elsewhere, coordinates of its scope.
        """
        home = self._home(where)
        return remember.remember(self.world, self.profile, remember.drafts(drafts, home), home)

    def ingest(self, messages: Iterable[object], **where: Unpack[ScopeKeywords]) -> list[Receipt]:
        """Store a conversation turn by turn, verbatim and in order, and return a receipt for each turn.

        A message is a mapping with `content`, `speaker` (or `role`) and, if known, `timestamp` (aware or ISO 8601),
        `metadata` and an idempotency `key`. `session_id` is needed. Turns are not searched for contradictions: what is
        said is not yet what is held.
        """
        home = self._home(where)
        return remember.remember(self.world, self.profile, remember.turns(messages, home), home, look=False)

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
        since: Any = None,
        until: Any = None,
        dry_run: bool = False,
        now: Any = None,
        deadline_ms: float | None = None,
        weights: Mapping[str, float] | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> Recall:
        """Return the memories that answer `query`, best first, each score taken apart.

        Args:
            query: the question.
            limit: most hits; None for the profile's default.
            profile: name, path of a TOML file, or `Profile`; None for the engine's.
            min_score: least score, on the profile's scale.
            tags: names that a hit must all carry.
            kinds: kinds that a hit may be of; empty for any.
            tiers: tiers that a hit may be in; empty for any.
            sessions: sessions that a hit may come from; empty for any.
            since: earliest `created_at`, included.
            until: latest `created_at`, excluded.
            dry_run: leave every counter and clock as it is.
            now: the instant at which the question is asked; None for the engine's clock.
            deadline_ms: milliseconds after which neither embedding nor reranking is waited for; the answer is then
                lexical, or in the profile's order, and says so in `degraded`.
            weights: other weights for signals of the profile, by label.
            **where: the scope keywords.
        """
        scope, level = self._scope(where)
        accepts = Filter(tags=tags, kinds=kinds, tiers=tiers, sessions=sessions, since=since, until=until, level=level)
        asked = Query(
            text=query,
            scope=scope,
            filter=accepts,
            limit=limit,
            min_score=min_score,
            dry_run=dry_run,
            now=now,
            deadline_ms=deadline_ms,
        )
        return recalls.recall(self.world, self._profile(profile, weights), asked)

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
        now: Any = None,
        **where: Unpack[ScopeKeywords],
    ) -> Recall:
        """Return memories by similarity and by nearness to the query's entities: (1 - w) x similarity + w x proximity.

        Args:
            query: the question; the entities that it names are those known to the store.
            graph_weight: w, [0, 1]; None for the profile's, by default 0.3.
            max_hops: [0, 10]; None for the profile's, by default 2.
            limit: most hits; None for the profile's default.
            profile: whose stages and side effects hold; None for `zeromemory`.
            tags: names that a hit must all carry.
            dry_run: leave every counter and clock as it is.
            now: the instant at which the question is asked; None for the engine's clock.
            **where: the scope keywords.
        """
        base = profiles.load(profile or "zeromemory")
        weight = base.graph_weight if graph_weight is None else checks.number("graph_weight", graph_weight, 0.0, 1.0)
        hops = base.max_hops if max_hops is None else checks.whole("max_hops", max_hops, 0, 10)
        scope, level = self._scope(where)
        asked = Query(
            text=query, scope=scope, filter=Filter(tags=tags, level=level), limit=limit, dry_run=dry_run, now=now
        )
        return recalls.recall(self.world, base.for_graph(weight, hops), asked)

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
        since: Any = None,
        until: Any = None,
        now: Any = None,
        deadline_ms: float | None = None,
        weights: Mapping[str, float] | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> Explanation:
        """Return why a memory, by its id (whole or short), is or is not in what `recall` answers to the same arguments.

        Nothing is changed. A memory that the caller may not know of is a NotFoundError, as one that is not there. What
        `graph_recall` answers is explained under the profile `profiles.load(...).for_graph(graph_weight, max_hops)`.
        """
        scope, level = self._scope(where)
        accepts = Filter(tags=tags, kinds=kinds, tiers=tiers, sessions=sessions, since=since, until=until, level=level)
        asked = Query(
            text=query, scope=scope, filter=accepts, limit=limit, min_score=min_score, now=now, deadline_ms=deadline_ms
        )
        return story.explain(self.world, self._profile(profile, weights), asked, memory_id)

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
        now: Any = None,
        **where: Unpack[ScopeKeywords],
    ) -> Context:
        """Return the memories for `query` quoted as data, within a budget of tokens; bootstrap memories come first."""
        scope, level = self._scope(where)
        accepts = Filter(tags=tags, level=level)
        asked = Query(
            text=query, scope=scope, filter=accepts, limit=limit, min_score=min_score, dry_run=dry_run, now=now
        )
        return contexts.context(self.world, self._profile(profile), asked, budget_tokens)

    def get(self, id: str, **where: Unpack[ScopeKeywords]) -> Memory:
        """Return the live memory of an id (whole or short)."""
        return one(self.world, self._scope(where)[0], id)

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
        **where: Unpack[ScopeKeywords],
    ) -> Receipt:
        """Change a memory and return its receipt; the version before is kept, and `updated_at` becomes now."""
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
        return remember.update(self.world, self._scope(where)[0], id, changes)

    def forget(self, id: str, **where: Unpack[ScopeKeywords]) -> Receipt:
        """Take a memory out of every recall and return its receipt; its versions are kept."""
        return remember.forget(self.world, self._scope(where)[0], id)

    def list(
        self,
        *,
        tags: Sequence[str] = (),
        kinds: Sequence[str] = (),
        tiers: Sequence[str] = (),
        sessions: Sequence[str] = (),
        since: Any = None,
        until: Any = None,
        limit: int = 100,
        cursor: str | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> Page:
        """Return one page of the visible live memories in the order of storing, and the cursor of the next page."""
        scope, level = self._scope(where)
        accepts = Filter(tags=tags, kinds=kinds, tiers=tiers, sessions=sessions, since=since, until=until, level=level)
        return upkeep.page(self.world, scope, accepts, checks.whole("limit", limit, 1, 1000), cursor)

    def stats(self, **where: Unpack[ScopeKeywords]) -> Stats:
        """Return counts of the visible live memories."""
        return upkeep.stats(self.world, self._scope(where)[0])

    def help(self, topic: str | None = None) -> str:
        """Return what there is to know about a topic; without one, about the verbs."""
        return TOPICS[checks.choice("topic", topic or "verbs", TOPICS)]

    def end_session(self, session_id: str, **where: Unpack[CallerKeywords]) -> SessionReport:
        """Move the session's memories to the tiers that they have earned and return which moved."""
        return upkeep.end_session(self.world, self._scope({**where})[0], session_id)

    def export(
        self,
        file: files.File,
        *,
        overwrite: bool = False,
        progress: files.Progress | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> TransferReport:
        """Write memories with their versions and vectors as lines of JSON, and return the count.

        A coordinate that is not named stands for every value, so that an export without scope keywords is whole. A
        file that is there is refused unless it may be overwritten and is an export itself; it is replaced only once
        the new one is whole.
        """
        scope, _ = self._scope({**keywords.EVERYWHERE, **where})
        with files.writing(file, overwrite) as target:
            return export.export(self.world, scope, target, progress)

    def import_(
        self,
        file: files.File,
        *,
        on_error: Literal["stop", "skip"] = "stop",
        progress: files.Progress | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> TransferReport:
        """Store the memories of an export, or of drafts as lines of JSON, and return counts.

        `on_error` says what a broken line does: `stop` stores nothing and raises; `skip` reports it and goes on.
        """
        checks.choice("on_error", on_error, ("stop", "skip"))
        with files.reading(file) as source:
            return import_.import_(self.world, self._home(where), source, skip=on_error == "skip", progress=progress)

    def calibrate(
        self,
        pairs: Iterable[object],
        *,
        source: str = "pairs of this installation",
        file: str | Path | None = None,
        progress: calibrations.Progress | None = None,
    ) -> Calibration:
        """Return what the embedder's cosines mean, fitted on pairs of texts that people judged; nothing is stored.

        The engine goes on with the calibration that it was made with; `connect` takes the one that is in the file of
        the setting `calibrations`.

        Args:
            pairs: `Judged`, or (text, text, relatedness from 0 to 1); at least 20 from 0.75 on and 20 below 0.5.
            source: the data, as the calibration is to name it.
            file: where to keep it under the embedder's name; None keeps it nowhere.
            progress: called with the number of texts embedded so far.
        """
        fitted = calibrations.calibrate(self.world, calibrations.judged(pairs), source, progress)
        if file is not None:
            calibration_file.save(Path(file), self.world.embedder.name, fitted)
        return fitted

    def close(self) -> None:
        """Release the file or connection."""
        self.world.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _profile(self, profile: ProfileLike | None, weights: Mapping[str, float] | None = None) -> Profile:
        chosen = self.profile if profile is None else profiles.load(profile)
        return chosen.with_weights(weights) if weights else chosen

    def _scope(self, where: Mapping[str, object]) -> tuple[Scope, str | None]:
        return keywords.scope(self.world.tenant, where)

    def _home(self, where: Mapping[str, object]) -> Scope:
        return keywords.home(self.world.tenant, where)
