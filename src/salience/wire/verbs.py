"""The table of verbs: how each is asked for over HTTP, which right it takes, and what it answers.

REST, MCP and the client are made from this table; the arguments of a verb are the fields of what it `asks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from salience.records import (
    ConsolidateReport,
    Context,
    Explanation,
    Memory,
    Page,
    Recall,
    Receipt,
    ReflectReport,
    SessionReport,
    Stats,
    TransferReport,
    UpkeepReport,
    Version,
)
from salience.wire import asked
from salience.wire.told import Schemas, read, values


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb of the engine, as the wire has it.

    Attributes:
        name: of the engine's method.
        method, path: of the request; what stands in braces is an argument.
        right: one of `RIGHTS`, which the caller needs.
        asks: the arguments.
        answers: the kind of the result.
        under: the name under which the result stands in an object, where it is none itself.
        creates: whether a new memory comes of it, which is told by the status 201.
        changes: ids of a memory that it changes: the argument's name; None for the others.
        summary: what it does, in a line.
    """

    name: str
    method: str
    path: str
    right: str
    asks: type[asked.Asked]
    answers: Any
    under: str | None = None
    creates: bool = False
    changes: str | None = None
    summary: str = ""

    def told(self, result: object) -> dict[str, Any]:
        """Return a result as a JSON object."""
        told = values(result)
        return {self.under: told} if self.under else told

    def read(self, told: Mapping[str, Any]) -> Any:
        """Return the result that a JSON object tells; `InputError` if it tells none."""
        return read(self.answers, told[self.under] if self.under else told)

    def schema(self, schemas: Schemas) -> dict[str, Any]:
        """Return the schema of what `told` returns; records go into `schemas`."""
        found = schemas.of(self.answers)
        if self.under is None:
            return found
        return {"type": "object", "properties": {self.under: found}, "required": [self.under]}


_ONE: Final = "/v1/memory/{id}"
_ALL: Final = (
    Verb(name="remember", method="POST", path="/v1/memories", right="write", asks=asked.Remember, answers=Receipt,
         creates=True, summary="Store one memory and tell of those that it may contradict."),
    Verb(name="remember_many", method="POST", path="/v1/memories", right="write", asks=asked.RememberMany,
         answers=list[Receipt], under="receipts", creates=True, summary="Store several memories, all or none."),
    Verb(name="ingest", method="POST", path="/v1/ingest", right="write", asks=asked.Ingest, answers=list[Receipt],
         under="receipts", creates=True, summary="Store a conversation turn by turn, verbatim and in order."),
    Verb(name="list", method="GET", path="/v1/memories", right="read", asks=asked.Listing, answers=Page,
         summary="Return one page of memories in the order of storing, and the cursor of the next."),
    Verb(name="get", method="GET", path=_ONE, right="read", asks=asked.OfId, answers=Memory,
         summary="Return one memory: its importance, status, environment, when it was last recalled, and all else."),
    Verb(name="update", method="PATCH", path=_ONE, right="write", asks=asked.Update, answers=Receipt, changes="id",
         summary="Change a memory; the version before is kept."),
    Verb(name="forget", method="DELETE", path=_ONE, right="write", asks=asked.Forget, answers=Receipt, changes="id",
         summary="Take a memory out of every recall; its versions are kept."),
    Verb(name="history", method="GET", path=f"{_ONE}/history", right="read", asks=asked.OfId,
         answers=tuple[Version, ...], under="versions", summary="Return every version of a memory, oldest first."),
    Verb(name="restore", method="POST", path=f"{_ONE}/restore", right="write", asks=asked.Restore, answers=Receipt,
         changes="id", summary="Put an older version in place again, or bring back what was forgotten."),
    Verb(name="recall", method="POST", path="/v1/recall", right="read", asks=asked.Recall, answers=Recall,
         summary="Return the memories that answer a question, best first, each score taken apart."),
    Verb(name="recall_many", method="POST", path="/v1/recall", right="read", asks=asked.RecallMany,
         answers=list[Recall], under="recalls", summary="Return the answer to each of several questions, in order."),
    Verb(name="graph_recall", method="POST", path="/v1/graphrag", right="read", asks=asked.GraphRecall, answers=Recall,
         summary="Recall by likeness, and by nearness to the entities that the question names."),
    Verb(name="context", method="POST", path="/v1/context", right="read", asks=asked.Context, answers=Context,
         summary="Return the memories for a question, packed for a prompt within a budget of tokens."),
    Verb(name="explain", method="POST", path="/v1/explain", right="read", asks=asked.Explain, answers=Explanation,
         summary="Return why a memory is, or is not, in the answer to a question."),
    Verb(name="reflect", method="POST", path="/v1/reflect", right="write", asks=asked.Consolidate,
         answers=ReflectReport, summary="Sum up memories that belong together in one more, which names them."),
    Verb(name="consolidate", method="POST", path="/v1/consolidate", right="write", asks=asked.Consolidate,
         answers=ConsolidateReport, summary="Move memories to the tiers that they have earned."),
    Verb(name="end_session", method="POST", path="/v1/sessions/{session_id}/end", right="write", asks=asked.EndSession,
         answers=SessionReport, summary="End a session: its memories move to the tiers that they have earned."),
    Verb(name="stats", method="GET", path="/v1/stats", right="read", asks=asked.InScope, answers=Stats,
         summary="Count the memories in sight."),
    Verb(name="help", method="GET", path="/v1/help", right="read", asks=asked.Topic, answers=str, under="text",
         summary="Return what there is to know about a topic."),
    Verb(name="erase", method="POST", path="/v1/erase", right="admin", asks=asked.Erase, answers=int, under="erased",
         summary="Delete memories for good; there is no way back."),
    Verb(name="upkeep", method="POST", path="/v1/upkeep", right="admin", asks=asked.Upkeep, answers=UpkeepReport,
         summary="Do all that is due: embed what is pending, expire, move tiers, drop old versions."),
    Verb(name="export", method="GET", path="/v1/export", right="read", asks=asked.InScope, answers=TransferReport,
         summary="Return memories with their versions and vectors as lines of JSON."),
    Verb(name="import_", method="POST", path="/v1/import", right="admin", asks=asked.Import, answers=TransferReport,
         summary="Store the memories of an export, or of drafts as lines of JSON."),
)  # fmt: skip

VERBS: Final[Mapping[str, Verb]] = {verb.name: verb for verb in _ALL}
"""Each verb by its name. `export` answers, and `import_` takes, a stream of lines and no object."""
