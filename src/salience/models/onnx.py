"""Transformer models on ONNX Runtime: checked weights, batches of texts of similar length, one thread per batch."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from salience.batch import Rows, Vectors32
from salience.errors import EmbedderError
from salience.loading import Once, mapped, onnx_runtime

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Encoding

T = TypeVar("T")
Lengths = NDArray[np.intp]


class Transformer(Generic[T]):
    """A BERT model with its tokenizer. The first `encode` loads it.

    Args:
        name: of the model, for errors.
        load: returns the session of the model and its tokenizer.
        pool: computes what `encode` returns for each text of a batch, from the last hidden states float32[n, t, d] and
            the number of tokens of each text; the states after these are padding.
        threads: batches computed in parallel; 0 for one per core.
        batch_tokens: most tokens in a batch, including padding; 0 computes each text alone.
    """

    def __init__(
        self,
        name: str,
        load: Callable[[], tuple[InferenceSession, Any]],
        pool: Callable[[Vectors32, Lengths], Iterable[T]],
        threads: int,
        batch_tokens: int,
    ) -> None:
        self._name = name
        self._pool = pool
        self._threads = threads or cores()
        self._batch_tokens = batch_tokens
        self._model = Once(load)

    def encode(self, texts: Sequence[str]) -> list[T]:
        """Return the result of `pool` for each text.

        Raises:
            EmbedderError: the weights are missing or have another sha256, or ONNX Runtime failed.
        """
        if not texts:
            return []
        session, tokenizer = self._model()
        with mapped(self._name, "embed", "Check the memory that is left."):
            encodings = [tokenizer.encode(text) for text in texts]
            batches = _batches(
                np.array([len(encoding.ids) for encoding in encodings]), self._threads, self._batch_tokens
            )

            def pooled(rows: Rows) -> list[T]:
                return list(self._pool(*_hidden_states(session, [encodings[row] for row in rows])))

            threads = min(self._threads, len(batches))
            if threads == 1:
                results = [pooled(rows) for rows in batches]
            else:
                with ThreadPoolExecutor(threads) as executor:
                    results = list(executor.map(pooled, batches))
        found = {
            row: one for rows, batch in zip(batches, results, strict=True) for row, one in zip(rows, batch, strict=True)
        }
        return [found[row] for row in range(len(texts))]


def cores() -> int:
    """Return the number of cores that this process may use, at least 1."""
    usable = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return len(usable(0)) if usable else os.cpu_count() or 1


def read_checked(path: Path, sha256: str, what: str, remedy: str) -> bytes:
    """Return the content of a file that has this sha256.

    Raises:
        EmbedderError: the file cannot be read, or has another sha256; the message starts with `what`.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EmbedderError(f"{what} {str(path)!r} cannot be read ({error.strerror}). {remedy}") from None
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise EmbedderError(f"{what} {str(path)!r}: found the sha256 {digest}; expected {sha256}. {remedy}")
    return content


def open_session(weights: bytes) -> InferenceSession:
    """Return a session on the CPU that computes in the calling thread."""
    with onnx_runtime():
        from onnxruntime import InferenceSession, SessionOptions

        options = SessionOptions()
        options.log_severity_level = 4  # errors are raised; nothing belongs on an agent's stderr
        # ONNX Runtime's own threads spin while they wait, which halves the speed on busy cores, and do not survive a
        # fork. Batches in parallel are as fast on idle cores.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        return InferenceSession(weights, options, providers=["CPUExecutionProvider"])


def _batches(lengths: Lengths, threads: int, batch_tokens: int) -> list[Rows]:
    """Return rows in batches of similar length: rows times longest is at most `batch_tokens`, or one row.

    No batch has more than its thread's share of the rows, so that a few short texts use all threads.
    """
    most = -(-len(lengths) // threads)
    order = np.argsort(lengths, kind="stable")
    starts = [0]
    for place, length in enumerate(lengths[order]):
        count = place - starts[-1] + 1
        if count > 1 and (count > most or count * length > batch_tokens):
            starts.append(place)
    return np.split(order, starts[1:])


def _hidden_states(session: InferenceSession, encodings: Sequence[Encoding]) -> tuple[Vectors32, Lengths]:
    """Return the last hidden states float32[n, t, d] of a batch, and the number of tokens of each text."""
    lengths = np.array([len(encoding.ids) for encoding in encodings])
    ids = np.zeros((len(encodings), lengths.max()), np.int64)
    mask = np.zeros_like(ids)
    for row, encoding in enumerate(encodings):
        ids[row, : lengths[row]] = encoding.ids
        mask[row, : lengths[row]] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    return session.run(["last_hidden_state"], inputs)[0], lengths
