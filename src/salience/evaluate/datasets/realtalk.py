"""REALTALK (Lee et al., 2025): conversations of two real people over three weeks, with questions.

```
{"name": {"speaker_1", "speaker_2"}, "session_1": [{"speaker", "dia_id": "D1:4", "clean_text", "date_time":
 "29.12.2023, 11:23:21", "blip_caption"?}], "session_1_date_time", "events_session_1", "qa": [as LoCoMo]}
```
As LoCoMo, but with sessions at the top level and a time per message. Every question has an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from salience.evaluate.datasets import loader, locomo
from salience.evaluate.datasets.loader import Conversation, Message, Place, Session

CATEGORIES: Final[Mapping[str, str]] = {"1": "multi-hop", "2": "temporal", "3": "commonsense"}
_KEPT: Final = ("dia_id", "img_file", "img_url", "blip_caption")
_SESSION: Final = re.compile(r"session_\d+")


def fits(held: Any) -> bool:
    """Return whether a document is of this format, even if it has errors."""
    return isinstance(held, dict) and any(_SESSION.fullmatch(key) and isinstance(held[key], list) for key in held)


def read(path: Path, held: Any) -> Iterator[Conversation]:
    """Yield the conversation of a document, named as the file.

    Raises:
        InputError: an invalid value, by its key.
    """
    whole, name = Place(path, held), path.stem
    sessions = tuple(
        Session(f"{name}/session_{number}", _messages(whole, number)) for number in locomo.session_numbers(whole)
    )
    asked = whole.at("qa")
    questions = () if asked.value is None else locomo.questions(asked, name)
    yield Conversation(name, sessions, tuple(replace(question, answerable=True) for question in questions))


def _messages(whole: Place, number: int) -> tuple[Message, ...]:
    said = (_message(turn, whole.at(f"session_{number}_date_time")) for turn in whole.at(f"session_{number}").each())
    return tuple(message for message in said if message.content.strip())


def _message(turn: Place, session_time: Place) -> Message:
    own = turn.at("date_time")
    timestamp = loader.instant(own if own.value is not None else session_time, loader.REALTALK)
    metadata = {key: value for key, value in turn.object().items() if key in _KEPT}
    ref = locomo.ref(turn.at("dia_id").words())
    return Message(turn.at("speaker").text(), locomo.content(turn, "clean_text", "text"), timestamp, metadata, ref)
