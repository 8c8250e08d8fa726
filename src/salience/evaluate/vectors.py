"""A memory on disk of the vectors of texts, so that measuring twice embeds once."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import platformdirs

from salience.batch import Vectors32
from salience.models.cache import Wrapped
from salience.ports import Embedder


def cache_folder() -> Path:
    """Return where vectors are kept by default: `vectors` in the platform's cache directory."""
    return Path(platformdirs.user_cache_dir("salience", appauthor=False)) / "vectors"


class OnDisk(Wrapped):
    """An embedder that keeps what it made of several texts at once in files of a folder.

    The key is the embedder's name with all texts of a call, in order, and not each text: the vector of a text may
    differ in its last digits with those that it is embedded beside. A figure measured with the cache is so the figure
    without it. Only vectors and hashes are kept, no text.

    Args:
        embedder: whose vectors they are.
        folder: where the files lie; made when the first is written.
    """

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        super().__init__(embedder)
        self._folder = folder

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), dimension], from a file if these texts were embedded before.

        Raises:
            EmbedderError: the embedder failed.
        """
        file = self._folder / f"{self._key(texts)}.npy"
        kept = _read(file, (len(texts), self.dimension))
        if kept is not None:
            return kept
        vectors = self._embedder.embed(texts)
        _write(file, vectors)
        return vectors

    def _key(self, texts: Sequence[str]) -> str:
        parts = (self.name, str(self.dimension), *texts)
        sizes = ",".join(str(len(part)) for part in parts)  # so that no two lists of texts run together alike
        return hashlib.sha256("\0".join((sizes, *parts)).encode("utf-8", "surrogatepass")).hexdigest()


def _read(file: Path, shape: tuple[int, int]) -> Vectors32 | None:
    try:
        vectors = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return vectors.astype(np.float32) if vectors.shape == shape else None


def _write(file: Path, vectors: Vectors32) -> None:
    """Write a file whole or not at all; one that cannot be written is done without."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
        with os.fdopen(handle, "wb") as part:
            np.save(part, np.asarray(vectors, np.float32), allow_pickle=False)
        Path(name).replace(file)
    except OSError:
        return
