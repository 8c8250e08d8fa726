"""What the engine costs, beside other stores and beside what the machine itself needs for the same: `salience bench`.

```
corpus      memories by block, from a seed: texts, vectors, who and where; questions with a right answer
lookup      the embedder: a table from text to vector, so that no model is part of what is measured
truth       the nearest memories of each question, by every cosine; reference: the engine's own whole ranking
contender   what is measured: the protocol, the choices, and how one is opened
ours        Salience; peers/ the others; floor: bare scans of the same vectors
export      the corpus as an export file
clocks      quantiles, turn about, and a watch that stops while something is prepared
bench       one size, and the stores that hold it
asking, crowd, writing, fresh       the parts: a function each, from a bench to rows
quiet       nothing that a library wants to tell its makers leaves the machine
running     the parts of each size in their order, kept as files of JSON
tables      rows as tables; page: as Markdown; plot: as a drawing
```
"""
