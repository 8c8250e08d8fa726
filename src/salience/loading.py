"""Optional libraries and heavy models: check that they are installed, load them once, map their errors."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final, Generic, Literal, TypeVar

from salience.errors import EmbedderError, JudgeError, MissingExtraError, RerankerError, SalienceError

T = TypeVar("T")
Kind = Literal["embedder", "reranker", "judge"]
ERRORS: Final[Mapping[Kind, type[SalienceError]]] = {
    "embedder": EmbedderError,
    "reranker": RerankerError,
    "judge": JudgeError,
}
"""Kind of model -> the error for a failure of its library."""
_ONNX_LOCK: Final = threading.Lock()


@contextmanager
def uncollected() -> Iterator[None]:
    """Turn garbage collection off while many long-lived objects are created, since it would find nothing to free.

    The objects count as old afterwards, so the next collections skip them.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if not gc.get_freeze_count():  # do not thaw what the program froze
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class Once(Generic[T]):
    """Callable that makes a value on its first call, and returns the same value afterwards.

    Concurrent callers wait for the first call. If it fails, the next call tries again.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make: Callable[[], T] | None = make
        self._made: list[T] = []
        self._lock = threading.Lock()

    def __call__(self) -> T:
        """Return the value."""
        with self._lock:
            if self._make is not None:
                self._made.append(self._make())
                self._make = (
                    None  # it often refers to the owner of this: a model in a cycle is not freed with its owner
                )
            return self._made[0]

    @property
    def known(self) -> T | None:
        """The value if it was made, else None."""
        return self._made[0] if self._made else None


def require(module: str, feature: str, extra: str) -> None:
    """Check that `module` is installed without importing it.

    Raises:
        MissingExtraError: it is not installed; the message ends with the pip command for `extra`.
    """
    if find_spec(module) is None:
        raise MissingExtraError(feature, extra)


@contextmanager
def onnx_runtime() -> Iterator[None]:
    """Hold the process's lock for ONNX Runtime while importing it and creating a session.

    Two sessions created at the same time have crashed the process. Also disables the telemetry of the official builds,
    which leaves a device id in the home folder, unless the environment already has a value.
    """
    with _ONNX_LOCK:
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        yield


@contextmanager
def mapped(name: str, doing: str, remedy: str, kind: Kind = "embedder") -> Iterator[None]:
    """Raise errors of a library as our own, with the name of their class but not their text, which may quote memories.

    Args:
        name: name of the model.
        doing: the action that failed, after "could not".
        remedy: what to do next.
        kind: kind of the model; selects the class of the error.
    """
    try:
        yield
    except SalienceError:
        raise
    except Exception as error:
        raise ERRORS[kind](f"{kind} {name!r} could not {doing} ({type(error).__name__}). {remedy}") from None
