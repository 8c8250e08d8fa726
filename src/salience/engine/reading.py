"""The verbs that read memories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from salience import context as contexts
from salience import listing
from salience import recall as recalls
from salience import recalls as several
from salience.engine.base import Base
from salience.explain import story
from salience.help import TOPICS
from salience.keywords import ScopeKeywords
from salience.maintain import versions
from salience.rank import profiles
from salience.rank.profiles import ProfileLike
from salience.records import Context, Explanation, Filter, Memory, Page, Query, Recall, Stats, Version, checks
from salience.steps import get_memory

Recalls = list[Recall]  # within the class below, `list` is the verb


class Reading(Base):
    """Recall, explain, show."""

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
        as_of: Any = None,
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
            as_of: an instant of the past: the answer is what it would have been then, by the contents, importances,
                weights, links, expiries and recall counters of that time. It touches nothing. What counts is when a
                memory was stored and changed, not the `created_at` that it was given.
            now: the instant at which the question is asked; None for `as_of`, else for the engine's clock.
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
            as_of=as_of,
            deadline_ms=deadline_ms,
        )
        return recalls.recall(self.services, self._profile(profile, weights), asked)

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
        since: Any = None,
        until: Any = None,
        dry_run: bool = False,
        as_of: Any = None,
        now: Any = None,
        deadline_ms: float | None = None,
        weights: Mapping[str, float] | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> Recalls:
        """Return what `recall` answers to each of several questions, in their order, in less time than one by one.

        Each is answered as if it alone were asked, all at one instant: none counts before all are answered. The other
        arguments are those of `recall` and hold for each; `deadline_ms` holds for all of them together.
        """
        texts = checks.texts("queries", queries, self.services.content_limit)
        scope, level = self._scope(where)
        accepts = Filter(tags=tags, kinds=kinds, tiers=tiers, sessions=sessions, since=since, until=until, level=level)
        asked = [
            Query(
                text=text,
                scope=scope,
                filter=accepts,
                limit=limit,
                min_score=min_score,
                dry_run=dry_run,
                now=now,
                as_of=as_of,
                deadline_ms=deadline_ms,
            )
            for text in texts
        ]
        return several.recall_many(self.services, self._profile(profile, weights), asked)

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
        base = profiles.load("zeromemory" if profile is None else profile)
        weight = base.graph_weight if graph_weight is None else checks.number("graph_weight", graph_weight, 0.0, 1.0)
        hops = base.max_hops if max_hops is None else checks.whole("max_hops", max_hops, 0, 10)
        scope, level = self._scope(where)
        asked = Query(
            text=query, scope=scope, filter=Filter(tags=tags, level=level), limit=limit, dry_run=dry_run, now=now
        )
        return recalls.recall(self.services, base.for_graph(weight, hops), asked)

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
        as_of: Any = None,
        now: Any = None,
        deadline_ms: float | None = None,
        weights: Mapping[str, float] | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> Explanation:
        """Return why a memory, by its id (whole or short), is or is not in what `recall` answers to the same arguments.

        Nothing is changed. A call that names no project, user or agent asks in the memory's own scope, and the reason
        says so. A memory of another user than the one named is a NotFoundError, as one that is not there. What
        `graph_recall` answers is explained under the profile `profiles.load(...).for_graph(graph_weight, max_hops)`.
        """
        scope, level = self._scope(where)
        accepts = Filter(tags=tags, kinds=kinds, tiers=tiers, sessions=sessions, since=since, until=until, level=level)
        asked = Query(
            text=query,
            scope=scope,
            filter=accepts,
            limit=limit,
            min_score=min_score,
            now=now,
            as_of=as_of,
            deadline_ms=deadline_ms,
        )
        return story.explain(self.services, self._profile(profile, weights), asked, memory_id)

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
        return contexts.context(self.services, self._profile(profile), asked, budget_tokens)

    def get(self, id: str, **where: Unpack[ScopeKeywords]) -> Memory:
        """Return the live memory of an id (whole or short); a project, user or agent that is not named is any."""
        return get_memory(self.services, self._scope(where)[0].widened(), id)

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
        return listing.page(self.services, scope, accepts, checks.whole("limit", limit, 1, 1000), cursor)

    def stats(self, **where: Unpack[ScopeKeywords]) -> Stats:
        """Return counts of the visible live memories."""
        return listing.stats(self.services, self._scope(where)[0])

    def help(self, topic: str | None = None) -> str:
        """Return what there is to know about a topic; without one, about the verbs."""
        return TOPICS[checks.choice("topic", "verbs" if topic is None else topic, TOPICS)]

    def history(self, id: str, **where: Unpack[ScopeKeywords]) -> tuple[Version, ...]:
        """Return every version of a memory, forgotten or not, oldest first: who changed what, when and why.

        The id is enough: a project, user or agent that is not named is any.
        """
        return versions.history(self.services, self._scope(where)[0].widened(), id)
