"""Pydantic AI: a store for the harness's `Memory` capability, and a toolset that remembers and recalls."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Unpack

from salience.errors import InputError, MissingExtraError, StaleError
from salience.integrations import QUERY, Memory, Result, belongs, in_thread
from salience.integrations.files import KIND as FILE
from salience.integrations.files import PART, File, Files, directory_tag
from salience.keywords import CallerKeywords
from salience.rank.profiles import ProfileLike
from salience.text import content_hash

try:
    from pydantic_ai import ModelRetry, RunContext
    from pydantic_ai.messages import TextContent
    from pydantic_ai.tools import AgentDepsT
    from pydantic_ai.toolsets import FunctionToolset
    from pydantic_ai_harness.memory import (
        MemoryConflictError,
        MemoryFile,
        MemoryMutation,
        MemoryOperation,
        MemoryOperationConflictError,
        MemorySearchMatch,
        MemorySearchResult,
    )
except ImportError as error:
    raise MissingExtraError("salience.integrations.pydantic_ai", "pydantic-ai") from error

RECEIPT: Final = "file-receipt"
"""Kind of the forgotten memory that stands for an operation which found no file to delete."""
KEPT: Final = 16
"""Latest operations on a file whose repetition is recognised, besides that of the last 100 deleted files."""
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_.-]{1,200}")
UserId = str | Callable[[RunContext[Any]], str | None] | None
"""The user, or a function from the context of a run to its user."""


class SalienceMemoryStore:
    """The harness's `MemoryStore`, with write metadata and search: each file of the agent is a memory.

    Args:
        memory: a connected memory.
        profile: ranking profile of `search`.
        **where: the scope keywords of the files, such as `user_id`; files of other scopes are not visible.
    """

    def __init__(self, memory: Memory, *, profile: ProfileLike | None = None, **where: Unpack[CallerKeywords]) -> None:
        self._files, self._profile = Files(memory, **where), profile

    async def read(self, path: str, *, max_chars: int) -> MemoryFile | None:
        """Return the file at `path` with at most `max_chars` characters, or None."""
        _check_path(path)
        _check_positive("max_chars", max_chars)
        file = await in_thread(self._files.read, path)
        if file is None:
            return None
        stored = file.memory.metadata
        operations = stored.get("operations", ())
        return MemoryFile(
            content=file.text[:max_chars],
            version=file.version,
            operation_id=operations[-1][0] if operations and operations[-1][3] == file.memory.version else None,
            truncated=len(file.text) > max_chars,
            metadata=dict(stored["written"]) if "written" in stored else None,
        )

    async def get_operation(self, operation: MemoryOperation) -> MemoryMutation | None:
        """Return the result of an operation that was done already, or None."""
        return await in_thread(self._done, operation)

    async def write(
        self, path: str, content: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        """Create or replace the file at `path`, if it is at `expected_version` (None: there is none)."""
        return await self.write_with_metadata(
            path, content, expected_version=expected_version, metadata=None, operation=operation
        )

    async def write_with_metadata(
        self,
        path: str,
        content: str,
        *,
        expected_version: str | None,
        metadata: Mapping[str, str] | None,
        operation: MemoryOperation | None = None,
    ) -> MemoryMutation:
        """As `write`, and keep `metadata` with this version of the file."""
        _check_path(path)
        return await in_thread(self._write, path, content, expected_version, metadata, operation)

    async def delete(
        self, path: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        """Forget the file at `path`, if it is at `expected_version` (None: there is none)."""
        _check_path(path)
        return await in_thread(self._delete, path, expected_version, operation)

    async def list_paths(self, prefix: str = "", *, limit: int) -> list[str]:
        """Return the first `limit` paths that start with `prefix`, sorted."""
        _check_prefix(prefix)
        _check_positive("limit", limit)
        heads = await in_thread(lambda: [*self._files.heads()])
        return sorted(path for head in heads if (path := head.metadata["path"]).startswith(prefix))[:limit]

    async def search(
        self, prefix: str, query: str, *, limit: int, max_files: int, max_chars: int, max_file_chars: int
    ) -> MemorySearchResult:
        """Return the files directly below `prefix` that answer `query`, ranked by meaning and words, with snippets."""
        _check_prefix(prefix)
        if not query.split() or min(limit, max_files, max_chars, max_file_chars) <= 0:
            return MemorySearchResult(matches=[], scanned=0, truncated=False)
        return await in_thread(self._search, prefix, query, limit, max_files, max_chars, max_file_chars)

    def _search(
        self, prefix: str, query: str, limit: int, max_files: int, max_chars: int, max_file_chars: int
    ) -> MemorySearchResult:
        tag = directory_tag(prefix.rpartition("/")[0])
        below = [head for head in self._files.heads(tag) if head.metadata["path"].startswith(prefix)]
        below.sort(key=lambda head: str(head.metadata["path"]))
        shown = below[:max_files]
        paths = {part: head.metadata["path"] for head in shown for part in (head.id, *head.metadata.get("parts", ()))}
        found = self._files.memory.recall(
            query,
            kinds=(FILE, PART),
            tags=(tag,),
            limit=min(1000, 4 * limit),
            profile=self._profile,
            **self._files.where,
        )
        hits: dict[str, Any] = {}
        for hit in found:
            if hit.memory.id in paths and not hit.weak:
                hits.setdefault(paths[hit.memory.id], hit)
        matches, left = [], max_chars
        for path, hit in list(hits.items())[:limit]:
            if (width := left - len(path.removeprefix(prefix))) <= 0:
                break
            snippet = _snippet(hit.memory.content[:max_file_chars], query, width)
            matches.append(MemorySearchMatch(path=path, snippet=snippet, score=hit.score))
            left = width - len(snippet)
        scanned = min(len(below), max_files)
        return MemorySearchResult(matches, scanned, truncated=len(hits) > len(matches) or len(below) > max_files)

    def _write(
        self,
        path: str,
        content: str,
        expected: str | None,
        metadata: Mapping[str, str] | None,
        operation: MemoryOperation | None,
    ) -> MemoryMutation:
        if operation is not None and (done := self._done(operation)) is not None:
            return done
        file = self._expected(path, expected)
        operations = [] if file is None else [list(one) for one in file.memory.metadata.get("operations", ())]
        if operation is not None:
            number = 1 if file is None else file.memory.version + 1
            operations.append([operation.id, operation.fingerprint, file is not None, number])
        operations = operations[-KEPT:]
        tags = [_operation_tag(one[0]) for one in operations]
        kept: dict[str, Any] = {"operations": operations} if operations else {}
        if metadata:
            if not all(isinstance(text, str) for pair in metadata.items() for text in pair):
                raise TypeError("memory metadata keys and values must be strings")
            kept["written"] = dict(metadata)
        try:
            if file is None:
                written = self._files.create(path, content, metadata=kept, tags=tags)
            else:
                written = self._files.write(file, content, metadata=kept, tags=tags, reason="written by the agent")
        except (FileExistsError, StaleError):
            raise _conflict(path) from None
        return MemoryMutation(written.version, replayed=False, existed=file is not None)

    def _delete(self, path: str, expected: str | None, operation: MemoryOperation | None) -> MemoryMutation:
        if operation is not None and (done := self._done(operation)) is not None:
            return done
        file = self._expected(path, expected)
        reason = "deleted by the agent" if operation is None else _reason(operation)
        if file is not None:
            try:
                self._files.delete(file.memory, reason=reason)
            except StaleError:
                raise _conflict(path) from None
        elif operation is not None:
            memory, where = self._files.memory, self._files.where
            receipt = memory.remember(f"There was no file {path} to delete.", kind=RECEIPT, duplicate=True, **where)
            memory.forget(receipt.memory.id, reason=reason, **where)
        return MemoryMutation(version=None, replayed=False, existed=file is not None)

    def _expected(self, path: str, expected: str | None) -> File | None:
        file = self._files.read(path)
        if (None if file is None else file.version) != expected:
            raise _conflict(path)
        return file

    def _done(self, operation: MemoryOperation) -> MemoryMutation | None:
        """Return the result of an operation: a write is named by its file, a deletion by the reason of the version."""
        tag = _operation_tag(operation.id)
        changes = self._files.memory.changes(change="forget", limit=100, **self._files.where).changes
        deleted = [version.memory for version in changes if belongs(version.memory, self._files.where)]
        for memory in [*self._files.heads(tag), *(memory for memory in deleted if tag in memory.tags)]:
            for known, fingerprint, existed, number in memory.metadata.get("operations", ()):
                if known == operation.id:
                    _check_fingerprint(operation, fingerprint == operation.fingerprint)
                    return MemoryMutation(f"{memory.id}:{number}", replayed=True, existed=existed)
        for memory in deleted:
            if memory.reason is not None and memory.reason.startswith(_reason(operation).rpartition(" ")[0]):
                _check_fingerprint(operation, memory.reason == _reason(operation))
                return MemoryMutation(version=None, replayed=True, existed=memory.kind != RECEIPT)
        return None


class SalienceToolset(FunctionToolset[AgentDepsT]):
    """Tools `remember` and `recall` for `Agent(toolsets=...)`, and instructions with the memories for the prompt.

    Args:
        memory: a connected memory.
        user_id: the user, or a function from the run's context to the user, for an agent that serves several.
        with_instructions: whether the memories for the user's prompt are added to the instructions of each run.
        budget_tokens: maximum size of those memories.
        limit: maximum number of memories of an answer.
        profile: ranking profile.
        id: identity of the toolset, for durable execution.
        **where: further scope keywords.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        user_id: UserId = None,
        with_instructions: bool = True,
        budget_tokens: int = 2000,
        limit: int | None = None,
        profile: ProfileLike | None = None,
        id: str = "salience",
        **where: Any,
    ) -> None:
        super().__init__(id=id, instructions=self._instructions_of_run if with_instructions else None)
        self._memory, self._user_id, self._where = memory, user_id, where
        self._options = {"limit": limit, "profile": profile, "budget_tokens": budget_tokens}
        self.add_function(self.remember)
        self.add_function(self.recall)

    async def remember(self, ctx: RunContext[AgentDepsT], content: str) -> str:
        """Store one fact, preference or decision that will matter in later conversations.

        Args:
            ctx: context of the run.
            content: a sentence that is clear without this conversation.
        """
        receipt = await _call(self._memory.remember, content, **self._scope(ctx))
        return "\n".join(filter(None, (f"{receipt.status}: {receipt.memory.short_id}", receipt.warning)))

    async def recall(self, ctx: RunContext[AgentDepsT], query: str) -> str:
        """Return memories of earlier conversations that answer a question.

        Args:
            ctx: context of the run.
            query: the question.
        """
        found = await _call(self._memory.context, query, **self._options, **self._scope(ctx))
        return found.text or "There are no memories."

    async def _instructions_of_run(self, ctx: RunContext[AgentDepsT]) -> str | None:
        asked = _text(ctx.prompt)
        if not asked.strip():
            return None
        dry_run = ctx.run_step > 1  # later requests of a run ask the same again
        found = await in_thread(
            self._memory.context, asked[:QUERY], dry_run=dry_run, **self._options, **self._scope(ctx)
        )
        return found.text or None

    def _scope(self, ctx: RunContext[AgentDepsT]) -> dict[str, Any]:
        return {**self._where, "user_id": self._user_id(ctx) if callable(self._user_id) else self._user_id}


