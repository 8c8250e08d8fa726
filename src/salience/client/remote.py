"""The engine's verbs over HTTP: what is sent, and what is waited for. All else the two of them share."""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from typing import Any, Final

import anyio
import httpx
from anyio import to_thread
from tenacity import AsyncRetrying, Retrying

from salience.client import calling, streams
from salience.client.faces import AsyncVerbs, Verbs
from salience.client.place import Place
from salience.client.trying import Patience, Tries
from salience.errors import ServerError
from salience.rank import profiles
from salience.rank.profile import Profile
from salience.rank.profiles import ProfileLike
from salience.records import checks
from salience.transfer import files

CONNECTIONS: Final = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=4.0)
"""Fewer seconds than a server keeps a connection that is not used, so that none is used that is about to go."""


class _Server:
    """A server as both clients see it."""

    def __init__(self, place: Place, patience: Patience, profile: ProfileLike | None) -> None:
        self.place = place
        self.profile: Profile | None = None if profile is None else profiles.load(profile)
        self._patience = patience
        self._profile = profile

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.place.url)!r})"

    @property
    def _options(self) -> dict[str, Any]:
        """What httpx is to know of the server."""
        return {
            "base_url": self.place.url,
            "headers": {**self.place.headers, "Accept": "application/json", "User-Agent": f"salience/{_version()}"},
            "limits": CONNECTIONS,
            "trust_env": not self.place.is_loopback,
            "verify": _trusted(),
        }

    def _require_open(self, http: httpx.Client | httpx.AsyncClient) -> None:
        if http.is_closed:
            raise ServerError(f"{self.place.name}: this client is closed. Connect again.")

    def _tries(self, method: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Tries:
        made = calling.call(method, args, keywords, self._profile)
        return Tries(made, self.place.name, self._patience)

    def _transfer(self, method: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> _Transfer:
        given = calling.bound(method, args, keywords)
        own = {name: given.pop(name) for name in _TRANSFERRED if name in given}
        if "on_error" in given:
            checks.choice("on_error", given["on_error"], ("stop", "skip"))
        made = calling.transfer(method.__name__, given)
        return _Transfer(Tries(made, self.place.name, self._patience), **own)


_TRANSFERRED: Final = ("file", "overwrite", "progress")


@dataclass(frozen=True, slots=True)
class _Transfer:
    """An export or import as it was asked for."""

    tries: Tries
    file: files.File
    overwrite: bool = False
    progress: streams.Progress | None = None


@cache
def _version() -> str:
    return version("salience")


@cache
def _trusted() -> ssl.SSLContext:
    """Return who vouches for servers; to read it takes longer than a recall, and it is the same for every client."""
    return httpx.create_ssl_context()


def _request(http: httpx.Client | httpx.AsyncClient, tries: Tries, content: Any = None) -> httpx.Request:
    """Return a call as a request; `content` in the place of its body is a stream of lines."""
    call = tries.call
    headers = call.headers if content is None else {"Content-Type": streams.CONTENT_TYPE}
    return http.build_request(
        call.verb.method,
        call.path.removeprefix("/"),
        params=dict(call.query) or None,
        content=call.body if content is None else content,
        headers=headers,
        timeout=tries.timeout,
    )


class Client(_Server, Verbs):
    """Memory for agents on a server, with the verbs of an engine. Made by `salience.connect`; safe between threads.

    Raises what an engine does, and besides AccessError, ForbiddenError and LimitError where the key does not do,
    ServerError where the server cannot be reached, and UnsettledError where nobody can say whether a write was done.

    Args:
        place: the server.
        patience: how long and how often to ask.
        profile: of recalls that name none; None: the server's.
        transport: what carries requests; None: the network.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        place: Place,
        patience: Patience = Patience(),
        profile: ProfileLike | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(place, patience, profile)
        self._http = httpx.Client(transport=transport, **self._options)
        self._sleep = sleep

    def _ask(self, method: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        self._require_open(self._http)
        if method.__name__ in self._STREAMED:
            return self._STREAMED[method.__name__](self, self._transfer(method, args, keywords))
        tries = self._tries(method, args, keywords)
        with tries.ended():
            return Retrying(**tries.policy, sleep=self._sleep)(self._try, tries)

    def _try(self, tries: Tries) -> Any:
        with tries.sending():
            response = self._http.send(_request(self._http, tries))
        return tries.heard(response)

    def _export(self, asked: _Transfer) -> Any:
        tries = asked.tries
        with tries.ended(), files.writing(asked.file, asked.overwrite) as file, tries.sending():
            arriving = streams.Arriving(file, asked.progress)
            with _streaming(self._http, _request(self._http, tries)) as response:
                if not response.is_success:
                    response.read()
                tries.refuse(response)
                for chunk in response.iter_bytes():
                    arriving.take(chunk)
            return arriving.end()

    def _import(self, asked: _Transfer) -> Any:
        tries = asked.tries
        with tries.ended(), files.reading(asked.file) as file:
            with tries.sending():
                response = self._http.send(_request(self._http, tries, streams.leaving(file, asked.progress)))
            return tries.heard(response)

    _STREAMED: Final = {"export": _export, "import_": _import}

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()


@contextmanager
def _streaming(http: httpx.Client, request: httpx.Request) -> Iterator[httpx.Response]:
    response = http.send(request, stream=True)
    try:
        yield response
    finally:
        response.close()


class AsyncClient(_Server, AsyncVerbs):
    """The same with coroutines. Made by `salience.aconnect`; belongs to the event loop in which it is used first.

    Args:
        place, patience, profile: as for `Client`.
        transport: what carries requests; None: the network.
        sleep: a coroutine that waits for a number of seconds.
    """

    def __init__(
        self,
        place: Place,
        patience: Patience = Patience(),
        profile: ProfileLike | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Any] = anyio.sleep,
    ) -> None:
        super().__init__(place, patience, profile)
        self._http = httpx.AsyncClient(transport=transport, **self._options)
        self._sleep = sleep

    async def _ask(self, method: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        self._require_open(self._http)
        if method.__name__ in self._STREAMED:
            return await self._STREAMED[method.__name__](self, self._transfer(method, args, keywords))
        tries = self._tries(method, args, keywords)
        with tries.ended():
            return await AsyncRetrying(**tries.policy, sleep=self._sleep)(self._try, tries)

    async def _try(self, tries: Tries) -> Any:
        with tries.sending():
            response = await self._http.send(_request(self._http, tries))
        return tries.heard(response)

    async def _export(self, asked: _Transfer) -> Any:
        tries = asked.tries
        with tries.ended(), files.writing(asked.file, asked.overwrite) as file, tries.sending():
            arriving = streams.Arriving(file, asked.progress)
            response = await self._http.send(_request(self._http, tries), stream=True)
            try:
                if not response.is_success:
                    await response.aread()
                tries.refuse(response)
                async for chunk in response.aiter_bytes():
                    await to_thread.run_sync(arriving.take, chunk)
            finally:
                await response.aclose()
            return arriving.end()

    async def _import(self, asked: _Transfer) -> Any:
        tries = asked.tries
        with tries.ended(), files.reading(asked.file) as file:
            content = _in_threads(streams.leaving(file, asked.progress))
            with tries.sending():
                response = await self._http.send(_request(self._http, tries, content))
            return tries.heard(response)

    _STREAMED: Final = {"export": _export, "import_": _import}

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()


async def _in_threads(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield what a file has, read in threads."""
    while chunk := await to_thread.run_sync(partial(next, chunks, b"")):
        yield chunk
