"""The tries of a call: which failures may pass, what an answer says, and what is told when no try is left.

What is sent twice must do no more than what is sent once. A read may be; a write may under an idempotency key. Any
other write is tried again only where it is certain that nothing was done: no connection came about, or the server said
so (busy, too many requests).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx
from tenacity import RetryCallState, retry_if_exception, stop_after_attempt, stop_after_delay, wait_exponential
from tenacity import wait_random as at_random

from salience.client.calling import Call
from salience.deadline import asked_to_wait
from salience.errors import BusyError, LimitError, SalienceError, ServerError, StoreError, UnsettledError
from salience.lines import parsed
from salience.wire.failures import MEDIA_TYPE, error

PASSING: Final = frozenset({429, 502, 503, 504})
"""Statuses that may pass, of an answer that does not say what failed."""
GRACE: Final = 5.0
"""Seconds past its deadline for which an answer is waited for: it is ranked, and on its way."""
LONG: Final = 3600.0
"""Seconds that a verb which goes through a whole store is waited for."""
_BACKOFF: Final = wait_exponential(multiplier=0.1, max=5.0) + at_random(0.0, 0.2)
_UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
"""Failures before anything was sent."""
_NEXT: Final = "Look before you ask again, or ask under a key of your own (key=), which does it once."
_LOOK: Final = "Look before you ask again; to ask twice does no more, but the report is of the second time."
_URL: Final = "Check the URL, the network and the server."


@dataclass(frozen=True, slots=True)
class Patience:
    """How long and how often a server is asked: seconds for each step of an answer, and tries after the first."""

    timeout: float = 30.0
    retries: int = 3


class _FailedTryError(Exception):
    """A try that failed: why, whether to make another one, and after how many seconds the server wants it."""

    def __init__(self, failure: SalienceError, again: bool = True, wait: float = 0.0) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.again = again
        self.wait = wait


class Tries:
    """The tries of one call.

    Attributes:
        made: how many were begun.
        lost: whether one was sent whose answer never came, so that nobody here knows whether it was done.
    """

    def __init__(self, call: Call, host: str, patience: Patience) -> None:
        self.call = call
        self.made = 0
        self.lost = False
        self._host = host
        self._patience = patience

    @property
    def policy(self) -> dict[str, Any]:
        """How tenacity is to go about it; the same for calls and for coroutines."""
        stop = stop_after_attempt(self._patience.retries + 1)
        deadline = self.call.deadline
        return {
            "retry": retry_if_exception(lambda failed: isinstance(failed, _FailedTryError) and failed.again),
            "stop": stop if deadline is None else stop | stop_after_delay(deadline + GRACE),
            "wait": _wait,
            "reraise": True,
        }

    @property
    def timeout(self) -> httpx.Timeout:
        """What each step of a try may take."""
        seconds = self._patience.timeout
        if self.call.deadline is not None:
            seconds = min(seconds, self.call.deadline + GRACE)
        return httpx.Timeout(seconds, read=LONG if self.call.is_long else seconds)

    @contextmanager
    def ended(self) -> Iterator[None]:
        """Turn what is left of the last try into the error that the caller is told."""
        try:
            yield
        except _FailedTryError as failed:
            if self.lost and self.call.writes:
                raise UnsettledError(
                    f"{self.call.verb.name}: {self._host} was asked, and its answer was lost; it may have been done. "
                    f"{_NEXT if self.call.repeats else _LOOK}"
                ) from None
            raise failed.failure from None

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Turn failures of the way there and back into ours."""
        self.made += 1
        try:
            yield
        except _UNSENT as failed:
            raise _FailedTryError(self._gone(failed)) from None
        except httpx.TransportError as failed:
            raise self._lost(self._gone(failed)) from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as failed:
            raise self._gone(failed) from None

    def heard(self, response: httpx.Response) -> Any:
        """Return what an answer that has come holds.

        Raises:
            SalienceError: the one that it tells, or a `ServerError` for what no server of Salience says.
        """
        self.refuse(response)
        told = self._object(response)
        return self.call.read(told, again=self.made > 1)

    def refuse(self, response: httpx.Response) -> None:
        """Return if an answer is one of success; of any other, the body has to be there."""
        status = response.status_code
        if status in (200, 201):
            return
        wait = asked_to_wait(response.headers)
        if _type(response.headers) == MEDIA_TYPE:
            failure = error(self._object(response))
            raise _FailedTryError(failure, self._may_pass(failure), wait)
        says = "a redirect: give the URL that it leads to" if 300 <= status < 400 else f"status {status}"
        failure = ServerError(f"{self._host} answered {says}, and not as a server of Salience does. {_URL}")
        if status in PASSING and status != 429:  # what answers in a server's place does not know what that did
            raise self._lost(failure, wait)
        raise _FailedTryError(failure, status == 429, wait)

    def _may_pass(self, failure: SalienceError) -> bool:
        """Return whether a failure that the server tells of is one of the moment, after which nothing was done."""
        if isinstance(failure, UnsettledError):
            self.lost = True
            return self.call.repeats
        if isinstance(failure, LimitError):
            return failure.retry_after is not None
        return isinstance(failure, BusyError) or type(failure) is StoreError

    def _lost(self, failure: SalienceError, wait: float = 0.0) -> _FailedTryError:
        """Return what becomes of a try that may have been done."""
        self.lost = True
        return _FailedTryError(failure, self.call.repeats, wait)

    def _object(self, response: httpx.Response) -> Mapping[str, Any]:
        media = _type(response.headers)
        if media not in ("application/json", MEDIA_TYPE):
            raise ServerError(f"{self._host} answered {media or 'no JSON'}: no server of Salience is there. {_URL}")
        try:
            told = parsed(response.content)
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise self._lost(ServerError(f"{self._host} answered JSON that is cut off. {_URL}"))
        return told

    def _gone(self, failed: Exception) -> ServerError:
        return ServerError(f"{self._host} did not answer ({type(failed).__name__}). {_URL}")


def _type(headers: httpx.Headers) -> str:
    return str(headers.get("Content-Type", "")).partition(";")[0].strip().lower()


def _wait(state: RetryCallState) -> float:
    failed = state.outcome.exception() if state.outcome else None
    asked = failed.wait if isinstance(failed, _FailedTryError) else 0.0
    return max(_BACKOFF(state), asked)
