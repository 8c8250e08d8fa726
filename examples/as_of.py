"""Ask what was known at an earlier time: nothing is lost when a fact changes. Needs no network.

python examples/as_of.py
"""

from datetime import UTC, datetime

import salience

now = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
QUESTION = "Where does Alice live?"

with salience.connect(":memory:", clock=lambda: now) as memory:
    lives = memory.remember("Alice lives in Berlin", user_id="alice").memory

    now = datetime(2026, 9, 15, 9, 0, tzinfo=UTC)
    memory.update(lives.id, content="Alice lives in Lisbon", reason="she moved", user_id="alice")

    print("today:      ", memory.recall(QUESTION, user_id="alice")[0].memory.content)
    past = memory.recall(QUESTION, user_id="alice", as_of="2026-06-01T00:00:00Z")
    print("on 1 June:  ", past[0].memory.content)
    for version in memory.history(lives.id, user_id="alice"):
        one = version.memory
        print(f"version {one.version}:   {one.content} (since {one.changed_at:%Y-%m-%d}, reason: {one.reason})")
