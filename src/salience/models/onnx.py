"""Transformer models on ONNX Runtime: checked weights, batches of texts of similar length, one thread per batch."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from salience.batch import Rows, Vectors32
from salience.errors import EmbedderError
from salience.loading import Once, mapped, onnx_runtime
from salience.text import is_latin

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Encoding

T = TypeVar("T")
Lengths = NDArray[np.intp]
Ids = list[int]
UNKNOWN: Final = "[UNK]"
"""Token of a word that is not in the vocabulary."""


class Transformer(Generic[T]):
    """A BERT model with its tokenizer. The first `encode` loads it.

    The model reads only the words that it knows: see `known_ids`.

    Args:
        name: of the model, for errors.
        load: returns the session of the model and its tokenizer.
        pool: computes what `encode` returns for each text of a batch, from the last hidden states float32[n, t, d] and
            the number of tokens of each text; the states after these are padding.
        threads: batches computed in parallel; 0 for one per core.
        batch_tokens: most tokens in a batch, including padding; 0 computes each text alone.
        prefix: text that the engine puts before queries; the words of the query itself must be known.
        is_english: whether the model reads Latin letters alone.
    """

    def __init__(
        self,
        name: str,
        load: Callable[[], tuple[InferenceSession, Any]],
        pool: Callable[[Vectors32, Lengths], Iterable[T]],
        threads: int,
        batch_tokens: int,
        prefix: str = "",
        is_english: bool = True,
    ) -> None:
        self._name = name
        self._pool = pool
        self._threads = threads or cores()
        self._batch_tokens = batch_tokens
        self._prefix = prefix
        self._is_english = is_english
        self._model = Once(load)

    def encode(self, texts: Sequence[str]) -> list[T | None]:
        """Return the result of `pool` for each text; None for a text of unknown words.

        Raises:
            EmbedderError: the weights are missing or have another sha256, or ONNX Runtime failed.
        """
        if not texts:
            return []
        session, tokenizer = self._model()
        with mapped(self._name, "embed", "Check the memory that is left."):
            read = [known_ids(text, tokenizer.encode(text), self._prefix, self._is_english) for text in texts]
            places = [place for place, ids in enumerate(read) if ids is not None]
            tokens = [ids for ids in read if ids is not None]
            found: list[T | None] = [None] * len(texts)
            batches = _batches(np.array([len(ids) for ids in tokens]), self._threads, self._batch_tokens)

            def pooled(rows: Rows) -> list[T]:
                return list(self._pool(*_hidden_states(session, [tokens[row] for row in rows])))

            threads = min(self._threads, len(batches))
            if threads <= 1:
                results = [pooled(rows) for rows in batches]
            else:
                with ThreadPoolExecutor(threads) as executor:
                    results = list(executor.map(pooled, batches))
        for rows, batch in zip(batches, results, strict=True):
            for row, one in zip(rows, batch, strict=True):
                found[places[row]] = one
        return found


def known_ids(text: str, encoding: Encoding, prefix: str = "", is_english: bool = True) -> Ids | None:
    """Return the token ids of a text without its unknown words; None if it has more unknown letters than known ones.

    A word is unknown if it is not in the vocabulary, or, for an English model, if its letters are not Latin: of other
    scripts such a vocabulary has little more than single letters, and the model gives their words nearly one vector. A
    text without any known letter or digit has None too. The words of `prefix` at the start of the text are not counted.
    """
    ids: Ids = encoding.ids
    start = len(prefix) if text.startswith(prefix) else 0
    if text.isascii() and UNKNOWN not in encoding.tokens:
        return ids if any(map(str.isalnum, text[start:])) else None
    words: dict[int, list[int]] = {}
    for place, word in enumerate(encoding.word_ids):
        if word is not None:  # None: [CLS] and [SEP]
            words.setdefault(word, []).append(place)
    dropped, known, unknown = set[int](), 0, 0
    for places in words.values():
        first, end = encoding.offsets[places[0]][0], encoding.offsets[places[-1]][1]
        size = sum(map(str.isalnum, text[first:end]))
        if not _is_known([encoding.tokens[place].removeprefix("##") for place in places], is_english):
            dropped.update(places)
            unknown += size
        elif first >= start:
            known += size
    if not known or known < unknown:
        return None
    return [id_ for place, id_ in enumerate(ids) if place not in dropped] if dropped else ids


def _is_known(pieces: Sequence[str], is_english: bool) -> bool:
    """Return whether a model knows a word of these pieces; an English one knows Latin letters and signs alone."""
    word = "".join(pieces)
    if not is_english:
        return not {UNKNOWN, "<unk>"} & set(pieces)
    return UNKNOWN not in pieces and (is_latin(word) or not any(map(str.isalpha, word)))


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


def open_session(weights: bytes | str) -> InferenceSession:
    """Return a session on the CPU that computes in the calling thread, from weights or their path."""
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
    if not len(lengths):
        return []
    order = np.argsort(lengths, kind="stable")
    starts = [0]
    for place, length in enumerate(lengths[order]):
        count = place - starts[-1] + 1
        if count > 1 and (count > most or count * length > batch_tokens):
            starts.append(place)
    return np.split(order, starts[1:])


def _hidden_states(session: InferenceSession, tokens: Sequence[Ids]) -> tuple[Vectors32, Lengths]:
    """Return the last hidden states float32[n, t, d] of a batch, and the number of tokens of each text."""
    lengths = np.array([len(own) for own in tokens])
    ids = np.zeros((len(tokens), lengths.max()), np.int64)
    mask = np.zeros_like(ids)
    for row, own in enumerate(tokens):
        ids[row, : lengths[row]] = own
        mask[row, : lengths[row]] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    return session.run(["last_hidden_state"], inputs)[0], lengths
