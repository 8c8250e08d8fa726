"""The socket of a server."""

from __future__ import annotations

import ipaddress
import socket
from typing import Final

from salience.errors import InputError, SalienceError, Words, shown

BACKLOG: Final = 2048
"""Connections that may wait to be taken."""


def is_loopback(host: str) -> bool:
    """Return whether nobody but this machine reaches a server at a host.

    Raises:
        InputError: no such host.
    """
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for _, address in _addresses(host))


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the first address of a host; it is to be closed.

    Raises:
        InputError: no such host.
        SalienceError: the port is taken, or may not be used.
    """
    family, address = _addresses(host, port)[0]
    both = family == socket.AF_INET6 and address[0] == "::" and socket.has_dualstack_ipv6()
    try:
        listening = socket.create_server(address[:2], family=family, backlog=BACKLOG, dualstack_ipv6=both)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio does so for its own sockets alone
        return listening
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SalienceError(
            f"server_port: cannot listen on port {port} of {host} ({reason.partition(' (')[0]}). "
            "Stop who does, or choose another: salience serve --port 0 takes one that is free."
        ) from None


def url_of(listening: socket.socket) -> str:
    """Return the URL under which a socket is reached."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _addresses(host: str, port: int = 0) -> list[tuple[socket.AddressFamily, tuple[str, int]]]:
    """Return the addresses of a host, those of IPv4 first."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        remedy = "Give a name or an address of this machine."
        raise InputError("server_host", Words(repr(host)), remedy, f"{shown(host)} is no host") from None
    found.sort(key=lambda one: one[0] != socket.AF_INET)
    return [(family, (str(address[0]), port)) for family, *_, address in found]
