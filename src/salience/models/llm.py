"""Client for language models behind any endpoint that speaks OpenAI's chat protocol; uses the official library."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from salience.deadline import Pause
from salience.errors import SalienceError
from salience.loading import Once, require
from salience.settings import Settings
from salience.text import spelled

if TYPE_CHECKING:
    import openai

REST: Final = 60.0
"""Seconds without requests from writes after the model failed."""
MAX_ANSWER: Final = 50_000
"""Characters of an answer that `objects` reads, to bound the work."""
ANSWER_REMEDY: Final = "Choose a model that follows instructions: set SALIENCE_LLM_MODEL."
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
_REQUEST_ERRORS: Final = frozenset({400, 413, 422})
"""Statuses that depend on the request; the next request may succeed."""


class ChatError(SalienceError):
    """The endpoint refused, did not answer, or gave an unusable answer; models convert it to the error of their port.

    The message starts with the host, then says what happened and what to do.
    """


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of a language model, with timeout and retries.

    Attributes:
        base_url: the endpoint without `/chat/completions`, such as `https://api.openai.com/v1`.
        model: the model's name at the endpoint.
        api_key: sent as a bearer token; None where the endpoint wants none.
        timeout: seconds to connect, and to wait for each part of the answer.
        retries: further attempts after a transient failure, with exponential backoff and jitter.
        rest: seconds without requests after a failure that the question itself did not cause.
    """

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    timeout: float = 60.0
    retries: int = 2
    rest: float = 0.0


class Chat:
    """Chat client of one model. No error message or `repr` shows the key, and the environment adds no credentials.

    Args:
        endpoint: the model.
        role: the setting that needs the model, such as `summariser`; named if the library is missing.

    Raises:
        MissingExtraError: the library `openai` is not installed.
        InputError: a base URL or key that cannot be sent.
    """

    def __init__(self, endpoint: Endpoint, role: str) -> None:
        require("openai", f"the {role} 'openai'", "llm")
        from salience.models.endpoint import checked_key, checked_url  # imports httpx, which is slow

        self.name = f"openai:{endpoint.model}"
        self._model = endpoint.model
        self._host = checked_url("llm_base_url", endpoint.base_url).netloc.decode()
        key = checked_key("llm_api_key", endpoint.api_key)
        self._is_open = key is None
        self._rest = Pause(endpoint.rest)
        self._client = Once(lambda: _client(endpoint, key))

    def ask(self, system: str, user: str) -> str:
        """Return the model's answer to a user message under a system prompt, as `reply`."""
        return self.reply([{"role": "system", "content": system}, {"role": "user", "content": user}])

    def reply(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Return the model's answer to messages, each with a role and a content; it may be empty.

        Raises:
            ChatError: the endpoint refused, did not answer, answered in another protocol, or failed within `rest`.
        """
        import openai

        if self._rest.is_on:
            raise self.fault("failed recently and is not asked for now", _URL_REMEDY)
        try:
            return self._answer(messages)
        except openai.APIStatusError as error:
            status = error.status_code
            if status not in _REQUEST_ERRORS:
                self._rest.begin()
            remedy = _REMEDIES.get(status, _URL_REMEDY if status >= 500 else _MODEL_REMEDY)
            raise self.fault(f"answered with status {status}", remedy) from None
        except openai.APIConnectionError as error:  # includes timeouts
            self._rest.begin()
            raise self.fault(f"did not answer ({type(error).__name__})", _URL_REMEDY) from None
        except Exception as error:  # an answer in another protocol can raise anything in the client
            self._rest.begin()
            what = f"answered something else than a completion ({type(error).__name__})"
            raise self.fault(what, _MODEL_REMEDY) from None

    def fault(self, what: str, remedy: str = ANSWER_REMEDY) -> ChatError:
        """Return an error that says what the endpoint did, and what to do about it."""
        return ChatError(f"{self._host} {what}. {remedy}")

    def _answer(self, messages: Sequence[Mapping[str, str]]) -> str:
        import openai

        completion = self._client().chat.completions.create(
            model=self._model,
            messages=messages,
            extra_headers={"Authorization": openai.Omit()} if self._is_open else None,
        )
        answer: object = completion.choices[0].message.content
        if not isinstance(answer, str | None):
            raise TypeError
        return answer or ""


def from_settings(settings: Settings, role: str, write_timeout: float | None = None) -> Chat:
    """Return the client of the language model that the settings name.

    Args:
        settings: the installation's settings.
        role: the setting that needs the model, such as `judge`.
        write_timeout: seconds that a write waits for the model. The client then asks once, and after a failure sends
            nothing for `REST` seconds, so that not every write waits in vain.

    Raises:
        MissingExtraError: the library `openai` is not installed.
        InputError: a base URL or key that cannot be sent.
    """
    key = None if settings.llm_api_key is None else settings.llm_api_key.get_secret_value()
    timeout, retries, rest = settings.llm_timeout, settings.llm_retries, 0.0
    if write_timeout is not None:
        timeout, retries, rest = min(write_timeout, timeout), 0, REST
    return Chat(Endpoint(settings.llm_base_url, settings.llm_model, key, timeout, retries, rest), role)


def quoted(records: Sequence[Mapping[str, str]]) -> str:
    """Return records as a JSON list with angle brackets and invisible characters escaped.

    A text can neither leave its quotation marks nor imitate the role markers of a chat format.
    """
    return spelled(json.dumps(list(records), ensure_ascii=False), "<>")


def objects(answer: str, keys: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in an answer that have these keys; models put words and fences around them."""
    answer = answer[:MAX_ANSWER]
    decoder, start = json.JSONDecoder(), answer.find("{")
    while start >= 0:
        try:
            found, end = decoder.raw_decode(answer, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            if isinstance(found, dict) and found.keys() >= set(keys):
                yield found
        start = answer.find("{", end)


def last(found: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the last object, None if there is none: models may think aloud before they answer."""
    return next(iter(list(found)[::-1]), None)


def _client(endpoint: Endpoint, key: str | None) -> openai.OpenAI:
    """Return the official client without the key, organisation and project that it reads from the environment."""
    import openai

    client = openai.OpenAI(
        base_url=endpoint.base_url, api_key=key or "none", timeout=endpoint.timeout, max_retries=endpoint.retries
    )
    client.organization = client.project = None
    return client
