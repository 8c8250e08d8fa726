"""Make the projections of token vectors to 64 dimensions: `python -m bench.token_projection [minilm] [bge]`.

A projection is the 64 principal axes of the unit hidden states of all tokens of the everyday data set's fit half, so
that inner products of unit vectors change least. MiniLM's states are not centred; those of BGE are, since tokens of
unrelated texts have a cosine of 0.54 otherwise. The file of a centred projection starts with the centre's coordinates
on the axes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from salience.batch import Vectors32
from salience.evaluate import everyday
from salience.models import bge, minilm
from salience.models.onnx import Transformer
from salience.models.tokens import TOKEN_SIZE

WORLDS = Path(everyday.__file__).parent / "data" / "everyday" / "fit"


def texts() -> list[str]:
    """Return the memories and questions of the English worlds."""
    found = []
    for path in sorted(WORLDS.glob("*.json")):
        world = json.loads(path.read_text("utf-8"))
        if not any("language" in memory for memory in world["memories"]):
            found += [memory["content"] for memory in world["memories"]]
            found += [question["query"] for question in world["questions"]]
    return found


def axes_of(rows: Vectors32) -> Vectors32:
    """Return float[64, d], the principal axes of rows, not centred."""
    axes: Vectors32 = np.linalg.svd(rows, full_matrices=False)[2][:TOKEN_SIZE]
    axes *= np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]  # a sign that does not vary
    return axes


def main(names: Sequence[str]) -> None:
    """Write the projections into the package."""
    models = {"minilm": (minilm.NAME, lambda: minilm._load(None)), "bge": (bge.NAME, bge._load)}
    for name in names or list(models):
        known, load = models[name]
        states = Transformer(known, load, lambda hidden, _: hidden[:, 1:-1], 0, 0).encode(texts())
        rows: Vectors32 = np.concatenate([one for one in states if one is not None])
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        if name == "minilm":
            np.save(minilm.PROJECTION, axes_of(rows).T.astype(np.float16))
        else:
            centre = rows.mean(axis=0)
            axes = axes_of(rows - centre)
            np.save(bge.PROJECTION, np.concatenate([[axes @ centre], axes.T]).astype(np.float16))


if __name__ == "__main__":
    main(sys.argv[1:])
