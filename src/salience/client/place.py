"""Where a server is, and how one that calls it shows who they are."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Final

import httpx

from salience.errors import InputError, Words

SCHEMES: Final = ("https", "http")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")
_URL_REMEDY: Final = "Give https://HOST[:PORT][/PATH], and the key as api_key or SALIENCE_API_KEY."


@dataclass(frozen=True, slots=True)
class Place:
    """A server as a client calls it.

    Attributes:
        url: its base, with a slash at the end.
        api_key: shown with each request; None where the server wants none. In no message and no representation.
    """

    url: httpx.URL
    api_key: str | None = field(default=None, repr=False)

    @classmethod
    def at(cls, url: str, api_key: str | None = None, *, allow_http: bool = False) -> Place:
        """Return the place that a URL and a key name.

        Args:
            url: of https; of http only to this machine, since key and memories would be for anybody to read.
            api_key: `sal_...`, or a token of the issuer that the server trusts.
            allow_http: whether http is taken to other machines too.

        Raises:
            InputError: a URL or key that cannot be used; shows no secret.
        """
        try:
            base = httpx.URL(url)
        except (httpx.InvalidURL, TypeError):
            base = httpx.URL("")
        if base.scheme not in SCHEMES or not _is_host(base) or base.userinfo or base.query or base.fragment:
            raise InputError(
                "target",
                Words("a URL that is more or less than the place of a server"),
                _URL_REMEDY,
                "is not the URL of a server",
            )
        if base.scheme == "http" and not (allow_http or _is_loopback(base.host)):
            remedy = "Use https. Where the network is trusted, set SALIENCE_CLIENT_ALLOW_HTTP=true."
            raise InputError("target", f"http://{base.host}", remedy, f"http://{base.host} would be sent unencrypted")
        return cls(base.copy_with(path=base.path.rstrip("/") + "/"), _key(api_key))

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine, so that no proxy leads to it."""
        return _is_loopback(self.url.host)

    @property
    def name(self) -> str:
        """The host and port, for messages."""
        return self.url.netloc.decode("ascii")

    @property
    def headers(self) -> dict[str, str]:
        """What each request shows of its sender."""
        return {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}


def _is_host(base: httpx.URL) -> bool:
    host = base.raw_host.decode("ascii")
    return bool(_NAME.fullmatch(host)) or _address(host) is not None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or host.endswith(".localhost") if address is None else address.is_loopback


def _key(api_key: str | None) -> str | None:
    if api_key is None:
        return None
    key = str(api_key).strip()
    if not (key and key.isascii() and key.isprintable() and " " not in key):
        raise InputError("api_key", Words("***"), "Give the key as `salience keys create` printed it.", "is not a key")
    return key
