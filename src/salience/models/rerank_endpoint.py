"""Reranker behind an HTTP endpoint: Text Embeddings Inference, Cohere, Jina, and servers that speak their protocols."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Final

import httpx
import numpy as np

from salience.batch import Floats
from salience.errors import RerankerError
from salience.loading import mapped
from salience.models.endpoint import checked_key, checked_url

MAX_TEXTS: Final = 32
"""Texts in a request to a server without a model name: what Text Embeddings Inference accepts by default."""
_KEY_REMEDY: Final = "Check SALIENCE_RERANKER_API_KEY."
_URL_REMEDY: Final = "Check the URL in SALIENCE_RERANKER, the network and the provider's status."
_MODEL_REMEDY: Final = "Check SALIENCE_RERANKER: the path, and the model after '#', which Cohere and Jina need."
_REMEDIES: Final[Mapping[int, str]] = {
    400: _MODEL_REMEDY,
    401: _KEY_REMEDY,
    403: _KEY_REMEDY,
    404: _MODEL_REMEDY,
    422: _MODEL_REMEDY,
    429: "Check the quota of the key, or try again later.",
}


class EndpointReranker:
    """Scores of an HTTP endpoint. A failure is not retried, since the profile's order is a good answer.

    ```
    url without a model   POST {query, texts}                      -> [{index, score}]                     TEI
    url#model             POST {model, query, documents, top_n}    -> {results: [{index, relevance_score}]} Cohere, Jina
    ```

    No error message or `repr` shows the key.

    Args:
        url: of the endpoint with its path, such as `http://localhost:8080/rerank` or
            `https://api.cohere.com/v2/rerank#rerank-v3.5`. The part after `#` is the model; it is not sent in the URL.
        api_key: sent as a bearer token; None where the endpoint wants none.
        timeout: seconds to connect, and to wait for each part of the answer.

    Raises:
        InputError: a URL or key that cannot be sent.
    """

    def __init__(self, url: str, api_key: str | None = None, timeout: float = 5.0) -> None:
        checked = checked_url("reranker", url)
        self._model = checked.fragment
        self._url = checked.copy_with(fragment=None)
        self._host = checked.netloc.decode()
        self.name = f"{self._host}{checked.path}" + (f"#{self._model}" if self._model else "")
        key = checked_key("reranker_api_key", api_key)
        self._client = httpx.Client(headers={"Authorization": f"Bearer {key}"} if key else {}, timeout=timeout)
        weakref.finalize(self, self._client.close)

    def scores(self, query: str, texts: Sequence[str], /) -> Floats:
        """Return float64[len(texts)], larger for a better answer.

        Raises:
            RerankerError: the endpoint refused, did not answer, or did not answer one number per text. The message
                names the host, the status and the remedy.
        """
        size = len(texts) if self._model else MAX_TEXTS
        parts = [self._ask(query, texts[start : start + size]) for start in range(0, len(texts), max(size, 1))]
        return np.concatenate([np.empty(0), *parts])

    def _ask(self, query: str, texts: Sequence[str]) -> Floats:
        request: dict[str, Any] = {"query": query, "texts": list(texts), "truncate": True}
        if self._model:
            request = {"model": self._model, "query": query, "documents": list(texts), "top_n": len(texts)}
        with mapped(self.name, "send the texts", _URL_REMEDY, "reranker"):
            try:
                response = self._client.post(self._url, json=request)
            except httpx.RequestError as error:
                raise self._fault(f"did not answer ({type(error).__name__})", _URL_REMEDY) from None
        if not response.is_success:
            status = response.status_code
            raise self._fault(f"answered with status {status}", _REMEDIES.get(status, _URL_REMEDY))
        try:
            answer = response.json()
            items = answer.get("results") or answer["data"] if isinstance(answer, dict) else answer  # Voyage: data
            found = {item["index"]: item["relevance_score" if "relevance_score" in item else "score"] for item in items}
            if set(found) != set(range(len(texts))) or any(isinstance(one, (str, bool)) for one in found.values()):
                raise ValueError
            return np.array([found[place] for place in range(len(texts))], np.float64)
        except (ValueError, TypeError, KeyError):
            raise self._fault("answered something else than a score per text", _MODEL_REMEDY) from None

    def _fault(self, what: str, remedy: str) -> RerankerError:
        return RerankerError(f"reranker {self.name!r}: {self._host} {what}. {remedy}")
