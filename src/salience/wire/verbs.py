"""The table of verbs: route, required right, request and response. REST, MCP and the client are built from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from salience import records
from salience.wire import requests
from salience.wire.responses import Schemas, from_json, to_json


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of the engine over HTTP.

    Attributes:
        name: of the engine's method.
        method, path: the route; braces mark arguments in the path.
        right: one of `RIGHTS` that the caller needs.
        result_key: the key of the result in the JSON object, for results that are not objects themselves.
        creates: whether it can create memories, which gives status 201.
        changes: the argument with the id of the memory that the verb changes; None for other verbs.
    """

    name: str
    method: str
    path: str
    right: str
    request: type[requests.VerbRequest]
    response: Any
    result_key: str | None = None
    creates: bool = False
    changes: str | None = None
    summary: str = ""

    def to_json(self, result: object) -> dict[str, Any]:
        """Return a result as a JSON object."""
        data = to_json(result)
        return {self.result_key: data} if self.result_key else data

    def from_json(self, data: Mapping[str, Any]) -> Any:
        """Return the result in a JSON object; raises `InputError` for other objects."""
        return from_json(self.response, data[self.result_key] if self.result_key else data)

    def schema(self, schemas: Schemas) -> dict[str, Any]:
        """Return the schema of `to_json`; records go into `schemas`."""
        found = schemas.of(self.response)
        if self.result_key is None:
            return found
        return {"type": "object", "properties": {self.result_key: found}, "required": [self.result_key]}


_ONE: Final = "/v1/memory/{id}"
_ALL: Final = (
    Verb("remember", "POST", "/v1/memories", "write", requests.Remember, records.Receipt, creates=True,
         summary="Store one memory; returns the memories that it may contradict."),
    Verb("remember_many", "POST", "/v1/memories", "write", requests.RememberMany, list[records.Receipt],
         result_key="receipts", creates=True, summary="Store several memories, all or none."),
    Verb("ingest", "POST", "/v1/ingest", "write", requests.Ingest, list[records.Receipt],
         result_key="receipts", creates=True, summary="Store a conversation turn by turn, verbatim and in order."),
    Verb("list", "GET", "/v1/memories", "read", requests.Listing, records.Page,
         summary="Return one page of memories in the order of storing, and the cursor of the next."),
    Verb("get", "GET", _ONE, "read", requests.MemoryId, records.Memory,
         summary="Return one memory with all its fields."),
    Verb("update", "PATCH", _ONE, "write", requests.Update, records.Receipt, changes="id",
         summary="Change a memory; earlier versions are kept."),
    Verb("forget", "DELETE", _ONE, "write", requests.Forget, records.Receipt, changes="id",
         summary="Remove a memory from every recall; its versions are kept."),
    Verb("history", "GET", f"{_ONE}/history", "read", requests.MemoryId, tuple[records.Version, ...],
         result_key="versions", summary="Return every version of a memory, oldest first."),
    Verb("restore", "POST", f"{_ONE}/restore", "write", requests.Restore, records.Receipt, changes="id",
         summary="Restore an older version, or a forgotten memory."),
    Verb("dismiss", "POST", f"{_ONE}/dismiss", "write", requests.Dismiss, records.Receipt, changes="id",
         summary="Keep a pair of memories, or a stale reflection, out of the review."),
    Verb("review", "GET", "/v1/review", "read", requests.Review, records.ReviewPage,
         summary="Return problems to look at: contradictions, duplicates, updates, stale and pending memories."),
    Verb("changes", "GET", "/v1/changes", "read", requests.Changes, records.ChangesPage,
         summary="Return the changes of memories, newest first, and the cursor of the next page."),
    Verb("activity", "GET", "/v1/activity", "read", requests.Activity, tuple[records.ActivityDay, ...],
         result_key="days", summary="Count the memories created, changed, forgotten and recalled on each day."),
    Verb("recall", "POST", "/v1/recall", "read", requests.Recall, records.Recall,
         summary="Return the memories that answer a query, best first, with the parts of each score."),
    Verb("recall_many", "POST", "/v1/recall", "read", requests.RecallMany, list[records.Recall], result_key="recalls",
         summary="Return the answer to each of several queries, in order."),
    Verb("graph_recall", "POST", "/v1/graphrag", "read", requests.GraphRecall, records.Recall,
         summary="Recall by similarity and by distance to the entities in the query."),
    Verb("context", "POST", "/v1/context", "read", requests.Context, records.Context,
         summary="Return the memories for a query, packed for a prompt within a token budget."),
    Verb("explain", "POST", "/v1/explain", "read", requests.Explain, records.Explanation,
         summary="Explain why a memory is, or is not, in the answer to a query."),
    Verb("reflect", "POST", "/v1/reflect", "write", requests.Consolidate, records.ReflectReport,
         summary="Summarise related memories in a new memory that refers to them."),
    Verb("consolidate", "POST", "/v1/consolidate", "write", requests.Consolidate, records.ConsolidateReport,
         summary="Promote memories to the tiers that they qualify for."),
    Verb("end_session", "POST", "/v1/sessions/{session_id}/end", "write", requests.EndSession, records.SessionReport,
         summary="End a session and promote its memories."),
    Verb("stats", "GET", "/v1/stats", "read", requests.ScopeOnly, records.Stats,
         summary="Count the visible memories."),
    Verb("recalls", "GET", "/v1/recalls", "read", requests.Recalls, records.RecallLogPage,
         summary="Return one page of the recall log, newest first, and the cursor of the next."),
    Verb("help", "GET", "/v1/help", "read", requests.Topic, str, result_key="text",
         summary="Return the help text of a topic."),
    Verb("erase", "POST", "/v1/erase", "admin", requests.Erase, records.Erased,
         summary="Delete memories permanently."),
    Verb("upkeep", "POST", "/v1/upkeep", "admin", requests.Upkeep, records.UpkeepReport,
         summary="Run the maintenance that is due: embed, expire, promote, prune."),
    Verb("export", "GET", "/v1/export", "read", requests.ScopeOnly, records.TransferReport,
         summary="Return memories with their versions and vectors as lines of JSON."),
    Verb("import_", "POST", "/v1/import", "admin", requests.Import, records.TransferReport,
         summary="Store the memories of an export, drafts as lines of JSON, or another system's export."),
)  # fmt: skip

VERBS: Final[Mapping[str, Verb]] = {verb.name: verb for verb in _ALL}
"""Verbs by name. The response of `export` and the body of `import_` are streams of JSON lines."""
