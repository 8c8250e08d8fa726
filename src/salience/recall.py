"""Recall: the memories that answer a query, best first.

```
read    text, now        -> Reading        what the rules find in the question, once           pure
embed   texts            -> float32[n, d]  the question, and the question in the first person
gather  Need             -> Batch          candidates as columns; 2 for a misspelt question    1 call of the store
rank    Batch, Criteria  -> State          the profile's stages; `shortlist` reads tokens      1 call of the store
fetch   ids              -> Memories                                                           1 call of the store
shape   Memories         -> Hits           each with its score taken apart; then a reranker, if any
```

After the answer, `touch` and `log` queue what the profile's `[on_recall]` and the recall log write.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any, Final

import numpy as np

from salience.batch import Batch, Embedding, Tokens, Vectors32
from salience.deadline import slots, within
from salience.errors import EmbedderError, InputError, MovedError, RerankerError
from salience.extract.reading import Reading, read
from salience.ports import LIVE, RAW, LogRecall, Need, Reranker, Selection, Services, Touch
from salience.rank.bounds import is_exact, is_settled, lacks_candidates, may_become_exact, pruning, widen
from salience.rank.criteria import Criteria
from salience.rank.profile import Profile
from salience.rank.run import details, judged, rank
from salience.rank.signals import lexical_cosines
from salience.rank.stages import State, TokenReader
from salience.records import PERIOD, Filter, Hit, LoggedHit, LoggedRecall, Memory, OutOfScope, Query, Recall, checks
from salience.relations import replaced_by
from salience.steps import AnswerLimit, embed_queries, embed_timeout, emptied_by, out_of_scope, rerank_scores

MIN_REACH: Final = 150
"""Smallest number of nearest memories, and of other memories that match terms, to request from an indexed store."""
REACH_PER_HIT: Final = 4
"""Memories to request per wanted hit."""
MAX_REACH: Final = 1600
"""Largest number of memories to request."""
ROUNDING: Final = 1e-9
"""Difference of two equal scores that are computed among other memories: how sums round depends on the processor."""
GROWTH: Final = 4
"""Factor by which a search widens when its answer may not be exact."""
HIT_SIZE: Final = 1600
"""Bytes to count per hit besides its memory's own texts."""
LOGGED_HITS: Final = 20
"""Maximum hits of an entry of the recall log."""
PLACES: Final = 10_000
"""Maximum places outside the scope among which that of a memory is looked for."""
TOO_LARGE: Final = "Lower limit, or ask fewer questions at once."
_NO_FILTER: Final = Filter()
_late_embeddings: Final = slots()
_late_rerankings: Final = slots()


@dataclass(slots=True)
class Clock:
    """The time that the steps of a recall take.

    Attributes:
        started: the start of the recall (`time.perf_counter()`).
        timings: milliseconds by step so far. A step may occur more than once.
    """

    started: float = field(default_factory=time.perf_counter)
    timings: dict[str, float] = field(default_factory=dict)
    _last: float = 0.0

    def end(self, step: str, at: float | None = None) -> None:
        """Count the time since the last step as that of `step`, which ends at an instant; None for now."""
        at = time.perf_counter() if at is None else at
        self.timings[step] = self.timings.get(step, 0.0) + (at - (self._last or self.started)) * 1e3
        self._last = at

    def left(self, query: Query) -> float | None:
        """Return the seconds until the deadline of a query; None without one."""
        if query.deadline_ms is None:
            return None
        return self.started + query.deadline_ms / 1e3 - time.perf_counter()


def recall(services: Services, profile: Profile, query: Query) -> Recall:
    """Return the memories that answer `query`, best first, as `profile` ranks them.

    Raises:
        InputError: a limit above the profile's maximum, a query that is too long, or an `as_of` in the future.
        LimitError: the answer is larger than `Services.answer_limit`.
        StoreError: the store failed.
    """
    return recall_many(services, profile, [query])[0]


