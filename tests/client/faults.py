"""A network that fails as it is told to, in front of a server that is real."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpx

PROBLEM = "application/problem+json"


class Network(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Carries requests; the first ones meet with `faults`, in order, and all others go through.

    A fault is: None, all goes well; an error of httpx, raised once the request was answered (the answer is lost);
    `unsent(error)`, raised before; a response, in the place of the server's.

    Args:
        faults: what befalls the first requests.
    """

    def __init__(self, faults: Iterable[Any]) -> None:
        self.faults = list(faults)
        self.requests: list[httpx.Request] = []
        self._sync = httpx.HTTPTransport()
        self._async = httpx.AsyncHTTPTransport()

    def _fault(self, request: httpx.Request) -> Any:
        self.requests.append(request)
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, Unsent):
            raise fault.error
        return fault

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        fault = self._fault(request)
        if isinstance(fault, httpx.Response):
            return fault
        answer = self._sync.handle_request(request)
        if fault is not None:
            answer.read()
            raise fault
        return answer

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        fault = self._fault(request)
        if isinstance(fault, httpx.Response):
            return fault
        answer = await self._async.handle_async_request(request)
        if fault is not None:
            await answer.aread()
            raise fault
        return answer

    def close(self) -> None:
        self._sync.close()

    async def aclose(self) -> None:
        await self._async.aclose()


class Unsent:
    """An error before anything was sent."""

    def __init__(self, error: Exception) -> None:
        self.error = error


LOST = httpx.ReadError("the connection broke")
CUT = httpx.RemoteProtocolError("peer closed connection without sending complete message body")
LATE = httpx.ReadTimeout("timed out")
UNSENT = Unsent(httpx.ConnectError("refused"))


def problem(status: int, code: str, **more: Any) -> httpx.Response:
    """Return what a server says that fails."""
    result = {"type": f"urn:salience:problem:{code}", "title": "-", "status": status, "detail": "it failed", **more}
    return httpx.Response(status, json=result, headers={"Content-Type": PROBLEM})
