"""Conversations of ChatGPT, Claude and Claude Code become the turns that their users saw."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any

from other_systems import read

from salience.lines import as_draft
from salience.transfer.importers.records import Item, Problem, Record

if TYPE_CHECKING:
    from pathlib import Path

MAY = datetime(2026, 5, 1, 9, 30, tzinfo=UTC)
ROOT = "00000000-0000-4000-8000-000000000000"


def as_file(value: object) -> BytesIO:
    return BytesIO(json.dumps(value).encode())


def lines(*values: object) -> BytesIO:
    return BytesIO("\n".join(value if isinstance(value, str) else json.dumps(value) for value in values).encode())


def contents(items: list[Item]) -> list[str]:
    return [item.draft["content"] for item in items if isinstance(item, Record)]


def node(id: str, parent: str | None, role: str, *parts: object, **more: Any) -> dict[str, Any]:
    message = {"id": id, "author": {"role": role}, "content": {"content_type": "text", "parts": list(parts)}, **more}
    return {"id": id, "parent": parent, "message": message, "children": []}


def chat(*nodes: dict[str, Any], current: str | None = None, **more: Any) -> dict[str, Any]:
    root = {"id": "root", "parent": None, "message": None, "children": []}
    mapping = {"root": root, **{one["id"]: one for one in nodes}}
    head = {"title": "A trip", "conversation_id": "c1", "create_time": MAY.timestamp()}
    return {**head, "mapping": mapping, "current_node": current or nodes[-1]["id"], **more}


def test_chatgpt_reads_the_branch_that_ends_in_the_current_node() -> None:
    question = node("q", "root", "user", "Where to?", create_time=MAY.timestamp())
    given_up = node("old", "q", "assistant", "To Rome.")
    shown = node("new", "q", "assistant", "To Oslo.", create_time=MAY.timestamp() + 60)
    turns = list(read("chatgpt", as_file([chat(question, given_up, shown)])))
    assert contents(turns) == ["Where to?", "To Oslo."]
    assert [as_draft(turn.draft).speaker for turn in turns] == ["user", "assistant"]
    first = as_draft(turns[0].draft)
    assert (first.kind, first.key, first.created_at) == ("turn", "chatgpt:q", MAY)
    assert (first.scope.session_id, first.metadata["title"]) == ("c1", "A trip")
    assert first.metadata["original"]["author"]["role"] == "user"


def test_chatgpt_leaves_out_hidden_messages_and_tools() -> None:
    hidden = node("h", "root", "user", "About me", metadata={"is_visually_hidden_from_conversation": True})
    system = node("s", "h", "system", "You are helpful.")
    code = node("c", "s", "assistant", "print(1)", recipient="python")
    tool = node("t", "c", "tool", "1")
    thought = node("th", "t", "assistant")
    thought["message"]["content"] = {"content_type": "thoughts", "thoughts": [{"summary": "Hm"}]}
    image = node("i", "th", "user", {"content_type": "image_asset_pointer", "asset_pointer": "file-1"})
    both = node("b", "i", "user", {"content_type": "image_asset_pointer"}, "My cat", recipient="all")
    assert contents(list(read("chatgpt", as_file([chat(hidden, system, code, tool, thought, image, both)])))) == [
        "My cat"
    ]


def test_a_message_of_chatgpt_without_time_has_that_of_the_one_before() -> None:
    first = node("a", "root", "user", "One", create_time=None)
    second = node("b", "a", "assistant", "Two", create_time=MAY.timestamp() + 5)
    third = node("c", "b", "user", "Three", create_time=None)
    turns = list(read("chatgpt", as_file([chat(first, second, third)])))
    assert [turn.draft["created_at"].timestamp() - MAY.timestamp() for turn in turns] == [0, 5, 5]


def test_chatgpt_saved_memories_are_no_turns() -> None:
    saved = node("m", "root", "assistant", "User is allergic to nuts.", recipient="bio")
    (memory,) = read("chatgpt", as_file([chat(saved)]))
    draft = as_draft(memory.draft)
    assert (draft.content, draft.kind, draft.speaker) == ("User is allergic to nuts.", "fact", None)


def test_chatgpt_without_a_current_node_yields_every_message() -> None:
    nodes = [node("a", "root", "user", "One"), node("b", "a", "assistant", "Two")]
    assert contents(list(read("chatgpt", as_file([chat(*nodes, current="gone")])))) == ["One", "Two"]


def test_chatgpt_branch_with_a_cycle_ends() -> None:
    nodes = [node("a", "b", "user", "One"), node("b", "a", "assistant", "Two")]
    assert contents(list(read("chatgpt", as_file([chat(*nodes)])))) == ["One", "Two"]


def test_broken_messages_of_chatgpt_are_listed_by_conversation_and_message() -> None:
    broken = node("bad", "root", "user", "One")
    broken["message"]["content"]["parts"] = "One"
    fine = node("b", "bad", "assistant", "Two")
    first, *found = read("chatgpt", as_file(["no conversation", chat(broken, fine), {"mapping": 3}]))
    assert isinstance(first, Problem)
    assert [item.number for item in (first, *found)] == [1, 2, 2, 3]
    assert "message bad: parts" in found[0].reason
    assert contents(found) == ["Two"]


def said(uuid: str, sender: str, text: str, **more: Any) -> dict[str, Any]:
    times = {"created_at": "2026-05-01T09:30:00.000000Z"}
    return {"uuid": uuid, "sender": sender, "text": text, **times, **more}


def claude_chat(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"uuid": "c1", "name": "A trip", "created_at": MAY.isoformat(), "chat_messages": list(messages), **more}


def test_claude_senders_become_user_and_assistant() -> None:
    messages = (said("a", "human", "One"), said("b", "assistant", "Two"), said("c", "user", "Three"))
    turns = list(read("claude", as_file([claude_chat(*messages)])))
    assert [as_draft(turn.draft).speaker for turn in turns] == ["user", "assistant", "user"]
    first = as_draft(turns[0].draft)
    assert (first.content, first.kind, first.key, first.created_at) == ("One", "turn", "claude:a", MAY)
    assert (first.scope.session_id, first.metadata["title"]) == ("c1", "A trip")
    assert first.metadata["original"]["sender"] == "human"


def test_claude_text_blocks_are_preferred_and_tools_left_out() -> None:
    blocks = [
        {"type": "thinking", "thinking": "Hm"},
        {"type": "text", "text": "Two"},
        {"type": "tool_use", "name": "search", "input": {}},
        {"type": "text", "text": "lines"},
    ]
    flat = "Two\nThis block is not supported\nlines"
    only_tools = said("b", "assistant", "", content=[{"type": "tool_use", "name": "x", "input": {}}])
    turns = list(read("claude", as_file([claude_chat(said("a", "assistant", flat, content=blocks), only_tools)])))
    assert contents(turns) == ["Two\nlines"]


def test_claude_attachments_bring_their_text() -> None:
    attachment = {"file_name": "notes.txt", "file_size": 9, "extracted_content": "Buy milk."}
    pasted = {"file_name": "", "extracted_content": "A long paste"}
    messages = (said("a", "human", "See this", attachments=[attachment]), said("b", "human", "", attachments=[pasted]))
    found = contents(list(read("claude", as_file([claude_chat(*messages)]))))
    assert found == ["See this\n\nAttachment notes.txt:\nBuy milk.", "Attachment:\nA long paste"]


def test_claude_reads_the_current_branch() -> None:
    messages = [
        said("a", "human", "Where to?", parent_message_uuid=ROOT),
        said("old", "assistant", "To Rome.", parent_message_uuid="a"),
        said("new", "assistant", "To Oslo.", parent_message_uuid="a", created_at="2026-05-01T09:40:00Z"),
    ]
    assert contents(list(read("claude", as_file([claude_chat(*messages)])))) == ["Where to?", "To Oslo."]
    chosen = claude_chat(*messages, current_leaf_message_uuid="old")
    assert contents(list(read("claude", as_file([chosen])))) == ["Where to?", "To Rome."]


def test_claude_messages_with_an_unknown_parent_are_all_read() -> None:
    messages = [
        said("a", "human", "One", parent_message_uuid="gone"),
        said("b", "human", "Two", parent_message_uuid="lost"),
    ]
    assert contents(list(read("claude", as_file([claude_chat(*messages)])))) == ["One", "Two"]


def test_broken_messages_of_claude_are_listed_by_conversation_and_place() -> None:
    odd = claude_chat(said("a", "robot", "One"), 7, said("c", "human", "Three"))
    found = list(read("claude", as_file([odd, {"uuid": "u"}, claude_chat()])))
    assert [(item.number, isinstance(item, Problem)) for item in found] == [(1, True), (1, True), (1, False), (2, True)]
    assert "message 1: sender" in found[0].reason


def test_claude_memories_and_projects_become_memories() -> None:
    saved = {
        "account_uuid": "x",
        "conversations_memory": "**Work**\n\nAlice builds bridges.",
        "project_memories": {"p1": "Uses hexagonal architecture."},
        "memory_files": [{"path": "/profile.md", "content": "Likes tea.", "updated_at": "2026-05-01T09:30:00Z"}],
    }
    docs = [{"uuid": "d", "filename": "plan.md", "content": "Ship in June.", "created_at": "2026-05-01T09:30:00Z"}]
    project = {"uuid": "p1", "name": "Bridges", "prompt_template": "Answer briefly.", "docs": docs}
    drafts = [as_draft(item.draft) for item in read("claude", as_file([saved, project])) if isinstance(item, Record)]
    assert [(draft.kind, draft.content) for draft in drafts] == [
        ("fact", "/profile.md\n\nLikes tea."),
        ("fact", "**Work**\n\nAlice builds bridges."),
        ("fact", "p1\n\nUses hexagonal architecture."),
        ("rule", "Bridges\n\nAnswer briefly."),
        ("fact", "plan.md\n\nShip in June."),
    ]
    assert [draft.created_at for draft in drafts] == [MAY, None, None, None, MAY]
    assert drafts[-1].tags == ("Bridges",)


def logged(uuid: str, type: str, content: object, **more: Any) -> dict[str, Any]:
    where = {"sessionId": "s1", "cwd": "/home/ann/shop", "timestamp": "2026-05-01T09:30:00.000Z"}
    return {"uuid": uuid, "type": type, "message": {"role": type, "content": content}, **where, **more}


def test_claude_code_messages_become_turns_of_their_session() -> None:
    blocks = [{"type": "text", "text": "Done."}, {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}]
    turns = list(read("claude-code", lines(logged("a", "user", "Fix the bug"), "", logged("b", "assistant", blocks))))
    first, second = (as_draft(turn.draft) for turn in turns)
    assert (first.content, first.speaker, first.key) == ("Fix the bug", "user", "claude-code:a")
    assert (first.scope.session_id, first.created_at, first.tags) == ("s1", MAY, ("shop",))
    assert (second.content, turns[1].number) == ("Done.", 3)
    assert second.metadata["original"]["message"]["content"] == (blocks[0], {"type": "tool_use"})


def test_claude_code_leaves_out_what_nobody_said() -> None:
    result = [{"type": "tool_result", "tool_use_id": "t", "content": "secret"}]
    unsaid = [
        logged("a", "user", result),
        logged("b", "user", "Caveat", isMeta=True),
        logged("c", "assistant", "An agent's work", isSidechain=True),
        logged("d", "user", "Summary of all", isCompactSummary=True),
        logged("e", "user", "<command-name>/clear</command-name>"),
        logged("f", "user", "<local-command-stdout>ok</local-command-stdout>"),
        logged("g", "assistant", [{"type": "thinking", "thinking": "Hm"}]),
        {"type": "system", "content": "Compacted", "uuid": "h"},
        {"type": "file-history-snapshot", "snapshot": {}},
        logged("i", "user", "<system-reminder>Use tools.</system-reminder>"),
    ]
    kept = logged("j", "user", "Hello<system-reminder>Use tools.</system-reminder>")
    assert contents(list(read("claude-code", lines(*unsaid, kept)))) == ["Hello"]


def test_the_title_of_a_claude_code_session_has_the_time_of_its_last_message() -> None:
    title = {"type": "summary", "summary": "Fixing the cart", "leafUuid": "a"}
    later = logged("b", "user", "More", timestamp="2026-05-02T09:30:00Z")
    *_, found = read("claude-code", lines(title, logged("a", "user", "Fix it"), later))
    draft = as_draft(found.draft)
    assert (found.number, draft.content, draft.kind, draft.created_at) == (1, "Fixing the cart", "context", MAY)


def test_a_folder_of_claude_code_is_read_whole_without_links_out(tmp_path: Path) -> None:
    projects, elsewhere = tmp_path / "projects", tmp_path / "elsewhere"
    for folder in (projects / "shop", projects / "blog", elsewhere):
        folder.mkdir(parents=True)
    (projects / "shop" / "one.jsonl").write_bytes(lines(logged("a", "user", "One"), "{broken").getvalue())
    (projects / "blog" / "two.jsonl").write_bytes(lines(logged("b", "user", "Two")).getvalue())
    (elsewhere / "three.jsonl").write_bytes(lines(logged("c", "user", "Three")).getvalue())
    (projects / "linked").symlink_to(elsewhere)
    (projects / "shop" / "linked.jsonl").symlink_to(elsewhere / "three.jsonl")
    found = list(read("claude-code", projects))
    assert contents(found) == ["Two", "One"]
    (problem,) = (item for item in found if isinstance(item, Problem))
    assert (problem.number, problem.file, problem.stops) == (2, "shop/one.jsonl", False)