def recall_many(services: Services, profile: Profile, queries: Sequence[Query]) -> list[Recall]:
    """Return the answer to each query, in order: the same as from `recall` at the same instant.

    All texts are embedded together, and access counters change only after the last answer.
    The queries differ only in their text; their deadline covers all of them together.

    Raises:
        InputError, LimitError, StoreError: as `recall`; the size limit covers all answers together.
    """
    if not queries:
        return []
    now = instant_of(services, queries[0])
    asked: list[tuple[Criteria, Clock]] = []
    for query in queries:
        clock = Clock()
        asked.append((read_query(services, profile, query, now), clock))
        clock.end("need")
    vectors = _embed_all(services, queries[0], [criteria.reading.texts for criteria, _ in asked])
    embedded = time.perf_counter()
    size, answers = AnswerLimit(services, TOO_LARGE, HIT_SIZE), list[Recall]()
    for query, (criteria, clock), found in zip(queries, asked, vectors, strict=True):
        clock.end("embed", embedded)
        if len(queries) > 1:
            clock.end("wait")
        criteria = with_vectors(services, profile, criteria, found)
        answers.append(_answer(services, profile, query, criteria, clock, size))
    first, is_past = queries[0], queries[0].as_of is not None
    if not (first.dry_run or is_past):
        answers = [
            _touched(services, profile, query, answer, now) for query, answer in zip(queries, answers, strict=True)
        ]
    for query, answer in zip(queries, answers, strict=True):
        log(services, query, answer)
    if all(answer.hits or answer.emptied_by == ("limit",) for answer in answers):
        return answers
    selection = Selection(scope=first.scope, filter=first.filter, values=LIVE, now=now)
    elsewhere = () if is_past else out_of_scope(services, selection)
    hinted = []
    for answer in answers:
        names = () if answer.hits else emptied_by(services, selection, answer.emptied_by)
        known = () if is_past and names != answer.emptied_by else names  # conditions are on the memories of the present
        hinted.append(answer if answer.hits else replace(answer, out_of_scope=elsewhere, emptied_by=known))
    return hinted


def _emptied_by(query: Query, ranked: State) -> tuple[str, ...]:
    """Return the argument, other than a condition on memories, that leaves every memory out of an empty answer."""
    if ranked.criteria.limit == 0:
        return ("limit",)
    if query.as_of is not None and ranked.batch.complete and not len(ranked.batch):
        return ("as_of",)
    is_too_high = query.min_score is not None and ranked.scores.max(initial=0.0) < query.min_score
    return ("min_score",) if is_too_high else ()


def _answer(
    services: Services, profile: Profile, query: Query, criteria: Criteria, clock: Clock, size: AnswerLimit
) -> Recall:
    """Return the answer to a question that has the vectors of its texts."""
    ranked, need = search(services, profile, query, criteria, clock)
    criteria, hits = ranked.criteria, make_hits(services, query, ranked, size)
    clock.end("fetch")
    degraded: tuple[str, ...] = ("embedding",) if criteria.lacks_embedding else ()
    reranker: str | None = None
    if services.reranker is not None and hits:
        hits, reranker = rerank(services, services.reranker, query, criteria.limit, hits, clock)
        degraded += () if reranker else ("rerank",)
        clock.end("rerank")
    elsewhere = _better_elsewhere(services, profile, query, ranked, hits)
    return Recall(
        hits,
        profile.name,
        criteria.reading.intent,
        is_exact(ranked, need.pruning),
        degraded,
        clock.timings,
        reranker,
        not all(hit.weak for hit in hits),
        elsewhere,
        corrected=_corrected(services, query, ranked.batch),
        emptied_by=() if hits else _emptied_by(query, ranked),
    )


def _better_elsewhere(
    services: Services, profile: Profile, query: Query, ranked: State, hits: Sequence[Hit]
) -> tuple[OutOfScope, ...]:
    """Return the place outside the scope whose memory would be above the first hit; none without a hit.

    Only the few memories of `Batch.outside` are ranked. One that has the text of the first hit does not count.
    """
    outside = ranked.batch.outside
    if outside is None or not hits:
        return ()
    wide = replace(query, scope=query.scope.widened())
    criteria = replace(ranked.criteria, limit=1, depth=None)
    best = rank(profile, outside, criteria, token_reader(services, wide, criteria))
    if not len(best.rows) or best.scores[best.rows[0]] <= ranked.scores[ranked.rows[0]] + ROUNDING:
        return ()
    now, first = criteria.reading.now, hits[0].memory
    selection = Selection(scope=query.scope, filter=query.filter, values=LIVE, now=now)
    found = services.store.fetch(wide.scope, [str(outside.ids[best.rows[0]])])
    homes = [one.scope.without_session for one in found if one.content_hash != first.content_hash]
    return tuple([one for one in services.store.out_of_scope(selection, PLACES) if one.scope in homes]) if homes else ()


