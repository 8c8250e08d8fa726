"""LongMemEval (Wu et al., ICLR 2025), s, m and oracle: each question has its own chat sessions.

```
[{"question_id", "question_type", "question", "answer", "question_date": "2023/05/30 (Tue) 23:40",
  "haystack_session_ids": [...], "haystack_dates": [...], "haystack_sessions": [[{"role", "content", "has_answer"?}]],
  "answer_session_ids": [...]}]
```
or one such object per line. A question whose id ends in `_abs` cannot be answered. Sessions are sorted by time, which
those of the oracle are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from salience.evaluate.datasets import loader
from salience.evaluate.datasets.loader import Conversation, Message, Place, Question, Session

KEY: Final = "haystack_sessions"
"""Key that identifies the format."""
ABSTENTION: Final = "_abs"
_BEFORE_ALL: Final = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Held:
    """A session: its unique id, its id in the file, its time and its turns."""

    session_id: str
    own: str
    start: datetime | None
    turns: Place


def read(path: Path, held: Any) -> Iterator[Conversation]:
    """Yield a conversation per question, named by the question's id.

    Raises:
        InputError: an invalid value, by its key.
    """
    for item in Place(path, held).each() if isinstance(held, list) else [Place(path, held)]:
        name, haystack = item.at("question_id").label(), _haystack(item)
        sessions = tuple(Session(f"{name}/{one.session_id}", _messages(one)) for one in haystack)
        yield Conversation(name, sessions, (_question(item, name, haystack),))


def _haystack(item: Place) -> list[_Held]:
    turns = item.at(KEY).each()
    ids = _column(item.at("haystack_session_ids"), len(turns))
    times = _column(item.at("haystack_dates"), len(turns))
    seen: Counter[str] = Counter()
    found = []
    for place, session in enumerate(turns):
        own = ids[place].label() if ids else f"session_{place + 1}"
        seen[own] += 1
        unique = own if seen[own] == 1 else f"{own}#{seen[own]}"  # a filler session may occur twice
        start = loader.instant(times[place], loader.LONGMEMEVAL) if times else None
        found.append(_Held(unique, own, start, session))
    return sorted(found, key=lambda held: held.start or _BEFORE_ALL)


def _column(places: Place, count: int) -> list[Place]:
    """Return a list with one value per session; empty if the file has none."""
    if places.value is None:
        return []
    if len(places.list()) != count:
        raise places.refused(f"a list of {count}, one for each of {KEY}")
    return places.each()


def _messages(held: _Held) -> tuple[Message, ...]:
    """Return the turns with text, one second apart, since only the session has a time."""
    found = []
    for place, turn in enumerate(held.turns.each()):
        timestamp = held.start and held.start + timedelta(seconds=place)
        speaker = turn.first("role", "speaker").text()
        found.append(
            Message(speaker, turn.at("content").message_text(), timestamp, {}, f"{held.session_id}:{place + 1}")
        )
    return tuple(message for message in found if message.content)


def _question(item: Place, name: str, haystack: Sequence[_Held]) -> Question:
    answers = {place.label() for place in item.at("answer_session_ids").each()}
    evidence = (
        f"{held.session_id}:{number}"
        for held in haystack
        for number, turn in enumerate(held.turns.each(), 1)
        if turn.at("has_answer").value is True
    )
    return Question(
        item.at("question").text(),
        item.at("answer").words(),
        item.at("question_type").text(),
        tuple(evidence),
        tuple(f"{name}/{held.session_id}" for held in haystack if held.own in answers),
        now=loader.instant(item.at("question_date"), loader.LONGMEMEVAL),
        answerable=not name.endswith(ABSTENTION),
    )
