"""LangChain 1.x: a retriever, a vector store, the history of a chat, and a middleware that gives agents a memory.

```python
agent = create_agent(model, middleware=[SalienceMiddleware(salience.connect("agent.db"), user_id="alice")])
```
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, NotRequired, Unpack
from urllib.parse import quote

import numpy as np

from salience.batch import Vectors32
from salience.compose import connect
from salience.errors import InputError, MissingExtraError, NotFoundError
from salience.integrations import PAGE, QUERY, Memory, belongs, in_thread, scan
from salience.keywords import ScopeKeywords
from salience.loading import mapped
from salience.rank.profile import LIMIT
from salience.rank.profiles import ProfileLike
from salience.records import Hit, checks
from salience.records import Memory as Stored
from salience.text import content_hash

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
    from langchain.agents.middleware.types import PrivateStateAttr
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.messages import (
        AIMessage,
        AnyMessage,
        BaseMessage,
        HumanMessage,
        SystemMessage,
        message_to_dict,
        messages_from_dict,
    )
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.vectorstores import VectorStore
    from langgraph.runtime import Runtime
    from pydantic import Field

    from salience.integrations.langgraph import COSINE, KEYS, accepts, plain
except ImportError as error:
    raise MissingExtraError("salience.integrations.langchain", "langchain") from error

FIELD: Final = "langchain"
"""Key of the metadata of documents and messages, and first part of their tags."""
DOCUMENT: Final = "document"
"""Kind of a document of a vector store."""
UserOf = Callable[[Runtime[Any]], str]
"""From the runtime of an agent to the id of its user."""


class LangChainEmbedder:
    """Embedder for `salience.connect` that calls LangChain embeddings.

    Texts and queries are embedded by `embed_documents`, so that equal texts have equal vectors.

    Args:
        embeddings: the model.
        name: name that the store is pinned to; None: the class, and its model if it has one.
        dimension: length of the vectors; None: found out by a request.
    """

    remote = "langchain"

    def __init__(self, embeddings: Embeddings, *, name: str | None = None, dimension: int | None = None) -> None:
        model = next(filter(None, (getattr(embeddings, name, None) for name in ("model", "model_name"))), None)
        parts = ["langchain", type(embeddings).__name__, *([str(model)] if model else [])]
        self.name = ":".join(parts) if name is None else name
        self._embeddings = embeddings
        self.dimension = self.embed(["dimension"]).shape[1] if dimension is None else dimension

    def embed(self, texts: Sequence[str]) -> Vectors32:
        """Return float32[len(texts), dimension]."""
        with mapped(self.name, "embed", "Check the model and its key."):
            return np.asarray(self._embeddings.embed_documents(list(texts)), np.float32)


class SalienceRetriever(BaseRetriever):
    """Retriever of memories.

    Attributes:
        memory: a connection.
        k: maximum number of documents.
        profile: ranks the memories; None for the connection's.
        options: other arguments of `recall`, such as `user_id`, `tags` or `min_score`. Those of `invoke` override them.
    """

    memory: Any
    k: int = 5
    profile: Any = None
    options: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None, **options: Any
    ) -> list[Document]:
        arguments = {"limit": self.k if k is None else k, "profile": self.profile, **self.options, **options}
        return [_as_document(hit) for hit in self.memory.recall(query, **arguments)]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None, **options: Any
    ) -> list[Document]:
        return await in_thread(self._get_relevant_documents, query, run_manager=run_manager.get_sync(), k=k, **options)


def _as_document(hit: Hit) -> Document:
    """Return a memory as a document, with its score in the metadata."""
    memory = hit.memory
    own = {"kind": memory.kind, "tags": list(memory.tags), "created_at": memory.created_at.isoformat()}
    score = {"score": hit.score, "confidence": hit.confidence, "weak": hit.weak}
    return Document(id=memory.id, page_content=memory.content, metadata={**plain(memory.metadata), **own, **score})


class SalienceVectorStore(VectorStore):
    """Vector store of documents, each a memory; a document that is added again under its id is the next version.

    Args:
        memory: the connection. Its embedder embeds the documents.
        collection: name of this set of documents. Documents of other collections are not returned.
        profile: ranks searches; None: by the cosine alone.
        **where: scope keywords of the documents. By default all users share them.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        collection: str = "documents",
        profile: ProfileLike | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> None:
        self._memory = memory
        self._profile = COSINE if profile is None else profile
        self._tag = f"{FIELD}/{quote(checks.name('collection', collection), safe='')}"
        checks.name("collection", self._tag)
        self._where: dict[str, Any] = {**where}

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        memory: Memory | str | Path = ":memory:",
        **options: Any,
    ) -> SalienceVectorStore:
        """Return a store with texts.

        Args:
            texts: the texts.
            embedding: embeds the texts, if `memory` is a target; None: the default embedder.
            metadatas: metadata of each text.
            ids: id of each text.
            memory: a target for `salience.connect`; or a connection, which has its embedder, so `embedding` is None.
            **options: as of the class.

        Raises:
            InputError: a connection and an embedding.
        """
        if isinstance(memory, str | Path):
            memory = connect(memory, embedder=None if embedding is None else LangChainEmbedder(embedding))
        elif embedding is not None:
            remedy = "Pass None, or a target as `memory`; a connection is made with embedder=LangChainEmbedder(...)."
            raise InputError("embedding", type(embedding).__name__, remedy, "is given beside a connection")
        store = cls(memory, **options)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def add_texts(
        self,
        texts: Any,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Store texts and return their ids; without an id, equal texts with equal metadata are stored once."""
        texts = list(texts)
        given = zip(texts, metadatas or [{}] * len(texts), ids or [None] * len(texts), strict=True)
        drafts = {}
        order = []
        for text, metadata, name in given:
            key = name or content_hash(json.dumps([text, metadata], sort_keys=True, default=str))[:32]
            order.append(key)
            drafts[key] = {"content": text, "metadata": {FIELD: {"id": key, "metadata": plain(metadata or {})}}}
        stored = self._stored(list(drafts))
        new = [
            {**draft, "kind": DOCUMENT, "tags": [self._tag], "fact_key": self._fact_key(key), "duplicate": True}
            for key, draft in drafts.items()
            if key not in stored
        ]
        for start in range(0, len(new), PAGE):
            self._memory.remember_many(new[start : start + PAGE], **self._where)
        for key, old in stored.items():
            draft = drafts[key]
            if (old.content, plain(old.metadata[FIELD])) != (draft["content"], draft["metadata"][FIELD]):
                changed = {"content": draft["content"], "metadata": {**old.metadata, **draft["metadata"]}}
                self._memory.update(old.id, **changed, fact_key=old.fact_key, **self._where)
        return order

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool | None:
        """Forget documents, all of the collection if `ids` is None; unknown ids are left out. `restore` undoes it."""
        of_all = scan(self._memory, self._where, tags=[self._tag], kinds=[DOCUMENT])
        found = list(of_all if ids is None else self._stored(ids).values())
        for memory in found:
            with suppress(NotFoundError):  # forgotten meanwhile
                self._memory.forget(memory.id, **self._where)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents that exist, in the order of the ids."""
        found = self._stored(ids)
        return [_document(found[one]) for one in ids if one in found]

    def similarity_search(
        self, query: str, k: int = 4, *, filter: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the best documents for a query; see `similarity_search_with_score`."""
        return [document for document, _ in self.similarity_search_with_score(query, k, filter=filter, **kwargs)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Mapping[str, Any] | None = None, **options: Any
    ) -> list[tuple[Document, float]]:
        """Return the best documents with their scores, the largest first: cosines, or the scores of the profile.

        Args:
            query: the question.
            k: maximum number of documents.
            filter: values that the metadata of a document must have, or operators such as `{"year": {"$gte": 2024}}`.
            **options: of `recall`, such as `since` or `min_score`.
        """
        where = {**self._where, "kinds": [DOCUMENT], "profile": self._profile, **options}
        where["tags"] = [self._tag, *options.get("tags", ())]
        size = min(k * 4 if filter else k, LIMIT)
        while True:
            hits = self._memory.recall(query, **where, limit=size).hits
            own = [hit for hit in hits if FIELD in hit.memory.metadata and belongs(hit.memory, self._where)]
            pairs = [(_document(hit.memory), hit.score) for hit in own]
            found = [pair for pair in pairs if accepts(filter, pair[0].metadata)]
            if len(found) >= k or len(hits) < size or size == LIMIT:
                return found[:k]
            size = min(4 * size, LIMIT)

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda score: min(score, 1.0)

    def _fact_key(self, id: str) -> str:
        """Return the fact that only this document of this collection states, by which it is found."""
        whole = f"{self._tag}:{quote(id, safe='')}"
        return whole if len(whole) <= checks.NAME_LIMIT else f"{FIELD}/#{content_hash(whole)}"

    def _stored(self, ids: Sequence[str]) -> dict[str, Stored]:
        """Return the documents by id, in the order of `ids`."""
        found: dict[str, Stored] = {}
        for start in range(0, len(ids), KEYS):
            keys = [self._fact_key(checks.text("id", one)) for one in ids[start : start + KEYS]]
            page = self._memory.list(**self._where, tags=[self._tag], fact_keys=keys, limit=1000)
            for memory in page.memories:
                if isinstance(data := memory.metadata.get(FIELD), Mapping) and belongs(memory, self._where):
                    found[data["id"]] = memory
        return {one: found[one] for one in ids if one in found}


def _document(memory: Stored) -> Document:
    data = memory.metadata[FIELD]
    return Document(id=data["id"], page_content=memory.content, metadata=plain(data["metadata"]))


class SalienceChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session, each a turn; `recall` finds them in later sessions of the same user.

    Args:
        memory: a connection.
        session_id: the session.
        **where: other scope keywords, such as `user_id`.
    """

    def __init__(self, memory: Memory, session_id: str, **where: Any) -> None:
        self._memory = memory
        self._where = {**where, "session_id": checks.name("session_id", session_id)}

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """The messages in the order of storing."""
        found: list[dict[str, Any]] = []
        for memory in self._turns():
            if memory.metadata.get("part", 1) == 1:
                found.append(plain(memory.metadata[FIELD]))
                found[-1]["data"].setdefault("content", memory.content)
            else:  # of a message that was longer than one memory can be
                found[-1]["data"]["content"] += memory.content
        return messages_from_dict(found)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages; one with an id that is already stored in the session is left out."""
        turns = [_turn(message, str(self._where["session_id"])) for message in messages]
        for receipt in self._memory.ingest(turns, **self._where) if turns else ():
            if receipt.memory.forgotten_at is not None:  # cleared, and added again
                self._memory.restore(receipt.memory.id, **self._where)

    def clear(self) -> None:
        """Forget the messages; `restore` brings one back, and `erase` deletes all for good."""
        for memory in list(self._turns()):
            with suppress(NotFoundError):  # forgotten meanwhile
                self._memory.forget(memory.id, **self._where)

    def _turns(self) -> Iterator[Stored]:
        found = scan(self._memory, self._where, sessions=[self._where["session_id"]], kinds=["turn"])
        return (memory for memory in found if FIELD in memory.metadata)


def _turn(message: BaseMessage, session_id: str) -> dict[str, Any]:
    """Return a message as one for `ingest`; without text, its content is its type and the names of its tool calls."""
    data: dict[str, Any] = json.loads(json.dumps(message_to_dict(message), default=str))
    text = str(message.text)
    if not text.strip():
        text = f"{message.type}: {json.dumps([call['name'] for call in getattr(message, 'tool_calls', ())])}"
    same = content_hash(json.dumps([session_id, message.id, data], sort_keys=True))
    if isinstance(message.content, str) and message.content == text:
        del data["data"]["content"]  # it is the content of the memory
    return {
        "content": text,
        "speaker": message.name or {"human": "user", "ai": "assistant"}.get(message.type, message.type),
        "metadata": {FIELD: data},
        "key": f"{FIELD}:{same}" if message.id else None,
    }


class SalienceState(AgentState[Any]):
    """State of an agent with the memories for its current run."""

    salience_context: NotRequired[Annotated[str, PrivateStateAttr]]


class SalienceMiddleware(AgentMiddleware[SalienceState, Any, Any]):
    """Middleware that adds memories for the last message to the system prompt, and stores the messages of each run.

    Args:
        memory: a connection.
        user_id: the user; or a function from the runtime to the user, which must not return None. None: memories that
            no user owns.
        profile: ranks the memories; None for the connection's.
        limit: maximum number of memories in a prompt; None for the profile's.
        budget_tokens: maximum size of the memories in a prompt.
        remember: whether to store what the user and the agent say as turns. The session is the thread.
        agent_id, project: other coordinates of the memories.
    """

    state_schema = SalienceState

    def __init__(
        self,
        memory: Memory,
        *,
        user_id: str | UserOf | None = None,
        profile: ProfileLike | None = None,
        limit: int | None = None,
        budget_tokens: int = 2000,
        remember: bool = True,
        agent_id: str | None = None,
        project: str | None = None,
    ) -> None:
        super().__init__()
        self._memory = memory
        self._user_id = user_id
        self._options: dict[str, Any] = {"profile": profile, "limit": limit, "budget_tokens": budget_tokens}
        self._remember = remember
        self._where: dict[str, Any] = {"agent_id": agent_id, "project": project}

    def _scope(self, runtime: Runtime[Any]) -> dict[str, Any]:
        user_id = self._user_id
        if callable(user_id):
            user_id = checks.name("user_id", user_id(runtime))
        return {**self._where, "user_id": user_id}

    def before_agent(self, state: SalienceState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Recall memories for the last message of the user."""
        asked = [str(message.text) for message in state["messages"] if isinstance(message, HumanMessage)]
        if not asked or not asked[-1].strip():
            return {"salience_context": ""}
        found = self._memory.context(asked[-1][:QUERY], **self._options, **self._scope(runtime))
        return {"salience_context": found.text}

    async def abefore_agent(self, state: SalienceState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """As `before_agent`, in a worker thread."""
        return await in_thread(self.before_agent, state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with the memories at the end of the system prompt."""
        return handler(_with_context(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """As `wrap_model_call`."""
        return await handler(_with_context(request))

    def after_agent(self, state: SalienceState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Store the last message of the user and the answers to it as turns."""
        if self._remember and (said := _last_exchange(state["messages"])):
            info = runtime.execution_info
            session_id = (info.thread_id if info else None) or uuid.uuid4().hex
            turns = [_turn(message, session_id) for message in said]
            self._memory.ingest(turns, session_id=session_id, **self._scope(runtime))
        return None

    async def aafter_agent(self, state: SalienceState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """As `after_agent`, in a worker thread."""
        return await in_thread(self.after_agent, state, runtime)


def _with_context(request: ModelRequest[Any]) -> ModelRequest[Any]:
    state: Mapping[str, Any] = request.state
    if not (found := state.get("salience_context")):
        return request
    system = request.system_message
    content: str | list[Any] = found
    if system is not None and isinstance(system.content, str):
        content = f"{system.content}\n\n{found}"
    elif system is not None:
        content = [*system.content, {"type": "text", "text": found}]
    return request.override(system_message=SystemMessage(content=content))


def _last_exchange(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the last message of the user and the texts of the agent after it."""
    starts = [position for position, message in enumerate(messages) if isinstance(message, HumanMessage)]
    said = messages[starts[-1] :] if starts else []
    return [one for one in said if isinstance(one, HumanMessage | AIMessage) and str(one.text).strip()]
