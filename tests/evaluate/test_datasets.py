"""Files of conversations and drafts: detection, reading, errors with their place."""

import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.errors import ImportLineError, InputError
from salience.evaluate.datasets import (
    FORMATS,
    Message,
    Question,
    conversations,
    detect,
    questions,
    turns,
)
from salience.evaluate.datasets.locomo import turn_refs

LOCOMO: dict[str, Any] = {
    "sample_id": "conv-9",
    "conversation": {
        "speaker_a": "Ana",
        "speaker_b": "Bo",
        "session_10_date_time": "12:05 am on 1 January, 2024",
        "session_10": [{"speaker": "Bo", "dia_id": "D10:1", "text": " Happy new year! "}],
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_2": [
            {"speaker": "Ana", "dia_id": "D2:1", "text": "Hi Bo"},
            {"speaker": "Bo", "dia_id": "D2:2", "text": "Look", "img_url": ["u"], "blip_caption": "a dog"},
            {"speaker": "Ana", "dia_id": "D2:3", "text": "", "blip_caption": "a cat on a roof"},
            {"speaker": "Ana", "dia_id": "D2:4", "text": ""},
            {"speaker": "Bo", "dia_id": "D2:5", "text": "Nice"},
        ],
        "session_3_date_time": "1:00 pm on 9 May, 2023",
    },
    "qa": [
        {"question": "When?", "answer": 2023, "category": 2, "evidence": ["D2:1; D2:02", "D:10:1", "D2:1"]},
        {"question": "Never said?", "adversarial_answer": "a dog", "category": 5, "evidence": []},
    ],
}
CHAT = [
    {"role": "user", "content": "The port is 8443", "timestamp": "2026-01-02T10:00:00+01:00"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
    {"role": "assistant", "name": "Iris", "content": [{"type": "text", "text": "Noted."}, {"type": "image"}]},
]


def write(path: Path, value: object, *, lines: bool = False) -> Path:
    texts = [json.dumps(item) for item in value] if lines and isinstance(value, list) else [json.dumps(value)]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def broken(path: Path, *lines: str | bytes) -> Path:
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return path


@pytest.mark.parametrize(
    ("name", "value", "lines", "found"),
    [
        ("a.json", LOCOMO, False, "locomo"),
        ("a.json", [LOCOMO], False, "locomo"),
        ("a.json", CHAT, False, "chat"),
        ("a.txt", {"messages": CHAT}, False, "chat"),
        ("a.jsonl", CHAT, True, "messages"),
        ("a.json", [{"speaker": "Ana", "text": "hi"}], True, "messages"),
        ("a.txt", [{"speaker": "Ana", "content": "hi", "session_id": "s"}], True, "messages"),
        ("a.jsonl", [{"content": "hi"}], True, "drafts"),
        ("a.log", [{"speaker": "Ana", "content": "hi", "kind": "turn"}], True, "drafts"),
        ("a.jsonl", [{"content": "hi", "ttl": "7d"}, {}], True, "drafts"),
    ],
)
def test_the_content_decides_the_format(tmp_path: Path, name: str, value: object, lines: bool, found: str) -> None:
    assert detect(write(tmp_path / name, value, lines=lines)) == found


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b" \n\n",
        b"hello",
        b"{",
        b"[]",
        b"null",
        b"5",
        b'{"a": 1}',
        b'[{"content": "x"}]',
        b'{"a": 1}\n{"a": 2}',
        b"\xff\xfe{}",
        b"[" * 100_000,
        b"9" * 5_000,
    ],
    ids=[
        "empty",
        "blank",
        "text",
        "cut",
        "list",
        "null",
        "number",
        "object",
        "no speaker",
        "lines",
        "utf-16",
        "deep",
        "huge",
    ],
)
def test_a_file_that_is_none_of_the_formats_is_refused_with_its_path_and_their_names(
    tmp_path: Path, content: bytes
) -> None:
    path = broken(tmp_path / "a.json", content)
    with pytest.raises(InputError) as caught:
        detect(path)
    assert str(path) in str(caught.value)
    assert all(name in str(caught.value) for name in FORMATS.values())


