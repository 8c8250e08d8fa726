"""A language model behind any endpoint that speaks OpenAI's chat protocol, through the official client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from salience.deadline import Rest
from salience.errors import InputError, Words
from salience.loading import Once, require

if TYPE_CHECKING:
    import openai

ANSWER_REMEDY: Final = "Choose a model that follows instructions: set SALIENCE_LLM_MODEL."
"""What to do about a model that answers something else than it was asked for."""
_KEY_REMEDY: Final = "Check SALIENCE_LLM_API_KEY."
_URL_REMEDY: Final = "Check SALIENCE_LLM_BASE_URL, the network and the provider's status."
_MODEL_REMEDY: Final = "Check SALIENCE_LLM_BASE_URL and SALIENCE_LLM_MODEL."
_REMEDIES: Final[Mapping[int, str]] = {
    400: "Check SALIENCE_LLM_MODEL, and that the memories are within its longest input.",
    401: _KEY_REMEDY,
    403: _KEY_REMEDY,
    404: _MODEL_REMEDY,
    429: "Check the quota of the key, or try again later.",
}
_OF_ONE_QUESTION: Final = frozenset({400, 413, 422})
"""Statuses that may be due to the question, so that the next one may be answered."""


class ChatError(Exception):
    """The endpoint refused, did not answer, or answered something else; each port makes its own error of it.

    The message names the host, what happened and what to do. It opens with the host, to stand after who has asked.
    """


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a language model is, and how patiently it is asked.

    Attributes:
        base_url: the endpoint without `/chat/completions`, such as `https://api.openai.com/v1`.
        model: the model's name at the endpoint.
        api_key: sent as a bearer token; None where the endpoint wants none.
        timeout: seconds to wait for the endpoint to connect, and for each part of its answer.
        retries: further tries after a failure that may pass, with a rising, jittered wait.
        rest: seconds for which it is not asked again after a failure that is not of the question alone.
    """

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    timeout: float = 60.0
    retries: int = 2
    rest: float = 0.0


class Chat:
    """Answers of one model, a request each.

    The key is in no message and no representation of this object, and nothing but what is given here is read from the
    environment to authorise it.

    Args:
        endpoint: the model.
        asker: who asks, such as `summariser`; it is named if the library is missing.

    Raises:
        MissingExtraError: the library `openai` is not installed.
        InputError: a base URL or key that cannot be sent.
    """

    def __init__(self, endpoint: Endpoint, asker: str) -> None:
        require("openai", f"the {asker} 'openai'", "llm")
        self.name = f"openai:{endpoint.model}"
        self._model = endpoint.model
        self._host = _host(endpoint.base_url)
        key = _key(endpoint.api_key)
        self._is_open = key is None
        self._rest = Rest(endpoint.rest)
        self._client = Once(lambda: _client(endpoint, key))

    def ask(self, system: str, user: str) -> str:
        """Return the model's answer to a message of a user, under what the system tells it; it may be empty.

        Raises:
            ChatError: the endpoint refused, did not answer, answered in another protocol, or is given a rest.
        """
        import openai

        if self._rest.is_on:
            raise self.fault("failed lately and is given a rest", _URL_REMEDY)
        try:
            return self._answer(system, user)
        except openai.APIStatusError as error:
            status = error.status_code
            if status not in _OF_ONE_QUESTION:
                self._rest.begin()
            remedy = _REMEDIES.get(status, _URL_REMEDY if status >= 500 else _MODEL_REMEDY)
            raise self.fault(f"answered with status {status}", remedy) from None
        except openai.APIConnectionError as error:  # a timeout is one as well
            self._rest.begin()
            raise self.fault(f"did not answer ({type(error).__name__})", _URL_REMEDY) from None
        except Exception as error:  # what an answer of another protocol makes of the client is not foreseen
            self._rest.begin()
            what = f"answered something else than a completion ({type(error).__name__})"
            raise self.fault(what, _MODEL_REMEDY) from None

    def fault(self, what: str, remedy: str = ANSWER_REMEDY) -> ChatError:
        """Return the error that says what the endpoint did, and what to do about it."""
        return ChatError(f"{self._host} {what}. {remedy}")

    def _answer(self, system: str, user: str) -> str:
        import openai

        completion = self._client().chat.completions.create(
            model=self._model,
            messages=[{"role": "system", "content": system}, {"role": "user", "content": user}],
            extra_headers={"Authorization": openai.Omit()} if self._is_open else None,
        )
        answer: object = completion.choices[0].message.content
        if not isinstance(answer, str | None):
            raise TypeError
        return answer or ""


def _host(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        host = parts.hostname if parts.scheme in ("http", "https") else None
        port = parts.port
    except (ValueError, AttributeError, TypeError):
        host = port = None
    if not host:
        # the value may hold a password
        raise InputError(
            "llm_base_url", Words("a text that is no URL of http or https"), "Give one, with a host.", "is no http URL"
        )
    return host if port is None else f"{host}:{port}"


def _key(api_key: str | None) -> str | None:
    key = (api_key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise InputError(
            "llm_api_key",
            Words("a key with unusual characters"),
            "Give the key in printable ASCII.",
            "has unusual characters",
        )
    return key or None


def _client(endpoint: Endpoint, key: str | None) -> openai.OpenAI:
    """Return the client; what it takes from the environment of its own accord is taken off again.

    Without a key it would take one from there; the one that it gets in its place is never sent.
    """
    import openai

    client = openai.OpenAI(
        base_url=endpoint.base_url, api_key=key or "none", timeout=endpoint.timeout, max_retries=endpoint.retries
    )
    client.organization = client.project = None
    return client
