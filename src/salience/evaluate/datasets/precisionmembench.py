"""precisionMemBench (tenurehq): 35 beliefs of two users, and queries with the exact set that a search may return.

A folder of `beliefs.seed.json`, `retrieval.cases.json` and `session-retrieval.cases.json`. How it maps to ours:

| theirs | ours |
|---|---|
| `user_id` | `user_id` |
| `scope`: `domain:NAME` | `project`: the same text; a query over several domains asks in every project |
| `scope`: `user:universal` | no project, so that it is seen from each |
| `content` | `content` |
| `canonical_name`, `aliases` | `entities` |
| `type` | `kind`; of what is pinned and no open question, `bootstrap`, since it is loaded without being asked for |
| `pinned`, `epistemic_status` | tags |
| `superseded_by` | `supersedes`, on the newer one |
| `created_at` | `created_at` |

A case asserts tiers. Only `relevantBeliefs` is a search: the evidence is its `shouldOnlyInclude`. Pinned beliefs, open
questions and those of the user as a whole reach the reader through other tiers, by a listing, so that the search is
for the other kinds in the project. The turns of the session cases are questions too, without the beliefs made on the
way.
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
"""Who asks where a case names nobody."""
EVERYONE: Final = "user:universal"
SESSION_CATEGORY: Final = "Session"
PINNED: Final = "pinned"
OPEN: Final = "open_question"
SEARCHED: Final = Filter(kinds=("preference", "entity", "decision", "relation"), level="project")
"""What the tier of a search holds."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A query and what its answer is held against.

    Attributes:
        name: of the case; of a turn in a session, with its number.
        category: the file's own.
        query: as it is asked.
        scope: who asks, and in which project.
        relevant: refs of the beliefs that a search may return; None where the case asserts nothing of it.
        expect: the tiers as the file has them: tier -> condition -> refs of beliefs, or a flag.
        budget: most beliefs of all tiers together; None where the case sets none.
        creates: beliefs that are added after it.
        renames: ref of a belief -> aliases that it gains before it.
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
        InputError: a key whose value is not what the format has there.
    """
    asked = [*cases(folder), *(turn for turns in sessions(folder) for turn in turns)]
    return Conversation(folder.name, (), tuple(map(_question, asked)), beliefs(folder))


def beliefs(folder: Path) -> tuple[Belief, ...]:
    """Return the seed, each belief after those that it supersedes."""
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
    """Return a belief of the file, which replaces the one that `supersedes` names."""
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
    """Return where a belief lives, or a query asks."""
    domains = [name for name in _texts(place) if name != EVERYONE]
    return Scope(user_id=user, project=ANY if len(domains) > 1 else domains[0] if domains else None)


def cases(folder: Path) -> tuple[Turn, ...]:
    """Return the cases that stand alone."""
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
    """Return the turns of each session case, in order; none where the folder has no such file."""
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
