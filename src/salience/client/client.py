"""Client and AsyncClient: the verbs over HTTP."""

from __future__ import annotations

import ipaddress
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import version
from typing import IO, Any, Final

import anyio
import httpx
from anyio import to_thread
from tenacity import AsyncRetrying, Retrying

from salience.client import calls
from salience.client.methods import AsyncVerbs, Verbs
from salience.client.retries import Attempts, RetryPolicy
from salience.errors import ImportLineError, InputError, ServerError, Words
from salience.lines import parsed_object
from salience.rank import profiles
from salience.rank.profile import Profile
from salience.rank.profiles import ProfileLike
from salience.records import TransferReport, checks
from salience.transfer import files
from salience.transfer.files import FORMAT

LIMITS: Final = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=4.0)
"""The keep-alive is shorter than the server's, so that the server never closes a connection in use."""
CHUNK: Final = 65_536
"""Bytes per chunk of an import."""
NDJSON: Final = "application/x-ndjson"
Progress = Callable[[int], None]
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The URL of a server, with a slash at its end, and the API key, which no message or `repr` shows."""

    url: httpx.URL
    api_key: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str, api_key: str | None = None, *, allow_http: bool = False) -> Endpoint:
        """Return the endpoint of a URL and an API key.

        Args:
            url: https, or http to this machine.
            api_key: `sal_...`, or an OAuth access token.
            allow_http: accept http to other machines, which sends key and memories unencrypted.

        Raises:
            InputError: the URL or the key is invalid; the message shows no secret.
        """
        try:
            base = httpx.URL(url)
        except (httpx.InvalidURL, TypeError):
            base = httpx.URL("")
        host = base.raw_host.decode("ascii")
        is_host = bool(_HOST_NAME.fullmatch(host)) or _address(host) is not None
        if base.scheme not in ("https", "http") or not is_host or base.userinfo or base.query or base.fragment:
            remedy = "Give https://HOST[:PORT][/PATH], and the key as api_key or SALIENCE_API_KEY."
            raise InputError("target", Words("a URL that is not a server's"), remedy, "is not the URL of a server")
        if base.scheme == "http" and not (allow_http or _is_loopback(base.host)):
            remedy = "Use https. Where the network is trusted, set SALIENCE_CLIENT_ALLOW_HTTP=true."
            raise InputError("target", f"http://{base.host}", remedy, f"http://{base.host} would be sent unencrypted")
        if api_key is not None:
            api_key = str(api_key).strip()
            if not (api_key and api_key.isascii() and api_key.isprintable() and " " not in api_key):
                remedy = "Give the key as `salience keys create` printed it."
                raise InputError("api_key", Words("***"), remedy, "is not a key")
        return cls(base.copy_with(path=base.path.rstrip("/") + "/"), api_key)

    @property
    def host(self) -> str:
        """The host and port, for messages."""
        return self.url.netloc.decode("ascii")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or host.endswith(".localhost") if address is None else address.is_loopback


_version = cache(partial(version, "salience"))


@cache
def _ssl_context() -> ssl.SSLContext:
    """Return the trusted certificates, loaded once, because loading takes longer than a recall."""
    return httpx.create_ssl_context()


class _Base:
    """The base of both clients."""

    def __init__(self, endpoint: Endpoint, policy: RetryPolicy, profile: ProfileLike | None) -> None:
        self.endpoint = endpoint
        self.profile: Profile | None = None if profile is None else profiles.load(profile)
        self._policy = policy
        self._profile = profile

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.endpoint.url)!r})"

    @property
    def _options(self) -> dict[str, Any]:
        """Arguments of the httpx client."""
        key = self.endpoint.api_key
        return {
            "base_url": self.endpoint.url,
            "headers": {
                **({} if key is None else {"Authorization": f"Bearer {key}"}),
                "Accept": "application/json",
                "User-Agent": f"salience/{_version()}",
            },
            "limits": LIMITS,
            "trust_env": not _is_loopback(self.endpoint.url.host),  # no proxy for this machine
            "verify": _ssl_context(),
        }

    def _attempts(self, method: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Attempts:
        call = calls.call(method, args, keywords, self._profile)
        return Attempts(call, self.endpoint.host, self._policy)

    def _transfer(self, method: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> _Transfer:
        given = calls.bind(method, args, keywords)
        local = {name: given.pop(name) for name in ("file", "overwrite", "progress") if name in given}
        if "on_error" in given:
            checks.choice("on_error", given["on_error"], ("stop", "skip"))
        call = calls.transfer_call(method.__name__, given)
        return _Transfer(Attempts(call, self.endpoint.host, self._policy), **local)

    def _require_open(self, http: httpx.Client | httpx.AsyncClient) -> None:
        if http.is_closed:
            raise ServerError(f"{self.endpoint.host}: this client is closed. Connect again.")


@dataclass(frozen=True, slots=True)
class _Transfer:
    """An export or import."""

    attempts: Attempts
    file: files.File
    overwrite: bool = False
    progress: Progress | None = None


def _request(http: httpx.Client | httpx.AsyncClient, attempts: Attempts, lines: Any = None) -> httpx.Request:
    """Return the HTTP request of a call; `lines` is the streamed body of an import."""
    call = attempts.call
    media = NDJSON if lines is not None else None if call.body is None else "application/json"
    return http.build_request(
        call.verb.method,
        call.path.removeprefix("/"),
        params=dict(call.query) or None,
        content=call.body if lines is None else lines,
        headers={} if media is None else {"Content-Type": media},
        timeout=attempts.timeout,
    )


class Client(_Base, Verbs):
    """Memory on a server, with the verbs of an engine. Returned by `salience.connect`; safe to share between threads.

    Raises the errors of an engine, and also AccessError, ForbiddenError, LimitError, ServerError if the server cannot
    be reached, and UnsettledError if the outcome of a write is unknown.

    Args:
        endpoint: the server.
        policy: timeout and retries.
        profile: default of recalls; None for the server's.
        transport, sleep: for tests.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        policy: RetryPolicy = RetryPolicy(),
        profile: ProfileLike | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(endpoint, policy, profile)
        self._http = httpx.Client(transport=transport, **self._options)
        self._sleep = sleep

    def _call(self, method: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        self._require_open(self._http)
        if method.__name__ == "export":
            return self._export(self._transfer(method, args, keywords))
        if method.__name__ == "import_":
            return self._import(self._transfer(method, args, keywords))
        attempts = self._attempts(method, args, keywords)

        def attempt() -> Any:
            with attempts.network_errors():
                response = self._http.send(_request(self._http, attempts))
            return attempts.result(response)

        with attempts.final_errors():
            return Retrying(**attempts.tenacity, sleep=self._sleep)(attempt)

    def _export(self, transfer: _Transfer) -> Any:
        attempts = transfer.attempts
        with (
            attempts.final_errors(),
            files.writing(transfer.file, transfer.overwrite) as file,
            attempts.network_errors(),
        ):
            export = _ExportWriter(file, transfer.progress)
            response = self._http.send(_request(self._http, attempts), stream=True)
            try:
                if not response.is_success:
                    response.read()
                attempts.raise_for_status(response)
                for chunk in response.iter_bytes():
                    export.write(chunk)
            finally:
                response.close()
            return export.finish()

    def _import(self, transfer: _Transfer) -> Any:
        attempts = transfer.attempts
        with attempts.final_errors(), files.reading(transfer.file) as file:
            with attempts.network_errors():
                lines = _import_chunks(file, transfer.progress)
                response = self._http.send(_request(self._http, attempts, lines))
            return attempts.result(response)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


class AsyncClient(_Base, AsyncVerbs):
    """`Client` with coroutines. Returned by `salience.aconnect`; use it in one event loop."""

    def __init__(
        self,
        endpoint: Endpoint,
        policy: RetryPolicy = RetryPolicy(),
        profile: ProfileLike | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Any] = anyio.sleep,
    ) -> None:
        super().__init__(endpoint, policy, profile)
        self._http = httpx.AsyncClient(transport=transport, **self._options)
        self._sleep = sleep

    async def _call(self, method: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        self._require_open(self._http)
        if method.__name__ == "export":
            return await self._export(self._transfer(method, args, keywords))
        if method.__name__ == "import_":
            return await self._import(self._transfer(method, args, keywords))
        attempts = self._attempts(method, args, keywords)

        async def attempt() -> Any:
            with attempts.network_errors():
                response = await self._http.send(_request(self._http, attempts))
            return attempts.result(response)

        with attempts.final_errors():
            return await AsyncRetrying(**attempts.tenacity, sleep=self._sleep)(attempt)

    async def _export(self, transfer: _Transfer) -> Any:
        attempts = transfer.attempts
        with (
            attempts.final_errors(),
            files.writing(transfer.file, transfer.overwrite) as file,
            attempts.network_errors(),
        ):
            export = _ExportWriter(file, transfer.progress)
            response = await self._http.send(_request(self._http, attempts), stream=True)
            try:
                if not response.is_success:
                    await response.aread()
                attempts.raise_for_status(response)
                async for chunk in response.aiter_bytes():
                    await to_thread.run_sync(export.write, chunk)
            finally:
                await response.aclose()
            return export.finish()

    async def _import(self, transfer: _Transfer) -> Any:
        attempts = transfer.attempts
        with attempts.final_errors(), files.reading(transfer.file) as file:
            chunks = _import_chunks(file, transfer.progress)

            async def lines() -> AsyncIterator[bytes]:
                while chunk := await to_thread.run_sync(partial(next, chunks, b"")):
                    yield chunk

            with attempts.network_errors():
                response = await self._http.send(_request(self._http, attempts, lines()))
            return attempts.result(response)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


class _ExportWriter:
    """Writes an export to a file, line by line, and counts its memories."""

    def __init__(self, file: IO[str], progress: Progress | None) -> None:
        self._file = file
        self._progress = progress
        self._rest = b""
        self._lines = self._memories = 0
        self._last_id: Any = None

    def write(self, chunk: bytes) -> None:
        """Write the lines that a chunk completes.

        Raises:
            ServerError: the lines are not an export.
        """
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._write_line(line)

    def finish(self) -> TransferReport:
        """Return the report; raises `ServerError` if the export was cut off."""
        if self._rest or not self._lines:
            raise ServerError("export: the connection broke before the end of the export. Export again.")
        return TransferReport(self._memories)

    def _write_line(self, line: bytes) -> None:
        self._lines += 1
        try:
            found = parsed_object(self._lines, line)
        except ImportLineError:
            raise ServerError("export: the server did not send lines of JSON. Export again.") from None
        if (found.get("format") == FORMAT) != (self._lines == 1):
            raise ServerError("export: the server did not send one export. Export again.")
        self._file.write(line.decode("utf-8") + "\n")
        if self._lines > 1:
            memory_id = found.get("memory", {}).get("id")
            self._memories += memory_id != self._last_id  # a memory has a line per version
            self._last_id = memory_id
            if self._progress is not None:
                self._progress(self._memories)


def _import_chunks(source: IO[Any], progress: Progress | None) -> Iterator[bytes]:
    """Yield the lines of an import in chunks; `progress` is called with the number of lines sent."""
    chunk = bytearray()
    for count, line in enumerate(source, start=1):
        if isinstance(line, str):
            line = line.encode("utf-8", "surrogatepass")  # the server reports the number of an invalid line
        if not isinstance(line, bytes):
            raise InputError("file", Words(f"an item of {type(line).__name__}"), "Give lines of text.")
        chunk += line.rstrip(b"\r\n") + b"\n"
        if len(chunk) >= CHUNK:
            yield bytes(chunk)
            chunk.clear()
            if progress is not None:
                progress(count)
    if chunk:
        yield bytes(chunk)
