"""Retries, and conversion of responses to results and errors.

Reads and writes with an idempotency key are safe to retry. Other writes are retried only if the server did nothing:
the connection failed, or the response says so (busy, rate limit).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx
from tenacity import (
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    stop_after_delay,
    wait_exponential,
    wait_random,
)

from salience.client.calls import Call
from salience.deadline import retry_after
from salience.errors import BusyError, LimitError, SalienceError, ServerError, StoreError, UnsettledError
from salience.lines import parsed
from salience.wire.errors import MEDIA_TYPE, from_problem

TEMPORARY: Final = frozenset({429, 502, 503, 504})
"""Statuses that count as temporary in responses without problem details."""
GRACE: Final = 5.0
"""Time to wait for a response after the deadline of its recall, seconds."""
LONG_TIMEOUT: Final = 3600.0
"""Timeout of verbs that may scan a whole store, seconds."""
_BACKOFF: Final = wait_exponential(multiplier=0.1, max=5.0) + wait_random(0.0, 0.2)
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_CHECK_KEYED: Final = "Check before you retry, or pass your own idempotency key (key=), so that it is done once."
_CHECK: Final = "Check before you retry; a second call is safe, but its report describes the second call."
_CHECK_URL: Final = "Check the URL, the network and the server."


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Timeout of each step of a request, seconds, and maximum number of retries."""

    timeout: float = 30.0
    retries: int = 3


class _AttemptFailedError(Exception):
    """An attempt failed; `retry` says whether to try again, after at least `wait` seconds."""

    def __init__(self, error: SalienceError, retry: bool = True, wait: float = 0.0) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry = retry
        self.wait = wait


class Attempts:
    """The attempts of one call, sync or async.

    Attributes:
        started: the number of attempts so far.
        uncertain: whether a response was lost, so that the outcome is unknown.
    """

    def __init__(self, call: Call, host: str, policy: RetryPolicy) -> None:
        self.call = call
        self.started = 0
        self.uncertain = False
        self._host = host
        self._policy = policy

    @property
    def tenacity(self) -> dict[str, Any]:
        """Arguments of `tenacity.Retrying` and `AsyncRetrying`."""
        stop: Any = stop_after_attempt(self._policy.retries + 1)
        if self.call.deadline is not None:
            stop |= stop_after_delay(self.call.deadline + GRACE)
        retry = retry_if_exception(lambda error: isinstance(error, _AttemptFailedError) and error.retry)
        return {"retry": retry, "stop": stop, "wait": _wait, "reraise": True}

    @property
    def timeout(self) -> httpx.Timeout:
        """The timeout of each step of an attempt."""
        seconds = self._policy.timeout
        if self.call.deadline is not None:
            seconds = min(seconds, self.call.deadline + GRACE)
        return httpx.Timeout(seconds, read=LONG_TIMEOUT if self.call.is_long else seconds)

    @contextmanager
    def final_errors(self) -> Iterator[None]:
        """Convert the failure of the last attempt into the error of the call."""
        try:
            yield
        except _AttemptFailedError as failed:
            if self.uncertain and self.call.writes:
                raise UnsettledError(
                    f"{self.call.verb.name}: the response of {self._host} was lost; the write may have been done. "
                    f"{_CHECK_KEYED if self.call.idempotent else _CHECK}"
                ) from None
            raise failed.error from None

    @contextmanager
    def network_errors(self) -> Iterator[None]:
        """Convert errors of httpx, and count the attempt."""
        self.started += 1
        try:
            yield
        except _NOT_SENT as error:
            raise _AttemptFailedError(self._no_response(error)) from None
        except httpx.TransportError as error:
            raise self._lost(self._no_response(error)) from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise self._no_response(error) from None

    def result(self, response: httpx.Response) -> Any:
        """Return the result in a response.

        Raises:
            SalienceError: the error in the response; a `ServerError` if it is not from a Salience server.
        """
        self.raise_for_status(response)
        return self.call.result(self._json(response), retried=self.started > 1)

    def raise_for_status(self, response: httpx.Response) -> None:
        """Raise unless the response is a success; the body of an error must have been read."""
        status = response.status_code
        if status in (200, 201):
            return
        wait = retry_after(response.headers)
        if _media_type(response) == MEDIA_TYPE:
            error = from_problem(self._json(response))
            raise _AttemptFailedError(error, self._is_temporary(error), wait)
        says = "a redirect: use the URL that it points to" if 300 <= status < 400 else f"status {status}"
        error = ServerError(f"{self._host} answered {says}. This is not a response of a Salience server. {_CHECK_URL}")
        if status in TEMPORARY and status != 429:  # a proxy cannot know whether the server did the work
            raise self._lost(error, wait)
        raise _AttemptFailedError(error, status == 429, wait)

    def _is_temporary(self, error: SalienceError) -> bool:
        if isinstance(error, UnsettledError):
            self.uncertain = True
            return self.call.idempotent
        if isinstance(error, LimitError):
            return error.retry_after is not None
        return isinstance(error, BusyError) or type(error) is StoreError

    def _lost(self, error: SalienceError, wait: float = 0.0) -> _AttemptFailedError:
        self.uncertain = True
        return _AttemptFailedError(error, self.call.idempotent, wait)

    def _json(self, response: httpx.Response) -> Mapping[str, Any]:
        media = _media_type(response)
        if media not in ("application/json", MEDIA_TYPE):
            raise ServerError(f"{self._host} answered {media or 'no JSON'}, not a Salience response. {_CHECK_URL}")
        try:
            found = parsed(response.content)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._lost(ServerError(f"{self._host} answered JSON that is cut off. {_CHECK_URL}"))
        return found

    def _no_response(self, error: Exception) -> ServerError:
        return ServerError(f"{self._host} did not answer ({type(error).__name__}). {_CHECK_URL}")


def _media_type(response: httpx.Response) -> str:
    return str(response.headers.get("Content-Type", "")).partition(";")[0].strip().lower()


def _wait(state: RetryCallState) -> float:
    failed = state.outcome.exception() if state.outcome else None
    return max(_BACKOFF(state), failed.wait if isinstance(failed, _AttemptFailedError) else 0.0)
