"""precisionMemBench (tenurehq): 35 beliefs of two users, and queries with the exact set of valid results.

A folder of `beliefs.seed.json`, `retrieval.cases.json` and `session-retrieval.cases.json`, mapped as:

| theirs | ours |
|---|---|
| `user_id` | `user_id` |
| `scope`: `domain:NAME` | `project`; a query over several domains uses every project |
| `scope`: `user:universal` | no project, so that every project sees it |
| `content` | `content` |
| `canonical_name`, `aliases` | `entities` |
| `type` | `kind`; `bootstrap` if pinned and not an open question, since it is loaded without a query |
| `pinned`, `epistemic_status` | tags |
| `superseded_by` | `supersedes`, on the newer one |
| `created_at` | `created_at` |

A case asserts tiers. Only `relevantBeliefs` is a search: the evidence is its `shouldOnlyInclude`. Pinned beliefs, open
questions and user-wide beliefs are listed through other tiers, so the search covers the other kinds in the project. The
turns of the session cases are questions too, without the beliefs created during the session.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from salience.evaluate.datasets.loader import Belief, Conversation, Place, Question, document
from salience.records import ANY, Draft, Filter, Scope, checks

BELIEFS: Final = "beliefs.seed.json"
CASES: Final = "retrieval.cases.json"
SESSIONS: Final = "session-retrieval.cases.json"
USER: Final = "test-user"
"""Default user of a case."""
EVERYONE: Final = "user:universal"
SESSION_CATEGORY: Final = "Session"
PINNED: Final = "pinned"
OPEN: Final = "open_question"
SEARCHED: Final = Filter(kinds=("preference", "entity", "decision", "relation"), level="project")
"""Filter of the search tier."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A query with its expected results.

    Attributes:
        name: of the case, with the number of the turn in a session.
        category: the file's own.
        query: its text.
        scope: user and project.
        relevant: refs of the valid results; None if the case asserts none.
        expect: tier -> condition -> refs of beliefs, or a flag, as in the file.
        budget: maximum beliefs of all tiers together, or None.
        creates: beliefs to add after the query.
        renames: (ref of a belief, aliases to add before the query).
    """

    name: str
    category: str
    query: str
    scope: Scope
    relevant: tuple[str, ...] | None
    expect: dict[str, Any]
    budget: int | None = None
    creates: tuple[Belief, ...] = ()
    renames: tuple[tuple[str, tuple[str, ...]], ...] = ()


def fits(folder: Path) -> bool:
    """Return whether a folder is of this format."""
    return (folder / BELIEFS).is_file()


def read_folder(folder: Path) -> Conversation:
    """Return the beliefs, and the queries of all cases.

    Raises:
        InputError: an invalid value, by its key.
    """
    asked = [*cases(folder), *(turn for turns in sessions(folder) for turn in turns)]
    return Conversation(folder.name, (), tuple(map(_question, asked)), beliefs(folder))


def beliefs(folder: Path) -> tuple[Belief, ...]:
    """Return the seed beliefs, each after the beliefs that it supersedes."""
    items = Place(folder / BELIEFS, document(folder / BELIEFS)).each()
    older = {item.at("superseded_by").words(): item.at("_id").text() for item in items}
    made = {item.at("_id").text(): belief(item, older.get(item.at("_id").text())) for item in items}
    ordered: dict[str, Belief] = {}
    for one in made.values():
        ordered.update((found.ref, found) for found in reversed(list(_chain(one, made))))
    return tuple(ordered.values())


def _chain(newest: Belief, made: dict[str, Belief]) -> Iterator[Belief]:
    seen: set[str] = set()
    one: Belief | None = newest
    while one is not None and one.ref not in seen:
        seen.add(one.ref)
        yield one
        one = made.get(one.supersedes or "")


def belief(item: Place, supersedes: str | None = None) -> Belief:
    """Return a belief; `supersedes` is the ref of the replaced belief."""
    names = [item.at("canonical_name").text().replace("_", " "), *_texts(item.at("aliases"))]
    pinned = [PINNED] if item.at("pinned").value is True else []
    kind = item.at("type").text()
    draft = Draft(
        content=item.at("content").text(),
        scope=scope(item.at("scope"), item.at("user_id").text()),
        kind="bootstrap" if pinned and kind != OPEN else kind,
        entities=list(dict.fromkeys(names)),
        tags=[*pinned, item.at("epistemic_status").text()],
        created_at=checks.instant("created_at", item.at("created_at").text()),
    )
    return Belief(item.at("_id").text(), draft, supersedes)


def scope(place: Place, user: str) -> Scope:
    """Return the scope of a belief or a query."""
    domains = [name for name in _texts(place) if name != EVERYONE]
    return Scope(user_id=user, project=ANY if len(domains) > 1 else domains[0] if domains else None)


def cases(folder: Path) -> tuple[Turn, ...]:
    """Return the cases without a session."""
    return tuple(_case(item) for item in Place(folder / CASES, document(folder / CASES)).each())


def _case(item: Place) -> Turn:
    budget = item.at("budget")
    return Turn(
        item.at("caseId").text(),
        item.at("category").text(),
        item.at("query").text(),
        scope(item.at("scope"), item.at("userId").words() or USER),
        _relevant(item.at("expect")),
        item.at("expect").object(),
        None if budget.value is None else budget.at("maxBeliefs").value,
    )


def sessions(folder: Path) -> tuple[tuple[Turn, ...], ...]:
    """Return the turns of each session case, in order; empty if the folder has no such file."""
    path = folder / SESSIONS
    if not path.is_file():
        return ()
    return tuple(
        tuple(_turn(turn, item.at("caseId").text()) for turn in item.at("turns").each())
        for item in Place(path, document(path)).each()
    )


def _turn(turn: Place, case: str) -> Turn:
    created, renamed = turn.at("createBeliefAtTurn"), turn.at("updateBeliefAtTurn")
    return Turn(
        f"{case}/{turn.at('turnIndex').label()}",
        SESSION_CATEGORY,
        turn.at("userMessage").text(),
        scope(turn.at("scope"), turn.at("userId").words() or USER),
        _relevant(turn.at("expect")),
        turn.at("expect").object(),
        creates=() if created.value is None else (belief(created),),
        renames=()
        if renamed.value is None
        else ((renamed.at("beliefId").text(), tuple(_texts(renamed.at("addAliases")))),),
    )


def _question(turn: Turn) -> Question:
    evidence = turn.relevant or ()
    return Question(
        turn.query,
        "",
        turn.category,
        evidence,
        answerable=turn.relevant != (),
        scope=turn.scope,
        filter=SEARCHED,
    )


def _relevant(expect: Place) -> tuple[str, ...] | None:
    asserted = expect.at("relevantBeliefs")
    only = asserted if asserted.value is None else asserted.at("shouldOnlyInclude")
    return None if only.value is None else tuple(_texts(only))


def _texts(place: Place) -> list[str]:
    return [item.text() for item in place.each()]
