"""LoCoMo (Maharana et al., 2024): long conversations of two people over many sessions, with questions.

```
{"sample_id", "conversation": {"session_1": [{"speaker", "dia_id": "D1:1", "text", "blip_caption"?}],
 "session_1_date_time": "1:56 pm on 8 May, 2023"}, "qa": [{"question", "answer", "evidence": ["D1:3"], "category"}]}
```
or a list of such objects. Only sessions have a time. Evidence is written in several ways (`D8:6; D9:17`, `D:11:26`,
`D30:05`), and may name turns that do not exist. A session may have a time and no turns. Questions of category 5 cannot
be answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from salience.evaluate.datasets import loader
from salience.evaluate.datasets.loader import Conversation, Message, Place, Question, Session

CATEGORIES: Final[Mapping[str, str]] = {
    "1": "multi-hop",
    "2": "temporal",
    "3": "open-domain",
    "4": "single-hop",
    "5": "adversarial",
}
UNANSWERABLE: Final = "5"
_SESSION: Final = re.compile(r"session_(\d+)")
_TURN: Final = re.compile(r"D:?(\d+):(\d+)")


def read(path: Path, held: Any) -> Iterator[Conversation]:
    """Yield the conversations of a document, named by the sample's id or the file.

    Raises:
        InputError: an invalid value, by its key.
    """
    for sample in Place(path, held).each() if isinstance(held, list) else [Place(path, held)]:
        name, talk, asked = sample.at("sample_id").words() or path.stem, sample.at("conversation"), sample.at("qa")
        sessions = tuple(Session(f"{name}/session_{n}", _messages(talk, n)) for n in session_numbers(talk))
        yield Conversation(name, sessions, () if asked.value is None else questions(asked, name))


def session_numbers(held: Place) -> list[int]:
    """Return the numbers of the sessions that have turns, ascending."""
    return sorted(int(match[1]) for key in held.object() if (match := _SESSION.fullmatch(key)))


def _messages(talk: Place, number: int) -> tuple[Message, ...]:
    """Return the turns with text, one second apart, since only the session has a time."""
    start, found = loader.instant(talk.at(f"session_{number}_date_time"), loader.LOCOMO), []
    for place, turn in enumerate(talk.at(f"session_{number}").each()):
        metadata = {key: one for key, one in turn.object().items() if key in ("dia_id", "img_url", "blip_caption")}
        timestamp, named = start and start + timedelta(seconds=place), ref(turn.at("dia_id").words())
        found.append(Message(turn.at("speaker").text(), content(turn, "text"), timestamp, metadata, named))
    return tuple(message for message in found if message.content.strip())


def content(turn: Place, *keys: str) -> str:
    """Return the text of a turn, or the caption of a photo without text."""
    return turn.first(*keys).text() or turn.at("blip_caption").words()


def questions(asked: Place, name: str) -> tuple[Question, ...]:
    """Return the questions of a list, on the conversation of this name."""
    found = []
    for item in asked.each():
        held = item.at("evidence")
        written = (held.text(),) if isinstance(held.value, str) else () if held.value is None else held.texts()
        evidence = tuple(dict.fromkeys(turn for text in written for turn in turn_refs(text)))
        sessions = dict.fromkeys(f"{name}/session_{turn[1:].partition(':')[0]}" for turn in evidence)
        category, texts = item.at("category").label(), (item.at("question").text(), item.at("answer").words())
        found.append(Question(*texts, category, evidence, tuple(sessions), answerable=category != UNANSWERABLE))
    return tuple(found)


def turn_refs(written: str) -> tuple[str, ...]:
    """Return the refs of the turns in a text: ("D8:6", "D9:17") for "D8:6; D9:17", ("D30:5",) for "D:30:05"."""
    return tuple(f"D{int(session)}:{int(turn)}" for session, turn in _TURN.findall(written))


def ref(dia_id: str) -> str:
    """Return the ref of a turn; empty if it has no id."""
    return next(iter(turn_refs(dia_id)), "")