def instant_of(services: Services, query: Query) -> datetime:
    """Return the instant of the query: its own `now`, else its `as_of`, else the clock's.

    Raises:
        InputError: `as_of` is in the future.
    """
    if query.now is not None and query.as_of is None:
        return query.now
    now = services.clock()
    if query.as_of is not None and query.as_of > now:
        remedy = "Give an instant of the past; leave it out for the present."
        at = query.as_of.isoformat()
        raise InputError("as_of", at, remedy, f"{at} is in the future")
    return query.now or query.as_of or checks.aware("now", now)


def read_query(services: Services, profile: Profile, query: Query, now: datetime) -> Criteria:
    """Return the query as `profile` reads it, without vectors. Only speakers of visible memories are recognised.

    Raises:
        InputError: a limit above the profile's maximum, or a query that is too long.
    """
    checks.query("query", query.text)
    limit = profile.limit if query.limit is None else checks.whole("limit", query.limit, 0, profile.max_limit)
    reads_speakers = profile.first_person or "speaker_named" in profile.columns
    scope, store = query.scope, services.store
    reading = read(
        query.text,
        now,
        services.tokeniser,
        intents=profile.intent_words,
        reads_time=profile.reads_time,
        first_person=profile.first_person,
        speakers=partial(store.speakers, scope, as_of=query.as_of) if reads_speakers else None,
        user_id=scope.user_id if isinstance(scope.user_id, str) else None,
        sessions=partial(store.sessions, scope, as_of=query.as_of),
        session_id=scope.session_id,
    )
    return Criteria(
        reading=reading,
        limit=limit,
        depth=max(limit, services.rerank_top) if services.reranker is not None and limit else None,
        min_score=profile.min_score if query.min_score is None else query.min_score,
    )


def make_need(
    profile: Profile,
    query: Query,
    criteria: Criteria,
    prunes: bool = False,
    corrections: Mapping[str, str] | None = None,
) -> Need:
    """Return the request for the candidates of a query; one without a vector gets the maximum reach for its terms.

    With `prunes`, the store may leave out memories that score too little. `corrections` are the corrected terms, if
    they are known.
    """
    reading, parts = criteria.reading, profile.parts
    reach = reach_for(criteria.wanted) * (2 if "spread" in profile.stages else 1)  # near the best may be far
    return Need(
        scope=query.scope,
        now=reading.now,
        filter=query.filter,
        as_of=query.as_of,
        columns=profile.columns | {"embedded"},
        parts=parts,
        vector=criteria.vector,
        first_person_vector=criteria.first_person_vector,
        terms=reading.terms if "terms" in parts else (),
        correctable=reading.correctable if "terms" in parts and corrections is None else frozenset(),
        corrections=corrections or {},
        asked=reading.distinctions,
        rivals=reading.rival_words if "distinctions" in parts and "terms" in parts else (),
        names=reading.names if "entities" in parts else (),
        speakers=reading.speakers,
        is_of_user=reading.is_of_user,
        candidates=profile.candidate_count(criteria.limit),
        reach=max(reach, MAX_REACH) if criteria.vector is None else reach,
        latest=profile.favours_latest,
        period=reading.intent.time if reading.intent.name == PERIOD else None,
        pruning=pruning(profile, criteria) if prunes else None,
        outside=prunes and query.as_of is None,
    )


def reach_for(count: int) -> int:
    """Return the reach of the first search for the best `count`."""
    return max(MIN_REACH, REACH_PER_HIT * count)


def embed_query(services: Services, query: Query, texts: tuple[str, ...]) -> list[Embedding] | None:
    """Return the embedding of each text; None if the embedder fails or the query's deadline passes first."""
    return _embed_all(services, query, [texts])[0]


def _embed_within(services: Services, seconds: float | None, texts: Sequence[str]) -> list[Embedding] | None:
    try:
        if seconds is None:
            return embed_queries(services, texts)
        return within(seconds, partial(embed_queries, services, texts), _late_embeddings)
    except (EmbedderError, TimeoutError):
        return None


