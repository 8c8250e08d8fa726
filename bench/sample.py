"""A store with plausible memories of several users and projects over 70 days, for screenshots and tests of pages."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import salience
from salience.engine import Engine
from salience.ports import Embedder
from tests.contract.doubles import StoppedClock

NOW: Final = datetime(2026, 5, 1, 12, tzinfo=UTC)
"""When the store is looked at."""
LONG: Final = (
    "Notes of the incident review on the payment outage.\n\nThe gateway returned 502 from 14:02 to 14:47 because the "
    "connection pool of the ledger service was exhausted. Retries of the mobile app made it worse: each of them held "
    "a connection for 30 seconds.\n\nDecisions: the pool grows to 80, retries get a jitter of up to 2 seconds, and the "
    "dashboard of the on-call engineer shows the saturation of the pool. Priya writes the runbook; Jonas adds the "
    "alert. The next review is in two weeks."
)
MARKUP: Final = "The banner text is <b>Sale</b> & the snippet was <script>alert('x')</script>, copied from the old page"
ARABIC: Final = "تفضل ليلى الاجتماعات في الصباح، ولا تعمل يوم الجمعة"
HEBREW: Final = "נועה גרה בחיפה ועובדת על פרויקט Atlas"
Line = tuple[int, str, dict[str, Any]]
_ATLAS: Final[dict[str, Any]] = {"project": "atlas"}
_ALICE: Final[dict[str, Any]] = {"user_id": "alice", **_ATLAS, "agent_id": "coder"}
_BOB: Final[dict[str, Any]] = {"user_id": "bob", **_ATLAS, "agent_id": "coder"}
_CARLA: Final[dict[str, Any]] = {"user_id": "carla", "project": "bistro"}
MEMORIES: Final[tuple[Line, ...]] = (
    (70, "Alice prefers Python for backend work", {**_ALICE, "tags": ["language", "preference"], "importance": 0.8}),
    (69, "All services of Atlas log JSON lines to stdout", {**_ATLAS, "kind": "rule", "tags": ["logging"]}),
    (68, "Use feature flags for every change that users can see", {**_ATLAS, "kind": "rule", "importance": 0.9}),
    (66, "Alice lives in Lisbon", {**_ALICE, "fact_key": "alice.city", "tags": ["home"]}),
    (65, "Bob is allergic to peanuts", {**_BOB, "importance": 0.95, "tags": ["health"]}),
    (63, "We chose PostgreSQL for the ledger, because of transactions", {**_ATLAS, "kind": "decision", "tags": ["db"]}),
    (60, "Carla runs the bistro at the harbour with her brother Marco", {**_CARLA, "tags": ["people"]}),
    (58, "The bistro is closed on Mondays", {**_CARLA, "fact_key": "bistro.closed", "tags": ["hours"]}),
    (55, "Bob works from home on Wednesdays", {**_BOB, "fact_key": "bob.home_day"}),
    (52, "Deployments to production happen on Tuesday and Thursday", {**_ATLAS, "kind": "rule", "tags": ["release"]}),
    (50, "The staging database is refreshed every Sunday night", {**_ATLAS, "tags": ["db", "staging"]}),
    (48, LONG, {**_ATLAS, "kind": "context", "tags": ["incident", "payments"], "importance": 0.85}),
    (45, "Alice moved to Porto in March", {**_ALICE, "fact_key": "alice.city", "tags": ["home"]}),
    (44, "Alice dislikes meetings before ten", {**_ALICE, "tags": ["preference"]}),
    (41, "The API rate limit is 600 requests a minute per key", {**_ATLAS, "fact_key": "atlas.rate_limit"}),
    (40, "Marco orders fish every Tuesday at the market hall", {**_CARLA, "tags": ["suppliers"]}),
    (37, "Bob is reading about vector databases", {**_BOB, "weight": 0.6}),
    (35, "The API rate limit is 900 requests a minute per key", {**_ATLAS, "fact_key": "atlas.rate_limit"}),
    (33, MARKUP, {**_ATLAS, "tags": ["<b>html</b>"]}),
    (31, ARABIC, {"user_id": "layla", **_ATLAS, "tags": ["تفضيل"]}),
    (30, HEBREW, {"user_id": "noa", **_ATLAS}),
    (28, "The bistro is closed on Mondays and Tuesdays", {**_CARLA, "fact_key": "bistro.closed", "tags": ["hours"]}),
    (26, "Alice has a cat named Pixel", {**_ALICE, "importance": 0.4, "tags": ["pets"]}),
    (24, "Invoices are sent on the last working day of the month", {**_CARLA, "kind": "rule", "tags": ["money"]}),
    (21, "Bob prefers tabs over spaces", {**_BOB, "tags": ["preference"], "importance": 0.3}),
    (20, "Priya owns the on-call rotation of the ledger service", {**_ATLAS, "tags": ["people", "ledger"]}),
    (17, "The ledger service runs in Frankfurt and Dublin", {**_ATLAS, "tags": ["ledger", "regions"]}),
    (15, "Answer questions about refunds with a link to the policy", {"agent_id": "support", "kind": "bootstrap"}),
    (12, "Carla wants the menu in Italian and English", {**_CARLA, "kind": "feedback", "tags": ["menu"]}),
    (11, "The search API allows 30 requests a minute", {**_ATLAS, "tags": ["search"]}),
    (10, "The on-call engineer of the ledger answers within 15 minutes", {**_ATLAS, "tags": ["ledger"]}),
    (9, "Alice is learning Rust in her evenings", {**_ALICE, "tags": ["language"]}),
    (7, "Jonas added an alert for the saturation of the connection pool", {**_ATLAS, "tags": ["incident", "ledger"]}),
    (6, "The search API allows 40 requests a minute", {**_ATLAS, "tags": ["search"]}),
    (6, "The on-call engineer of the ledger answers within 15 minutes!", {**_ATLAS, "tags": ["ledger"]}),
    (5, "Bob works from home on Fridays", {**_BOB, "fact_key": "bob.home_day"}),
    (3, "Alice now prefers Rust for backend work", {**_ALICE, "tags": ["language", "preference"], "importance": 0.7}),
    (2, "The password of the staging wiki was rotated", {**_ATLAS, "ttl": "1d", "kind": "context"}),
    (1, "The terrace opens on Saturday if it is dry", {**_CARLA, "tier": "working", "ttl": "3d"}),
)  # fmt: skip
"""Days ago, content, and the other arguments of `remember`."""
_TALKS: Final = {
    "standup-0421": (10, _BOB, (
        ("Bob", "The migration of the ledger finished last night"), ("Alice", "Did the checksums match?"),
        ("Bob", "All but two rows"), ("Alice", "Then let us freeze writes next time"),
        ("Bob", "Agreed, I will add it to the runbook"),
    )),
    "menu-planning": (6, _CARLA, (
        ("Carla", "I would like asparagus on the menu until the end of June"), ("assistant", "White or green?"),
        ("Carla", "Green, from the farm in Sines"), ("assistant", "I noted the farm as the supplier"),
    )),
}  # fmt: skip
_QUESTIONS: Final = (
    (40, "What language does Alice like?", _ALICE), (30, "Where does Alice live?", _ALICE),
    (29, "How many requests are allowed?", _BOB), (14, "When is the bistro closed?", _CARLA),
    (8, "What may Bob not eat?", _BOB), (6, "What language does Alice like?", _ALICE),
    (4, "Which database does the ledger use?", _BOB), (2, "Where does Alice live?", _ALICE),
    (1, "What language does Alice like?", _ALICE),
)  # fmt: skip


def fill(engine: Engine, clock: StoppedClock) -> None:
    """Store everything at its time, and leave the clock at `NOW`."""
    events: list[tuple[int, int, Any]] = [(days, 0, (text, fields)) for days, text, fields in MEMORIES]
    events += [(days, 1, (name, where, turns)) for name, (days, where, turns) in _TALKS.items()]
    events += [(days, 2, (question, where)) for days, question, where in _QUESTIONS]
    ids: dict[str, str] = {}
    for days, kind, event in sorted(events, key=lambda one: (-one[0], one[1])):
        clock.now = NOW - timedelta(days=days)
        if kind == 0:
            ids[event[0]] = engine.remember(event[0], **event[1]).memory.id
        elif kind == 1:
            name, where, turns = event
            messages = [
                {"speaker": speaker, "content": text, "timestamp": clock.now + place * timedelta(minutes=2)}
                for place, (speaker, text) in enumerate(turns)
            ]
            engine.ingest(messages, session_id=name, **where)
        else:
            engine.recall(event[0], **event[1])
    clock.now = NOW - timedelta(days=1)
    cat, tabs = ids["Alice has a cat named Pixel"], ids["Bob prefers tabs over spaces"]
    engine.update(cat, content="Alice has two cats, Pixel and Byte", reason="she told the agent", **_ALICE)
    engine.forget(tabs, reason="no longer true", **_BOB)
    engine.upkeep()
    clock.now = NOW


def opened(target: str, embedder: str | Embedder | None = None) -> Engine:
    """Return an engine on a new store that holds the sample."""
    clock = StoppedClock(NOW)
    engine = salience.connect(target, embedder=embedder, clock=clock)
    if not isinstance(engine, Engine):
        raise TypeError(target)
    engine.services = replace(engine.services, recall_log=timedelta(days=90))
    fill(engine, clock)
    return engine
