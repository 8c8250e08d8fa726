"""LlamaIndex's memory with our block and chat store: what leaves the prompt is remembered and recalled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
pytest.importorskip("llama_index.core")
from llama_index.core.chat_engine import SimpleChatEngine  # noqa: E402
from llama_index.core.llms import ChatMessage, ImageBlock, MockLLM, TextBlock  # noqa: E402
from llama_index.core.memory import BaseMemoryBlock, Memory  # noqa: E402
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus  # noqa: E402

from salience.context import UNSURE  # noqa: E402
from salience.integrations.llama_index import SalienceChatStore, SalienceMemoryBlock  # noqa: E402

TEA = "I only drink green tea, never coffee."
ACTIVE, ARCHIVED = MessageStatus.ACTIVE, MessageStatus.ARCHIVED


def user(text: str, **options: Any) -> ChatMessage:
    return ChatMessage(role="user", content=text, additional_kwargs=options)


def put(block: SalienceMemoryBlock, *texts: str, session_id: str | None = "s1") -> None:
    asyncio.run(block.aput([user(text) for text in texts], session_id=session_id))


def got(block: SalienceMemoryBlock, text: str, **options: Any) -> str:
    return asyncio.run(
        block.aget([user("Hello."), user(text), ChatMessage(role="assistant", content="Hm.")], **options)
    )


def texts(messages: list[ChatMessage]) -> list[str | None]:
    return [message.content for message in messages]


def test_block_and_store_have_every_method_of_their_interfaces(local):
    assert isinstance(SalienceMemoryBlock(local), BaseMemoryBlock)
    store = SalienceChatStore(local)
    assert isinstance(store, AsyncDBChatStore)
    assert AsyncDBChatStore.get_messages.__isabstractmethod__
    abstract = {name for name, one in vars(AsyncDBChatStore).items() if getattr(one, "__isabstractmethod__", False)}
    assert abstract <= set(vars(SalienceChatStore))


def test_what_was_put_is_got_when_it_answers(memory):
    block = SalienceMemoryBlock(memory, user_id="alice")
    put(block, TEA, "The parcel left Oslo on Tuesday.")
    assert TEA in got(block, "Does she drink tea or coffee?")
    (turn, _) = memory.list(user_id="alice").memories
    assert (turn.kind, turn.speaker, turn.scope.session_id) == ("turn", "user", "s1")


def test_users_do_not_see_each_other(memory):
    put(SalienceMemoryBlock(memory, user_id="alice"), TEA)
    assert got(SalienceMemoryBlock(memory, user_id="bob"), "Tea or coffee?") == ""
    assert got(SalienceMemoryBlock(memory), "Tea or coffee?") == ""
    stores = [SalienceChatStore(memory, user_id=name) for name in ("alice", "bob", None)]
    asyncio.run(stores[0].add_message("s1", user(TEA)))
    asyncio.run(stores[2].add_message("s1", user("Shared with every user.")))
    assert [texts(asyncio.run(store.get_messages("s1"))) for store in stores] == [
        [TEA], [], ["Shared with every user."],
    ]  # fmt: skip
    assert [asyncio.run(store.get_keys()) for store in stores] == [["s1"], [], ["s1"]]


def test_a_put_again_stores_nothing_twice(local):
    block = SalienceMemoryBlock(local, user_id="alice")
    put(block, TEA)
    put(block, TEA, " ")
    put(block, TEA, session_id=None)
    sessions = [turn.scope.session_id for turn in local.list(user_id="alice").memories]
    assert sessions == ["s1", "llama-index:no-session"]


def test_an_answer_without_a_clear_match_says_so(local):
    block = SalienceMemoryBlock(local)
    assert got(block, "Anything?") == asyncio.run(block.aget(None)) == asyncio.run(block.aget([user(" ")])) == ""
    put(block, "The parcel left Oslo on Tuesday.")
    assert got(block, "Which colour is the roof?").startswith(UNSURE)


def test_truncation_drops_the_last_memories(local):
    block = SalienceMemoryBlock(local)
    put(block, TEA, "Green tea costs four euros here.")
    whole = got(block, "How much is green tea?")
    header, first, _, footer = whole.split("\n")
    assert asyncio.run(block.atruncate(whole, 1)) == "\n".join((header, first, footer))
    assert asyncio.run(block.atruncate(whole, 10_000)) is None
    assert asyncio.run(block.atruncate("", 1)) is None


def test_the_store_keeps_messages_in_order_and_by_status(memory):
    store = SalienceChatStore(memory, user_id="alice")

    async def main() -> None:
        await store.add_messages("s1", [user("one"), user("one"), user("two")])
        await store.add_message("s1", user("three"), ARCHIVED)
        await store.add_message("s2", user("other"))
        await store.add_messages("s1", [])
        assert texts(await store.get_messages("s1")) == ["one", "one", "two"]
        assert texts(await store.get_messages("s1", None)) == ["one", "one", "two", "three"]
        assert texts(await store.get_messages("s1", None, limit=2, offset=1)) == ["one", "two"]
        assert [await store.count_messages("s1", status) for status in (ACTIVE, ARCHIVED, None)] == [3, 1, 4]
        assert await store.get_keys() == ["s1", "s2"]
        assert texts(await store.archive_oldest_messages("s1", 2)) == ["one", "one"]
        assert texts(await store.get_messages("s1")) == ["two"]
        assert texts(await store.get_messages("s1", ARCHIVED)) == ["one", "one", "three"]
        assert texts(await store.delete_oldest_messages("s1", 5)) == ["two"]
        assert await store.delete_message("s1", 3) is None
        assert await store.delete_message("s1", -1) is None
        assert (await store.delete_message("s1", 2)).content == "three"  # type: ignore[union-attr]
        await store.delete_messages("s1", ACTIVE)
        assert texts(await store.get_messages("s1", None)) == ["one", "one"]
        await store.delete_messages("s1")
        assert await store.get_keys() == ["s2"]

    asyncio.run(main())
    changes = [version.memory.change for version in memory.changes(user_id="alice").changes]
    assert changes.count("forget") == 4  # nothing is erased


def test_set_keeps_the_messages_that_stay(local):
    store = SalienceChatStore(local)

    async def main() -> None:
        await store.set_messages("s1", [user("one"), user("two")])
        first = local.list().memories[0].id
        await store.set_messages("s1", [user("one"), user("three")])
        assert texts(await store.get_messages("s1")) == ["one", "three"]
        assert local.list().memories[0].id == first
        await store.set_messages("s1", [user("one")], ARCHIVED)
        assert await store.get_messages("s1") == []
        assert texts(await store.get_messages("s1", ARCHIVED)) == ["one"]
        await store.set_messages("s1", [])
        assert await store.get_messages("s1", None) == []

    asyncio.run(main())


def test_messages_come_back_as_they_were(local):
    messages = [
        user("One text, with its white space. \n", nested={"list": [1, None, "ü"]}),
        user(" \n"),
        ChatMessage(role="assistant", blocks=[]),
        user("a\0b"),
        ChatMessage(role="user", blocks=[TextBlock(text="Look:"), ImageBlock(image=b"\x89PNG" * 20_000)]),
        ChatMessage(role="tool", content="green " * 15_000, additional_kwargs={"tool_call_id": "c1"}),
    ]
    store = SalienceChatStore(local)
    asyncio.run(store.add_messages("s1", messages))
    loaded = asyncio.run(store.get_messages("s1"))
    assert [message.model_dump() for message in loaded] == [message.model_dump() for message in messages]


def chat(memory: Memory, text: str) -> str:
    return str(SimpleChatEngine.from_defaults(llm=MockLLM(), memory=memory).chat(text))  # the model repeats its prompt


def test_a_chat_remembers_what_left_its_history(memory):
    engine = create_async_engine("sqlite+aiosqlite://")

    def start(session_id: str, name: str) -> Memory:
        block = SalienceMemoryBlock(memory, user_id=name)
        return Memory.from_defaults(
            session_id=session_id,
            token_limit=60,
            token_flush_size=10,
            tokenizer_fn=str.split,
            memory_blocks=[block],
            async_engine=engine,
        )

    first = start("s1", "alice")
    for text in (TEA, "What a day it was at the office. " * 5, "And it rains again. " * 5):
        chat(first, text)
    assert TEA in chat(start("s2", "alice"), "Tea or coffee?")
    assert TEA not in chat(start("s3", "bob"), "Tea or coffee?")
    asyncio.run(engine.dispose())


def test_a_chat_in_our_store_is_remembered_at_once(memory):
    def start(session_id: str) -> Memory:
        block = SalienceMemoryBlock(memory, user_id="alice", accept_short_term_memory=False)
        store = SalienceChatStore(memory, user_id="alice")
        return Memory.from_defaults(
            session_id=session_id, tokenizer_fn=str.split, memory_blocks=[block], chat_store=store
        )

    answer = chat(start("s1"), TEA)
    assert answer.count(TEA) == 1  # the prompt has it as a message and so not as a memory
    assert chat(start("s2"), "Tea or coffee?").count(TEA) > 0
    assert start("s1").get_all()[0].content == TEA


def test_messages_that_leave_the_prompt_are_archived_and_recalled_in_the_same_session(local):
    store = SalienceChatStore(local)
    block = SalienceMemoryBlock(local, accept_short_term_memory=False)
    history = Memory.from_defaults(
        session_id="s1", token_limit=60, token_flush_size=10, tokenizer_fn=str.split, chat_store=store,
        memory_blocks=[block],
    )  # fmt: skip
    history.put_messages([user(TEA), user("What a day it was at the office. " * 5), user("And it rains again. " * 5)])
    assert TEA in texts(asyncio.run(store.get_messages("s1", ARCHIVED)))
    history.put(user("Tea or coffee?"))
    prompt = "".join(str(message.content) for message in history.get())
    assert prompt.count(TEA) == 1
    assert prompt.count("Tea or coffee?") == 1