def _embed_all(services: Services, query: Query, texts: Sequence[tuple[str, ...]]) -> Sequence[list[Embedding] | None]:
    """Return the embeddings of each query's texts; None for a query whose texts could not be embedded in time."""
    start, distinct = time.perf_counter(), tuple(dict.fromkeys(chain.from_iterable(texts)))
    seconds = embed_timeout(services, len(distinct)) if query.deadline_ms is None else query.deadline_ms / 1e3
    found = _embed_within(services, seconds, distinct)
    if len(texts) == 1:
        return [found]
    if found is not None:
        of_text = dict(zip(distinct, found, strict=True))
        return [[of_text[text] for text in own] for own in texts]
    embedded: list[list[Embedding] | None] = []
    for own in texts:  # so that one bad text does not fail the others
        left = None if seconds is None else seconds - (time.perf_counter() - start)
        embedded.append(_embed_within(services, left, own))
    return embedded


def with_vectors(
    services: Services, profile: Profile, criteria: Criteria, embedded: Sequence[Embedding] | None
) -> Criteria:
    """Return the criteria with the embeddings of the texts, None if there are none, and the scale of similarities.

    Words alone decide about a question of which the model knows no word. For a question that names the user, who says
    "I" in what is stored, the vector is the mean of the two texts.
    """
    calibration = services.calibration  # measured with the first vector
    scale = calibration if profile.threshold_scale == "calibrated" else RAW
    own = vector = None
    tokens: tuple[Tokens, ...] = ()
    if embedded is not None and embedded[0].is_known:
        own = embedded[1].vector if len(embedded) > 1 and embedded[1].is_known else None
        vector = _mean(embedded[0].vector, own) if criteria.reading.names_user else embedded[0].vector
        tokens = tuple([one.tokens for one in embedded if one.tokens is not None])
    return replace(
        criteria,
        vector=vector,
        first_person_vector=own,
        tokens=tokens,
        is_unknown=vector is None and embedded is not None,
        calibration=calibration,
        scale=scale,
    )


def token_reader(services: Services, query: Query, criteria: Criteria) -> TokenReader | None:
    """Return the function that reads the token vectors of candidates; None if the question has none.

    It keeps what it has read, since several stages, and each counterfactual, ask for the same memories.
    """
    if not criteria.tokens:
        return None
    known: dict[str, Tokens | None] = {}
    read_vectors = services.store.token_vectors

    def tokens(ids: list[str]) -> list[Tokens | None]:
        missing = [one for one in ids if one not in known]
        known.update(
            zip(missing, read_vectors(query.scope, missing, as_of=query.as_of), strict=True) if missing else ()
        )
        return [known[one] for one in ids]

    return tokens


def search(
    services: Services, profile: Profile, query: Query, criteria: Criteria, clock: Clock, prunes: bool = True
) -> tuple[State, Need]:
    """Return the ranking of the candidates, and the last request for them.

    A store may return only the best candidates (`Need.pruning`) or the nearest (`Need.reach`). The search widens until
    no other memory can reach the answer, as far as the store can tell, or the reach is at its maximum. It starts again
    once if the store corrects a misspelt word, with the vectors of the corrected query.

    With `prunes`, the store may leave out memories that score too little. `clock` counts the time of the steps.
    """
    corrections: Mapping[str, str] | None = None
    need = make_need(profile, query, criteria, prunes)
    while True:
        try:
            batch = gather(services, need, criteria.reading)
        except (MovedError, EmbedderError):  # the store moved to another model, or its check of the model failed
            criteria = with_vectors(services, profile, criteria, None)
            need = make_need(profile, query, criteria, prunes, corrections)
            batch = gather(services, need, criteria.reading)
        clock.end("gather")
        if batch.corrected and need.correctable and criteria.vector is not None:
            criteria, corrections = _respelt(services, profile, query, criteria, batch, clock), batch.corrected
            need = make_need(profile, query, criteria, prunes, corrections)
            clock.end("embed")
            continue
        ranked = rank(profile, batch, criteria, token_reader(services, query, criteria))
        clock.end("rank")
        if is_settled(ranked, need.pruning):
            return ranked, need
        if batch.floor is not None:
            need = replace(need, pruning=widen(ranked, need.pruning))
            continue
        reach = need.reach or MAX_REACH
        if reach >= MAX_REACH or not (may_become_exact(ranked) or lacks_candidates(ranked)):
            return ranked, need
        need = replace(need, reach=min(GROWTH * reach, MAX_REACH))


