"""REALTALK, LongMemEval, BEAM, precisionMemBench and everyday: small files in, the same values out."""

from __future__ import annotations

import copy
import json
import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from formats import (
    BEAM_CHAT,
    BEAM_QUESTIONS,
    BELIEFS,
    EVERYDAY,
    LONGMEMEVAL,
    PAIRS,
    REALTALK,
    beam,
    precisionmembench,
    written,
)

from salience.errors import InputError
from salience.evaluate.datasets import Message, Question, conversations, detect, questions, turns
from salience.evaluate.datasets import precisionmembench as bench
from salience.records import ANY, Draft, Scope


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (REALTALK, "realtalk"),
        (LONGMEMEVAL, "longmemeval"),
        (LONGMEMEVAL[0], "longmemeval"),
        (BEAM_CHAT, "beam"),
        ([{"plan-1": BEAM_CHAT}], "beam"),
        ([{"conversation_id": "7", "chat": [], "probing_questions": "{}"}], "beam"),
        (EVERYDAY, "everyday"),
        (PAIRS, "everyday"),
    ],
)
def test_the_content_decides_the_format(tmp_path: Path, value: object, found: str) -> None:
    assert detect(written(tmp_path / "a.json", value)) == found


def test_a_folder_decides_the_format_by_its_files(tmp_path: Path) -> None:
    assert detect(precisionmembench(tmp_path / "bench")) == "precisionmembench"
    beam(tmp_path / "chats")
    assert detect(tmp_path / "chats") == "beam"
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="Give a file that can be read"):
        detect(tmp_path / "empty")


def test_realtalk_has_a_time_for_each_message(tmp_path: Path) -> None:
    (held,) = conversations(written(tmp_path / "Chat_1.json", REALTALK))
    assert held.name == "Chat_1"
    assert [session.session_id for session in held.sessions] == ["Chat_1/session_1", "Chat_1/session_2"]
    assert held.messages == (
        Message("Emi", "Hey", datetime(2023, 12, 29, 22, 42, 4, tzinfo=UTC), {"dia_id": "D1:1"}, "D1:1"),
        Message(
            "Elise",
            "a cat on a sofa",
            datetime(2023, 12, 30, 0, 32, 20, tzinfo=UTC),
            {"dia_id": "D1:2", "blip_caption": "a cat on a sofa"},
            "D1:2",
        ),
        Message("Emi", "I run in the morning", datetime(2023, 12, 31, 8, tzinfo=UTC), {"dia_id": "D2:1"}, "D2:1"),
    )
    assert held.questions == (Question("Who runs?", "Emi", "3", ("D2:1",), ("Chat_1/session_2",)),)


def test_longmemeval_gives_each_question_its_own_sessions_in_the_order_of_time(tmp_path: Path) -> None:
    first, second = conversations(written(tmp_path / "oracle.json", LONGMEMEVAL))
    assert [session.session_id for session in first.sessions] == ["q1/filler", "q1/filler#2", "q1/late_answer"]
    assert first.messages[-2:] == (
        Message("user", "I bought a third bike", datetime(2023, 5, 20, 2, 21, tzinfo=UTC), {}, "late_answer:1"),
        Message("assistant", "Nice", datetime(2023, 5, 20, 2, 21, 1, tzinfo=UTC), {}, "late_answer:2"),
    )
    assert [message.content for message in first.messages[:2]] == ["Tell me of Rome", "Tell me of Oslo"]
    assert first.questions == (
        Question(
            "How many bikes do I have?",
            "3",
            "knowledge-update",
            ("late_answer:1",),
            ("q1/late_answer",),
            now=datetime(2023, 5, 30, 23, 40, tzinfo=UTC),
        ),
    )
    assert (second.questions[0].answerable, second.questions[0].now) == (False, None)


def test_longmemeval_may_have_one_question_per_line(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(map(json.dumps, LONGMEMEVAL)), "utf-8")
    assert detect(path) == "longmemeval"
    assert questions(path) == questions(written(tmp_path / "s.json", LONGMEMEVAL))


