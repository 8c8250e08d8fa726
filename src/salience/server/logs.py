"""Logs on stderr: JSON, or readable lines on a terminal. No line contains user text.

Messages of exceptions and libraries may quote user text. So an exception is logged as its class and stack, and a
library's line as its template or its place in the code.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Iterator, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TextIO, cast

import structlog

from salience.records import checks

LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
FRAMES: Final = 30
"""Maximum number of stack frames of an exception."""
_TRUSTED: Final = ("salience", "uvicorn")
"""Loggers whose messages quote no user text."""
_PACKAGES: Final = "site-packages/"
Event = MutableMapping[str, Any]


def configure(level: str, stream: TextIO | None = None) -> None:
    """Send all log lines of this process and its libraries to a stream; None for stderr.

    Levels but those of `LEVELS` raise `InputError`. Libraries log from `warning` on, unless the level is `debug`.
    """
    least, out = LEVELS[checks.choice("log_level", level, LEVELS)], stream or sys.stderr
    if out.isatty():
        form: list[Any] = [_exception_as_text, structlog.dev.ConsoleRenderer()]
    else:
        form = [structlog.processors.JSONRenderer(default=lambda value: type(value).__name__)]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _shorten_exception,
            *form,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", _TolerantStream(out))),
        cache_logger_on_first_use=False,
    )
    foreign = least if least == logging.DEBUG else max(least, logging.WARNING)
    logging.basicConfig(handlers=[_Forwarding()], level=foreign, force=True)
    logging.getLogger("salience").setLevel(least)
    logging.captureWarnings(True)

    def died(where: str, error: BaseException | None) -> None:
        structlog.get_logger().error("died", where=where, exc_info=error)

    sys.excepthook = lambda _, error, __: died("process", error)
    threading.excepthook = lambda args: died(args.thread.name if args.thread else "a thread", args.exc_value)
    sys.unraisablehook = lambda args: died("a finalizer", args.exc_value)


class _TolerantStream:
    """A stream that ignores failed writes, so that the server continues without its log."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write a text."""
        with suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        """Flush the stream."""
        with suppress(OSError, ValueError):
            self._stream.flush()


class _Forwarding(logging.Handler):
    """Forwards the lines of `logging` to structlog, without user text."""

    def emit(self, record: logging.LogRecord) -> None:
        """Forward a line."""
        if record.name.split(".")[0] in _TRUSTED:
            message = record.getMessage().strip()
        else:
            message = str(record.msg) if record.args else "a message of a library; see its place"
        place = f"{Path(record.pathname).name}:{record.lineno}"
        error = {"exc_info": record.exc_info} if record.exc_info and record.exc_info[1] else {}
        structlog.get_logger().log(record.levelno, message, logger=record.name, place=place, **error)


def _shorten_exception(_logger: object, _method: str, event: Event) -> Event:
    """Replace the exception by classes and frames, and put the common fields first."""
    found = event.pop("exc_info", None)
    error = found[1] if isinstance(found, tuple) else sys.exc_info()[1] if found is True else found
    if isinstance(error, BaseException):
        event["exception"] = list(exception_chain(error))
    return {name: event.pop(name) for name in ("timestamp", "level", "event")} | dict(event)


def _exception_as_text(_logger: object, _method: str, event: Event) -> Event:
    if "exception" in event:
        found = [(one["type"], *(f"  {frame}" for frame in one["frames"])) for one in event["exception"]]
        event["exception"] = "\n".join(line for one in found for line in one)
    return event


def exception_chain(error: BaseException) -> Iterator[dict[str, Any]]:
    """Yield an exception and its causes, each as its class and frames, innermost last."""
    seen: set[int] = set()
    queue: list[BaseException | None] = [error]
    while queue:
        one = queue.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        frames = traceback.extract_tb(one.__traceback__)[-FRAMES:]
        yield {
            "type": f"{type(one).__module__}.{type(one).__qualname__}",
            "frames": [f"{at.filename.rpartition(_PACKAGES)[2]}:{at.lineno} {at.name}" for at in frames],
        }
        queue += one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        queue.append(one.__cause__ or (None if one.__suppress_context__ else one.__context__))
