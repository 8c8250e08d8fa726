"""Questions of data sets, ranked under several profiles, and what was found."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from salience import settings
from salience.errors import InputError, Words
from salience.evaluate import datasets
from salience.evaluate.asking import Answer, Terms, ask
from salience.evaluate.datasets import Conversation, Format, Question
from salience.evaluate.foreign import Naming, foreign
from salience.evaluate.planting import Planted, planted
from salience.models import registry
from salience.ports import Embedder
from salience.records import Scope

Granularity = Literal["turn", "session"]
Advance = Callable[[int], None]
DEPTH_OF_SESSIONS: Final = 5
"""Memories that are ranked for each session that is looked at."""
FOREIGN: Final = "foreign"
UNANSWERABLE: Final = "unanswerable"


@dataclass(frozen=True, slots=True)
class Source:
    """A file or folder of a data set, its format, and the conversations in it."""

    path: Path
    format: Format
    conversations: tuple[Conversation, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure.

    Attributes:
        terms: the contenders, how many memories each returns, and the least score.
        granularity: whether evidence is memories, or the sessions that they belong to.
        categories: those of the questions to measure; None for all that can be answered.
        foreign: how many questions to ask in the store of another conversation.
        naming: what becomes of the names in those.
        seed: of the choice of those.
        cache: folder of vectors made before; None for none.
    """

    terms: Terms
    granularity: Granularity = "turn"
    categories: frozenset[str] | None = None
    foreign: int = 0
    naming: Naming = "strip"
    seed: int = 0
    cache: Path | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What a contender returned for a question.

    Attributes:
        places: ranks of the evidence, from 1, ascending.
        returned: how many memories or sessions it returned.
        laps: milliseconds by step.
    """

    places: tuple[int, ...]
    returned: int
    laps: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and what each contender made of it.

    Attributes:
        conversation: in whose store it was asked.
        category: the format's own; `foreign` for a question of another conversation.
        total: how many pieces of evidence are stored; 0 where nothing answers it.
        answerable: whether what is stored answers it.
        found: label -> what that contender returned.
    """

    conversation: str
    category: str
    total: int
    answerable: bool
    found: Mapping[str, Found]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The questions asked with one embedder, and what was left out.

    Attributes:
        embedder: its name on the command line.
        asked: the questions, in the files' order, then the foreign ones.
        memories: how many were stored.
        without_evidence: questions that can be answered, but whose file names no evidence that is stored.
    """

    embedder: str
    asked: tuple[Asked, ...]
    memories: int
    without_evidence: int


def sources(paths: Sequence[Path]) -> tuple[Source, ...]:
    """Return what the paths hold; a folder of no format of its own stands for the JSON files in it.

    Raises:
        InputError: a path of no format that has questions, or one in which there are none.
    """
    return tuple(_source(path) for given in paths for path in _files(given))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    try:
        datasets.detect(path)
    except InputError:
        inside = sorted([*path.glob("*.json"), *path.glob("*.jsonl")])
        if not inside:
            raise
        return inside
    return [path]


def _source(path: Path) -> Source:
    found, held = datasets.detect(path), tuple(datasets.conversations(path))
    if not any(conversation.questions for conversation in held):
        remedy = f"Give one of: {', '.join(name for key, name in datasets.FORMATS.items() if key in _ASKING)}."
        raise InputError(
            f"file {path}", Words(f"{datasets.FORMATS[found]} without questions"), remedy, "has no questions"
        )
    return Source(path, found, held)


_ASKING: Final = ("locomo", "realtalk", "longmemeval", "beam", "precisionmembench")


def conversations(read: Sequence[Source]) -> tuple[Conversation, ...]:
    """Return the conversations of all sources, those of a name that is taken with a number after it."""
    seen: dict[str, int] = {}
    found = []
    for conversation in (one for source in read for one in source.conversations):
        number = seen[conversation.name] = seen.get(conversation.name, 0) + 1
        found.append(conversation if number == 1 else replace(conversation, name=f"{conversation.name}-{number}"))
    return tuple(found)


def made(embedder: str) -> Embedder:
    """Return the embedder of a name.

    Raises:
        InputError: an unknown name.
        MissingExtraError: its library is not installed.
    """
    return registry.embedder(embedder, settings.load())


def evaluate(read: Sequence[Source], plan: Plan, embedder: str, advance: Advance = lambda _: None) -> Outcome:
    """Return every question asked in the store of its conversation and ranked under each contender.

    Args:
        read: the data sets.
        plan: what to measure.
        embedder: name of who makes the vectors.
        advance: told of each question that is done.

    Raises:
        InputError: a message that cannot be stored; a question that cannot be asked.
        EmbedderError: the embedder failed.
    """
    ready = made(embedder)
    ready.embed(["warm up"])  # so that no question waits for the model to be loaded
    held = conversations(read)
    elsewhere = foreign(held, plan.foreign, plan.naming, plan.seed) if plan.foreign else {}
    asked: list[Asked] = []
    memories = 0
    for conversation in held:
        with planted(conversation, ready, plan.cache) as store:
            memories += len(store.refs)
            asked += _all_asked(store, conversation, elsewhere.get(conversation.name, ()), plan, advance)
    known = [one for one in asked if one.total or not one.answerable]
    return Outcome(embedder, tuple(known), memories, len(asked) - len(known))


def count(read: Sequence[Source], plan: Plan) -> int:
    """Return how many questions `evaluate` asks."""
    held = [question for conversation in conversations(read) for question in conversation.questions]
    across = sum(question.answerable for question in held)
    return sum(_is_measured(question, plan) for question in held) + min(plan.foreign, across)


def _all_asked(
    store: Planted, conversation: Conversation, elsewhere: Sequence[Question], plan: Plan, advance: Advance
) -> Iterator[Asked]:
    for question in filter(lambda one: _is_measured(one, plan), conversation.questions):
        yield _asked(store, question, question.category, plan)
        advance(1)
    for question in elsewhere:
        yield _asked(store, replace(question, scope=Scope()), FOREIGN, plan)
        advance(1)


def _is_measured(question: Question, plan: Plan) -> bool:
    """Return whether a question is asked: one of the categories, or one that nothing answers; a blank one cannot be."""
    chosen = not question.answerable or plan.categories is None or question.category in plan.categories
    return chosen and bool(question.question.strip())


def _asked(store: Planted, question: Question, category: str, plan: Plan) -> Asked:
    wanted = question.answerable or (plan.categories is not None and category in plan.categories)
    evidence = _evidence(store, question, plan.granularity) if wanted else frozenset()
    found = {
        label: _found(answer, evidence, store, plan.granularity)
        for label, answer in ask(store, question, plan.terms).items()
    }
    return Asked(store.name, category, len(evidence), wanted, found)


def _evidence(store: Planted, question: Question, granularity: Granularity) -> frozenset[str]:
    """Return the evidence that is stored; what a file names besides cannot be found by anyone."""
    if granularity == "session":
        return frozenset(question.sessions) & frozenset(store.sessions.values())
    return frozenset(question.evidence) & frozenset(store.refs.values())


def _found(answer: Answer, evidence: frozenset[str], store: Planted, granularity: Granularity) -> Found:
    names = returned(answer.ids, store, granularity)
    places = tuple(place for place, name in enumerate(names, 1) if name in evidence)
    return Found(places, len(names), answer.laps)


def returned(ids: Sequence[str], store: Planted, granularity: Granularity) -> tuple[str, ...]:
    """Return what an answer holds, best first: refs of memories or, each once, sessions; the id where there is none."""
    if granularity == "session":
        return tuple(dict.fromkeys(store.sessions.get(found, found) for found in ids))
    return tuple(store.refs[found] or found for found in ids)


def limit_for(most: int, granularity: Granularity) -> int:
    """Return how many memories to rank so that the first `most` memories or sessions can be looked at."""
    return most * DEPTH_OF_SESSIONS if granularity == "session" else most


def medians(asked: Sequence[Asked], label: str) -> dict[str, float]:
    """Return the median milliseconds of each step for a contender; none for no questions."""
    laps = [one.found[label].laps for one in asked]
    return {step: statistics.median(lap[step] for lap in laps) for step in (laps[0] if laps else ())}
