"""Embedder for any endpoint that speaks OpenAI's `/embeddings` protocol; needs no extra."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import httpx
import numpy as np
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from salience.batch import Vectors32, unit_vectors
from salience.deadline import retry_after
from salience.errors import EmbedderError
from salience.loading import mapped
from salience.models.endpoint import checked_key, checked_url

MAX_TEXTS: Final = 128
"""Most texts in a request; every known provider accepts as many."""
TRANSIENT: Final = frozenset({408, 409, 429, *range(500, 600)})
"""Statuses that are retried."""
_BACKOFF: Final = wait_exponential(multiplier=0.5, max=8.0) + wait_random(0.0, 0.5)
_KEY_REMEDY: Final = "Check SALIENCE_OPENAI_API_KEY."
_URL_REMEDY: Final = "Check SALIENCE_OPENAI_BASE_URL, the network and the provider's status."
_MODEL_REMEDY: Final = "Check SALIENCE_OPENAI_BASE_URL and SALIENCE_OPENAI_MODEL."
_ANSWER_REMEDY: Final = "Check that SALIENCE_OPENAI_BASE_URL is an OpenAI-compatible endpoint."
_REMEDIES: Final[Mapping[int, str]] = {
    400: "Check SALIENCE_OPENAI_MODEL, and that the texts are within its longest input.",
    401: _KEY_REMEDY,
    403: _KEY_REMEDY,
    404: _MODEL_REMEDY,
    413: "Shorten the texts: set SALIENCE_CONTENT_LIMIT.",
    429: "Check the quota of the key, or try again later.",
}


class OpenAI:
    """Vectors from an OpenAI-compatible endpoint, at most 128 texts per request.

    Transient failures (408, 409, 429, 5xx, no answer) are retried with exponential backoff and jitter, or after the
    endpoint's Retry-After, up to 30 s. No error message or `repr` shows the key.

    Args:
        base_url: the endpoint without `/embeddings`, such as `https://api.openai.com/v1`.
        model: the model's name at the endpoint.
        dimension: length of its vectors.
        api_key: sent as a bearer token; None where the endpoint wants none.
        timeout: seconds to connect, and to wait for each part of the answer.
        retries: further attempts after a transient failure.
        send_dimension: request vectors of `dimension`, for models that can shorten theirs.
        query_prefix, passage_prefix: texts that the engine puts before each query and each stored text.
        sleep: function that waits for a number of seconds.

    Raises:
        InputError: a base URL or key that cannot be sent.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        dimension: int,
        api_key: str | None = None,
        timeout: float = 20.0,
        retries: int = 3,
        *,
        send_dimension: bool = False,
        query_prefix: str = "",
        passage_prefix: str = "",
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = f"openai:{model}"
        self.dimension = dimension
        self.query_prefix, self.passage_prefix = query_prefix, passage_prefix
        url = checked_url("openai_base_url", base_url)
        self._endpoint = url.copy_with(path=url.path.rstrip("/") + "/embeddings")
        self.remote = self._endpoint.netloc.decode()  # writes limit how long they wait for a remote embedder
        self._request: dict[str, Any] = {"model": model, "encoding_format": "float"}
        self._request |= {"dimensions": dimension} if send_dimension else {}
        key = checked_key("openai_api_key", api_key)
        self._client = httpx.Client(headers={"Authorization": f"Bearer {key}"} if key else {}, timeout=timeout)
        weakref.finalize(self, self._client.close)
        self._retrying = Retrying(
            retry=retry_if_exception_type(_TransientError),
            stop=stop_after_attempt(retries + 1),
            wait=_wait,
            sleep=sleep,
            reraise=True,
        )

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), dimension], rows of length 1.

        Raises:
            EmbedderError: the endpoint refused, did not answer, or did not answer one vector per text. The message
                names the host, the status and the remedy.
        """
        parts = [texts[start : start + MAX_TEXTS] for start in range(0, len(texts), MAX_TEXTS)]
        vectors = [self._retrying.copy()(self._ask, part) for part in parts]
        return np.concatenate([np.empty((0, self.dimension), np.float32), *vectors])

    def _ask(self, texts: Sequence[str]) -> Vectors32:
        response = self._post(texts)
        if not response.is_success:
            raise self._refusal(response)
        try:
            numbers = _numbers(_in_order(response.json(), len(texts)))
        except (ValueError, TypeError, KeyError) as error:
            reason = error if isinstance(error, _AnswerError) else "something else than embeddings"
            raise EmbedderError(self._says(f"answered {reason}", _ANSWER_REMEDY)) from None
        if numbers.shape[1:] != (self.dimension,):
            found = f"answered vectors of dimension {numbers.shape[-1]}; expected {self.dimension}"
            raise EmbedderError(self._says(found, "Set SALIENCE_OPENAI_DIMENSION to the model's."))
        return unit_vectors(numbers, self.name, len(texts), self.dimension)

    def _post(self, texts: Sequence[str]) -> httpx.Response:
        with mapped(self.name, "send the texts", _URL_REMEDY):
            try:
                return self._client.post(self._endpoint, json=self._request | {"input": list(texts)})
            except httpx.RequestError as error:
                raise _TransientError(self._says(f"did not answer ({type(error).__name__})", _URL_REMEDY)) from error

    def _refusal(self, response: httpx.Response) -> EmbedderError:
        status = response.status_code
        fallback = _URL_REMEDY if status in TRANSIENT else _MODEL_REMEDY
        message = self._says(f"answered with status {status}", _REMEDIES.get(status, fallback))
        return (
            _TransientError(message, retry_after(response.headers)) if status in TRANSIENT else EmbedderError(message)
        )

    def _says(self, what: str, remedy: str) -> str:
        return f"embedder {self.name!r}: {self.remote} {what}. {remedy}"


class _TransientError(EmbedderError):
    """A failure to retry, after at least `retry_after` seconds."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class _AnswerError(ValueError):
    """An unusable answer, described in words that an error message may show."""


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, _TransientError) else 0.0
    return max(_BACKOFF(state), asked)


def _in_order(answer: Any, count: int) -> list[Any]:
    """Return the embeddings of `answer` in the order of the texts, by their `index`."""
    data = answer["data"]
    if len(data) != count:
        raise _AnswerError(f"{len(data)} embeddings for {count} texts")
    by_index = {item["index"]: item["embedding"] for item in data}
    if set(by_index) != set(range(count)):
        raise _AnswerError("embeddings whose indices are not those of the texts")
    return [by_index[index] for index in range(count)]


def _numbers(rows: Iterable[Any]) -> Vectors32:
    """Return `rows` as float32; refuse strings and booleans, which NumPy would convert."""
    array = np.array(list(rows))
    if array.dtype.kind not in "iuf":
        raise _AnswerError("embeddings that are not numbers")
    with np.errstate(over="ignore"):
        numbers = array.astype(np.float32)
    if not np.isfinite(numbers).all():
        raise _AnswerError("embeddings with NaN or infinity")
    return numbers
