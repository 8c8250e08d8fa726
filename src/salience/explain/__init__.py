"""Why a memory is, or is not, in an answer: ranking's own notes, read row by row and put into words.

```
story       explain: find the memory, rank as the recall does, tell what became of it
trial       one ranking with every stage of it kept; what became of each row
reasons     a sentence and a note for each stage
levers      the one change that would have a memory returned
```
"""

from salience.explain.story import explain

__all__ = ["explain"]
