"""Writes: drafts become memories, conflicts are reported, stored memories are changed.

```
drafts       call arguments -> Draft -> Memory
llm          optional fact reader and judge
conflicts    similar memories and the warning about them
facts        current memory of a fact, repeated texts
reflections  reflections of changed memories become stale
write        the story of a write
revise       update, forget, restore
```
"""

from salience.remember.drafts import clean, derive, drafts, split_turns, terms_and_distinctions, turns
from salience.remember.revise import forget, restore, update, versions_of
from salience.remember.write import decide, remember

__all__ = [
    "clean",
    "decide",
    "derive",
    "drafts",
    "forget",
    "remember",
    "restore",
    "split_turns",
    "terms_and_distinctions",
    "turns",
    "update",
    "versions_of",
]
