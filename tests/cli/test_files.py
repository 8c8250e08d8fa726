"""Files in and out: conversations, drafts, exports, standard input."""

from __future__ import annotations

import json
import shutil

import pytest

LOCOMO = {
    "sample_id": "conv-1",
    "conversation": {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ann", "dia_id": "D1:1", "text": "I moved to Porto."},
            {"speaker": "Ben", "dia_id": "D1:2", "text": "When was that?"},
        ],
        "session_2_date_time": "2:00 pm on 9 May, 2023",
        "session_2": [{"speaker": "Ann", "dia_id": "D2:1", "text": "Last spring."}],
    },
    "qa": [],
}
CHAT = [{"role": "user", "content": "I am Carla"}, {"role": "assistant", "content": "Hello Carla"}]
DRAFTS = ({"content": "Tea", "user_id": "bob"}, {"content": "Coffee"})


def memories(run_json):
    return run_json("list", "--user", "*", "--project", "*", "--limit", "1000")["memories"]


def test_locomo_keeps_its_sessions_speakers_and_times(run, run_json, written):
    printed = run("ingest", written("conv.json", json.dumps(LOCOMO)), "--project", "lab", "--session", "mine").stdout
    assert printed.startswith("ingested 3 memories in 2 sessions: ")
    assert "memories/s" in printed
    kept = memories(run_json)
    assert [item["scope"]["session_id"] for item in kept] == ["conv-1/session_1"] * 2 + ["conv-1/session_2"]
    assert all(item["scope"]["project"] == "lab" and "user_id" not in item["scope"] for item in kept)
    assert [(item["speaker"], item["turn"]) for item in kept] == [("Ann", 1), ("Ben", 2), ("Ann", 1)]
    assert kept[0]["created_at"] == "2023-05-08T13:56:00+00:00"


@pytest.mark.parametrize("as_lines", [False, True])
def test_a_chat_goes_into_the_session_that_is_named(run_json, run, written, as_lines):
    path = written("chat.json", *(CHAT if as_lines else [CHAT]))
    assert run_json("ingest", path, "--session", "s1")["sessions"] == 1
    assert run_json("ingest", path)["written"] == 2
    assert [item["scope"]["session_id"] for item in memories(run_json)] == ["s1", "s1", "chat", "chat"]


def test_a_file_ingested_again_or_grown_stores_no_turn_twice(run_json, written):
    path = written("long.jsonl", *CHAT)
    assert run_json("ingest", path)["written"] == 2
    again = run_json("ingest", path)
    assert (again["written"], again["unchanged"]) == (0, 2)
    grown = run_json("ingest", written("long.jsonl", *CHAT, CHAT[1]))
    assert (grown["written"], grown["unchanged"]) == (1, 2)
    assert run_json("ingest", path, "--user", "ann")["written"] == 3
    assert [item["content"] for item in run_json("list")["memories"]] == [turn["content"] for turn in (*CHAT, CHAT[1])]


def test_import_takes_drafts_with_their_scope(run, run_json, written):
    assert run("import", written("d.jsonl", *DRAFTS), "--user", "zoe").stdout.startswith("imported 2 memories: ")
    assert [(item["content"], item["scope"]["user_id"]) for item in memories(run_json)] == [
        ("Tea", "bob"),
        ("Coffee", "zoe"),
    ]


def test_several_files_are_one_report(run_json, written):
    report = run_json("import", written("a.jsonl", DRAFTS[0]), written("b.jsonl", DRAFTS[1]))
    assert report["written"] == 2
    assert [one["file"].rsplit("/", 1)[1] for one in report["files"]] == ["a.jsonl", "b.jsonl"]


def test_broken_lines_are_skipped_and_reported_on_request(run, run_json, written):
    path = written("d.jsonl", "{broken", DRAFTS[0], {"content": "x", "colour": 1}, DRAFTS[1], {"content": " "})
    printed = run("import", path, "--on-error", "skip").stdout.splitlines()
    assert [line.split(": ")[1] for line in printed[:-1]] == ["line 1", "line 3", "line 5"]
    assert printed[-1].startswith("imported 2 memories, 3 skipped: ")
    report = run_json("import", path, "--on-error", "skip")
    assert [number for number, _ in report["files"][0]["skipped"]] == [1, 3, 5]


def test_a_broken_message_stops_before_anything_is_stored(run, run_json, written):
    broken = written("chat.jsonl", *CHAT, {"role": "user", "content": 7})
    good = written("good.jsonl", *CHAT)
    assert "line 3" in run("ingest", good, broken, code=2).stderr
    assert memories(run_json) == []


def test_a_message_too_long_is_split_and_reported(run, run_json, written):
    path = written("chat.json", [*CHAT, {"role": "user", "content": "one paragraph\n\n" * 5_000}])
    printed = run("ingest", path).stdout
    assert printed.startswith("ingested 4 memories in 1 session, 1 message over the content limit split into parts: ")
    assert [item["metadata"].get("part") for item in memories(run_json)] == [None, None, 1, 2]
    again = run_json("ingest", path)
    assert (again["written"], again["unchanged"], again["split"]) == (0, 4, 1)


def test_drafts_are_not_a_conversation(run, written):
    assert "Import it" in run("ingest", written("d.jsonl", *DRAFTS), code=2).stderr


