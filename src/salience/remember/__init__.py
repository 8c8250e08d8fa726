"""Writes: drafts become memories, conflicts are reported, stored memories are changed.

```
drafts     call arguments -> Draft -> Memory
llm        optional fact reader and judge
conflicts  similar memories and the warning about them
facts      current memory of a fact, repeated texts
write      the six steps of a write
revise     update, forget, restore
```
"""

from salience.remember.drafts import clean, derive, drafts, split_turns, turns
from salience.remember.revise import forget, restore, update, versions_of
from salience.remember.write import decide, remember, stale

__all__ = [
    "clean", "decide", "derive", "drafts", "forget", "remember", "restore", "split_turns", "stale", "turns", "update",
    "versions_of",
]  # fmt: skip
