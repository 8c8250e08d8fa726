"""Ask the questions of data sets under several profiles, and record at which ranks the evidence is.

A question is read from the store once and ranked under every profile: one batch holds what each profile needs. The
steps are those of `recall` (`make_need`, `gather`, `rank`); a test compares the ids with those that
`Engine.recall` returns.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from salience import recall as recalls
from salience import settings
from salience.batch import Batch
from salience.errors import InputError, ProfileError, Words, shown
from salience.evaluate import datasets
from salience.evaluate.datasets import Conversation, Format, Question
from salience.evaluate.stores import ConversationStore, opened
from salience.models import registry
from salience.ports import Need
from salience.rank import profiles
from salience.rank.criteria import Criteria
from salience.rank.profile import Profile, parse
from salience.rank.run import rank
from salience.records import Query, Scope
from salience.steps import embed_queries

Granularity = Literal["turn", "session"]
Naming = Literal["strip", "swap", "keep"]
Advance = Callable[[int], None]
SESSION_DEPTH: Final = 5
"""Memories to rank for each session to return."""
FOREIGN: Final = "foreign"
UNANSWERABLE: Final = "unanswerable"
ROLES: Final = frozenset({"user", "assistant", "system", "tool", "human", "ai"})
"""Speakers that are not names."""
BASELINES: Final[Mapping[str, str]] = {
    # Robertson's BM25 over the index terms of each turn alone; k1 and b as in Anserini for short passages.
    # A term index returns only documents with at least one query term.
    "bm25": """
        name = "bm25"
        summary = "BM25 of each memory alone."
        combine = "sum"
        stages = ["score", "nonzero", "trim"]
        [signal.lexical]
        k1 = 0.9
        b = 0.4
    """,
    "cosine": """
        name = "cosine"
        summary = "Cosine of query and memory alone."
        combine = "sum"
        stages = ["score", "trim"]
        [signal.similarity]
    """,
}
"""Name of a baseline -> its profile as TOML."""
RANKINGS: Final = (*profiles.NAMES, *BASELINES)


def contender(name: str) -> Profile:
    """Return an included profile, a baseline, or the profile of a TOML file.

    Raises:
        ProfileError: an unknown name, or an invalid file.
    """
    if name in BASELINES:
        return parse(BASELINES[name], f"baseline {name}")
    if name not in profiles.NAMES and Path(name).suffix != ".toml":
        remedy = f"Choose of: {', '.join(RANKINGS)}; or a path to a .toml."
        raise ProfileError("profiles", name, remedy, f"{shown(name)} is unknown")
    return profiles.load(name)


def contenders(names: Iterable[str]) -> dict[str, Profile]:
    """Return label -> profile; the label of a file is its stem.

    Raises:
        ProfileError: as from `contender`.
        InputError: two with the same label.
    """
    found: dict[str, Profile] = {}
    for name in names:
        label = Path(name).stem if name.endswith(".toml") else name
        if label in found:
            remedy = "Name each once; a file is called by its stem."
            raise InputError("profiles", label, remedy, f"{shown(label)} is there twice")
        found[label] = contender(name)
    return found


@dataclass(frozen=True, slots=True)
class Source:
    """A file or folder of a data set, its format, and its conversations."""

    path: Path
    format: Format
    conversations: tuple[Conversation, ...]


@dataclass(frozen=True, slots=True)
class Terms:
    """How to rank a question.

    Attributes:
        contenders: label -> profile.
        limit: memories to return, instead of each profile's own limit.
        min_score: minimum score on each profile's own scale; None: the profile's own.
    """

    contenders: Mapping[str, Profile]
    limit: int
    min_score: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure.

    Attributes:
        terms: how to rank each question.
        granularity: whether evidence is memories or the sessions they belong to.
        categories: categories of questions; None: all that can be answered.
        foreign: number of questions to ask in the store of another conversation.
        naming: what happens to speakers' names in those.
        seed: of the choice of those.
        cache: folder of cached vectors; None: no cache.
    """

    terms: Terms
    granularity: Granularity = "turn"
    categories: frozenset[str] | None = None
    foreign: int = 0
    naming: Naming = "strip"
    seed: int = 0
    cache: Path | None = None


