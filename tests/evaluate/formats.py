"""Small files in the formats of the data sets, made for these tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LOCOMO: dict[str, Any] = {
    "sample_id": "kites",
    "conversation": {
        "speaker_a": "Ana",
        "speaker_b": "Bo",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ana", "dia_id": "D1:1", "text": "I built a red kite with my nephew."},
            {"speaker": "Bo", "dia_id": "D1:2", "text": "We keep two goats behind the house."},
            {"speaker": "Ana", "dia_id": "D1:3", "text": "My nephew is called Tomas."},
        ],
        "session_2_date_time": "9:00 am on 1 June, 2023",
        "session_2": [
            {"speaker": "Bo", "dia_id": "D2:1", "text": "The brown goat is called Hazel."},
            {"speaker": "Ana", "dia_id": "D2:2", "text": "The kite broke in a storm."},
        ],
    },
    "qa": [
        {"question": "What colour was Ana's kite?", "answer": "red", "category": 4, "evidence": ["D1:1"]},
        {"question": "What happened to the kite?", "answer": "broke", "category": 1, "evidence": ["D1:1; D2:2"]},
        {"question": "When did Bo speak of goats?", "answer": "8 May", "category": 2, "evidence": ["D1:02", "D9:9"]},
        {"question": "Which bird does Bo keep?", "answer": "none", "category": 3, "evidence": ["D9:9"]},
        {"question": "Why did Bo sell the kite?", "adversarial_answer": "x", "category": 5, "evidence": ["D2:2"]},
    ],
}
OTHER_LOCOMO: dict[str, Any] = {
    "sample_id": "boats",
    "conversation": {
        "speaker_a": "Ida",
        "speaker_b": "Max",
        "session_1_date_time": "10:00 am on 2 May, 2023",
        "session_1": [
            {"speaker": "Ida", "dia_id": "D1:1", "text": "The ferry to Gotland was late."},
            {"speaker": "Max", "dia_id": "D1:2", "text": "I paint boats on Sundays."},
        ],
    },
    "qa": [
        {"question": "Where did Ida's ferry go?", "answer": "Gotland", "category": 4, "evidence": ["D1:1"]},
        {"question": "What does Max paint?", "answer": "boats", "category": 4, "evidence": ["D1:2"]},
    ],
}
REALTALK: dict[str, Any] = {
    "name": {"speaker_1": "Emi", "speaker_2": "Elise"},
    "session_1": [
        {"clean_text": "Hey", "speaker": "Emi", "date_time": "29.12.2023, 22:42:04", "dia_id": "D1:1"},
        {
            "clean_text": "",
            "speaker": "Elise",
            "date_time": "30.12.2023, 00:32:20",
            "dia_id": "D1:2",
            "blip_caption": "a cat on a sofa",
        },
    ],
    "session_1_date_time": "29.12.2023, 22:42:04",
    "events_session_1": {"Emi": []},
    "session_2": [{"text": "I run in the morning", "speaker": "Emi", "dia_id": "D2:1"}],
    "session_2_date_time": "31.12.2023, 08:00:00",
    "qa": [{"question": "Who runs?", "answer": "Emi", "evidence": ["D2:1"], "category": 3}],
}
LONGMEMEVAL: list[dict[str, Any]] = [
    {
        "question_id": "q1",
        "question_type": "knowledge-update",
        "question": "How many bikes do I have?",
        "answer": 3,
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["late_answer", "filler", "filler"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/04/01 (Sat) 10:00", "2023/04/02 (Sun) 10:00"],
        "haystack_sessions": [
            [
                {"role": "user", "content": "I bought a third bike", "has_answer": True},
                {"role": "assistant", "content": "Nice", "has_answer": False},
            ],
            [{"role": "user", "content": "Tell me of Rome"}, {"role": "assistant", "content": ""}],
            [{"role": "user", "content": "Tell me of Oslo"}],
        ],
        "answer_session_ids": ["late_answer"],
    },
    {
        "question_id": "q2_abs",
        "question_type": "multi-session",
        "question": "What is my cat called?",
        "answer": "You did not say.",
        "haystack_session_ids": ["s"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [[{"role": "user", "content": "I like tea"}]],
        "answer_session_ids": ["s"],
    },
]
BEAM_CHAT: list[dict[str, Any]] = [
    {
        "batch_number": 1,
        "turns": [
            [
                {"role": "user", "id": 0, "time_anchor": "March-15-2024", "content": "I met Ola in Bergen ->-> 1,2"},
                {"role": "assistant", "id": 1, "content": "How nice"},
            ],
            [{"role": "user", "id": 2, "content": "We sail on Fridays"}, {"role": "assistant", "id": 3, "content": ""}],
        ],
    },
    {"batch_number": 2, "turns": [[{"role": "user", "id": 4, "time_anchor": "soon", "content": "Ola moved to Oslo"}]]},
]
BEAM_QUESTIONS: dict[str, Any] = {
    "abstention": [{"question": "What is Ola's job?", "ideal_response": "Not said", "rubric": []}],
    "knowledge_update": [
        {
            "question": "Where does Ola live?",
            "answer": "Oslo",
            "source_chat_ids": {"original_info": [0], "updated_info": [4, 4]},
        }
    ],
    "information_extraction": [{"question": "When do we sail?", "answer": "Fridays", "source_chat_ids": [2, 77]}],
}
BELIEFS: list[dict[str, Any]] = [
    {
        "_id": "new-editor",
        "user_id": "test-user",
        "type": "decision",
        "canonical_name": "text_editor",
        "aliases": ["editor", "helix"],
        "content": "Writes code in Helix.",
        "scope": ["domain:code"],
        "epistemic_status": "active",
        "pinned": False,
        "superseded_by": None,
        "created_at": "2026-10-02T00:00:00Z",
    },
    {
        "_id": "old-editor",
        "user_id": "test-user",
        "type": "decision",
        "canonical_name": "text_editor",
        "aliases": ["editor"],
        "content": "Writes code in Nano.",
        "scope": ["domain:code"],
        "epistemic_status": "superseded",
        "pinned": False,
        "superseded_by": "new-editor",
        "created_at": "2026-09-01T00:00:00Z",
    },
    {
        "_id": "short",
        "user_id": "test-user",
        "type": "preference",
        "canonical_name": "response_length",
        "aliases": [],
        "content": "Prefers short answers.",
        "scope": ["user:universal"],
        "epistemic_status": "active",
        "pinned": True,
        "superseded_by": None,
        "created_at": "2026-09-01T00:00:00Z",
    },
]
CASES: list[dict[str, Any]] = [
    {
        "caseId": "editor",
        "category": "Alias resolution",
        "scope": ["domain:code"],
        "query": "Which editor?",
        "budget": {"maxBeliefs": 4},
        "expect": {"relevantBeliefs": {"shouldOnlyInclude": ["new-editor"]}},
    },
    {
        "caseId": "nobody",
        "category": "Cold start behavior",
        "userId": "brand-new-user",
        "scope": ["domain:code", "domain:writing"],
        "query": "Which editor?",
        "expect": {"relevantBeliefs": {"shouldOnlyInclude": []}},
    },
]
SESSION_CASES: list[dict[str, Any]] = [
    {
        "caseId": "drift",
        "turns": [
            {
                "turnIndex": 0,
                "scope": ["domain:code"],
                "userMessage": "My editor is slow",
                "expect": {"relevantBeliefs": {"shouldOnlyInclude": ["new-editor"]}},
                "createBeliefAtTurn": {**BELIEFS[0], "_id": "tests", "content": "Runs tests on save."},
                "updateBeliefAtTurn": {"beliefId": "new-editor", "addAliases": ["hx"]},
            }
        ],
    }
]
EVERYDAY: dict[str, Any] = {
    "name": "rosa",
    "about": "Rosa moved.",
    "user": "rosa",
    "now": "2026-11-20T18:00:00+00:00",
    "memories": [
        {"id": "m1", "at": "2026-03-01T09:00:00+00:00", "content": "Rosa lives in Ghent"},
        {"id": "m2", "at": "2026-04-01T10:00:00+02:00", "content": "Rosa keeps two goats"},
        {"id": "m3", "at": "2026-05-01T09:00:00+00:00", "content": "Rosa moved to Bruges"},
    ],
    "questions": [
        {"id": "q1", "kind": "present", "query": "Where does Rosa live?", "answers": ["m3"], "outdated": ["m1"]},
        {"id": "q2", "kind": "plain", "query": "How many goats?", "answers": ["m2"], "language": "en"},
        {"id": "q3", "kind": "unanswerable", "query": "How old is Rosa?", "answers": []},
    ],
}
PAIRS: dict[str, Any] = {
    "name": "twins",
    "about": "Two facts each.",
    "fillers": ["The heron is back", "Soup is at noon"],
    "pairs": [
        {
            "id": "p1", "kind": "sibling", "older": "web-07 has a broken fan", "newer": "web-10 has a new fan",
            "query": "What is wrong with web-07?", "right": "older", "relation": "none",
        },
        {
            "id": "p2", "kind": "changed", "older": "I live in Ghent", "newer": "I moved to Bruges",
            "query": "Where does Rosa live?", "right": "newer", "relation": "replaces", "user": "rosa",
            "older_at": "2026-02-10T09:00:00+00:00", "newer_at": "2026-04-01T09:00:00+02:00",
            "older_speaker": "Rosa", "newer_speaker": "Rosa",
        },
        {
            "id": "p3", "kind": "coexisting", "older": "I keep goats", "newer": "I keep bees",
            "query": "Which animals do I keep?", "right": "both", "relation": "adds",
        },
    ],
}  # fmt: skip


def written(path: Path, value: object) -> Path:
    """Write a JSON document, with the folders above it, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def locomo(folder: Path) -> Path:
    return written(folder / "kites.json", LOCOMO)


def both_locomo(folder: Path) -> Path:
    return written(folder / "both.json", [LOCOMO, OTHER_LOCOMO])


def beam(folder: Path, name: str = "1") -> Path:
    written(folder / name / "chat.json", BEAM_CHAT)
    written(folder / name / "probing_questions" / "probing_questions.json", BEAM_QUESTIONS)
    return folder / name


def precisionmembench(folder: Path) -> Path:
    written(folder / "beliefs.seed.json", BELIEFS)
    written(folder / "retrieval.cases.json", CASES)
    written(folder / "session-retrieval.cases.json", SESSION_CASES)
    return folder
