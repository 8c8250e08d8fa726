"""BEAM (Tavakoli et al., 2025): conversations with an assistant of 128 thousand to 10 million tokens, with questions.

A folder for each conversation:
```
chat.json                                  [{"batch_number", "turns": [[{"role", "id", "content", "time_anchor"?}]]}]
chat_trunecated.json                       preferred to chat.json, as in the authors' code
probing_questions/probing_questions.json   {"information_extraction": [{"question", "answer", "source_chat_ids"}]}
```
At 10 million tokens a chat is a list of plans, `{"plan-1": [batches]}`. A row of the published data set is an object
`{"conversation_id", "chat": [[message]], "probing_questions"}`, whose questions may be the text of a Python literal.

`source_chat_ids` are ids of messages, in a list or by role in an object of lists. An id that several messages share is
ignored. The generator's mark at the end of users' messages (`->-> 1,2`) is removed. Questions of the category
`abstention` cannot be answered.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from salience.evaluate.datasets import loader
from salience.evaluate.datasets.loader import Conversation, Message, Place, Question, Session, document

CHATS: Final = ("chat_trunecated.json", "chat.json")
"""Names of a conversation's file, in order of preference."""
QUESTIONS: Final = (Path("probing_questions") / "probing_questions.json", Path("probing_questions.json"))
ABSTENTION: Final = "abstention"
_ANSWERS: Final = ("answer", "ideal_answer", "ideal_response", "ideal_summary", "expected_compliance")
_MARK: Final = re.compile(r"\s*->->[\s\d,.]*$")


def fits(held: Any) -> bool:
    """Return whether a document is a chat of BEAM, or rows of the published data set."""
    first = held[0] if isinstance(held, list) and held else held
    if not isinstance(first, dict):
        return False
    plans = [value for value in first.values() if value is not None] if isinstance(held, list) else []
    return (
        "probing_questions" in first
        or isinstance(first.get("turns"), list)
        or (bool(plans) and all(map(_are_batches, plans)))
    )


def _are_batches(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "turns" in value[0]


def folders(path: Path) -> list[Path]:
    """Return the folders of conversations, up to two levels below `path`, in natural order."""
    files = (file for name in CHATS for level in ("", "*/", "*/*/") for file in path.glob(level + name))
    found = {file.parent for file in files if questions_of(file.parent)}
    return sorted(found, key=lambda folder: [(len(part), part) for part in folder.parts])


def questions_of(folder: Path) -> Path | None:
    """Return the file of questions in a conversation's folder, if any."""
    return next((folder / name for name in QUESTIONS if (folder / name).is_file()), None)


def read_folder(folder: Path) -> Conversation:
    """Return the conversation of a folder, named as the folder.

    Raises:
        InputError: an invalid value, by its key.
    """
    path = next(folder / name for name in CHATS if (folder / name).is_file())
    asked = questions_of(folder)
    probing = None if asked is None else Place(asked, document(asked))
    return _conversation(folder.name, Place(path, document(path)), probing)


def read(path: Path, held: Any) -> Iterator[Conversation]:
    """Yield the conversation of a chat with the questions beside it, or the conversations of rows.

    Raises:
        InputError: an invalid value, by its key.
    """
    rows = held if isinstance(held, list) else [held]
    if not (rows and isinstance(rows[0], dict) and "probing_questions" in rows[0]):
        asked = questions_of(path.parent)
        probing = None if asked is None else Place(asked, document(asked))
        yield _conversation(path.parent.name, Place(path, held), probing)
        return
    for place, row in enumerate(rows, 1):
        whole = Place(path, row, f"[{place - 1}]" if isinstance(held, list) else "")
        name = whole.at("conversation_id").words() or f"{path.stem}-{place}"
        yield _conversation(name, whole.at("chat"), _literal(whole.at("probing_questions")))


def _literal(place: Place) -> Place:
    """Return the questions of a row; parses a Python literal."""
    if not isinstance(place.value, str):
        return place
    try:
        return Place(place.path, ast.literal_eval(place.value), place.key)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise place.refused("an object of questions by category, or one as a Python literal") from None


def _conversation(name: str, chat: Place, probing: Place | None) -> Conversation:
    sessions, known = [], Counter[str]()
    for number, turns in enumerate(_sessions(chat), 1):
        messages = _messages(turns)
        known.update(message.ref for message in messages)
        sessions.append(Session(f"{name}/session_{number}", messages))
    unique = tuple(
        Session(one.session_id, tuple(replace(item, ref="") if known[item.ref] > 1 else item for item in one.messages))
        for one in sessions
    )
    home = {message.ref: session.session_id for session in unique for message in session.messages}
    return Conversation(name, unique, () if probing is None else tuple(_questions(probing, home)))


def _sessions(chat: Place) -> Iterator[list[Place]]:
    """Yield the messages of each batch or list of messages, plan by plan."""
    for part in chat.each():
        if isinstance(part.value, list):
            yield [message for item in part.each() for message in _turn(item)]
        elif "turns" in part.object():
            yield [message for item in part.at("turns").each() for message in _turn(item)]
        else:
            for key in part.object():
                if part.at(key).value is not None:
                    yield from _sessions(part.at(key))


def _turn(item: Place) -> list[Place]:
    return item.each() if isinstance(item.value, list) else [item]


def _messages(turns: list[Place]) -> tuple[Message, ...]:
    """Return the messages with text, one second apart from the last time anchor."""
    found, start, since = [], None, 0
    for place, turn in enumerate(turns):
        anchor = loader.parse_date(turn.at("time_anchor").words(), loader.BEAM)
        start, since = (anchor, place) if anchor else (start, since)
        timestamp = start and start + timedelta(seconds=place - since)
        content = _MARK.sub("", turn.at("content").message_text())
        found.append(Message(turn.first("role", "speaker").text(), content, timestamp, {}, turn.at("id").words()))
    return tuple(message for message in found if message.content)


def _questions(probing: Place, home: dict[str, str]) -> Iterator[Question]:
    for category in probing.object():
        for item in probing.at(category).each():
            evidence = tuple(dict.fromkeys(_ids(item.at("source_chat_ids"))))
            yield Question(
                item.at("question").text(),
                item.first(*_ANSWERS).words(),
                category,
                evidence,
                tuple(dict.fromkeys(home[ref] for ref in evidence if ref in home)),
                answerable=category != ABSTENTION,
            )


def _ids(held: Place) -> Iterator[str]:
    """Yield the ids in nested lists and objects."""
    if isinstance(held.value, dict):
        for key in held.object():
            yield from _ids(held.at(key))
    elif isinstance(held.value, list):
        for item in held.each():
            yield from _ids(item)
    elif held.value is not None:
        yield held.label()
