"""What a server of the verbs can be told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The bounds of a server, and who may call it.

    Attributes:
        threads: requests that are worked on at a time; others wait.
        exports: exports that are written at a time; others wait. They have threads of their own, since a client may
            read slowly.
        body_limit: longest body, bytes.
        import_limit: longest body of an import, bytes; it is kept in a temporary file.
        hosts: names under which the server may be addressed, beside its own address and loopback; `*`: any.
        origins: web origins, such as `https://example.org`, whose pages may call it.
        is_open: returns whether everybody is let in, so that nobody from elsewhere may come through a proxy.
    """

    threads: int = 32
    exports: int = 4
    body_limit: int = 8 * 1024 * 1024
    import_limit: int = 1024**3
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    is_open: Callable[[], bool] = lambda: False