def test_beam_reads_batches_as_sessions_and_ids_as_refs(tmp_path: Path) -> None:
    (held,) = conversations(beam(tmp_path))
    assert held.name == "1"
    assert [session.session_id for session in held.sessions] == ["1/session_1", "1/session_2"]
    assert held.messages == (
        Message("user", "I met Ola in Bergen", datetime(2024, 3, 15, tzinfo=UTC), {}, "0"),
        Message("assistant", "How nice", datetime(2024, 3, 15, 0, 0, 1, tzinfo=UTC), {}, "1"),
        Message("user", "We sail on Fridays", datetime(2024, 3, 15, 0, 0, 2, tzinfo=UTC), {}, "2"),
        Message("user", "Ola moved to Oslo", None, {}, "4"),
    )
    assert held.questions == (
        Question("What is Ola's job?", "Not said", "abstention", (), answerable=False),
        Question("Where does Ola live?", "Oslo", "knowledge_update", ("0", "4"), ("1/session_1", "1/session_2")),
        Question("When do we sail?", "Fridays", "information_extraction", ("2", "77"), ("1/session_1",)),
    )


def test_beam_takes_the_shortened_chat_and_the_folders_by_number(tmp_path: Path) -> None:
    for name in ("10", "9"):
        beam(tmp_path, name)
    written(tmp_path / "9" / "chat_trunecated.json", BEAM_CHAT[:1])
    held = list(conversations(tmp_path))
    assert [(one.name, len(one.sessions)) for one in held] == [("9", 1), ("10", 2)]


def test_beam_chats_of_plans_and_rows_of_the_published_set_are_the_same_conversation(tmp_path: Path) -> None:
    (plain,) = conversations(beam(tmp_path))
    plans = [{"plan-1": BEAM_CHAT[:1], "plan-2": None}, {"plan-2": BEAM_CHAT[1:]}]
    written(tmp_path / "1" / "chat.json", plans)
    (of_plans,) = conversations(tmp_path / "1" / "chat.json")
    flat = [[message for turn in batch["turns"] for message in turn] for batch in BEAM_CHAT]
    row = {"conversation_id": "1", "chat": flat, "probing_questions": repr(BEAM_QUESTIONS)}
    (of_row,) = conversations(written(tmp_path / "row.json", row))
    assert of_plans == plain
    assert of_row == plain


def test_beliefs_follow_those_that_they_replace_and_live_where_their_scope_says(tmp_path: Path) -> None:
    held = bench.beliefs(precisionmembench(tmp_path))
    assert [(one.ref, one.supersedes) for one in held] == [
        ("old-editor", None),
        ("new-editor", "old-editor"),
        ("short", None),
    ]
    _, new, short = (one.draft for one in held)
    assert (new.scope, new.kind) == (Scope(user_id="test-user", project="domain:code"), "decision")
    assert tuple(new.entities or ()) == ("text editor", "editor", "helix")
    assert (short.scope, tuple(short.tags)) == (Scope(user_id="test-user"), ("pinned", "active"))
    assert short.kind == "bootstrap"


def test_cases_become_questions_whose_evidence_is_what_a_search_may_return(tmp_path: Path) -> None:
    (held,) = conversations(precisionmembench(tmp_path / "bench"))
    code = Scope(user_id="test-user", project="domain:code")
    assert held.questions == (
        Question("Which editor?", "", "Alias resolution", ("new-editor",), scope=code, filter=bench.SEARCHED),
        Question(
            "Which editor?",
            "",
            "Cold start behavior",
            (),
            answerable=False,
            scope=Scope(user_id="brand-new-user", project=ANY),
            filter=bench.SEARCHED,
        ),
        Question("My editor is slow", "", "Session", ("new-editor",), scope=code, filter=bench.SEARCHED),
    )
    assert (held.name, held.sessions, list(turns(tmp_path / "bench"))) == ("bench", (), [])


def test_the_file_of_sessions_may_be_missing(tmp_path: Path) -> None:
    folder = precisionmembench(tmp_path)
    (folder / "session-retrieval.cases.json").unlink()
    (held,) = conversations(folder)
    assert [question.category for question in held.questions] == ["Alias resolution", "Cold start behavior"]


