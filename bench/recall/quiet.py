"""Other stores may like to tell their makers of their use: from here on, nothing leaves this machine."""

from __future__ import annotations

import sys
from functools import cache
from ipaddress import ip_address
from typing import Any


@cache
def seal() -> None:
    """Let every connection of this process to another machine fail, and every search for its address, for good."""
    sys.addaudithook(refuse)


def refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Raise where an event is one of these.

    Raises:
        PermissionError: it is.
    """
    if event == "socket.getaddrinfo" and not _here(arguments[0]):
        raise PermissionError("no address is looked up during a benchmark")
    if event in ("socket.connect", "socket.sendto"):
        where = arguments[1]
        if isinstance(where, tuple) and not _here(where[0]):
            raise PermissionError("nothing is sent during a benchmark")


def _here(host: object) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return True
    try:
        return ip_address(str(name)).is_loopback
    except ValueError:
        return False