async def _call(call: Callable[..., Result], *args: Any, **options: Any) -> Result:
    """Run the call of a tool; an invalid argument becomes a retry, whose message says how to correct it."""
    try:
        return await in_thread(call, *args, **options)
    except InputError as error:
        raise ModelRetry(str(error)) from error


def _check_path(path: str) -> None:
    segments = path.split("/")
    if not all(_SEGMENT.fullmatch(one) and ".." not in one and one != "." for one in segments):
        raise InputError("path", path, "Use letters, digits, dots, dashes and underscores, with slashes between names.")


def _check_prefix(prefix: str) -> None:
    if prefix:
        _check_path(prefix.removesuffix("/"))


def _check_positive(field: str, value: int) -> None:
    if value <= 0:
        raise InputError(field, value, "Give a positive number.")


def _conflict(path: str) -> MemoryConflictError:
    return MemoryConflictError(f"memory path {path!r} is not at the expected version")


def _check_fingerprint(operation: MemoryOperation, same: bool) -> None:
    if not same:
        raise MemoryOperationConflictError(f"operation id {operation.id!r} was reused with different arguments")


def _operation_tag(id: str) -> str:
    return f"operation:{content_hash(id)[:32]}"


def _reason(operation: MemoryOperation) -> str:
    """Return the reason of a deletion, which names its operation."""
    return f"deleted by the agent: {_operation_tag(operation.id)} {content_hash(operation.fingerprint)[:32]}"


def _snippet(text: str, query: str, width: int) -> str:
    """Return at most `width` characters of `text` around the first word of the query, with dots where it is cut."""
    places = [place for term in query.lower().split() if (place := text.lower().find(term)) >= 0]
    end = min(len(text), max(0, min(places, default=0) - width // 3) + width)
    start = max(0, end - width)
    snippet = text[start:end]
    if start:
        snippet = f"...{snippet[3:]}"[: len(snippet)]
    if end < len(text):
        snippet = f"{snippet[:-3]}..."[-len(snippet) :]
    return snippet


def _text(prompt: Any) -> str:
    """Return the text of a prompt, without images and other attachments."""
    parts = [prompt] if isinstance(prompt, str) else prompt or ()
    texts = (part.content if isinstance(part, TextContent) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))