def test_a_file_that_cannot_be_read_is_refused_with_its_path(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(InputError, match="Give a file that can be read") as caught:
            detect(path)
        assert str(path) in str(caught.value)


def test_turns_of_locomo_are_verbatim_and_a_second_apart(tmp_path: Path) -> None:
    (conversation,) = conversations(write(tmp_path / "a.json", LOCOMO))
    first, last = conversation.sessions
    assert first.messages == (
        Message("Ana", "Hi Bo", datetime(2023, 5, 8, 13, 56, 0, tzinfo=UTC), {"dia_id": "D2:1"}, "D2:1"),
        Message(
            "Bo",
            "Look",
            datetime(2023, 5, 8, 13, 56, 1, tzinfo=UTC),
            {"dia_id": "D2:2", "img_url": ["u"], "blip_caption": "a dog"},
            "D2:2",
        ),
        Message(
            "Ana",
            "a cat on a roof",
            datetime(2023, 5, 8, 13, 56, 2, tzinfo=UTC),
            {"dia_id": "D2:3", "blip_caption": "a cat on a roof"},
            "D2:3",
        ),
        Message("Bo", "Nice", datetime(2023, 5, 8, 13, 56, 4, tzinfo=UTC), {"dia_id": "D2:5"}, "D2:5"),
    )
    assert last.messages[0].content == " Happy new year! "
    assert last.messages[0].timestamp == datetime(2024, 1, 1, 0, 5, tzinfo=UTC)


def test_questions_keep_their_answers_as_text_and_their_evidence_in_one_spelling(tmp_path: Path) -> None:
    assert questions(write(tmp_path / "a.json", LOCOMO)) == (
        Question("When?", "2023", "2", ("D2:1", "D2:2", "D10:1"), ("conv-9/session_2", "conv-9/session_10")),
        Question("Never said?", "", "5", (), answerable=False),
    )
    assert questions(write(tmp_path / "b.json", CHAT)) == ()


@pytest.mark.parametrize(
    ("written", "found"),
    [("D8:6; D9:17", ("D8:6", "D9:17")), ("D:11:26", ("D11:26",)), ("D30:05", ("D30:5",)), ("D", ()), ("", ())],
)
def test_ids_of_turns_that_name_the_same_numbers_are_the_same_ref(written: str, found: tuple[str, ...]) -> None:
    assert turn_refs(written) == found


@pytest.mark.parametrize(
    "damage",
    [
        {"session_2": 5},
        {"session_2": ["text"]},
        {"session_2": [{"speaker": "Ana"}]},
        {"session_2_date_time": "8 May 2023"},
        {"session_2_date_time": "1:56 pm on 31 February, 2023"},
    ],
)
def test_a_damaged_locomo_file_is_refused(tmp_path: Path, damage: dict[str, Any]) -> None:
    path = write(tmp_path / "a.json", {**LOCOMO, "conversation": {**LOCOMO["conversation"], **damage}})
    with pytest.raises(InputError):
        list(conversations(path))


@pytest.mark.parametrize("lines", [False, True])
def test_a_chat_keeps_speaker_text_time_and_the_rest_as_metadata(tmp_path: Path, lines: bool) -> None:
    path = write(tmp_path / "chat.json", CHAT, lines=lines)
    assert list(turns(path)) == [
        ("chat", Message("user", "The port is 8443", datetime(2026, 1, 2, 9, tzinfo=UTC), {})),
        ("chat", Message("Iris", "Noted.", None, {"role": "assistant"})),
    ]
    (conversation,) = conversations(path)
    assert (conversation.name, [len(session.messages) for session in conversation.sessions]) == ("chat", [2])


def test_messages_belong_to_the_session_that_they_name(tmp_path: Path) -> None:
    text = [{"role": "user", "content": str(n), "session_id": name} for n, name in enumerate(("b", "a", "b"))]
    (conversation,) = conversations(write(tmp_path / "a.jsonl", text, lines=True))
    held = [
        (session.session_id, [message.content for message in session.messages]) for session in conversation.sessions
    ]
    assert held == [("b", ["0", "2"]), ("a", ["1"])]


@pytest.mark.parametrize("stamp", [1_767_348_000, 1_767_348_000.0, 1_767_348_000_000])
def test_a_timestamp_may_be_seconds_or_milliseconds_since_1970(tmp_path: Path, stamp: float) -> None:
    path = write(tmp_path / "a.json", [{"role": "user", "content": "x", "timestamp": stamp}])
    assert next(turns(path))[1].timestamp == datetime(2026, 1, 2, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"role": "user", "content": "x", "timestamp": "2026-13-02T10:00:00"}, "timestamp"),
        ({"role": "user", "content": "x", "timestamp": True}, "timestamp"),
        ({"role": "user", "content": "x", "timestamp": -1}, "timestamp"),
        ({"role": "user", "content": "x", "timestamp": "9999-12-31T23:59:59-05:00"}, "timestamp"),
        ({"role": "user", "content": {"a": 1}}, "content"),
        ({"role": "user", "content": "x\x00"}, "content"),
        ({"role": "", "content": "x"}, "role"),
        ({"content": "x"}, "speaker"),
        ({"role": "user", "content": "x", "metadata": 5}, "metadata"),
        ({"role": "user", "content": "x", "score": float("nan")}, "message.score"),
        ("text", "value"),
    ],
)
def test_a_bad_message_is_refused_by_its_place(tmp_path: Path, bad: object, field: str) -> None:
    text = [CHAT[0], bad]
    with pytest.raises(InputError, match=rf"^{field} of message 2 in "):
        list(turns(write(tmp_path / "a.json", text)))
    with pytest.raises(ImportLineError, match=r"^line 2: ") as caught:
        list(turns(write(tmp_path / "a.jsonl", text, lines=True)))
    assert caught.value.line == 2


def test_drafts_are_no_conversation(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [{"content": "hi"}], lines=True)
    for reader in (turns, conversations):
        with pytest.raises(InputError, match="JSONL of drafts"):
            list(reader(path))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(content)
    for read in (turns, conversations):
        with suppress(InputError):
            list(read(path))


@pytest.mark.data
def test_the_real_locomo_files_are_read_whole() -> None:
    folder = os.environ.get("SALIENCE_TEST_DATA")
    if not folder or not (Path(folder) / "locomo").is_dir():
        pytest.skip("SALIENCE_TEST_DATA names no folder with locomo/")
    read = [next(conversations(path)) for path in sorted((Path(folder) / "locomo").glob("conv-*.json"))]
    messages = [message for held in read for session in held.sessions for message in session.messages]
    assert (len(read), len(messages), sum(len(held.questions) for held in read)) == (5, 2760, 999)
    for held in read:
        times = [message.timestamp for session in held.sessions for message in session.messages]
        assert all(before < after for before, after in pairwise(times) if before and after)
        text = {message.ref for message in held.messages}
        named = [turn for question in held.questions for turn in question.evidence]
        assert sum(turn in text for turn in named) > 0.99 * len(named)
    arguments = [question for held in read for question in held.questions]
    assert all(question.answer for question in arguments if question.answerable)
