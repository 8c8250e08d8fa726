"""Everyday worlds and pairs, which are part of the package.

A world has the memories of one user, and questions on them at one time:

```
{"name", "about", "user", "now", "memories": [{"id", "at", "content", "language"?}],
 "questions": [{"id", "kind", "query", "answers": [ids], "outdated"?: [ids], "language"?}]}
```
A memory is a draft of the user with `at` as its `created_at`, stored in the order of the file. A question without
`answers` has no answer.

A file `pairs-NAME.json` has pairs of memories, each with a question, in a scope of its own:

```
{"name", "about", "language"?, "fillers": [texts],
 "pairs": [{"id", "kind", "older", "newer", "query", "right": "older" | "newer" | "both", "relation", "user"?,
            "older_at"?, "newer_at"?, "older_speaker"?, "newer_speaker"?}]}
```
`salience/evaluate/data/everyday/README.md` describes the kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from salience.errors import InputError
from salience.evaluate.datasets.loader import Belief, Conversation, Place, Question, document
from salience.records import Draft, Scope, checks

Name = TypeVar("Name", bound=str)
Half = Literal["fit", "report"]
HALVES: Final[tuple[Half, ...]] = ("fit", "report")
Right = Literal["older", "newer", "both"]
Relation = Literal["none", "replaces", "repeats", "adds"]
PAIR_KINDS: Final = ("sibling", "complement", "other_subject", "changed", "coexisting", "restated")
RIGHTS: Final[tuple[Right, ...]] = ("older", "newer", "both")
RELATIONS: Final[tuple[Relation, ...]] = ("none", "replaces", "repeats", "adds")
"""What the newer memory of a pair is to the older one."""
OLDER, NEWER, FILLER = (datetime(2026, month, 1, tzinfo=UTC) for month in (3, 6, 2))
"""Times of the memories of the first pair, unless the file gives them, and of its first filler."""
NOW: Final = datetime(2026, 11, 20, 18, tzinfo=UTC)
"""Time of the question of a pair."""
_FOLDER: Final = Path(__file__).parents[1] / "data" / "everyday"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two memories of a user, and a question on them.

    Attributes:
        id: within the file.
        kind: one of `PAIR_KINDS`.
        scope: of the memories and the question.
        older, newer: the memories, with scope and time.
        query: the question, asked at `NOW`.
        right: which of the two answers the question.
        relation: what the newer memory is to the older one, whatever the question.
        language: of the texts; empty for English.
    """

    id: str
    kind: str
    scope: Scope
    older: Draft
    newer: Draft
    query: str
    right: Right
    relation: Relation
    language: str = ""


def worlds(half: Half) -> tuple[Conversation, ...]:
    """Return the worlds of one half of the package's own, by name."""
    paths = sorted(path for path in (_FOLDER / half).glob("*.json") if not path.name.startswith("pairs-"))
    return tuple(next(read(path, document(path))) for path in paths)


def pair_worlds(half: Half) -> tuple[Conversation, ...]:
    """Return the conversation of each file of pairs of one half; the category of a question is the kind of its pair."""
    return tuple(next(read(path, document(path))) for path in _pair_files(half))


def pairs(half: Half) -> tuple[Pair, ...]:
    """Return the pairs of all files of one half."""
    return tuple(pair for path in _pair_files(half) for pair in _pairs(Place(path, document(path))))


def _pair_files(half: Half) -> list[Path]:
    return sorted((_FOLDER / half).glob("pairs-*.json"))


def fits(held: Any) -> bool:
    """Return whether a document is of this format, even if it has errors."""
    if not isinstance(held, dict):
        return False
    return any(
        all(isinstance(held.get(key), list) for key in keys)
        for keys in (("memories", "questions"), ("fillers", "pairs"))
    )


def read(path: Path, held: Any) -> Iterator[Conversation]:
    """Yield the world, or the pairs as one conversation, of a document.

    Raises:
        InputError: an invalid value, by its key.
    """
    whole = Place(path, held)
    name = whole.at("name").words() or path.stem
    if whole.at("pairs").value is not None:
        yield _pair_world(whole, name)
        return
    scope, now = Scope(user_id=whole.at("user").text()), _instant(whole.at("now"))
    memories = tuple(
        Belief(
            item.at("id").text(),
            Draft(content=item.at("content").text(), scope=scope, created_at=_instant(item.at("at"))),
        )
        for item in whole.at("memories").each()
    )
    questions = tuple(_question(item, scope, now) for item in whole.at("questions").each())
    yield Conversation(name, (), questions, memories)


def _pair_world(whole: Place, name: str) -> Conversation:
    """Return the memories of all pairs and the fillers of each user by time, and the question of each pair.

    The refs are `ID-older`, `ID-newer`, and `ID-filler-1` and so on.
    """
    memories, questions = [], []
    fillers = whole.at("fillers").texts()
    for place, pair in enumerate(_pairs(whole)):
        memories += [Belief(f"{pair.id}-older", pair.older), Belief(f"{pair.id}-newer", pair.newer)]
        for number, text in enumerate(fillers):
            at = FILLER + timedelta(days=30 * number, hours=place)
            memories.append(
                Belief(f"{pair.id}-filler-{number + 1}", Draft(content=text, scope=pair.scope, created_at=at))
            )
        answers = [f"{pair.id}-{side}" for side in ("older", "newer") if pair.right in (side, "both")]
        outdated = (f"{pair.id}-older",) if pair.right == "newer" and pair.relation == "replaces" else ()
        questions.append(
            Question(
                pair.query,
                "",
                pair.kind,
                tuple(answers),
                now=NOW,
                scope=pair.scope,
                outdated=outdated,
                language=pair.language,
            )
        )
    memories.sort(key=lambda one: one.draft.created_at or NOW)
    return Conversation(name, (), tuple(questions), tuple(memories))


def _pairs(whole: Place) -> Iterator[Pair]:
    """Yield the pairs of a document."""
    language = whole.at("language").words()
    for place, item in enumerate(whole.at("pairs").each()):
        scope = Scope(user_id=item.first("user", "id").text())

        def draft(side: str, start: datetime, item: Place = item, scope: Scope = scope, place: int = place) -> Draft:
            at, speaker = item.at(f"{side}_at"), item.at(f"{side}_speaker")
            return Draft(
                content=item.at(side).text(),
                scope=scope,
                created_at=start + timedelta(hours=place) if at.value is None else _instant(at),
                speaker=None if speaker.value is None else speaker.text(),
            )

        yield Pair(
            item.at("id").text(),
            _choice(item.at("kind"), PAIR_KINDS),
            scope,
            draft("older", OLDER),
            draft("newer", NEWER),
            item.at("query").text(),
            _choice(item.at("right"), RIGHTS),
            _choice(item.at("relation"), RELATIONS),
            language,
        )


def _choice(place: Place, choices: tuple[Name, ...]) -> Name:
    """Return the one of the choices that the value is."""
    for one in choices:
        if place.text() == one:
            return one
    raise place.refused(f"one of {', '.join(choices)}")


def _question(item: Place, scope: Scope, now: datetime) -> Question:
    answers, outdated = item.at("answers").texts(), item.at("outdated")
    return Question(
        item.at("query").text(),
        "",
        item.at("kind").text(),
        answers,
        now=now,
        answerable=bool(answers),
        scope=scope,
        outdated=() if outdated.value is None else outdated.texts(),
        language=item.at("language").words(),
    )


def _instant(place: Place) -> datetime:
    try:
        return checks.aware(place.key, place.text())
    except InputError:
        raise place.refused("a time such as 2026-05-01T09:30:00+00:00") from None
