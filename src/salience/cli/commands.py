"""The commands as help lists them: the module of each, imported when the command is called, and what it is for.

What a command is for stands twice: here, so that help need import no command, and in the module; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Listed:
    """A command in the list.

    Attributes:
        module: of this package; its import registers the command.
        summary: the first paragraph of the command's own help.
    """

    module: str
    summary: str


COMMANDS: Final[Mapping[str, Listed]] = {
    "remember": Listed("writing", "Store one memory; tell what it may contradict."),
    "recall": Listed("reading", "Find what matters for a question, scores taken apart."),
    "graph-recall": Listed("reading", "Find by similarity and by the entities of a question."),
    "explain": Listed("explaining", "Tell why a memory is, or is not, in an answer."),
    "context": Listed("reading", "Print memories quoted as data for a prompt."),
    "get": Listed("reading", "Show one memory with all its fields."),
    "update": Listed("writing", "Change a memory; the version before is kept."),
    "forget": Listed("writing", "Take a memory out of every recall; nothing is lost."),
    "restore": Listed("history", "Bring a memory, or an older version of it, back."),
    "history": Listed("history", "Show every version of a memory: who changed what."),
    "erase": Listed("history", "Delete memories for good, with all their versions."),
    "list": Listed("reading", "List memories in order of storing, a page at a time."),
    "stats": Listed("reading", "Count memories by kind, tier, project, user, agent."),
    "ingest": Listed("transfers", "Store conversations, turn by turn."),
    "end-session": Listed("writing", "Move a session's working memories to the next tier."),
    "consolidate": Listed("upkeeping", "Move memories to the tiers that they have earned."),
    "reflect": Listed("reflecting", "Sum up memories that belong together."),
    "upkeep": Listed("upkeeping", "Do all that is due, in every scope of the tenant."),
    "import": Listed("transfers", "Store exports and lines of drafts."),
    "export": Listed("transfers", "Write memories, versions and vectors as lines of JSON."),
    "backup": Listed("repairing", "Write a copy of the store to a file, while it is in use."),
    "reinstate": Listed("repairing", "Put a backup in the place of what the store holds."),
    "copy": Listed("copying", "Bring all that a store holds into another one."),
    "doctor": Listed("repairing", "Check that a store is whole, and mend it."),
    "reembed": Listed("repairing", "Embed every memory anew with another model."),
    "db": Listed("distributing", "See to the database of a store: its tables, rights and indexes."),
    "serve": Listed("serving", "Serve the store: REST at /v1, MCP at /mcp, /healthz, /readyz, /metrics."),
    "keys": Listed("keys", "Make, list and take back the keys of a server."),
    "mcp": Listed("mcp", "Speak MCP with agents and editors."),
    "profiles": Listed("profiles", "List, show and check ranking profiles."),
    "calibrate": Listed("calibrating", "Fit what an embedder's cosines mean on judged pairs."),
    "eval": Listed("evals", "Measure rankings on questions with known answers."),
    "tune": Listed("evals", "Fit a profile's weights to questions with known answers."),
    "config": Listed("config", "See the settings, and where each comes from."),
    "help": Listed("reading", "Explain a command, or a topic of the API."),
    "demo": Listed("demo", "Ask a sample store under all profiles, side by side."),
}
"""Name -> module and summary, in the order of a day."""