def test_an_export_comes_back_whole(run, run_json, stored, tmp_path):
    run("update", stored.alice, "--user", "alice", "--importance", "0.1")
    path = str(tmp_path / "all.jsonl")
    assert run("export", path).stdout.startswith("exported 2 memories: ")
    before = memories(run_json)
    other = ("--store", str(tmp_path / "other.db"))
    assert run(*other, "import", path).stdout.startswith("imported 2 memories: ")
    assert run_json(*other, "list", "--user", "*")["memories"] == before
    assert run(*other, "import", path).stdout.startswith("imported 0 memories, 2 already there: ")


def test_an_export_to_standard_output_is_the_export_alone(run, stored, tmp_path):
    lines = run("export").stdout.splitlines()
    assert json.loads(lines[0])["format"] == "salience"
    assert len(lines) == 3
    assert run("export", "-").stdout.splitlines() == lines
    piped = run("--store", str(tmp_path / "other.db"), "import", "-", input="\n".join(lines))
    assert piped.stdout.startswith("imported 2 memories: ")


@pytest.fixture
def chats(tmp_path):
    """A folder of three conversations, one of them a folder further down, beside files of others."""
    folder = tmp_path / "chats"
    for name in ("a.json", "b.json", "below/c.json", "notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps([{"role": "user", "content": f"I am of {name}"}]), "utf-8")
    (tmp_path / "others.json").write_text(json.dumps(CHAT), "utf-8")
    return folder


@pytest.mark.parametrize("command", ["ingest", "import"])
def test_a_folder_is_read_only_by_a_pattern(run, run_json, chats, command):
    refused = run(command, str(chats), code=2)
    assert "--glob '*.json'" in refused.stderr
    done = run(command, str(chats), "--glob", "*.json")
    assert done.stderr.splitlines() == ["2 files to read:", str(chats / "a.json"), str(chats / "b.json")]
    assert done.stdout.splitlines()[-1].startswith(f"{command}ed 2 memories")
    assert run_json(command, str(chats), "--glob", "**/*.json")["written"] == 1
    assert {item["content"] for item in memories(run_json)} == {
        f"I am of {name}" for name in ("a.json", "b.json", "below/c.json")
    }


def test_a_pattern_reads_nothing_outside_its_folder(run, run_json, chats, tmp_path):
    (chats / "link.json").symlink_to(tmp_path / "others.json")
    (chats / "up").symlink_to(tmp_path, target_is_directory=True)
    for pattern in ("link.json", "up/*.json", "../*.json", "up/chats/../*.json"):
        assert "matches no file in" in run("ingest", str(chats), "--glob", pattern, code=2).stderr
    assert "relative" in run("ingest", str(chats), "--glob", str(tmp_path / "*.json"), code=2).stderr
    (chats / "own.json").symlink_to(chats / "a.json")
    assert run_json("ingest", str(chats), "--glob", "own.json")["written"] == 1


MEM0 = {"results": [{"id": str(n), "memory": f"fact {n}", "user_id": "ann", "created_at": 1.7e12} for n in range(3)]}


def test_the_export_of_another_system_comes_in_once(run, run_json, written, tmp_path):
    path = written("mem0.json", json.dumps(MEM0))
    assert run("import", "--from", "mem0", path, "--dry-run").stdout.startswith("would have imported 3 memories: ")
    report = run_json("import", "--from", "mem0", path)
    assert (report["written"], report["kinds"]) == (3, {"fact": 3})
    assert run("import", "--from", "mem0", path).stdout.startswith("imported 0 memories, 3 already there: ")
    assert {item["created_at"] for item in memories(run_json)} == {"2023-11-14T22:13:20+00:00"}
    folder = tmp_path / "notes"
    assert run_json("export", "--to", "markdown", str(folder))["written"] == 3
    assert len(list(folder.iterdir())) == 3
    assert run_json("import", "--from", "markdown", str(folder), "--project", "copy")["written"] == 3
    assert json.loads(run("export", "--to", "mem0", "-").stdout)["results"][0]["user_id"] == "ann"


def test_broken_records_are_listed_and_the_sources_named(run, written, tmp_path):
    path = written("mem0.json", json.dumps({"results": [*MEM0["results"], {"id": "x"}]}))
    stopped = run("import", "--from", "mem0", path, "--on-error", "stop", code=2).stderr
    assert "record 4: memory is missing or has no text" in stopped
    printed = run("import", "--from", "mem0", path).stdout
    assert "record 4: memory is missing" in printed
    assert "imported 3 memories, 1 skipped: " in printed
    assert "Choose one of: chatgpt, " in run("import", "--from", "mem", path, code=2).stderr


def test_a_zip_file_and_a_folder_are_read_as_they_come(run, written, tmp_path):
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "page1.json").write_text(json.dumps(MEM0))
    (folder / "page2.json").write_text(json.dumps([{"id": "x", "memory": "of another page"}, {"id": "y"}]))
    packed = shutil.make_archive(str(tmp_path / "packed"), "zip", folder)
    printed = run("import", "--from", "mem0", packed).stdout
    assert f"{packed}: record 2 of page2.json: memory is missing or has no text." in printed
    assert "imported 4 memories, 1 skipped: " in printed
    assert "imported 0 memories, 4 already there, 1 skipped: " in run("import", "--from", "mem0", str(folder)).stdout
    assert "is no ChatGPT export" in run("import", "--from", "chatgpt", str(folder / "page1.json"), code=2).stderr
