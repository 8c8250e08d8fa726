"""Engine: the verbs carried out in this process, each a call of its story."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from salience import context as contexts
from salience import explain as explanations
from salience import keywords, listing, remember
from salience import recall as recalls
from salience.errors import InputError, SalienceError, Words
from salience.explain.profiles import curves, describe
from salience.help import TOPICS
from salience.maintain import doctor, erase, reembed, reflect, tiers, upkeep, versions
from salience.maintain import review as reviews
from salience.models import calibration
from salience.ports import FINGERPRINTED, Calibration, Embedder, RevisionFilter, Selection, Services
from salience.rank import profiles
from salience.rank.profile import Profile
from salience.rank.profiles import ProfileLike
from salience.records import (
    ANY,
    CHANGES,
    NARROWING,
    PROBLEMS,
    ActivityDay,
    ChangesPage,
    ConsolidateReport,
    Context,
    DecayCurve,
    DoctorReport,
    Draft,
    Erased,
    Explanation,
    Facets,
    Filter,
    Memory,
    Page,
    Profiles,
    Query,
    Recall,
    RecallLogPage,
    Receipt,
    ReembedReport,
    ReflectReport,
    ReviewPage,
    Scope,
    Scores,
    SessionReport,
    SessionsPage,
    Stats,
    TransferReport,
    UpkeepReport,
    Version,
    checks,
)
from salience.records.query import CHOICES, CONDITIONS, INSTANTS, choices
from salience.relations import with_replacements
from salience.steps import get_memory
from salience.transfer import export, files, formats, import_, importers
from salience.verbs import Verb, Verbs

WithEmbedder = Callable[[Services, str | Embedder], Services]
"""From services and an embedder (or its name) to the same services with that embedder."""
FollowModel = Callable[[Services], Services | None]
"""From services to the same services with the model that the store is pinned to; None if it cannot be loaded."""
FOLLOW_PAUSE: Final = 60.0
"""Seconds between attempts to load the store's model."""
YEAR: Final = timedelta(days=365)
FIRST: Final = datetime.min.replace(tzinfo=UTC)
MOST_WORDS: Final = 20
"""Maximum number of words that `list` looks for."""
MOST_LINKS: Final = 100
"""Maximum number of entities, and of linked memories, that `list` looks for."""
Names = Sequence[str]
Made = TypeVar("Made")
TURN: Final = frozenset({"turns_since_activation"})


