"""Ask one question under two ranking profiles, and see why the orders differ. Needs no network.

python examples/profiles.py
"""

import salience

with salience.connect(":memory:") as memory:
    for day, text in {
        "2025-01-10": "Alice is allergic to peanuts",
        "2026-05-02": "Alice had peanut noodles for lunch with Bob",
        "2026-05-03": "Alice ate a salad",
    }.items():
        memory.remember(text, user_id="alice", created_at=f"{day}T12:00:00Z")

    # salience: meaning and words, whatever the age; mememory: similarity times a decay with age
    for profile in ("salience", "mememory"):
        print(f"{profile}:")
        question, now = "Is Alice allergic to something?", "2026-05-04T12:00:00Z"
        for hit in memory.recall(question, profile=profile, user_id="alice", now=now, dry_run=True):
            print(f"  {hit.score:.2f} {hit.memory.content}")
            for part in hit.score_detail.parts:
                sign = "+" if part.combine == "sum" else "x"
                print(f"       {sign} {part.contribution:.2f}  {part.signal} {part.raw:.2f}")
