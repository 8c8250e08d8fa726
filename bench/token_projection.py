"""Make the projection of MiniLM's token vectors from 384 to 64 dimensions: `python -m bench.token_projection`.

It is the 64 principal axes of the unit hidden states of all tokens of the everyday data set's fit half, without
centring, so that inner products of unit vectors change least.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from salience.evaluate import everyday
from salience.models import minilm
from salience.models.onnx import Transformer

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


def main() -> None:
    """Write the projection into the package."""
    model = Transformer(minilm.NAME, lambda: minilm._load(None), lambda hidden, _: hidden[:, 1:-1], 0, 0)
    rows = np.concatenate(model.encode(texts()))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    axes = np.linalg.svd(rows, full_matrices=False)[2][: minilm.TOKEN_SIZE]
    axes *= np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]  # a sign that does not vary
    np.save(minilm.PROJECTION, axes.T.astype(np.float16))


if __name__ == "__main__":
    main()