@dataclass(frozen=True, slots=True)
class Ranks:
    """The answer of a contender to a question.

    Attributes:
        places: ranks of the evidence, from 1, ascending.
        returned: number of memories or sessions returned.
        laps: milliseconds by step.
    """

    places: tuple[int, ...]
    returned: int
    laps: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Result:
    """A question with what each contender returned.

    Attributes:
        conversation: the store in which it was asked.
        category: the format's own; `foreign` for a question of another conversation.
        total: pieces of evidence that are stored; 0 if nothing answers it.
        answerable: whether the stored memories answer it.
        found: label -> ranks.
    """

    conversation: str
    category: str
    total: int
    answerable: bool
    found: Mapping[str, Ranks]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results with one embedder.

    Attributes:
        embedder: its name on the command line.
        results: one per question, in the order of the files, then foreign questions.
        memories: number of memories stored.
        without_evidence: answerable questions left out, whose evidence is not stored.
    """

    embedder: str
    results: tuple[Result, ...]
    memories: int
    without_evidence: int


def sources(paths: Sequence[Path]) -> tuple[Source, ...]:
    """Read data sets; a folder in no known format means the JSON files in it.

    Raises:
        InputError: a path whose format has no questions, or without questions.
    """
    found = []
    for given in paths:
        files = [given]
        try:
            datasets.detect(given)
        except InputError:
            files = sorted([*given.glob("*.json"), *given.glob("*.jsonl")]) if given.is_dir() else []
            if not files:
                raise
        for path in files:
            kind, held = datasets.detect(path), tuple(datasets.conversations(path))
            if not any(conversation.questions for conversation in held):
                asking = (name for key, name in datasets.FORMATS.items() if key not in ("chat", "messages", "drafts"))
                value = Words(f"{datasets.FORMATS[kind]} without questions")
                raise InputError(f"file {path}", value, f"Give one of: {', '.join(asking)}.", "has no questions")
            found.append(Source(path, kind, held))
    return tuple(found)


def conversations(read: Sequence[Source]) -> tuple[Conversation, ...]:
    """Return the conversations of all sources; a repeated name gets a number."""
    seen: dict[str, int] = {}
    found = []
    for conversation in (one for source in read for one in source.conversations):
        number = seen[conversation.name] = seen.get(conversation.name, 0) + 1
        found.append(conversation if number == 1 else replace(conversation, name=f"{conversation.name}-{number}"))
    return tuple(found)


def evaluate(read: Sequence[Source], plan: Plan, embedding: str, advance: Advance = lambda _: None) -> Outcome:
    """Ask every question in the store of its conversation, ranked under each contender.

    `embedding` is the name of the embedder; `advance` is called with 1 after each question.

    Raises:
        InputError: a message that cannot be stored, or a question that cannot be asked.
        EmbedderError: the embedder failed.
    """
    model = registry.embedder(embedding, settings.load())
    model.embed(["warm up"])  # loads the model, so that no question's time includes it
    held = conversations(read)
    elsewhere = foreign(held, plan.foreign, plan.naming, plan.seed) if plan.foreign else {}
    results: list[Result] = []
    memories = 0
    for conversation in held:
        with opened(conversation, model, plan.cache) as store:
            memories += len(store.refs)
            for question in conversation.questions:
                if _is_measured(question, plan):
                    results.append(_result(store, question, question.category, plan))
                    advance(1)
            for question in elsewhere.get(conversation.name, ()):
                results.append(_result(store, replace(question, scope=Scope()), FOREIGN, plan))
                advance(1)
    kept = [one for one in results if one.total or not one.answerable]
    return Outcome(embedding, tuple(kept), memories, len(results) - len(kept))


def count(read: Sequence[Source], plan: Plan) -> int:
    """Return the number of questions that `evaluate` asks."""
    held = [question for conversation in conversations(read) for question in conversation.questions]
    across = sum(question.answerable for question in held)
    return sum(_is_measured(question, plan) for question in held) + min(plan.foreign, across)


def _is_measured(question: Question, plan: Plan) -> bool:
    """Return whether a question is of the categories or unanswerable, and not blank."""
    chosen = not question.answerable or plan.categories is None or question.category in plan.categories
    return chosen and bool(question.question.strip())


def _result(store: ConversationStore, question: Question, category: str, plan: Plan) -> Result:
    wanted = question.answerable or (plan.categories is not None and category in plan.categories)
    evidence: frozenset[str] = frozenset()
    if wanted:
        is_session = plan.granularity == "session"
        named, stored = (question.sessions, store.sessions) if is_session else (question.evidence, store.refs)
        evidence = frozenset(named) & frozenset(stored.values())
    found = {}
    for label, (ids, laps) in ask(store, question, plan.terms).items():
        names = returned(ids, store, plan.granularity)
        found[label] = Ranks(tuple(n for n, name in enumerate(names, 1) if name in evidence), len(names), laps)
    return Result(store.name, category, len(evidence), wanted, found)


def returned(ids: Sequence[str], store: ConversationStore, granularity: Granularity) -> tuple[str, ...]:
    """Return distinct refs or sessions of memories, best first; the id of a memory without a ref."""
    if granularity == "session":
        return tuple(dict.fromkeys(store.sessions.get(found, found) for found in ids))
    return tuple(dict.fromkeys(store.refs[found] or found for found in ids))


def limit_for(most: int, granularity: Granularity) -> int:
    """Return how many memories to rank to have the first `most` memories or sessions."""
    return most * SESSION_DEPTH if granularity == "session" else most


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """The input of a ranking: a question and its candidates.

    Attributes:
        query: the question.
        criteria: the question as this profile reads it, with vectors.
        batch: every visible memory, with the columns that any profile needs.
        laps: milliseconds by step; profiles that embed the same text share `embed` and `gather`.
    """

    query: Query
    criteria: Criteria
    batch: Batch
    laps: Mapping[str, float]


def ask(
    store: ConversationStore, question: Question, terms: Terms
) -> dict[str, tuple[tuple[str, ...], dict[str, float]]]:
    """Return label -> the ids of memories, best first, and milliseconds by step."""
    answers = {}
    for label, known in gathered(store, question, terms).items():
        start = time.perf_counter()
        profile, criteria = terms.contenders[label], known.criteria
        held = narrowed(known.batch, profile.candidate_count(criteria.limit))
        ranked = rank(profile, held, criteria, recalls.token_reader(store.services, known.query, criteria))
        ids = tuple(held.ids[ranked.rows].tolist())
        answers[label] = (ids, {**known.laps, "rank": (time.perf_counter() - start) * 1e3})
    return answers


def gathered(store: ConversationStore, question: Question, terms: Terms) -> dict[str, Gathered]:
    """Return label -> the input of that profile; reads the store once per embedded text.

    Raises:
        EmbedderError: the embedder failed.
    """
    services = store.services
    query = Query(
        text=question.question,
        scope=replace(question.scope, tenant=services.tenant),
        filter=question.filter,
        min_score=terms.min_score,
        now=question.now or store.end,
        dry_run=True,
    )
    asked: dict[str, tuple[Criteria, float]] = {}
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for label, profile in terms.contenders.items():
        start = time.perf_counter()
        criteria = recalls.read_query(services, profile, query, recalls.instant_of(services, query))
        criteria = replace(criteria, limit=terms.limit, depth=None)
        asked[label] = criteria, (time.perf_counter() - start) * 1e3
        alike.setdefault((criteria.reading.texts, criteria.reading.speakers), []).append(label)
    found: dict[str, Gathered] = {}
    for (texts, _), labels in alike.items():
        start = time.perf_counter()
        vectors = embed_queries(services, texts)
        embedded = time.perf_counter()
        read = {
            label: recalls.with_vectors(services, terms.contenders[label], asked[label][0], vectors) for label in labels
        }
        needs = [recalls.make_need(terms.contenders[label], query, criteria) for label, criteria in read.items()]
        batch = recalls.gather(services, union(needs), read[labels[0]].reading)
        laps = {"embed": (embedded - start) * 1e3, "gather": (time.perf_counter() - embedded) * 1e3}
        for label, criteria in read.items():
            found[label] = Gathered(query, criteria, batch, {"need": asked[label][1], **laps})
    return {label: found[label] for label in terms.contenders}


def union(needs: Iterable[Need]) -> Need:
    """Return a need of every visible memory with each part that any of `needs` asks for; all are of one query."""

    def either(one: Any, other: Any) -> Any:
        if isinstance(one, frozenset):
            return one | other
        return other if one is None or one is False or (isinstance(one, tuple) and not one) else one

    whole, *others = needs
    for other in others:
        united = {item.name: either(getattr(whole, item.name), getattr(other, item.name)) for item in fields(Need)}
        whole = replace(whole, **united)
    return replace(whole, candidates=None, reach=None)


def narrowed(batch: Batch, candidates: int | None) -> Batch:
    """Return the nearest rows as a store gathers them, with the same order of ties; all of them for None."""
    if candidates is None or candidates >= len(batch):
        return batch
    picked = np.sort(np.argsort(-batch["cosine"], kind="stable")[:candidates])
    beyond = float(np.delete(batch["cosine"], picked).max(initial=-1.0))
    return replace(batch.take(picked), complete=False, beyond=beyond)


def foreign(held: Sequence[Conversation], count: int, naming: Naming, seed: int) -> dict[str, tuple[Question, ...]]:
    """Return name of a conversation -> questions of others to ask there, where nothing answers them; `count` in all.

    `naming` says what happens to the names of the question's own speakers, which alone would show that it is foreign:
    `strip` removes them, `swap` replaces them with the other conversation's speakers, which is harder, `keep` keeps
    them.

    Raises:
        InputError: fewer than two conversations.
    """
    if len(held) < 2:
        remedy = "Give files of at least two conversations to ask across."
        raise InputError("foreign", Words(f"{len(held)} conversation"), remedy)
    random = np.random.default_rng(seed)
    asked = [(home, question) for home in held for question in home.questions if question.answerable]
    speakers = {
        one.name: [
            name for name in dict.fromkeys(turn.speaker for turn in one.messages) if name.casefold() not in ROLES
        ]
        for one in held
    }
    placed: dict[str, list[Question]] = {one.name: [] for one in held}
    for place in random.permutation(len(asked))[:count]:
        home, question = asked[place]
        others = [one for one in held if one is not home]
        where = others[int(random.integers(len(others)))]
        text = renamed(question.question, naming, speakers[home.name], speakers[where.name])
        if text:
            placed[where.name].append(replace(question, question=text, evidence=(), sessions=(), answerable=False))
    return {name: tuple(questions) for name, questions in placed.items()}


def renamed(text: str, naming: Naming, own: Sequence[str], others: Sequence[str]) -> str:
    """Return `text` with the names in `own` removed (with their `'s`), replaced by those in `others`, or kept."""
    if naming == "keep":
        return text
    swap = naming == "swap" and others
    names = {name: others[place % len(others)] if swap else "" for place, name in enumerate(own)}
    whole = {part.casefold(): new for name, new in names.items() for part in (name, name.split()[0])}

    def new(match: re.Match[str]) -> str:
        name = whole[match[1].casefold()]
        return f"{name}{match[2] or ''}" if name else ""

    if whole:
        longest_first = "|".join(map(re.escape, sorted(whole, key=len, reverse=True)))
        text = re.sub(rf"\b({longest_first})\b(['’]s\b)?", new, text, flags=re.IGNORECASE)
    return re.sub(r"\s+(?=[?.!,;:])", "", " ".join(text.split()))
