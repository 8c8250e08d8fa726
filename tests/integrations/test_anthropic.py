"""Claude's memory tool: the cases of the SDK's own tests of its filesystem tools, in our words, and what memories add.

Not taken over, since there is no disk: file modes, symbolic links, and bytes that are no UTF-8.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import anyio
import httpx2
import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.lib.tools import ToolError

import salience
from salience.errors import InputError
from salience.integrations.anthropic import AsyncSalienceMemoryTool, SalienceMemoryTool
from salience.integrations.files import Files


@pytest.fixture
def tool(memory):
    return SalienceMemoryTool(memory, user_id="alice")


@pytest.fixture
def local_tool(local):
    """Return the tool on a file, for cases of texts and messages."""
    return SalienceMemoryTool(local, user_id="alice")


def do(tool, command, path=None, **fields):
    if path is not None:
        fields["path"] = path
    return tool.call({"command": command, **fields})


def create(tool, path, text):
    return do(tool, "create", path, file_text=text)


def text(tool, path):
    return tool._commands.files.read(path).text


# The SDK's cases


def test_create_and_view(tool):
    assert create(tool, "/memories/a.txt", "Line 1\nLine 2") == "File created successfully at: /memories/a.txt"
    assert do(tool, "view", "/memories/a.txt") == (
        "Here's the content of /memories/a.txt with line numbers:\n     1\tLine 1\n     2\tLine 2"
    )


def test_view_range(local_tool):
    create(local_tool, "/memories/a.txt", "\n".join(f"Line {number}" for number in range(1, 6)))
    header = "Here's the content of /memories/a.txt with line numbers:"
    view = lambda *bounds: do(local_tool, "view", "/memories/a.txt", view_range=list(bounds))  # noqa: E731
    assert view(2, 4) == f"{header}\n     2\tLine 2\n     3\tLine 3\n     4\tLine 4"
    assert view(5, -1) == f"{header}\n     5\tLine 5"
    assert view(-3, 1) == f"{header}\n     1\tLine 1"


def test_create_refuses_an_existing_file(tool):
    create(tool, "/memories/a.txt", "Original")
    for new in ("New", "Original"):
        with pytest.raises(ToolError, match=r"^File /memories/a\.txt already exists$"):
            create(tool, "/memories/a.txt", new)
    assert text(tool, "/memories/a.txt") == "Original"


def test_view_lists_two_levels_of_a_directory(tool):
    for path in ("b.txt", "a/1.txt", "a/b/2.txt", "a/b/c/3.txt", ".hidden", "a/.git/x", "a b"):
        create(tool, f"/memories/{path}", "x" * 1536)
    assert do(tool, "view", "/memories").split("\n") == [
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:",
        "10.5K\t/memories",
        "6K\t/memories/a/",
        "1.5K\t/memories/a/1.txt",
        "3K\t/memories/a/b/",
        "1.5K\t/memories/a b",
        "1.5K\t/memories/b.txt",
    ]
    assert do(tool, "view", "/memories/a/b/").split("\n")[1:] == [
        "3K\t/memories/a/b",
        "1.5K\t/memories/a/b/2.txt",
        "1.5K\t/memories/a/b/c/",
        "1.5K\t/memories/a/b/c/3.txt",
    ]


def test_view_of_no_memories(local_tool):
    assert do(local_tool, "view", "/memories").endswith("excluding hidden items:\n0B\t/memories")


@pytest.mark.parametrize(
    ("command", "fields"),
    [
        ("view", {}),
        ("str_replace", {"old_str": "a", "new_str": "b"}),
        ("insert", {"insert_line": 0, "insert_text": "a"}),
    ],
)
def test_a_missing_file_is_an_error(local_tool, command, fields):
    with pytest.raises(ToolError, match=r"^The path /memories/no\.txt does not exist\. Please provide a valid path\.$"):
        do(local_tool, command, "/memories/no.txt", **fields)


def test_str_replace(tool):
    create(tool, "/memories/a.txt", "1\n2\n3\nOld Text\n5\n6\n7")
    assert do(tool, "str_replace", "/memories/a.txt", old_str="Old Text", new_str="New Text") == (
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        "     2\t2\n     3\t3\n     4\tNew Text\n     5\t5\n     6\t6"
    )
    assert text(tool, "/memories/a.txt") == "1\n2\n3\nNew Text\n5\n6\n7"


def test_str_replace_needs_exactly_one_occurrence(local_tool):
    create(local_tool, "/memories/a.txt", "Hello\nMiddle\nHello")
    with pytest.raises(
        ToolError, match=r"No replacement .* old_str `Bye` did not appear verbatim in /memories/a\.txt\."
    ):
        do(local_tool, "str_replace", "/memories/a.txt", old_str="Bye", new_str="")
    with pytest.raises(ToolError, match=r"Multiple occurrences of old_str `Hello` in lines: 1, 3\. Please ensure"):
        do(local_tool, "str_replace", "/memories/a.txt", old_str="Hello", new_str="")


@pytest.mark.parametrize(("line", "expected"), [(0, "New\n1\n2\n"), (1, "1\nNew\n2\n"), (2, "1\n2\nNew\n")])
def test_insert(local_tool, line, expected):
    create(local_tool, "/memories/a.txt", "1\n2")
    result = do(local_tool, "insert", "/memories/a.txt", insert_line=line, insert_text="New\n")
    assert result == "The file /memories/a.txt has been edited."
    assert text(local_tool, "/memories/a.txt") == expected


def test_insert_beyond_the_end(local_tool):
    create(local_tool, "/memories/a.txt", "1\n2\n")
    with pytest.raises(
        ToolError, match=r"Invalid `insert_line` parameter: 3\. It should be within the range \[0, 2\]\."
    ):
        do(local_tool, "insert", "/memories/a.txt", insert_line=3, insert_text="New")


def test_carriage_returns_stay(local_tool):
    create(local_tool, "/memories/a.txt", "1\r\n2\r\n")
    assert do(local_tool, "view", "/memories/a.txt").endswith(":\n     1\t1\r\n     2\t2\r\n     3\t")
    do(local_tool, "str_replace", "/memories/a.txt", old_str="2", new_str="two")
    do(local_tool, "insert", "/memories/a.txt", insert_line=1, insert_text="x")
    assert text(local_tool, "/memories/a.txt") == "1\r\nx\ntwo\r\n"


def test_delete(tool):
    for path in ("a.txt", "sub/b.txt", "sub/deep/c.txt", "subway"):
        create(tool, f"/memories/{path}", "text")
    assert do(tool, "delete", "/memories/a.txt") == "Successfully deleted /memories/a.txt"
    assert do(tool, "delete", "/memories/sub") == "Successfully deleted /memories/sub"
    assert do(tool, "view", "/memories").split("\n")[2:] == ["4B\t/memories/subway"]
    with pytest.raises(ToolError, match=r"^The path /memories/a\.txt does not exist$"):
        do(tool, "delete", "/memories/a.txt")


@pytest.mark.parametrize("path", ["/memories", "/memories/", "/memories/.", "/memories/sub/.."])
def test_the_root_cannot_be_deleted_or_renamed(local_tool, path):
    with pytest.raises(ToolError, match=r"^Cannot delete the /memories directory itself$"):
        do(local_tool, "delete", path)
    with pytest.raises(ToolError, match=r"^Cannot rename the /memories directory itself$"):
        do(local_tool, "rename", old_path=path, new_path="/memories/b")


def test_rename(tool):
    create(tool, "/memories/old.txt", "1")
    create(tool, "/memories/sub/a.txt", "2")
    result = do(tool, "rename", old_path="/memories/old.txt", new_path="/memories/x/y/new.txt")
    assert result == "Successfully renamed /memories/old.txt to /memories/x/y/new.txt"
    do(tool, "rename", old_path="/memories/sub", new_path="/memories/x/sub")
    assert (text(tool, "/memories/x/y/new.txt"), text(tool, "/memories/x/sub/a.txt")) == ("1", "2")
    with pytest.raises(ToolError, match=r"^The path /memories/old\.txt does not exist$"):
        do(tool, "rename", old_path="/memories/old.txt", new_path="/memories/z")
    with pytest.raises(ToolError, match=r"^The destination /memories/x already exists$"):
        do(tool, "rename", old_path="/memories/x/sub/a.txt", new_path="/memories/x")
    with pytest.raises(ToolError, match=r"^Cannot move /memories/x into itself$"):
        do(tool, "rename", old_path="/memories/x", new_path="/memories/x/z")


@pytest.mark.parametrize("path", ["/etc/passwd", "memories/a", "/memoriesx/a", ""])
def test_paths_outside_of_memories(local_tool, path):
    with pytest.raises(ToolError, match=r"Path must start with /memories|path is empty"):
        create(local_tool, path, "text")


@pytest.mark.parametrize("path", ["/memories/../etc/passwd", "/memories/a/../../b", "/memories/.."])
def test_paths_that_escape(local_tool, path):
    for command in ("view", "delete"):
        with pytest.raises(ToolError, match="would escape /memories directory"):
            do(local_tool, command, path)


def test_files_and_directories_are_told_apart(local_tool):
    create(local_tool, "/memories/a/b", "text")
    with pytest.raises(ToolError, match=r"^File /memories/a already exists$"):
        create(local_tool, "/memories/a", "text")
    with pytest.raises(ToolError, match=r"^The path /memories/a is not a file.$"):
        do(local_tool, "insert", "/memories/a", insert_line=0, insert_text="x")
    with pytest.raises(ToolError, match=r"^The path /memories/a/b is a file, not a directory$"):
        create(local_tool, "/memories/a/b/c", "text")


@pytest.mark.slow
def test_a_file_of_too_many_lines(tmp_path):
    with salience.connect(tmp_path / "big.db") as memory:
        tool = SalienceMemoryTool(memory)
        create(tool, "/memories/a.txt", "x\n" * 999_999)
        with pytest.raises(ToolError, match=r"exceeds maximum line limit of 999,999 lines\."):
            do(tool, "view", "/memories/a.txt")


def test_clear_all_memory(tool):
    create(tool, "/memories/a/b.txt", "text")
    assert tool.clear_all_memory() == "All memory cleared"
    assert do(tool, "view", "/memories").endswith("\n0B\t/memories")


# What memories add


def test_files_are_recalled_and_listed(memory, tool):
    create(tool, "/memories/people.md", "# People\nAlice drinks jasmine tea in the morning.\n")
    found = memory.recall("What does Alice drink?", user_id="alice")[0].memory
    assert found.metadata["path"] == "/memories/people.md"
    assert memory.list(tags=["path:/memories/people.md"], user_id="alice").memories[0].id == found.id


def test_edits_are_versions_and_deleted_files_can_be_restored(memory, tool):
    create(tool, "/memories/a.txt", "one")
    do(tool, "str_replace", "/memories/a.txt", old_str="one", new_str="two")
    do(tool, "rename", old_path="/memories/a.txt", new_path="/memories/b.txt")
    do(tool, "delete", "/memories/b.txt")
    head = memory.changes(change="forget", user_id="alice").changes[0].memory
    versions = [(version.memory.change, version.memory.content) for version in memory.history(head.id, user_id="alice")]
    assert versions == [("create", "one"), ("update", "two"), ("update", "two"), ("forget", "two")]
    memory.restore(head.id, user_id="alice")
    assert text(tool, "/memories/b.txt") == "two"


def test_a_path_is_free_again_after_delete_and_rename(tool):
    for content in ("one", "one", "two", "three"):
        create(tool, "/memories/a.txt", content)
        assert text(tool, "/memories/a.txt") == content
        do(tool, "delete", "/memories/a.txt")
    create(tool, "/memories/a.txt", "four")
    do(tool, "rename", old_path="/memories/a.txt", new_path="/memories/b.txt")
    create(tool, "/memories/a.txt", "five")
    assert [text(tool, f"/memories/{name}.txt") for name in "ab"] == ["five", "four"]


@pytest.mark.parametrize("content", ["", "\n", " \n\t"])
def test_blank_files(tool, content):
    create(tool, "/memories/a.txt", content)
    assert text(tool, "/memories/a.txt") == content
    assert do(tool, "view", "/memories").endswith(f"\n{len(content)}B\t/memories/a.txt")
    do(tool, "insert", "/memories/a.txt", insert_line=0, insert_text="x")
    assert text(tool, "/memories/a.txt").startswith("x\n")


def test_long_files_are_parts_that_edits_share(memory):
    files = Files(memory, part_size=64, user_id="alice")
    lines = [f"line {number} of many, with an é and a 🙂\n" for number in range(12)]
    file = files.create("/memories/long.md", "".join(lines))
    assert file.memory.metadata["parts"]
    assert max(len(one.content.encode()) for one in memory.list(user_id="alice").memories) <= 64
    lines[5] = "changed\n"
    changed = files.write(files.read("/memories/long.md"), "".join(lines))
    assert files.read("/memories/long.md").text == "".join(lines)
    assert len({*file.memory.metadata["parts"]} & {*changed.memory.metadata["parts"]}) >= 4
    files.rename(next(files.heads()), "/memories/b.md")
    assert files.read("/memories/b.md").text == "".join(lines)
    files.write(files.read("/memories/b.md"), "short")
    assert [one.content for one in memory.list(user_id="alice").memories] == ["short"]


def test_users_and_projects_do_not_see_each_other(memory, tool):
    memory.remember("shared", kind="file", metadata={"path": "/memories/a.txt"}, tags=["path:/memories/a.txt"])
    create(tool, "/memories/secret.txt", "Alice's")
    for where in ({"user_id": "bob"}, {}, {"user_id": "alice", "project": "x"}, {"agent_id": "alice"}):
        other = SalienceMemoryTool(memory, **where)
        with pytest.raises(ToolError, match="does not exist"):
            do(other, "view", "/memories/secret.txt")
        assert "secret" not in do(other, "view", "/memories")
        create(other, "/memories/secret.txt", "other")
    assert text(tool, "/memories/secret.txt") == "Alice's"
    assert "a.txt" not in do(tool, "view", "/memories")


def test_a_scope_of_all_users_is_refused(memory):
    with pytest.raises(InputError, match="user_id"):
        SalienceMemoryTool(memory, user_id=salience.ANY)


def test_text_that_no_store_can_hold_is_an_error_for_claude(tool):
    for content in ("a\0b", "\ud800"):
        with pytest.raises(ToolError, match=r"NUL|surrogate"):
            create(tool, "/memories/a.txt", content)
    with pytest.raises(ToolError, match="NUL"):
        create(tool, "/memories/a\0b", "text")
    create(tool, f"/memories/{'long' * 100}\t.txt", "text")
    assert text(tool, f"/memories/{'long' * 100}\t.txt") == "text"


def test_concurrent_writers_lose_nothing(tool):
    def work(number):
        try:
            create(tool, "/memories/a.txt", "start")
        except ToolError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(work, range(4))) == 1
        list(
            pool.map(
                lambda number: do(tool, "insert", "/memories/a.txt", insert_line=1, insert_text=f"line {number}"),
                range(8),
            )
        )
    assert sorted(text(tool, "/memories/a.txt").split()) == sorted([*"01234567", "start", *["line"] * 8])


def test_the_async_tool_gives_the_same_results(memory):
    commands = [
        {"command": "create", "path": "/memories/a.txt", "file_text": "one"},
        {"command": "str_replace", "path": "/memories/a.txt", "old_str": "one", "new_str": "two"},
        {"command": "insert", "path": "/memories/a.txt", "insert_line": 0, "insert_text": "zero"},
        {"command": "rename", "old_path": "/memories/a.txt", "new_path": "/memories/b.txt"},
        {"command": "view", "path": "/memories/b.txt"},
        {"command": "delete", "path": "/memories/b.txt"},
    ]
    sync = SalienceMemoryTool(memory, user_id="alice")
    parallel = AsyncSalienceMemoryTool(memory, user_id="bob")
    assert [anyio.run(parallel.call, command) for command in commands] == [sync.call(command) for command in commands]
    assert anyio.run(parallel.clear_all_memory) == "All memory cleared"
    assert parallel.to_dict() == {"type": "memory_20250818", "name": "memory"}


class StubClaude:
    """Answers requests of the API: first with the given tool calls, then with text; keeps the tool results."""

    def __init__(self, *commands):
        self.commands, self.results = list(commands), []

    def __call__(self, request):
        last = json.loads(request.content)["messages"][-1]["content"]
        if isinstance(last, list):
            self.results += [block["content"] for block in last if block["type"] == "tool_result"]
        if self.commands:
            use = {
                "type": "tool_use",
                "id": f"call_{len(self.commands)}",
                "name": "memory",
                "input": self.commands.pop(0),
            }
            content, reason = [use], "tool_use"
        else:
            content, reason = [{"type": "text", "text": "Done."}], "end_turn"
        return httpx2.Response(
            200,
            json={
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "claude-test",
                "content": content,
                "stop_reason": reason,
                "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            },
        )


def converse(memory, user, *commands):
    claude = StubClaude(*commands)
    http = httpx2.Client(transport=httpx2.MockTransport(claude))
    with Anthropic(api_key="x", base_url="http://claude.test", http_client=http) as client:
        client.beta.messages.tool_runner(
            model="claude-test",
            max_tokens=100,
            messages=[{"role": "user", "content": "Hello"}],
            tools=[SalienceMemoryTool(memory, user_id=user)],
        ).until_done()
    return claude.results


def test_claude_reads_in_one_conversation_what_it_wrote_in_another(memory):
    write = {"command": "create", "path": "/memories/tea.md", "file_text": "Alice drinks tea."}
    view = {"command": "view", "path": "/memories/tea.md"}
    assert converse(memory, "alice", write) == ["File created successfully at: /memories/tea.md"]
    assert "     1\tAlice drinks tea." in converse(memory, "alice", view)[0]
    assert "does not exist" in converse(memory, "bob", view)[0]


def test_async_claude(memory):
    async def main():
        claude = StubClaude({"command": "view", "path": "/memories"})
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(claude))
        async with AsyncAnthropic(api_key="x", base_url="http://claude.test", http_client=http) as client:
            await client.beta.messages.tool_runner(
                model="claude-test",
                max_tokens=100,
                messages=[{"role": "user", "content": "Hello"}],
                tools=[AsyncSalienceMemoryTool(memory, user_id="alice")],
            ).until_done()
        return claude.results

    assert anyio.run(main)[0].endswith("0B\t/memories")