class Engine(Verbs):
    """Memory for agents, embedded in this process. Made by `salience.connect`; safe to share between threads.

    `_remember` carries out `remember`, and so on; each takes every argument by name.

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
        if self._follow is not None and self._services.store.moved:
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
        """The services, once the tenant's part of the access log is written: for verbs that show or change counters."""
        services = self.services
        services.access_log.flush(tenant=services.tenant)
        return services

    def _written(self, made: Made) -> Made:
        """Return the result of a write, after which a local store hides the memories whose time to live is over."""
        services = self._services
        if services.store.may_be_due(services.tenant, services.clock()):
            with suppress(SalienceError):  # upkeep tries again, and says why it fails
                upkeep.expire(self._flushed)
        return made

    def of(self, tenant: str, answer_limit: int | None = None, *, records_access: bool = True) -> Self:
        """Return an engine for another tenant that shares this engine's store, models and profile.

        Closing one closes both. Answers over `answer_limit` bytes raise LimitError. Without `records_access`, recalls
        leave all counters unchanged.
        """
        tenant = checks.name("tenant", tenant)
        services = replace(self.services, tenant=tenant, answer_limit=answer_limit, records_access=records_access)
        return type(self)(services, self.profile, self._with_embedder)

    def _call(self, verb: Verb, given: dict[str, Any]) -> Any:
        return getattr(self, f"_{verb.name}")(**given)

    def _profile(self, profile: ProfileLike | None, weights: Mapping[str, float] | None = None) -> Profile:
        chosen = self.profile if profile is None else profiles.load(profile)
        return chosen if weights is None else chosen.with_weights(weights)

    def _scope(self, where: Mapping[str, object]) -> Scope:
        return keywords.scope(self._services.tenant, where)[0]

    def _home(self, where: Mapping[str, object]) -> Scope:
        home = keywords.home(self._services.tenant, where)
        if home.session_id is not None:  # queued recalls of this session take their turns before a new memory does
            self._services.access_log.flush(TURN, self._services.tenant)
        return home

    def _selected(self, given: Mapping[str, Any]) -> tuple[Scope, Filter, dict[str, Any]]:
        """Return the scope and the filter that arguments name, and the other arguments; instants are resolved."""
        now = self._services.clock()
        rest: dict[str, Any] = {
            name: checks.instant(name, value, now=now) if name in INSTANTS and value is not None else value
            for name, value in given.items()
        }
        scope, level = keywords.scope(
            self._services.tenant, {name: rest.pop(name) for name in keywords.NAMES if name in rest}
        )
        conditions = {name: rest.pop(name) for name in CONDITIONS if name in rest}
        return scope, Filter(level=level, **conditions), rest

    def _request(self, text: str, given: Mapping[str, Any]) -> Query:
        scope, accepts, options = self._selected(given)
        return Query(text=text, scope=scope, filter=accepts, **options)

    # Write

    def _remember(self, *, memory_type: str | None, **given: Any) -> Receipt:
        where = {name: given.pop(name) for name in keywords.NAMES}
        if memory_type is not None:
            given["tier"] = memory_type
        if given["created_at"] is not None:
            given["created_at"] = checks.instant("created_at", given["created_at"], now=self._services.clock())
        draft = Draft(**{name: value for name, value in given.items() if value is not None})
        return self._remember_many([draft], **where)[0]

    def _remember_many(self, drafts: Iterable[Draft | Mapping[str, Any]], **where: Any) -> list[Receipt]:
        home = self._home(where)
        return self._written(remember.remember(self.services, self.profile, remember.drafts(drafts, home), home))

    def _ingest(self, messages: Iterable[object], **where: Any) -> list[Receipt]:
        home = self._home(where)
        drafts, warnings = [], []
        for draft, warning in remember.split_turns(remember.turns(messages, home), self.services.content_limit):
            drafts.append(draft)
            warnings.append(warning)
        receipts = self._written(remember.remember(self.services, self.profile, drafts, home, check_existing=False))
        return [
            receipt if warning is None else replace(receipt, warning=" ".join(filter(None, (warning, receipt.warning))))
            for receipt, warning in zip(receipts, warnings, strict=True)
        ]

    def _update(self, id: str, *, reason: str | None, if_version: int | None, key: str | None, **given: Any) -> Receipt:
        scope = self._scope({name: given.pop(name) for name in keywords.NAMES})
        made = remember.update(self._flushed, self.profile, scope, id, given, reason, if_version=if_version, key=key)
        return self._written(made)

    def _forget(self, id: str, *, reason: str | None, if_version: int | None, key: str | None, **where: Any) -> Receipt:
        made = remember.forget(self._flushed, self._scope(where), id, reason, if_version=if_version, key=key)
        return self._written(made)

    def _restore(self, id: str, version: int | None, *, reason: str | None, key: str | None, **where: Any) -> Receipt:
        made = remember.restore(self._flushed, self.profile, self._scope(where), id, version, reason, key=key)
        return self._written(made)

    def _dismiss(self, id: str, other_id: str | None, *, undo: bool, reason: str | None, **where: Any) -> Receipt:
        checks.flag("undo", undo)
        return reviews.dismiss(self._flushed, self._scope(where), id, other_id, reason, undo=undo)

    def _erase(self, ids: Sequence[str] | None, *, where: Mapping[str, Any], dry_run: bool, **scope: Any) -> Erased:
        return erase.erase(self._flushed, scope, ids, where, dry_run=dry_run)

    # Recall

    def _recall(
        self, query: str, *, profile: ProfileLike | None, weights: Mapping[str, float] | None, **given: Any
    ) -> Recall:
        return recalls.recall(self.services, self._profile(profile, weights), self._request(query, given))

    def _recall_many(
        self, queries: Sequence[str], *, profile: ProfileLike | None, weights: Mapping[str, float] | None, **given: Any
    ) -> list[Recall]:
        texts = [checks.query(f"queries[{index}]", one) for index, one in enumerate(checks.texts("queries", queries))]
        scope, accepts, options = self._selected(given)
        requests = [Query(text=text, scope=scope, filter=accepts, **options) for text in texts]
        return recalls.recall_many(self.services, self._profile(profile, weights), requests)

    def _graph_recall(
        self, query: str, *, graph_weight: float | None, max_hops: int | None, profile: ProfileLike | None, **given: Any
    ) -> Recall:
        base = profiles.load("zeromemory" if profile is None else profile)
        weight = base.graph_weight if graph_weight is None else checks.number("graph_weight", graph_weight, 0.0, 1.0)
        hops = base.max_hops if max_hops is None else checks.whole("max_hops", max_hops, 0, 10)
        return recalls.recall(self.services, base.for_graph(weight, hops), self._request(query, given))

    def _explain(
        self,
        query: str,
        memory_id: str,
        *,
        profile: ProfileLike | None,
        weights: Mapping[str, float] | None,
        **given: Any,
    ) -> Explanation:
        chosen = self._profile(profile, weights)
        return explanations.explain(self._flushed, chosen, self._request(query, given), memory_id)

    def _scores(
        self, query: str, *, profile: ProfileLike | None, weights: Mapping[str, float] | None, **given: Any
    ) -> Scores:
        return explanations.scores(self._flushed, self._profile(profile, weights), self._request(query, given))

    def _decay(
        self, ids: Names, *, profile: ProfileLike | None, days: float, steps: int, **where: Any
    ) -> tuple[DecayCurve, ...]:
        services, chosen = self._flushed, self._profile(profile)
        found = services.store.fetch(self._scope(where), checks.ids("ids", ids))
        ahead, count = checks.number("days", days, 0.0, 36_500.0), checks.whole("steps", steps, 2, 1000)
        return curves(found, chosen, services.clock(), ahead, count)

    def _profiles(self) -> Profiles:
        return describe(self.profile)

    def _context(self, query: str, *, budget_tokens: int, profile: ProfileLike | None, **given: Any) -> Context:
        return contexts.context(self.services, self._profile(profile), self._request(query, given), budget_tokens)

    # Look up

    def _selection(
        self, *, ids: Names = (), words: Names = (), entities: Names = (), linked_to: Names = (), **given: Any
    ) -> Selection:
        """Return the memories that the conditions of `list` select."""
        values = choices(given)
        scope, accepts, _ = self._selected({name: value for name, value in given.items() if name not in CHOICES})
        return Selection(
            scope=scope,
            filter=accepts,
            ids=checks.ids("ids", ids),
            words=checks.few("words", checks.texts("words", words, self._services.content_limit), MOST_WORDS),
            entities=checks.few("entities", checks.names("entities", entities), MOST_LINKS),
            linked_to=checks.few("linked_to", checks.ids("linked_to", linked_to, whole=True), MOST_LINKS),
            values=values,
            now=self._services.clock(),
        )

    def _list(self, *, order: str, descending: bool, limit: int, cursor: str | None, **given: Any) -> Page:
        size, is_reversed = checks.whole("limit", limit, 1, 1000), checks.flag("descending", descending)
        return listing.page(self._flushed, self._selection(**given), order, size, cursor, descending=is_reversed)

    def _facets(self, *, fields: Names, top: int, **given: Any) -> Facets:
        top = checks.whole("top", top, 1, 100_000)
        return listing.facets(self._flushed, self._selection(**given), checks.names("fields", fields), top)

    def _sessions(self, *, limit: int, cursor: str | None, **given: Any) -> SessionsPage:
        selection = self._selection(statuses=("live",), **given)
        return listing.sessions(self._flushed, selection, checks.whole("limit", limit, 1, 1000), cursor)

    def _get(self, id: str, **where: Any) -> Memory:
        services, named = self._flushed, self._scope(where)
        memory = get_memory(services, named.widened(), id, services.clock())
        own = {name: getattr(memory.scope, name) for name in NARROWING if getattr(named, name) is None}
        return with_replacements(services, replace(named, **own), [memory])[0]

    def _stats(self, **where: Any) -> Stats:
        return listing.stats(self._flushed, self._scope(where))

    def _history(self, id: str, **where: Any) -> tuple[Version, ...]:
        return versions.history(self._flushed, self._scope(where), id)

    def _review(
        self, *, id: str | None, kinds: Iterable[str], limit: int, cursor: str | None, **where: Any
    ) -> ReviewPage:
        scope, accepts, _ = self._selected(where)
        limit = checks.whole("limit", limit, 1, 1000)
        chosen = (
            frozenset(checks.choice("kinds", one, PROBLEMS) for one in checks.names("kinds", kinds)) or reviews.DEFAULT
        )
        if id is not None:
            return reviews.review_of(self._flushed, self.profile, scope, id, chosen)
        return reviews.review(self._flushed, self.profile, scope, accepts, chosen, limit, cursor)

    def _changes(
        self, *, change: str | None, changed_by: str | None, limit: int, cursor: str | None, **given: Any
    ) -> ChangesPage:
        scope, accepts, _ = self._selected(given)
        condition = RevisionFilter(
            change=None if change is None else checks.choice("change", change, CHANGES),
            changed_by=None if changed_by is None else checks.name("changed_by", changed_by),
            since=accepts.since,
            until=accepts.until,
            level=accepts.level,
        )
        return reviews.changes(self._flushed, scope, condition, checks.whole("limit", limit, 1, 1000), cursor)

    def _activity(self, **given: Any) -> tuple[ActivityDay, ...]:
        services = self._flushed
        scope, accepts, _ = self._selected(given)
        end = accepts.until or services.clock() + timedelta(microseconds=1)
        start = accepts.since or max(end, FIRST + YEAR) - YEAR
        period = RevisionFilter(since=start, until=end, level=accepts.level)
        return reviews.activity(services, scope, period)

    def _recalls(
        self, query: str | None, *, id: str | None, memory_id: str | None, limit: int, cursor: str | None, **where: Any
    ) -> RecallLogPage:
        size = checks.whole("limit", limit, 1, 1000)
        return listing.recalls(self._flushed, self._scope(where), size, cursor, query, id, memory_id)

    def _help(self, topic: str | None) -> str:
        return TOPICS[checks.choice("topic", "verbs" if topic is None else topic, TOPICS)]

    # Maintain

    def _end_session(self, session_id: str, **where: Any) -> SessionReport:
        return tiers.end_session(self._flushed, self._scope(where), session_id)

    def _consolidate(self, *, dry_run: bool, **where: Any) -> ConsolidateReport:
        return tiers.consolidate(self._flushed, self._scope(where), dry_run=dry_run)

    def _reflect(self, *, dry_run: bool, progress: reflect.Progress | None, **where: Any) -> ReflectReport:
        services, scope = self._flushed, self._scope(where)
        tiers.consolidate(services, scope, dry_run=dry_run)
        return reflect.reflect(services, scope, dry_run=dry_run, progress=progress or (lambda _: None))

    def _upkeep(self, *, dry_run: bool) -> UpkeepReport:
        return upkeep.upkeep(self._flushed, dry_run=dry_run)

    def _reembed(self, embedder: str | Embedder | None, *, progress: reembed.Progress | None) -> ReembedReport:
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

    def _calibrate(self) -> Calibration:
        return calibration.measured(self.services.embedder)

    def _doctor(self, **options: Any) -> DoctorReport:
        return doctor.doctor(self._flushed, **options)

    # Move

    def _export(
        self, file: files.File, *, format: str, overwrite: bool, progress: files.Progress | None, **where: Any
    ) -> TransferReport:
        scope, accepts, _ = self._selected(where)
        if checks.choice("format", format, formats.FORMATS) != "jsonl":
            with formats.writer(format, file, overwrite) as write:
                return export.export_as(self._flushed, scope, accepts, write, progress)
        with files.writing(file, overwrite) as target:
            return export.export(self._flushed, scope, accepts, target, progress)

    def _import_(
        self,
        file: files.File,
        *,
        source: str | None,
        on_error: str | None,
        dry_run: bool,
        progress: files.Progress | None,
        **where: Any,
    ) -> TransferReport:
        chosen = on_error if on_error is not None else "stop" if source is None else "skip"
        skip = checks.choice("on_error", chosen, ("stop", "skip")) == "skip"
        home, dry = self._home(where), checks.flag("dry_run", dry_run)
        if source is not None:
            with importers.records(source, file) as items:
                return import_.import_records(self._flushed, home, items, skip=skip, dry_run=dry, progress=progress)
        with files.reading(file) as lines:
            return import_.import_(self._flushed, home, lines, skip=skip, dry_run=dry, progress=progress)

    def _backup(self, file: str | Path, *, overwrite: bool, progress: Callable[[int, int], None] | None) -> None:
        self._flushed.store.backup(str(checks.path("file", file)), progress, overwrite=overwrite)

    def close(self) -> None:
        """Write the access log and release the file or connection."""
        services = self._services
        services.access_log.close()
        services.store.close()


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
        deadline_ms=0.0 if engine.services.embedder.remote else None,
        environment=ANY,
        project=ANY,
        user_id=ANY,
        agent_id=ANY,
    )
