"""The standard tests of `langchain-tests` over our retriever and vector store; run by test_langchain.py."""

from __future__ import annotations

import pytest
from langchain_tests.integration_tests import RetrieversIntegrationTests, VectorStoreIntegrationTests

import salience
from salience.integrations.langchain import LangChainEmbedder, SalienceRetriever, SalienceVectorStore


class TestVectorStore(VectorStoreIntegrationTests):
    """Each test has a tenant of its own."""

    @pytest.fixture(scope="class")
    @classmethod
    def connected(cls, tmp_path_factory):
        embedder = LangChainEmbedder(cls.get_embeddings())
        with salience.connect(tmp_path_factory.mktemp("documents") / "agent.db", embedder=embedder) as memory:
            yield memory

    @pytest.fixture
    def vectorstore(self, connected, request):
        return SalienceVectorStore(connected.of(request.node.name))


class TestRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def memory(cls, tmp_path_factory):
        with salience.connect(tmp_path_factory.mktemp("memory") / "agent.db") as memory:
            memory.remember_many([{"content": f"Alice drinks {drink}"} for drink in ("tea", "coffee", "cocoa", "milk")])
            cls.connected = memory
            yield

    @property
    def retriever_constructor(self):
        return SalienceRetriever

    @property
    def retriever_constructor_params(self):
        return {"memory": self.connected, "k": 3}

    @property
    def retriever_query_example(self):
        return "What does Alice drink?"
