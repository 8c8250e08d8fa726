"""Every line on stderr: JSON, or made for reading where that is a terminal. None holds what a user wrote.

What a foreign library says may quote a text, and the message of an exception may too. So of an exception there are its
class and where it came from, and of a foreign line, its template or the place in the code.
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
"""Innermost frames of an exception that are told."""
_TRUSTED: Final = ("salience", "uvicorn")
"""Loggers whose lines are told in full: they are ours, or speak of processes and connections alone."""
_PACKAGES: Final = "site-packages/"


def configure(level: str, stream: TextIO | None = None) -> None:
    """Send every line of this process, its libraries' too, to a stream; None: stderr.

    Args:
        level: of `LEVELS`; what is less grave is left out. Libraries are heard from `warning` on, unless it is `debug`.
        stream: where to.

    Raises:
        InputError: another level.
    """
    forms = [spelled, structlog.dev.ConsoleRenderer()], [structlog.processors.JSONRenderer(default=_named)]
    least, out = LEVELS[checks.choice("log_level", level, LEVELS)], stream or sys.stderr
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            bare,
            ordered,
            *(forms[0] if out.isatty() else forms[1]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", Unfailing(out))),
        cache_logger_on_first_use=False,
    )
    foreign = least if least == logging.DEBUG else max(least, logging.WARNING)
    logging.basicConfig(handlers=[Forwarding()], level=foreign, force=True)
    logging.getLogger("salience").setLevel(least)
    logging.captureWarnings(True)
    sys.excepthook = lambda _, error, __: _died("process", error)
    threading.excepthook = lambda told: _died(told.thread.name if told.thread else "a thread", told.exc_value)
    sys.unraisablehook = lambda told: _died("a finalizer", told.exc_value)


class Unfailing:
    """Writes to a stream; where nobody reads it any more, what is served goes on without its lines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write a text, if that can be done."""
        with suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        """Hand on what was written, if that can be done."""
        with suppress(OSError, ValueError):
            self._stream.flush()


class Forwarding(logging.Handler):
    """Hands the lines of `logging` on, without what may quote a text."""

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a line on."""
        log: Any = structlog.get_logger()
        log.log(
            record.levelno,
            _said(record),
            logger=record.name,
            place=f"{Path(record.pathname).name}:{record.lineno}",
            **({"exc_info": record.exc_info} if record.exc_info and record.exc_info[1] else {}),
        )


def _said(record: logging.LogRecord) -> str:
    if record.name.split(".")[0] in _TRUSTED:
        return record.getMessage().strip()
    return str(record.msg) if record.args else "a library said something; its place tells what"


def bare(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Return a line with its exception as classes and frames."""
    found = event.pop("exc_info", None)
    error = found[1] if isinstance(found, tuple) else sys.exc_info()[1] if found is True else found
    if isinstance(error, BaseException):
        event["exception"] = list(told(error))
    return event


def ordered(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Return a line that begins with what every line has."""
    return {name: event.pop(name) for name in ("timestamp", "level", "event")} | dict(event)


def spelled(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Return a line with its exception as text, for people."""
    if "exception" in event:
        found = [(one["type"], *(f"  {frame}" for frame in one["frames"])) for one in event["exception"]]
        event["exception"] = "\n".join(line for one in found for line in one)
    return event


def told(error: BaseException) -> Iterator[dict[str, Any]]:
    """Yield an exception, then those that it came of, each as its class and frames, innermost last."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield {"type": f"{type(one).__module__}.{type(one).__qualname__}", "frames": _frames(one)}
        waiting += one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        waiting.append(one.__cause__ or (None if one.__suppress_context__ else one.__context__))


def _frames(error: BaseException) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    return [f"{frame.filename.rpartition(_PACKAGES)[2]}:{frame.lineno} {frame.name}" for frame in frames]


def _named(value: object) -> str:
    """Return what stands for a value that JSON has no form for: its class."""
    return type(value).__name__


def _died(where: str, error: BaseException | None) -> None:
    log: Any = structlog.get_logger()
    log.error("died", where=where, exc_info=error)
