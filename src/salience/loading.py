"""Loading of what is heavy or optional: modules on first use, engines once and under a lock, failures turned into ours.

Most programs need a few of the parts that ship. A module that offers many, such as `salience` itself or
`compose.parts`, lists them by `on_use`; each is imported when somebody first asks for it, and by nothing else.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Generic, Literal, TypeVar

from salience.errors import (
    EmbedderError,
    JudgeError,
    MissingExtraError,
    RerankerError,
    SalienceError,
)

T = TypeVar("T")
Kind = Literal["embedder", "reranker", "judge"]
ERRORS: Final[Mapping[Kind, type[SalienceError]]] = {
    "embedder": EmbedderError,
    "reranker": RerankerError,
    "judge": JudgeError,
}
"""What a library's failure becomes."""


def on_use(module: str, offered: Mapping[str, Iterable[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a module whose names are imported when they are first used.

    ```
    if TYPE_CHECKING:                        # what a type checker and the import linter read
        from salience.store.sqlite import SQLiteStore
    else:                                    # what runs (PEP 562)
        __getattr__, __dir__ = on_use(__name__, {"salience.store.sqlite": ("SQLiteStore",)})
    ```
    A name that was used once is the module's own from then on. The two lists are held together by a test.

    Args:
        module: its `__name__`.
        offered: module that a name comes from -> the names.
    """
    homes = {name: home for home, names in offered.items() for name in names}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        with uncollected():
            value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[module], name, value)
        return value

    return get, lambda: sorted({*vars(sys.modules[module]), *homes})


@contextmanager
def uncollected() -> Iterator[None]:
    """Make no search for garbage among what is being read: there is much of it, and none is garbage.

    Nor does the next search begin with it: it counts as old at once, and is looked at when all that is old is.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            _age()
            gc.enable()


def _age() -> None:
    """Count as old all that is there, without a look at it; what somebody has frozen stays so."""
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()


class Once(Generic[T]):
    """Callable that makes a value on its first call and returns the same value ever after.

    Threads that call while it is being made wait for it. A call that fails makes nothing; the next one tries again.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: list[T] = []
        self._lock = threading.Lock()

    def __call__(self) -> T:
        """Return the value."""
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]


def require(module: str, feature: str, extra: str) -> None:
    """Check that `module` is installed, without importing it.

    Raises:
        MissingExtraError: it is not; ends with the pip line of `extra`.
    """
    if find_spec(module) is None:
        raise MissingExtraError(feature, extra)


def stay_private() -> None:
    """Keep ONNX Runtime, if it is not imported yet, from sending telemetry and leaving a device id in the home folder.

    Its official builds do both unless told otherwise. A choice that is already in the environment stands.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


@contextmanager
def mapped(name: str, doing: str, remedy: str, kind: Kind = "embedder") -> Iterator[None]:
    """Turn what a library raises into our error, which names its class but not its words; these may quote texts.

    Args:
        name: the embedder's, reranker's or judge's.
        doing: what could not be done, after "could not".
        remedy: what to do next.
        kind: which of the three it is; decides the class of the error.
    """
    try:
        yield
    except SalienceError:
        raise
    except Exception as error:
        raise ERRORS[kind](f"{kind} {name!r} could not {doing} ({type(error).__name__}). {remedy}") from None
