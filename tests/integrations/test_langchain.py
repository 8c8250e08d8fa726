"""The adapters for LangChain, and LangChain's standard tests of retrievers and vector stores."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import salience
from salience import InputError, MissingExtraError

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from salience.integrations import langchain
from salience.integrations.langchain import (
    LangChainEmbedder,
    SalienceChatMessageHistory,
    SalienceMiddleware,
    SalienceRetriever,
    SalienceVectorStore,
)
from waiting import PATIENCE

SUITE = Path(__file__).with_name("suites") / "langchain_standard.py"


class Model(FakeListChatModel):
    """A chat model that keeps the prompts."""

    responses: list[str] = Field(default_factory=lambda: ["Noted."])
    prompts: list[str] = Field(default_factory=list)

    def _call(self, messages, *args, **kwargs):
        self.prompts.append("\n".join(message.text for message in messages if isinstance(message, SystemMessage)))
        return super()._call(messages, *args, **kwargs)


def agent_of(memory, model, **options):
    by_context = {"user_id": lambda runtime: runtime.context["user_id"], **options}
    return create_agent(
        model,
        system_prompt="Be brief.",
        middleware=[SalienceMiddleware(memory, **by_context)],
        context_schema=dict,
        checkpointer=InMemorySaver(),
    )


def say(agent, user, thread, text):
    config = {"configurable": {"thread_id": thread}}
    return agent.invoke({"messages": [("user", text)]}, config, context={"user_id": user})


def test_an_agent_recalls_what_its_user_said_in_another_thread(memory):
    model = Model()
    agent = agent_of(memory, model)
    say(agent, "alice", "one", "I only drink green tea")
    say(agent, "alice", "two", "Which tea should I drink?")
    say(agent, "bob", "three", "Which tea should I drink?")
    first, second, third = model.prompts
    assert first == "Be brief."
    assert second.startswith("Be brief.")
    assert "I only drink green tea" in second
    assert "green" not in third
    turns = memory.list(user_id="alice", kinds=["turn"]).memories
    assert [(turn.scope.session_id, turn.speaker, turn.content) for turn in turns] == [
        ("one", "user", "I only drink green tea"),
        ("one", "assistant", "Noted."),
        ("two", "user", "Which tea should I drink?"),
        ("two", "assistant", "Noted."),
    ]
    history = SalienceChatMessageHistory(memory, "one", user_id="alice")
    assert [message.text for message in history.messages] == ["I only drink green tea", "Noted."]


def test_agents_recall_and_remember_in_coroutines(memory):
    model = Model()
    agent = agent_of(memory, model, user_id="alice")

    async def run():
        for thread in "ab":
            config = {"configurable": {"thread_id": thread}}
            await agent.ainvoke({"messages": [("user", "I drink green tea")]}, config, context={})

    asyncio.run(run())
    assert "I drink green tea" in model.prompts[1]
    assert len(memory.list(user_id="alice").memories) == 4


def test_an_agent_that_does_not_know_its_user_stores_nothing(memory):
    agent = agent_of(memory, Model(), user_id=lambda runtime: (runtime.context or {}).get("user_id"))
    with pytest.raises(InputError, match="user_id"):
        agent.invoke({"messages": [("user", "tea")]}, {"configurable": {"thread_id": "a"}}, context={})
    assert memory.stats(user_id=salience.ANY).memories == 0


def test_an_agent_can_only_recall_and_a_long_message_ends_no_run(memory):
    say(agent_of(memory, Model(), remember=False), "alice", "one", "tea")
    assert not memory.list(user_id="alice").memories
    say(agent_of(memory, Model()), "alice", "one", "tea and milk " * 8000)
    assert len(memory.list(user_id="alice").memories) == 3


def test_a_retriever_finds_memories_with_their_scores(memory):
    for user in ("alice", "bob"):
        stored = memory.remember(f"{user} drinks tea", user_id=user, tags=["drink"], metadata={"page": [1]}).memory
    retriever = SalienceRetriever(memory=memory, k=1, options={"user_id": "alice"})
    [document] = retriever.invoke("Who drinks tea?")
    assert document.page_content == "alice drinks tea"
    assert document.metadata["page"] == [1]
    assert 0 < document.metadata["score"] <= 1
    assert document.metadata["tags"] == ["drink"]
    [document] = asyncio.run(retriever.ainvoke("Who drinks tea?", user_id="bob"))
    assert (document.id, document.page_content) == (stored.id, "bob drinks tea")


def test_documents_are_versions_by_their_id_and_a_rerun_stores_nothing_twice(memory):
    store = SalienceVectorStore(memory, project="handbook")
    for text in ("Holidays are in May", "Holidays are in May", "Holidays are in June"):
        assert store.add_texts([text], [{"page": 1}], ids=["holidays"]) == ["holidays"]
    ids = [store.add_texts(["Laptops last four years"]) for _ in range(2)]
    assert ids[0] == ids[1]
    first, second = memory.list(project="handbook").memories
    assert [len(memory.history(one.id)) for one in (first, second)] == [2, 1]
    assert store.get_by_ids(["holidays"]) == [
        Document(id="holidays", page_content="Holidays are in June", metadata={"page": 1})
    ]
    assert memory.recall("When are the holidays?", project="handbook")[0].memory.content == "Holidays are in June"
    assert store.delete() is True
    assert store.get_by_ids(["holidays"]) == store.similarity_search("holidays") == []


def test_collections_and_users_do_not_mix(memory):
    stores = [
        SalienceVectorStore(memory, collection="a"),
        SalienceVectorStore(memory, collection="A"),
        SalienceVectorStore(memory, collection="a", user_id="alice"),
        SalienceVectorStore(memory, collection="a", user_id="bob"),
    ]
    for number, store in enumerate(stores):
        store.add_texts([f"tea {number}"], ids=["same"])
    for number, store in enumerate(stores):
        assert [found.page_content for found in store.similarity_search("tea")] == [f"tea {number}"]
        assert [found.page_content for found in store.get_by_ids(["same"])] == [f"tea {number}"]


def test_searches_filter_by_metadata_and_score_by_the_cosine_or_a_profile(memory):
    texts, years = ["Alice drinks tea", "The door code is 4711", "Bob drinks coffee"], [2024, 2025, 2026]
    store = SalienceVectorStore.from_texts(texts, None, [{"year": year} for year in years], memory=memory)
    found = store.similarity_search_with_score("Alice drinks tea", k=2, filter={"year": {"$gte": 2025}})
    assert [document.metadata["year"] for document, _ in found] == [2026, 2025]
    [(document, score)] = store.similarity_search_with_relevance_scores("Alice drinks tea", k=1)
    assert (document.page_content, score) == ("Alice drinks tea", pytest.approx(1.0, abs=1e-3))
    ranked = SalienceVectorStore(memory, profile="salience").as_retriever(search_kwargs={"k": 1})
    assert ranked.invoke("What is the code of the door?")[0].page_content == "The door code is 4711"


def test_the_embedder_of_langchain_embeds_a_new_memory(tmp_path):
    embeddings = DeterministicFakeEmbedding(size=8)
    store = SalienceVectorStore.from_texts(["tea", "coffee"], embeddings, memory=tmp_path / "a.db")
    with store._memory as memory:
        assert memory.stats().embedder == "langchain:DeterministicFakeEmbedding"
        assert store.similarity_search_with_score("tea", k=1)[0][1] == pytest.approx(1.0, abs=1e-5)
        with pytest.raises(InputError, match="embedding is given beside a connection"):
            SalienceVectorStore.from_texts(["tea"], embeddings, memory=memory)


class Failing(DeterministicFakeEmbedding):
    def embed_documents(self, texts):
        raise ValueError(f"cannot embed {texts}")


def test_a_failing_embedder_leaves_memories_pending_and_quotes_no_text(tmp_path):
    with salience.connect(tmp_path / "a.db", embedder=LangChainEmbedder(Failing(size=8), dimension=8)) as memory:
        receipt = memory.remember("secret tea")
        assert "secret" not in receipt.warning
        assert memory.stats().pending == 1


MESSAGES = [
    SystemMessage("Be brief."),
    HumanMessage(
        [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "http://a/b"}}]
    ),
    AIMessage("", tool_calls=[{"name": "look", "args": {"at": [1, None]}, "id": "1"}]),
    ToolMessage("tea", tool_call_id="1"),
    AIMessage("Tea.", id="last", response_metadata={"tokens": 3}),
]


def test_a_history_returns_messages_as_they_were_and_clears_them(memory):
    history = SalienceChatMessageHistory(memory, "s/1", user_id="alice")
    history.add_messages(MESSAGES)
    history.add_messages([MESSAGES[-1]])  # a retry
    assert history.messages == MESSAGES
    assert SalienceChatMessageHistory(memory, "s/1", user_id="bob").messages == []
    assert SalienceChatMessageHistory(memory, "s/2", user_id="alice").messages == []
    SalienceChatMessageHistory(memory, "s/1").add_user_message("of no user")
    assert history.messages == MESSAGES
    assert memory.recall("tea", user_id="alice", sessions=["s/1"])
    history.clear()
    assert history.messages == []
    history.add_messages([MESSAGES[-1], HumanMessage("more")])
    assert [message.text for message in asyncio.run(history.aget_messages())] == ["Tea.", "more"]


def test_a_long_message_of_a_history_is_whole_again(memory):
    history = SalienceChatMessageHistory(memory, "s")
    long = "\n\n".join(f"paragraph {number}  of tea " for number in range(6000))
    history.add_messages([HumanMessage(long, id="1"), AIMessage("ok")])
    assert [message.content for message in history.messages] == [long, "ok"]


def test_without_langchain_the_import_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "langchain.agents.middleware", None)
    monkeypatch.delitem(sys.modules, langchain.__name__)
    with pytest.raises(MissingExtraError, match=r'pip install .*\[langchain\]"'):
        importlib.import_module(langchain.__name__)


@pytest.mark.slow
def test_the_standard_tests_of_langchain_pass(tmp_path):
    pytest.importorskip("langchain_tests")
    pytest.importorskip("pytest_asyncio")
    settings = ["[pytest]", "asyncio_mode = auto", "asyncio_default_fixture_loop_scope = function"]
    (tmp_path / "pytest.ini").write_text("\n".join(settings))
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-c", str(tmp_path / "pytest.ini"), "--rootdir", str(SUITE.parent)),
        *("-p", "no:cacheprovider", "-p", "no:langsmith_plugin", str(SUITE)),
    ]
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=PATIENCE, check=False)
    counts = re.findall(r"(\d+) (passed|failed|skipped|xfailed|error)", done.stdout.splitlines()[-1])
    assert counts == [("30", "passed")], done.stdout[-3000:]