def _respelt(
    services: Services, profile: Profile, query: Query, criteria: Criteria, batch: Batch, clock: Clock
) -> Criteria:
    """Return the criteria with vectors of both the query and the query with the corrections of `batch`.

    Each vector becomes the mean of the two, since a correction may be wrong. It stays if the embedder is remote, if it
    fails, or if the deadline has passed.
    """
    respelt = criteria.reading.texts
    for word, spelling in _corrected(services, query, batch).items():
        pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE)
        respelt = tuple([pattern.sub(spelling, text) for text in respelt])
    seconds = clock.left(query)
    if respelt == criteria.reading.texts or services.embedder.remote or (seconds is not None and seconds <= 0):
        return criteria
    found = _embed_within(services, seconds, respelt)
    if found is None:
        return criteria
    other = with_vectors(services, profile, criteria, found)
    return replace(
        criteria,
        vector=_mean(criteria.vector, other.vector),
        first_person_vector=_mean(criteria.first_person_vector, other.first_person_vector),
        tokens=criteria.tokens + other.tokens,
    )


def _mean(one: Vectors32 | None, other: Vectors32 | None) -> Vectors32 | None:
    """Return the mean of two unit vectors, scaled to length 1; the first one if the mean has no direction."""
    if one is None or other is None:
        return one
    total = one + other
    length = np.linalg.norm(total)
    return one if length < 1e-6 else np.asarray(total / length, np.float32)


def _corrected(services: Services, query: Query, batch: Batch) -> Mapping[str, str]:
    """Return word of the query -> the spelling that was searched instead."""
    respelled = services.tokeniser.respelled
    return dict([respelled(query.text, *terms) for terms in batch.corrected.items()])


def gather(services: Services, need: Need, reading: Reading) -> Batch:
    """Return the candidates; lexical shares replace cosines where the query or a memory has no vector."""
    services.access_log.flush(None if need.as_of else need.columns, need.scope.tenant)
    if need.vector is None:
        batch = services.store.gather(replace(need, terms=need.terms or reading.every_term, candidates=None))
        return batch.with_columns(**lexical_cosines(batch))
    batch = services.store.gather(need)
    if batch["embedded"].all():
        return batch
    if batch.floor is not None and batch.windows is None:  # shares are relative to the best row, which may be missing
        return gather(services, replace(need, pruning=None), reading)
    if not need.terms:
        batch = services.store.gather(replace(need, terms=reading.every_term))
    shares = {name: column for name, column in lexical_cosines(batch).items() if name in batch.columns}
    return batch.with_columns(
        **{name: np.where(batch["embedded"], batch[name], column) for name, column in shares.items()}
    )


def make_hits(services: Services, query: Query, ranked: State, size: AnswerLimit) -> tuple[Hit, ...]:
    """Return the ranked rows as hits, without memories that were deleted meanwhile.

    Raises:
        LimitError: the answer is larger than `size` allows.
    """
    batch = ranked.batch
    ids: list[str] = batch.ids[ranked.rows].tolist()
    newer = {} if batch.successors is None else dict(zip(ids, batch.successors[ranked.rows].tolist(), strict=True))
    newer = {older: other for older, other in newer.items() if other}
    wanted = list(dict.fromkeys((*ids, *newer.values())))
    fetched = services.store.fetch(query.scope, wanted, as_of=query.as_of) if ids else []
    replaced = replaced_by(newer, fetched)
    memories = {one.id: replace(one, replaced_by=replaced.get(one.id)) if replaced else one for one in fetched}
    size.add(memories[id_] for id_ in ids if id_ in memories)
    scores = details(ranked, ranked.rows)
    hits: list[Hit] = []
    for memory_id, row, score, judgement in zip(ids, ranked.rows.tolist(), scores, judged(ranked), strict=True):
        if memory_id in memories:
            absorbed = tuple([batch.ids[other] for other in ranked.absorbed.get(row, ())])
            confidence, verdict = judgement
            hit = Hit(
                memories[memory_id],
                score.final,
                score,
                score.via,
                absorbed,
                weak=verdict != "answers",
                confidence=confidence,
                verdict=verdict,
            )
            hits.append(hit)
    return tuple(hits)


