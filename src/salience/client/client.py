"""Client and AsyncClient: the verbs over HTTP, with retries.

Reads and writes with an idempotency key are safe to retry. Other writes are retried only if the server did nothing:
the connection failed, or the response says so (busy, rate limit).
"""

from __future__ import annotations

import ipaddress
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Final

import anyio
import httpx
import tenacity
from anyio import to_thread

from salience.client import calls
from salience.deadline import retry_after
from salience.errors import (
    BusyError,
    ImportLineError,
    InputError,
    LimitError,
    SalienceError,
    ServerError,
    StoreError,
    UnsettledError,
    Words,
    wrong_type,
)
from salience.lines import parsed, parsed_object
from salience.rank import profiles
from salience.rank.profile import Profile
from salience.rank.profiles import ProfileLike
from salience.records import TransferReport, checks
from salience.transfer import files, formats
from salience.verbs import AsyncVerbs, Verb, Verbs
from salience.wire.errors import MEDIA_TYPE, from_problem

LIMITS: Final = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=4.0)
"""The keep-alive is shorter than the server's, so that the server never closes a connection in use."""
CHUNK: Final = 65_536
"""Bytes per chunk of an import."""
NDJSON: Final = "application/x-ndjson"
TEMPORARY: Final = frozenset({429, 502, 503, 504})
"""Statuses that count as temporary in responses without problem details."""
GRACE: Final = 5.0
"""Time to wait for a response after the deadline of its recall, seconds."""
LONG_TIMEOUT: Final = 3600.0
"""Timeout of verbs that may scan a whole store, seconds."""
Progress = Callable[[int], None]
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")
_BACKOFF: Final = tenacity.wait_exponential(multiplier=0.1, max=5.0) + tenacity.wait_random(0.0, 0.2)
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_CHECK_KEYED: Final = "Check before you retry, or pass your own idempotency key (key=), so that it is done once."
_CHECK: Final = "Check before you retry; a second call is safe, but its report describes the second call."
_CHECK_URL: Final = "Check the URL, the network and the server."


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


