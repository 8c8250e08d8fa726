"""What a request can look like, by its verb."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

EXAMPLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "remember": {
        "content": "Alice prefers Python for backend work",
        "user_id": "alice",
        "importance": 0.8,
        "tags": ["lang"],
    },
    "remember_many": {
        "drafts": [
            {"content": "The launch is on 3 June", "kind": "decision", "fact_key": "launch.date"},
            {"content": "Bob writes the release notes"},
        ],
        "project": "apollo",
    },
    "ingest": {
        "session_id": "monday",
        "messages": [
            {"role": "user", "content": "I moved to Lisbon last week."},
            {"role": "assistant", "content": "How do you like it there?"},
        ],
    },
    "update": {"importance": 0.9, "reason": "said twice"},
    "restore": {"version": 1},
    "recall": {"query": "What language does Alice like?", "user_id": "alice", "limit": 5},
    "recall_many": {"queries": ["What language does Alice like?", "Where does Alice live?"], "user_id": "alice"},
    "graph_recall": {"query": "Who works with Alice?", "max_hops": 2},
    "context": {"query": "What language does Alice like?", "user_id": "alice", "budget_tokens": 1500},
    "explain": {"query": "What language does Alice like?", "memory_id": "5f1d2c3b", "user_id": "alice"},
    "erase": {"user_id": "alice", "dry_run": True},
}
