"""Everyday worlds: the memories of one user, and questions on them at one time. Ten are part of the package.

```
{"name", "about", "user", "now", "memories": [{"id", "at", "content", "language"?}],
 "questions": [{"id", "kind", "query", "answers": [ids], "outdated"?: [ids], "language"?}]}
```
A memory is a draft of the user with `at` as its `created_at`, stored in the order of the file. A question without
`answers` has no answer. `salience/evaluate/data/everyday/README.md` describes the kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from salience.errors import InputError
from salience.evaluate.datasets.loader import Belief, Conversation, Place, Question, document
from salience.records import Draft, Scope, checks

Half = Literal["fit", "report"]
HALVES: Final[tuple[Half, ...]] = ("fit", "report")
_FOLDER: Final = Path(__file__).parents[1] / "data" / "everyday"


def worlds(half: Half) -> tuple[Conversation, ...]:
    """Return the worlds of one half of the package's own, by name."""
    return tuple(next(read(path, document(path))) for path in sorted((_FOLDER / half).glob("*.json")))


def fits(held: Any) -> bool:
    """Return whether a document is of this format, even if it has errors."""
    return isinstance(held, dict) and all(isinstance(held.get(key), list) for key in ("memories", "questions"))


def read(path: Path, held: Any) -> Iterator[Conversation]:
    """Yield the world of a document.

    Raises:
        InputError: an invalid value, by its key.
    """
    whole = Place(path, held)
    scope, now = Scope(user_id=whole.at("user").text()), _instant(whole.at("now"))
    memories = tuple(
        Belief(
            item.at("id").text(),
            Draft(content=item.at("content").text(), scope=scope, created_at=_instant(item.at("at"))),
        )
        for item in whole.at("memories").each()
    )
    questions = tuple(_question(item, scope, now) for item in whole.at("questions").each())
    yield Conversation(whole.at("name").words() or path.stem, (), questions, memories)


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
        return checks.instant(place.key, place.text())
    except InputError:
        raise place.refused("a time such as 2026-05-01T09:30:00+00:00") from None
