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

from pathlib import Path
from typing import Final

from salience.evaluate.datasets.loader import Belief, Conversation, Place, Question, document
from salience.records import ANY, Draft, Filter, Scope, checks

BELIEFS: Final = "beliefs.seed.json"
CASES: Final = "retrieval.cases.json"
SESSIONS: Final = "session-retrieval.cases.json"
USER: Final = "test-user"
"""Default user of a case."""
EVERYONE: Final = "user:universal"
PINNED: Final = "pinned"
OPEN: Final = "open_question"
SEARCHED: Final = Filter(kinds=("preference", "entity", "decision", "relation"), level="project")
"""Filter of the search tier."""


def fits(folder: Path) -> bool:
    """Return whether a folder is of this format."""
    return (folder / BELIEFS).is_file()


def read_folder(folder: Path) -> Conversation:
    """Return the beliefs, and the queries of all cases.

    Raises:
        InputError: an invalid value, by its key.
    """
    cases = Place(folder / CASES, document(folder / CASES)).each()
    asked = [_question(case, case.at("userId"), case.at("query"), case.at("category").text()) for case in cases]
    sessions = folder / SESSIONS
    for case in Place(sessions, document(sessions)).each() if sessions.is_file() else ():
        turns = case.at("turns").each()
        asked += [_question(turn, turn.at("userId"), turn.at("userMessage"), "Session") for turn in turns]
    return Conversation(folder.name, (), tuple(asked), beliefs(folder))


def _question(item: Place, user: Place, query: Place, category: str) -> Question:
    asserted = item.at("expect").at("relevantBeliefs")
    only = asserted if asserted.value is None else asserted.at("shouldOnlyInclude")
    relevant = None if only.value is None else only.texts()
    where, is_answerable = scope(item.at("scope"), user.words() or USER), relevant != ()
    return Question(query.text(), "", category, relevant or (), answerable=is_answerable, scope=where, filter=SEARCHED)


def beliefs(folder: Path) -> tuple[Belief, ...]:
    """Return the seed beliefs, each after the beliefs that it supersedes."""
    items = Place(folder / BELIEFS, document(folder / BELIEFS)).each()
    older = {item.at("superseded_by").words(): item.at("_id").text() for item in items}
    made = {item.at("_id").text(): belief(item, older.get(item.at("_id").text())) for item in items}
    ordered: dict[str, Belief] = {}
    for newest in made.values():
        chain: dict[str, Belief] = {}
        one: Belief | None = newest
        while one is not None and one.ref not in chain:
            chain[one.ref] = one
            one = made.get(one.supersedes or "")
        ordered.update(reversed(chain.items()))
    return tuple(ordered.values())


def belief(item: Place, supersedes: str | None = None) -> Belief:
    """Return a belief; `supersedes` is the ref of the replaced belief."""
    names = [item.at("canonical_name").text().replace("_", " "), *item.at("aliases").texts()]
    pinned = [PINNED] if item.at("pinned").value is True else []
    kind = item.at("type").text()
    draft = Draft(
        content=item.at("content").text(),
        scope=scope(item.at("scope"), item.at("user_id").text()),
        kind="bootstrap" if pinned and kind != OPEN else kind,
        entities=list(dict.fromkeys(names)),
        tags=[*pinned, item.at("epistemic_status").text()],
        created_at=checks.aware("created_at", item.at("created_at").text()),
    )
    return Belief(item.at("_id").text(), draft, supersedes)


def scope(place: Place, user: str) -> Scope:
    """Return the scope of a belief or a query."""
    domains = [name for name in place.texts() if name != EVERYONE]
    return Scope(user_id=user, project=ANY if len(domains) > 1 else domains[0] if domains else None)
