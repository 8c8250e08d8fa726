"""The tiers of a case, filled by the engine: one search for each project asked in, and listings for all else.

| tier | how it is filled |
|---|---|
| `relevantBeliefs` | `recall` of the kinds that are searched, in each project that the query names, by falling score |
| `pinnedFacts` | `list` of kind `bootstrap` in those projects |
| `openQuestions` | `list` of pinned open questions in those projects |
| `personaPrelude` | `list` of what lives in no project |

A belief that is resolved is forgotten. A budget is of beliefs in all: what is pinned takes its places first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import salience
from salience.engine import Engine
from salience.evaluate.datasets import precisionmembench as bench
from salience.evaluate.datasets.loader import Place
from salience.records import Scope

FIXTURE = Path(__file__).parent / "fixture"
NOW = datetime(2026, 11, 1, tzinfo=UTC)
MOST = 20


def document(name: str) -> Any:
    return json.loads((FIXTURE / name).read_text("utf-8"))


PROJECTS = {
    case["caseId"]: [name for name in case["scope"] if name != bench.EVERYONE] for case in document(bench.CASES)
}
RESOLVED = {belief["_id"] for belief in document(bench.BELIEFS) if belief["resolved_at"]}
BELIEFS = {belief["_id"]: belief for belief in document(bench.BELIEFS)}


@dataclass(frozen=True)
class Turn:
    """A query with its expected results, and what changes in its session: beliefs after it, aliases before it."""

    name: str
    category: str
    query: str
    scope: Scope
    expect: dict[str, Any]
    budget: int | None = None
    creates: tuple[bench.Belief, ...] = ()
    renames: tuple[tuple[str, tuple[str, ...]], ...] = ()


def scope_of(item: dict[str, Any]) -> Scope:
    return bench.scope(Place(FIXTURE, item["scope"]), item.get("userId") or bench.USER)


CASES = [
    Turn(
        case["caseId"], case["category"], case["query"], scope_of(case), case["expect"],
        (case.get("budget") or {}).get("maxBeliefs"),
    )
    for case in document(bench.CASES)
]  # fmt: skip


def session_turns() -> Iterator[Turn]:
    """Yield the turns of the session cases."""
    for case in document(bench.SESSIONS):
        for turn in case["turns"]:
            created, renamed = turn.get("createBeliefAtTurn"), turn.get("updateBeliefAtTurn")
            yield Turn(
                f"{case['caseId']}/{turn['turnIndex']}", "Session", turn["userMessage"], scope_of(turn), turn["expect"],
                creates=(bench.belief(Place(FIXTURE, created)),) if created else (),
                renames=((renamed["beliefId"], tuple(renamed["addAliases"])),) if renamed else (),
            )  # fmt: skip


@dataclass
class Memory:
    """The beliefs in an engine, known by their own names."""

    engine: Engine
    ids: dict[str, str] = field(default_factory=dict)

    def add(self, belief: bench.Belief) -> None:
        older = None if belief.supersedes is None else self.ids[belief.supersedes]
        made = self.engine.remember_many([replace(belief.draft, supersedes=older)])[0].memory
        self.ids[belief.ref] = made.id
        if belief.ref in RESOLVED:
            self.engine.forget(made.id, user_id=made.scope.user_id, project=made.scope.project)

    def rename(self, ref: str, aliases: Sequence[str]) -> None:
        home = {"user_id": bench.USER, "project": BELIEFS[ref]["scope"][0]}
        held = self.engine.get(self.ids[ref], **home)
        self.engine.update(held.id, entities=[*held.entities, *aliases], **home)

    def search(self, query: str, user: str, projects: Sequence[str], limit: int = MOST) -> list[str]:
        """Return the names of what a search returns, best first."""
        if not query.strip() or not limit:
            return []
        where = {"user_id": user, "scope": "project", "kinds": bench.SEARCHED.kinds, "dry_run": True, "limit": limit}
        hits = [hit for project in projects for hit in self.engine.recall(query, project=project, **where)]
        return self.names(hit.memory for hit in sorted(hits, key=lambda hit: -hit.score))[:limit]

    def listed(self, user: str, projects: Sequence[str], **filter: Any) -> list[str]:
        pages = [self.engine.list(user_id=user, project=project, scope="project", **filter) for project in projects]
        return self.names(memory for page in pages for memory in page.memories)

    def persona(self, user: str) -> list[str]:
        return [memory.content for memory in self.engine.list(user_id=user, scope="global").memories]

    def names(self, memories: Any) -> list[str]:
        ref = {id: name for name, id in self.ids.items()}
        return [ref[memory.id] for memory in memories]


@contextmanager
def seeded(target: str, embedder: str = "minilm", profile: str = "precise") -> Iterator[Memory]:
    with salience.connect(target, embedder=embedder, profile=profile, clock=lambda: NOW) as engine:
        memory = Memory(engine)
        for belief in bench.beliefs(FIXTURE):
            memory.add(belief)
        yield memory


@dataclass(frozen=True)
class Answer:
    """What each tier holds for a case."""

    case: Turn
    relevant: list[str]
    pinned: list[str]
    questions: list[str]
    persona: list[str]

    @property
    def wanted(self) -> set[str]:
        return set(self.case.expect.get("relevantBeliefs", {}).get("shouldOnlyInclude", ()))

    @property
    def failures(self) -> list[str]:
        """The assertions that do not hold."""
        expect, failed = self.case.expect, []
        relevant = expect.get("relevantBeliefs", {})
        if "shouldOnlyInclude" in relevant and set(self.relevant) != self.wanted:
            failed.append("relevantBeliefs.shouldOnlyInclude")
        held = {"relevantBeliefs": self.relevant, "pinnedFacts": self.pinned, "openQuestions": self.questions}
        for tier, names in held.items():
            asked = expect.get(tier, {})
            failed += [f"{tier}.mustInclude"] * (not set(asked.get("mustInclude", ())) <= set(names))
            failed += [f"{tier}.mustExclude"] * bool(set(asked.get("mustExclude", ())) & set(names))
        return failed + self._of_persona(expect.get("personaPrelude", {}))

    def _of_persona(self, asked: dict[str, Any]) -> list[str]:
        text = " ".join(self.persona).lower()
        held = {
            "nonEmpty": bool(self.persona),
            "isNull": not self.persona,
            "contains": all(word.lower() in text for word in asked.get("contains", ())),
            "mustNotContain": not any(word.lower() in text for word in asked.get("mustNotContain", ())),
        }
        return [f"personaPrelude.{condition}" for condition in asked if not held[condition]]


def answer(memory: Memory, case: Turn) -> Answer:
    user, projects = str(case.scope.user_id), PROJECTS[case.name]
    pinned = memory.listed(user, projects, kinds=["bootstrap"])
    room = MOST if case.budget is None else max(0, case.budget - len(pinned))
    return Answer(
        case,
        memory.search(case.query, user, projects, room),
        pinned,
        memory.listed(user, projects, kinds=[bench.OPEN], tags=[bench.PINNED]),
        memory.persona(user),
    )