def test_everyday_memories_are_drafts_of_the_user_and_questions_have_their_time(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", EVERYDAY)
    (held,) = conversations(path)
    rosa, now = Scope(user_id="rosa"), datetime(2026, 11, 20, 18, tzinfo=UTC)
    assert (held.name, held.sessions) == ("rosa", ())
    assert [(one.ref, one.supersedes) for one in held.beliefs] == [("m1", None), ("m2", None), ("m3", None)]
    assert held.beliefs[1].draft == Draft(
        content="Rosa keeps two goats", scope=rosa, created_at=datetime(2026, 4, 1, 8, tzinfo=UTC)
    )
    assert held.questions == (
        Question("Where does Rosa live?", "", "present", ("m3",), now=now, scope=rosa, outdated=("m1",)),
        Question("How many goats?", "", "plain", ("m2",), now=now, scope=rosa, language="en"),
        Question("How old is Rosa?", "", "unanswerable", (), now=now, scope=rosa, answerable=False),
    )
    with pytest.raises(InputError, match="everyday JSON"):
        list(turns(path))


def test_each_pair_has_a_scope_with_its_two_memories_and_the_fillers(tmp_path: Path) -> None:
    (held,) = conversations(written(tmp_path / "pairs-twins.json", PAIRS))
    assert (held.name, held.sessions) == ("twins", ())
    of_second = [one for one in held.beliefs if one.draft.scope == Scope(user_id="rosa")]
    assert [(one.ref, one.draft.content, one.draft.speaker, one.draft.created_at) for one in of_second] == [
        ("p2-filler-1", "The heron is back", None, datetime(2026, 2, 1, 1, tzinfo=UTC)),
        ("p2-older", "I live in Ghent", "Rosa", datetime(2026, 2, 10, 9, tzinfo=UTC)),
        ("p2-filler-2", "Soup is at noon", None, datetime(2026, 3, 3, 1, tzinfo=UTC)),
        ("p2-newer", "I moved to Bruges", "Rosa", datetime(2026, 4, 1, 7, tzinfo=UTC)),
    ]
    times = {one.ref: one.draft.created_at for one in held.beliefs}
    assert (times["p3-older"], times["p3-newer"]) == (
        datetime(2026, 3, 1, 2, tzinfo=UTC),
        datetime(2026, 6, 1, 2, tzinfo=UTC),
    )
    now = datetime(2026, 11, 20, 18, tzinfo=UTC)
    assert held.questions == (
        Question("What is wrong with web-07?", "", "sibling", ("p1-older",), now=now, scope=Scope(user_id="p1")),
        Question(
            "Where does Rosa live?",
            "",
            "changed",
            ("p2-newer",),
            now=now,
            scope=Scope(user_id="rosa"),
            outdated=("p2-older",),
        ),
        Question(
            "Which animals do I keep?", "", "coexisting", ("p3-older", "p3-newer"), now=now, scope=Scope(user_id="p3")
        ),
    )


def damaged(value: Any, *keys: Any, to: Any = None) -> Any:
    """Return a copy in which the value that the keys lead to is another; None takes it away."""
    whole = copy.deepcopy(value)
    place = whole
    for key in keys[:-1]:
        place = place[key]
    if to is None:
        del place[keys[-1]]
    else:
        place[keys[-1]] = to
    return whole


@pytest.mark.parametrize(
    ("value", "key", "expected"),
    [
        (damaged(REALTALK, "qa", 0, "question"), "qa[0].question", "Give text."),
        (damaged(REALTALK, "session_1", 1, "speaker"), "session_1[1].speaker", "Give text."),
        (damaged(REALTALK, "session_1", 0, "date_time", to="yesterday"), "session_1[0].date_time", "30.05.2023, 23:40"),
        (damaged(REALTALK, "qa", 0, "evidence", to=[5]), "qa[0].evidence[0]", "Give text."),
        (damaged(EVERYDAY, "user"), "user", "Give text."),
        (damaged(EVERYDAY, "now"), "now", "2026-05-01T09:30:00+00:00"),
        (damaged(EVERYDAY, "memories", 1, "at", to="1 May"), "memories[1].at", "2026-05-01T09:30:00+00:00"),
        (damaged(EVERYDAY, "memories", 1, "at", to="2026-05-01T09:30:00"), "memories[1].at", "+00:00"),
        (damaged(EVERYDAY, "questions", 0, "answers"), "questions[0].answers", "Give a list."),
        (damaged(EVERYDAY, "questions", 0, "outdated", to=[1]), "questions[0].outdated[0]", "Give text."),
        (damaged(PAIRS, "pairs", 0, "older"), "pairs[0].older", "Give text."),
        (damaged(PAIRS, "pairs", 0, "right", to="left"), "pairs[0].right", "Give one of older, newer, both."),
        (damaged(PAIRS, "pairs", 1, "relation"), "pairs[1].relation", "Give text."),
        (damaged(PAIRS, "pairs", 1, "newer_at", to="April"), "pairs[1].newer_at", "2026-05-01T09:30:00+00:00"),
        (damaged(PAIRS, "fillers", 0, to=1), "fillers[0]", "Give text."),
        (damaged(LONGMEMEVAL, 1, "question_type"), "[1].question_type", "Give text."),
        (damaged(LONGMEMEVAL, 0, "haystack_sessions", 0, to={}), "[0].haystack_sessions[0]", "Give a list."),
        (damaged(LONGMEMEVAL, 0, "haystack_dates", 0, to="31/31/2023"), "[0].haystack_dates[0]", "2023/05/30"),
        (damaged(LONGMEMEVAL, 0, "haystack_dates", 0), "[0].haystack_dates", "a list of 3"),
        (damaged(LONGMEMEVAL, 0, "haystack_sessions", 0, 0, "role"), "[0].haystack_sessions[0][0].role", "Give text."),
        (damaged(LONGMEMEVAL, 0, "answer_session_ids"), "[0].answer_session_ids", "Give a list."),
        (damaged(BEAM_CHAT, 1, to=7), "[1]", "Give an object."),
        (damaged(BEAM_CHAT, 0, "turns", 0, 0, "role", to=7), "[0].turns[0][0].role", "Give text."),
        ({"chat": [], "probing_questions": "{"}, "probing_questions", "a Python literal"),
    ],
)
def test_a_bad_file_is_refused_with_its_key_and_what_is_expected(
    tmp_path: Path, value: object, key: str, expected: str
) -> None:
    path = written(tmp_path / "a.json", value)
    with pytest.raises(InputError) as caught:
        list(conversations(path))
    assert caught.value.field == f"{key} in {path}"
    assert expected in caught.value.remedy


@pytest.mark.parametrize(
    ("keys", "to", "key"),
    [
        ((0, "content"), None, "[0].content"),
        ((1, "scope"), "domain:code", "[1].scope"),
        ((0, "created_at"), None, "[0].created_at"),
    ],
)
def test_a_bad_belief_is_refused_with_its_key(tmp_path: Path, keys: Any, to: Any, key: str) -> None:
    folder = precisionmembench(tmp_path)
    path = written(folder / "beliefs.seed.json", damaged(BELIEFS, *keys, to=to))
    with pytest.raises(InputError) as caught:
        list(conversations(folder))
    assert caught.value.field == f"{key} in {path}"


def test_an_error_shows_nothing_of_the_content(tmp_path: Path) -> None:
    secret = damaged(REALTALK, "session_1", 0, "clean_text", to={"secret": "hidden"})
    with pytest.raises(InputError) as caught:
        list(conversations(written(tmp_path / "a.json", secret)))
    assert "hidden" not in str(caught.value)
    assert "an object" in str(caught.value)


@pytest.mark.data
def test_the_real_precisionmembench_is_read_whole() -> None:
    folder = os.environ.get("SALIENCE_TEST_DATA")
    if not folder or not (Path(folder) / "precisionmembench").is_dir():
        pytest.skip("SALIENCE_TEST_DATA names no folder with precisionmembench/")
    path = Path(folder) / "precisionmembench"
    (held,) = conversations(path)
    refs = {belief.ref for belief in held.beliefs}
    assert (len(held.beliefs), len(held.questions)) == (35, 89)
    assert all(set(question.evidence) <= refs | {"b-ci-parallel-decision"} for question in held.questions)
    assert Counter(question.answerable for question in held.questions) == {True: 56, False: 33}
