"""OpenAI Agents: the session on each store, and what memories add; the SDK's own tests run in test_suites.py."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
from agents import Agent, RunConfig, Runner, Session, SessionSettings, set_tracing_disabled
from agents.testing import ScriptedModel
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import salience
from salience.errors import InputError
from salience.integrations.openai_agents import SalienceSession, _messages, memory_instructions, memory_tools

set_tracing_disabled(True)


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


CALL = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": '{"city": "Bern"}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}


def message(text):
    part = ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])
    return ResponseOutputMessage(id="1", type="message", role="assistant", content=[part], status="completed")


def call(name, arguments):
    return ResponseFunctionToolCall(id="1", call_id="c1", type="function_call", name=name, arguments=arguments)


def enqueue(model, *outputs):
    for output in outputs:
        model.enqueue(output)


def items(session, limit=None):
    return anyio.run(session.get_items, limit)


def add(session, *new):
    anyio.run(session.add_items, list(new))


def say(agent, text, **options):
    """Run the agent in an event loop of its own, as an application does."""

    async def main():
        return await Runner.run(agent, text, **options)

    return anyio.run(main).final_output


@pytest.fixture
def session(memory):
    return SalienceSession(memory, "s1", user_id="alice")


@pytest.fixture
def local_session(local):
    return SalienceSession(local, "s1", user_id="alice")


# The SDK's cases


def test_it_is_a_session(local_session):
    assert isinstance(local_session, Session)
    assert (local_session.session_id, local_session.session_settings) == ("s1", SessionSettings())


def test_items_come_back_in_order_and_exactly(session):
    given = [
        user("Hello"),
        assistant("Hello"),  # equal texts are separate items
        user("Hello"),
        user(
            [{"type": "input_text", "text": "Look"}, {"type": "input_image", "image_url": "data:x", "detail": "auto"}]
        ),
        {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "abc"},
        CALL,
        OUTPUT,
        assistant([{"type": "output_text", "text": "Sunny.", "annotations": [], "logprobs": []}]),
        user("こんにちは 😊👍 Привет"),
        user("O'Reilly; DROP TABLE agent_sessions; -- \" \\ \n\t\r"),
        user("\0 and \ud800"),
        user(""),
        user("   "),
        {"b": 1.0, "a": [None, True, {}], "type": "unknown"},
    ]
    add(session, *given)
    got = items(session)
    assert got == given
    assert [list(item) for item in got] == [list(item) for item in given]


def test_limit_returns_the_latest_items(session):
    given = [user(f"Message {number}") for number in range(6)]
    add(session, *given[:4])
    add(session, *given[4:])
    for limit in (2, 4, 6, 10):
        assert items(session, limit) == given[-limit:]
    assert items(session, 0) == items(session, -1) == []


def test_session_settings_limit(local):
    session = SalienceSession(local, "s1", session_settings=SessionSettings(limit=2))
    add(session, *[user(str(number)) for number in range(4)])
    assert items(session) == [user("2"), user("3")]
    assert items(session, 3) == [user("1"), user("2"), user("3")]
    assert items(SalienceSession(local, "s1", session_settings={"limit": 1})) == [user("3")]
    with pytest.raises(TypeError, match="limitt"):
        SalienceSession(local, "s1", session_settings={"limitt": 1})


def test_pop_item(session):
    add(session, user("one"), CALL, user("two"))
    assert [anyio.run(session.pop_item) for _ in range(4)] == [user("two"), CALL, user("one"), None]
    assert items(session) == []
    add(session, user("two"))
    assert items(session) == [user("two")]


def test_clear_session_leaves_other_sessions(memory, session):
    other = SalienceSession(memory, "s2", user_id="alice")
    add(session, user("one"), user("two"))
    add(other, user("three"))
    anyio.run(session.clear_session)
    assert (items(session), items(other)) == ([], [user("three")])
    anyio.run(other.pop_item)
    assert items(other) == []


def test_adding_nothing(local_session):
    add(local_session)
    assert items(local_session) == []


def test_an_item_that_is_no_json_stores_nothing(local_session):
    with pytest.raises(TypeError, match="JSON"):
        add(local_session, user("fine"), {"role": "user", "content": object()})
    assert items(local_session) == []


def test_concurrent_adds_and_pops(session):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: add(session, user(f"{number} a"), user(f"{number} b")), range(6)))
        texts = [item["content"] for item in items(session)]
        popped = list(pool.map(lambda _: anyio.run(session.pop_item), range(12)))
    assert [(text, f"{text[0]} b") for text in texts[::2]] == list(zip(texts[::2], texts[1::2], strict=True))
    assert sorted(item["content"] for item in popped) == sorted(texts)


def test_turns_of_concurrent_calls_may_alternate(memory, session):
    places = [(call, number) for number in range(2) for call in "ab"]
    turns = [turn for call, number in places for turn in _messages(user(f"{call} {number}"), f"{call}:{number}")]
    memory.ingest(turns, session_id="s1", user_id="alice")
    assert [item["content"] for item in items(session)] == ["a 0", "a 1", "b 0", "b 1"]


def test_runs_continue_the_conversation(local_session):
    model = ScriptedModel()
    agent = Agent(name="test", model=model)
    for city, question in (("San Francisco", "Where is the Golden Gate Bridge?"), ("California", "In which state?")):
        model.enqueue([message(city)])
        assert say(agent, question, session=local_session) == city
    sent = model.calls[-1].input
    assert (sent[0], sent[-1], len(sent)) == (
        user("Where is the Golden Gate Bridge?"),
        user("In which state?"),
        3,
    )


def test_a_limit_of_the_run_keeps_pairs_of_calls_and_outputs(local_session):
    last = {"type": "message", **assistant([{"type": "output_text", "text": "It is sunny.", "annotations": []}])}
    add(local_session, user("What is the weather?"), CALL, OUTPUT, last)
    model = ScriptedModel()
    model.enqueue([message("Sunny too.")])
    run_config = RunConfig(session_settings=SessionSettings(limit=2))
    say(Agent(name="test", model=model), "And tomorrow?", session=local_session, run_config=run_config)
    assert model.calls[-1].input == [last, user("And tomorrow?")]


def test_streamed_and_synchronous_runs(local_session):
    model = ScriptedModel()
    agent = Agent(name="test", model=model)

    async def streamed():
        result = Runner.run_streamed(agent, "One?", session=local_session)
        async for _ in result.stream_events():
            pass
        return result.final_output

    model.enqueue([message("One.")])
    assert anyio.run(streamed) == "One."
    model.enqueue([message("Two.")])
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(run_sync, agent, "Two?", local_session).result().final_output == "Two."
    assert len(model.calls[-1].input) == 3


def run_sync(agent, text, session):
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return Runner.run_sync(agent, text, session=session)
    finally:
        loop.close()


# What memories add


def test_large_items_are_several_memories(memory, session):
    given = [
        user("é🙂 text\n" * 12_000),
        {**OUTPUT, "output": "data:image/png;base64," + "QUJD" * 30_000},
        user("last"),
    ]
    add(session, *given)
    assert items(session) == given
    assert len(memory.list(sessions=["s1"], user_id="alice").memories) > 6
    assert anyio.run(session.pop_item) == given.pop()
    assert anyio.run(session.pop_item) == given.pop()
    assert items(session) == given


def test_items_are_turns_that_are_recalled(memory, session):
    add(session, user("My sister Zoe lives in Lausanne."), CALL, OUTPUT)
    hit = memory.recall("Where does Zoe live?", user_id="alice")[0].memory
    assert (hit.content, hit.speaker, hit.scope.session_id) == ("My sister Zoe lives in Lausanne.", "user", "s1")
    texts = [(one.content, one.speaker) for one in memory.list(user_id="alice").memories]
    assert texts[1:] == [('get_weather({"city": "Bern"})', "assistant"), ("sunny", "tool")]


def test_turns_of_others_are_no_items(memory, session):
    memory.ingest([{**user("no item"), "metadata": {"item": "x"}}], session_id="s1", user_id="alice")
    memory.ingest([user("shared")], session_id="s1")
    for where in ({"user_id": "bob"}, {}, {"user_id": "alice", "agent_id": "x"}):
        other = SalienceSession(memory, "s1", **where)
        add(other, user("other"))
        anyio.run(other.clear_session)
        add(other, user("other"))
    add(session, user("mine"))
    assert items(session) == [user("mine")]
    assert anyio.run(session.pop_item) == user("mine")
    assert anyio.run(session.pop_item) is None


def test_popped_items_are_forgotten_and_can_be_restored(memory, session):
    add(session, user("one"))
    anyio.run(session.pop_item)
    memory.restore(memory.changes(user_id="alice").changes[0].memory.id, user_id="alice")
    assert items(session) == [user("one")]


def test_invalid_sessions(local):
    for session_id in ("", "a\nb", 7):
        with pytest.raises(InputError, match="session_id"):
            SalienceSession(local, session_id)
    with pytest.raises(InputError, match="user_id"):
        SalienceSession(local, "s1", user_id=salience.ANY)


def test_the_tools_write_in_one_run_and_read_in_the_next(memory):
    model = ScriptedModel()
    tools = memory_tools(memory, user_id=lambda ctx: ctx.context)
    agent = Agent(name="test", model=model, tools=tools)
    enqueue(model, [call("remember", '{"content": "Alice drinks jasmine tea"}')], [message("Noted.")])
    assert say(agent, "I drink jasmine tea.", context="alice") == "Noted."
    assert model.calls[-1].input[-1]["output"].startswith("created: ")
    seen = {}
    for person in ("alice", "bob"):
        enqueue(model, [call("recall", '{"query": "What does Alice drink?"}')], [message("Done.")])
        say(agent, "What do I drink?", context=person)
        seen[person] = model.calls[-1].input[-1]["output"]
    assert "Alice drinks jasmine tea" in seen["alice"]
    assert seen["bob"] == "There are no memories."


def test_the_model_sees_the_arguments_but_not_the_context(local):
    remember, recall = memory_tools(local)
    assert list(remember.params_json_schema["properties"]) == ["content"]
    assert list(recall.params_json_schema["properties"]) == ["query"]


def test_an_invalid_call_is_a_result_that_the_model_reads(local):
    model = ScriptedModel()
    agent = Agent(name="test", model=model, tools=memory_tools(local))
    enqueue(model, [call("remember", '{"content": " "}')], [message("Sorry.")])
    say(agent, "Remember nothing.")
    assert "content is empty" in model.calls[-1].input[-1]["output"]


def test_instructions_hold_the_memories_for_the_latest_message(local):
    local.remember("Alice drinks jasmine tea", user_id="alice")
    model = ScriptedModel()
    instructions = memory_instructions(local, "Be brief.", user_id="alice", limit=1)
    model.enqueue([message("Jasmine tea.")])
    say(Agent(name="test", model=model, instructions=instructions), "What do I drink?")
    assert model.calls[-1].system_instructions.startswith("Be brief.\n\n<memories")
    assert "Alice drinks jasmine tea" in model.calls[-1].system_instructions
    model.enqueue([message("?")])
    other = memory_instructions(local, "Be brief.", user_id="bob")
    say(Agent(name="test", model=model, instructions=other), "What do I drink?")
    assert model.calls[-1].system_instructions == "Be brief."


def test_a_second_session_knows_what_was_said_in_the_first(memory):
    model = ScriptedModel()
    agent = Agent(name="test", model=model, instructions=memory_instructions(memory, user_id="alice"))
    enqueue(model, [message("Noted.")], [message("In Lausanne.")])
    say(agent, "My sister Zoe lives in Lausanne.", session=SalienceSession(memory, "s1", user_id="alice"))
    say(agent, "Where does Zoe live?", session=SalienceSession(memory, "s2", user_id="alice"))
    assert "My sister Zoe lives in Lausanne." in model.calls[-1].system_instructions
    assert len(model.calls[-1].input) == 1