@dataclass(slots=True)
class Attempts:
    """The attempts of one call, sync or async.

    Attributes:
        started: the number of attempts so far.
        uncertain: whether a response was lost, so that the outcome is unknown.
    """

    call: calls.Call
    host: str
    policy: RetryPolicy
    started: int = 0
    uncertain: bool = False

    @property
    def retrying(self) -> dict[str, Any]:
        """Arguments of `tenacity.Retrying` and `AsyncRetrying`."""
        stop: Any = tenacity.stop_after_attempt(self.policy.retries + 1)
        if self.call.deadline is not None:
            stop |= tenacity.stop_after_delay(self.call.deadline + GRACE)
        retry = tenacity.retry_if_exception(lambda error: isinstance(error, _AttemptFailedError) and error.retry)
        return {"retry": retry, "stop": stop, "wait": _wait, "reraise": True}

    @property
    def timeout(self) -> httpx.Timeout:
        """The timeout of each step of an attempt."""
        seconds = self.policy.timeout
        if self.call.deadline is not None:
            seconds = min(seconds, self.call.deadline + GRACE)
        return httpx.Timeout(seconds, read=LONG_TIMEOUT if self.call.verb.is_long else seconds)

    @contextmanager
    def final_errors(self) -> Iterator[None]:
        """Convert the failure of the last attempt into the error of the call."""
        try:
            yield
        except _AttemptFailedError as failed:
            if self.uncertain and self.call.writes:
                raise UnsettledError(
                    f"{self.call.verb.name}: the response of {self.host} was lost; the write may have been done. "
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
            problem = from_problem(self._json(response))
            if isinstance(problem, UnsettledError):
                raise self._lost(problem, wait)
            is_busy = isinstance(problem, BusyError) or type(problem) is StoreError
            is_limited = isinstance(problem, LimitError) and problem.retry_after is not None
            raise _AttemptFailedError(problem, is_busy or is_limited, wait)
        says = "a redirect: use the URL that it points to" if 300 <= status < 400 else f"status {status}"
        error = ServerError(f"{self.host} answered {says}. This is not a response of a Salience server. {_CHECK_URL}")
        if status in TEMPORARY and status != 429:  # a proxy cannot know whether the server did the work
            raise self._lost(error, wait)
        raise _AttemptFailedError(error, status == 429, wait)

    def _lost(self, error: SalienceError, wait: float = 0.0) -> _AttemptFailedError:
        self.uncertain = True
        return _AttemptFailedError(error, self.call.idempotent, wait)

    def _json(self, response: httpx.Response) -> Mapping[str, Any]:
        media = _media_type(response)
        if media not in ("application/json", MEDIA_TYPE):
            raise ServerError(f"{self.host} answered {media or 'no JSON'}, not a Salience response. {_CHECK_URL}")
        try:
            found = parsed(response.content)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._lost(ServerError(f"{self.host} answered JSON that is cut off. {_CHECK_URL}"))
        return found

    def _no_response(self, error: Exception) -> ServerError:
        return ServerError(f"{self.host} did not answer ({type(error).__name__}). {_CHECK_URL}")


def _media_type(response: httpx.Response) -> str:
    return str(response.headers.get("Content-Type", "")).partition(";")[0].strip().lower()


def _wait(state: tenacity.RetryCallState) -> float:
    failed = state.outcome.exception() if state.outcome else None
    return max(_BACKOFF(state), failed.wait if isinstance(failed, _AttemptFailedError) else 0.0)


_version = cache(partial(version, "salience"))
_ssl_context: Callable[[], ssl.SSLContext] = cache(httpx.create_ssl_context)  # loading takes longer than a recall


class _Base:
    """The base of both clients."""

    _http: httpx.Client | httpx.AsyncClient

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

    def _attempts(self, verb: Verb, given: Mapping[str, Any]) -> tuple[Attempts, dict[str, Any]]:
        """Return the attempts of a call, and the arguments of exports and imports that stay here, such as `file`."""
        if self._http.is_closed:
            raise ServerError(f"{self.endpoint.host}: this client is closed. Connect again.")
        local: dict[str, Any] = {}
        if verb.name in ("export", "import_"):
            given = calls.changed(verb, given)
            for name in (name for name, value in given.items() if value is None):  # left out, it would mean every value
                raise InputError(name, None, "Leave it out for every value, or name one.", "cannot be None over HTTP")
            local = {name: given.pop(name) for name in ("file", "format", "overwrite", "progress") if name in given}
            if "on_error" in given:
                checks.choice("on_error", given["on_error"], ("stop", "skip"))
            if "format" in local:
                checks.choice("format", local["format"], formats.FORMATS)
            if given.get("source") is not None:
                local["source"] = given["source"]
            # sent once, because it streams its body
            query = calls.in_url({name: calls.plain(name, value) for name, value in given.items()})
            writes = verb.right != "read"
            call = calls.Call(verb=verb, path=verb.path, query=query, writes=writes, idempotent=False)
        else:
            call = calls.call(verb, given, self._profile)
        return Attempts(call, self.endpoint.host, self._policy), local

    def _request(self, attempts: Attempts, lines: Any = None) -> httpx.Request:
        """Return the HTTP request of a call; `lines` is the streamed body of an import."""
        call = attempts.call
        media = None if call.body is None else "application/json"
        if lines is not None:
            media = "application/octet-stream" if "source" in call.query else NDJSON
        return self._http.build_request(
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

    `profile` is the default of recalls; None for the server's. `transport` and `sleep` are for tests.
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
        self._http: httpx.Client = httpx.Client(transport=transport, **self._options)
        self._sleep = sleep

    def _call(self, verb: Verb, given: dict[str, Any]) -> Any:
        attempts, local = self._attempts(verb, given)

        def attempt(lines: Iterator[bytes] | None = None) -> Any:
            with attempts.network_errors():
                response = self._http.send(self._request(attempts, lines))
            return attempts.result(response)

        with attempts.final_errors():
            match verb.name:
                case "export":
                    return self._export(attempts, **local)
                case "import_":
                    with _import_body(**local) as chunks:
                        return attempt(chunks)
            return tenacity.Retrying(**attempts.retrying, sleep=self._sleep)(attempt)

    def _export(
        self,
        attempts: Attempts,
        file: files.File,
        format: str = "jsonl",
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> TransferReport:
        with _export_writer(file, format, overwrite, progress) as export, attempts.network_errors():
            response = self._http.send(self._request(attempts), stream=True)
            try:
                if not response.is_success:
                    response.read()
                attempts.raise_for_status(response)
                for chunk in response.iter_bytes():
                    export.write(chunk)
            finally:
                response.close()
            return export.finish()

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
        self._http: httpx.AsyncClient = httpx.AsyncClient(transport=transport, **self._options)
        self._sleep = sleep

    async def _call(self, verb: Verb, given: dict[str, Any]) -> Any:
        attempts, local = self._attempts(verb, given)

        async def attempt(lines: AsyncIterator[bytes] | None = None) -> Any:
            with attempts.network_errors():
                response = await self._http.send(self._request(attempts, lines))
            return attempts.result(response)

        with attempts.final_errors():
            match verb.name:
                case "export":
                    return await self._export(attempts, **local)
                case "import_":
                    with _import_body(**local) as chunks:
                        return await attempt(_in_threads(chunks))
            return await tenacity.AsyncRetrying(**attempts.retrying, sleep=self._sleep)(attempt)

    async def _export(
        self,
        attempts: Attempts,
        file: files.File,
        format: str = "jsonl",
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> TransferReport:
        with _export_writer(file, format, overwrite, progress) as export, attempts.network_errors():
            response = await self._http.send(self._request(attempts), stream=True)
            try:
                if not response.is_success:
                    await response.aread()
                attempts.raise_for_status(response)
                async for chunk in response.aiter_bytes():
                    await to_thread.run_sync(export.write, chunk)
            finally:
                await response.aclose()
            return export.finish()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


@contextmanager
def _export_writer(
    file: files.File, format: str, overwrite: bool, progress: Progress | None
) -> Iterator[_ExportWriter]:
    """Yield the writer of an export in a format; the memories arrive as lines of JSON."""
    if format == "jsonl":
        with files.writing(file, overwrite) as opened:
            yield _ExportWriter(lambda line, _: opened.write(line), progress)
        return
    with formats.writer(format, file, overwrite) as write:
        newest: dict[str, Any] = {}

        def keep(_: str, memory: dict[str, Any] | None) -> None:  # the versions of a memory are consecutive
            if newest and newest["forgotten_at"] is None and (memory is None or memory["id"] != newest["id"]):
                write(dict(newest))
            newest.clear()
            newest.update(memory or {})

        yield _ExportWriter(keep, progress)
        keep("", None)


class _ExportWriter:
    """Checks an export line by line, passes each line and its memory to a function, and counts the memories."""

    def __init__(self, write: Callable[[str, dict[str, Any] | None], object], progress: Progress | None) -> None:
        self._write = write
        self._progress = progress
        self._rest = b""
        self._lines = self._memories = 0
        self._last_id: Any = None

    def write(self, chunk: bytes) -> None:
        """Write the lines that a chunk completes; raises `ServerError` if they are not an export."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._lines += 1
            try:
                found = parsed_object(self._lines, line)
            except ImportLineError:
                raise ServerError("export: the server did not send lines of JSON. Export again.") from None
            if (found.get("format") == files.FORMAT) != (self._lines == 1):
                raise ServerError("export: the server did not send one export. Export again.")
            self._write(line.decode("utf-8") + "\n", found.get("memory"))
            if self._lines > 1:
                memory_id = found.get("memory", {}).get("id")
                self._memories += memory_id != self._last_id  # a memory has a line per version
                self._last_id = memory_id
                if self._progress is not None:
                    self._progress(self._memories)

    def finish(self) -> TransferReport:
        """Return the report; raises `ServerError` if the export was cut off."""
        if self._rest or not self._lines:
            raise ServerError("export: the connection broke before the end of the export. Export again.")
        return TransferReport(self._memories)


@contextmanager
def _import_body(
    file: files.File, source: str | None = None, progress: Progress | None = None
) -> Iterator[Iterator[bytes]]:
    """Yield the body of an import in chunks: lines, or the bytes of the export of another system."""
    if source is not None and isinstance(file, (str, Path)) and checks.path("file", file).is_dir():
        remedy = "Put it into a ZIP file and import that, or import the folder on the server's machine."
        raise InputError("file", Words("a folder"), remedy, "is a folder, which cannot be sent to a server")
    with files.reading(file) as opened:
        if source is not None and not hasattr(opened, "read"):
            raise wrong_type("file", file, "Give a path or an open file.")
        yield _import_chunks(opened, progress) if source is None else _export_chunks(opened)


def _export_chunks(file: IO[Any]) -> Iterator[bytes]:
    """Yield the bytes of a file; text is encoded in UTF-8."""
    while chunk := file.read(CHUNK):
        yield chunk.encode("utf-8", "surrogatepass") if isinstance(chunk, str) else chunk


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


async def _in_threads(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield chunks, each read in a thread."""
    while chunk := await to_thread.run_sync(partial(next, chunks, b"")):
        yield chunk
