"""The memory that adapters get works on every kind of connection."""


def test_what_is_remembered_is_recalled(memory):
    memory.remember("Alice prefers tea", user_id="alice")
    assert [hit.memory.content for hit in memory.recall("What does Alice drink?", user_id="alice")] == [
        "Alice prefers tea"
    ]