def rerank(
    services: Services, reranker: Reranker, query: Query, limit: int, hits: tuple[Hit, ...], clock: Clock
) -> tuple[tuple[Hit, ...], str | None]:
    """Return the best `limit` hits by the reranker's score (ties keep their order), and the reranker's name.

    Where the reranker turns a replaced memory and its successor around, the one that the profile has first moves up
    (see `replacements`). If the reranker fails, the deadline of the query passes first, or the query has none and
    `Services.rerank_timeout` passes, the hits keep the profile's order and the name is None.
    """
    texts = [with_speaker(hit.memory) for hit in hits]
    work = partial(rerank_scores, reranker, query.text, texts)
    seconds = services.rerank_timeout if query.deadline_ms is None else clock.left(query)
    try:
        scores = work() if seconds is None else within(seconds, work, _late_rerankings)
    except (RerankerError, TimeoutError):
        return hits[:limit], None
    order = in_pairs(np.argsort(-scores, kind="stable").tolist(), replacements(hits))
    return tuple(replace(hits[place], rerank=float(scores[place])) for place in order[:limit]), reranker.name


def replacements(hits: Sequence[Hit]) -> dict[int, list[int]]:
    """Return place of a hit -> earlier places of hits that replace it, or that it replaces, among `hits`.

    These pairs keep the order of the profile, which knows whether the question asks about a former state.
    """
    places = {hit.memory.id: place for place, hit in enumerate(hits)}
    found: dict[int, list[int]] = {}
    for place, hit in enumerate(hits):
        successor = hit.memory.replaced_by
        others = {
            hit.memory.supersedes,
            None if successor is None else successor.id,
            hit.via.id if hit.via is not None and hit.via.link == "update" else None,
        }
        for other in (places[id_] for id_ in others if id_ in places):
            found.setdefault(max(place, other), []).append(min(place, other))
    return found


def in_pairs(order: Sequence[int], before: Mapping[int, Sequence[int]]) -> list[int]:
    """Return `order`, in which each place comes after those in `before`, all smaller; these move up, next to it."""
    found: dict[int, None] = {}

    def put(place: int) -> None:
        for other in before.get(place, ()):
            if other not in found:
                put(other)
        found.setdefault(place)

    for place in order:
        put(place)
    return list(found)


def with_speaker(memory: Memory) -> str:
    """Return the text of a memory after the name of its speaker, if it has one."""
    return f"{memory.speaker}: {memory.content}" if memory.speaker else memory.content


def _touched(services: Services, profile: Profile, query: Query, answer: Recall, now: datetime) -> Recall:
    """Record the recall on its hits, and return the answer, `degraded` if counters could not be written."""
    start = time.perf_counter()
    is_written = touch(services, profile, query, now, answer.hits)
    timings = {**answer.timings, "touch": (time.perf_counter() - start) * 1e3}
    degraded = answer.degraded if is_written else (*answer.degraded, "touch")
    return replace(answer, degraded=degraded, timings=timings)


def touch(services: Services, profile: Profile, query: Query, now: datetime, hits: Sequence[Hit]) -> bool:
    """Record a recall on its hits, as the profile's `[on_recall]` says.

    Returns False while the access log cannot write its entries; they are retried.
    """
    rule = profile.on_recall
    is_effective = bool(hits) or (rule.activate and query.scope.session_key is not None)
    if not (rule and is_effective and services.records_access):
        return True
    clock = services.clock()
    return services.access_log.add(
        Touch(
            scope=query.scope,
            ids=tuple([hit.memory.id for hit in hits]),
            accessed_at=min(now, clock) if rule.accessed_at else None,  # a `now` in the future is not recorded
            access_count=rule.access_count,
            importance=rule.importance,
            activate=rule.activate,
            at=clock,
        )
    )


def log(services: Services, query: Query, answer: Recall) -> None:
    """Queue an entry of the recall log, if the log is on and the query is not a dry run."""
    if services.recall_log is None or query.dry_run:
        return
    at = services.clock()
    hits = [LoggedHit(hit.memory.id, hit.score, hit.confidence, hit.score_detail) for hit in answer.hits[:LOGGED_HITS]]
    entry = LoggedRecall(
        id=services.new_id(at),
        at=at,
        expires_at=at + services.recall_log,
        scope=query.scope,
        question=query.text,
        profile=answer.profile,
        limit=query.limit,
        min_score=query.min_score,
        filter=_given(query.filter),
        now=query.now,
        as_of=query.as_of,
        confident=answer.confident,
        count=len(answer.hits),
        hits=tuple(hits),
        timings=answer.timings,
    )
    services.access_log.add(LogRecall(entry))


def _given(conditions: Filter) -> Mapping[str, Any]:
    """Return the conditions of a filter that were given, as JSON values."""
    values = ((item.name, getattr(conditions, item.name)) for item in fields(conditions))
    given = {name: value for name, value in values if value != getattr(_NO_FILTER, name)}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in given.items()}
