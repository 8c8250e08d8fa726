"""The page that Prometheus reads, and the folder in which several processes count together."""

from __future__ import annotations

import hmac
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pydantic import SecretStr
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from salience.server.keys import bearer

PATH: Final = "/metrics"
_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which the client library is told the folder; it looks when it is first imported."""


@contextmanager
def counting_together() -> Iterator[None]:
    """Have the processes that are started meanwhile count in one folder, which is removed in the end."""
    with tempfile.TemporaryDirectory(prefix="salience-metrics-", ignore_cleanup_errors=True) as folder:
        os.environ[_FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[_FOLDER]


def gone(pid: int) -> None:
    """Leave what a process that ended had under way out of the sums; what it counted stays."""
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]


def page(
    own: Callable[[], bytes], is_open: Callable[[], bool], token: SecretStr | None
) -> Callable[[Request], Response]:
    """Return the endpoint that answers a scrape.

    It is open as long as everything is. Once there are keys it takes a token of its own, since what it tells is of all
    tenants; without one in the settings there is nothing to be found.

    Args:
        own: returns the text.
        is_open: whether everybody is let in.
        token: that a scraper has to show.
    """

    def endpoint(request: Request) -> Response:
        if not is_open():
            if token is None or not token.get_secret_value():  # an empty one is shown by whoever shows nothing
                raise HTTPException(404)
            if not _shows(request, token.get_secret_value()):
                raise HTTPException(401, headers={"WWW-Authenticate": "Bearer"})
        return Response(own(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return endpoint


def _shows(request: Request, token: str) -> bool:
    shown = bearer(request.headers.get("authorization"))
    return shown is not None and hmac.compare_digest(_bytes(shown), _bytes(token))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
