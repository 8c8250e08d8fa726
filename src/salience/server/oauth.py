"""Tokens of an OAuth 2.1 issuer: whether one holds, and what it grants. We are the resource server, and issue none.

A token is a JWT, signed by one of the keys that the issuer publishes. Which algorithm is used is the key's to say,
never the token's: of what a token says before it is verified, nothing is taken but the name of a key, to look it up.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import jwt

from salience.errors import InputError, SalienceError
from salience.records import RIGHTS, Grant
from salience.settings import masked

ALGORITHMS: Final[Mapping[str, str]] = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}
"""Kind of a key -> the one algorithm that it is used with. There is no secret that both sides share, and no `none`."""
SCOPE_PREFIX: Final = "salience:"
"""Stands before a right in the scope of a token: `salience:read`."""
BOUND_CLAIM: Final = "salience_bound"
"""Claim that binds the caller to values of coordinates, as a key may be bound: `{"project": "website"}`."""
LATEST: Final = 1e12
"""Latest instant that a token may name, seconds since 1970."""
LEEWAY: Final = 30.0
"""Seconds by which the clocks of issuer and server may differ."""
FRESH: Final = 600.0
"""Age, seconds, from which on the keys of an issuer are fetched anew when one is needed."""
HELD: Final = 3600.0
"""Age from which on they hold no more, where the issuer cannot be reached: one that it took back must not go on."""
PAUSE: Final = 60.0
"""Least time, seconds, from one fetch to the next, whatever the tokens name."""
PATIENCE: Final = 5.0
"""Seconds that a fetch may take in all."""
TOKEN_LIMIT: Final = 16_384
"""Longest token, characters."""
DOCUMENT_LIMIT: Final = 262_144
"""Longest answer of an issuer, bytes."""
KEY_BITS: Final = 2048
"""Fewest bits of an RSA key."""
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_NO_JSON_OBJECT: Final = "no JSON object"
_log = logging.getLogger(__name__)


def verifier(
    issuer: str,
    audience: str,
    jwks_url: str | None = None,
    tenant_claim: str = "tenant",
    *,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ticks: Callable[[], float] = time.monotonic,
    patience: float = PATIENCE,
) -> Callable[[str], Grant | None]:
    """Return a function from a token to what it grants: None for anything that is not a token that holds.

    A token has to be signed by a key of the issuer, to name issuer, audience, subject and a tenant, to be of now, and
    to have one of the scopes `salience:read`, `salience:write`, `salience:admin`. An issuer that cannot be reached
    grants nothing; that is logged.

    Args:
        issuer: as its tokens name it, to the letter.
        audience: that a token has to name.
        jwks_url: where the keys are; None: where the issuer's metadata says (RFC 8414, or OpenID Connect Discovery).
        tenant_claim: claim that holds the tenant.
        clock: tells the time that tokens are held against.
        ticks: tells the age of keys, seconds.
        patience: seconds that a fetch of keys may take in all.

    Raises:
        InputError: an address that is not to be trusted.
    """
    where = None if jwks_url is None else _address("oauth_jwks_url", jwks_url)
    keys = Keys(Published(_address("oauth_issuer", issuer), where, patience).keys, ticks)

    def verify(token: str) -> Grant | None:
        try:
            key = keys.of(_key_name(token))
            claims = _claims(token, key, issuer, audience) if key is not None else {}
            return _granted(claims, tenant_claim) if _is_of(claims, clock().timestamp()) else None
        except (jwt.PyJWTError, SalienceError, ValueError, RecursionError) as error:
            _log.debug("oauth: a token was refused: %s", type(error).__name__)  # its message may hold what was sent
            return None

    return verify


def _key_name(token: str) -> str | None:
    """Return the name of the key that a token says it is signed with; None where it names none.

    Raises:
        jwt.PyJWTError: no token, or one of an algorithm that no key of ours has.
    """
    if len(token) > TOKEN_LIMIT:
        raise jwt.DecodeError("too long")
    header = jwt.get_unverified_header(token)
    if header.get("alg") not in ALGORITHMS.values():
        raise jwt.InvalidAlgorithmError("not of ours")
    name: str | None = header.get("kid")
    return name


def _claims(token: str, key: jwt.PyJWK, issuer: str, audience: str) -> dict[str, Any]:
    """Return what a token says, once its signature, issuer and audience hold; times are for `_is_of`, by our clock."""
    return jwt.decode(
        token,
        key,
        algorithms=[key.algorithm_name],
        issuer=issuer,
        audience=audience,
        options={
            "require": ["iss", "aud", "sub", "exp"],
            "verify_exp": False,
            "verify_nbf": False,
            "verify_iat": False,
        },
    )


def _is_of(claims: Mapping[str, Any], now: float) -> bool:
    """Return whether a token holds at an instant: its end is to come, and its beginning, if it has one, is past."""
    begins, ends = _instant(claims.get("nbf", 0)), _instant(claims.get("exp"))
    return begins - LEEWAY <= now < ends + LEEWAY


def _instant(value: object) -> float:
    """Return an instant in seconds; NaN, which nothing is before or after, for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > LATEST:
        return math.nan
    return float(value)


def _granted(claims: Mapping[str, Any], tenant_claim: str) -> Grant:
    """Return what claims grant. A bound that cannot be read is refused: it must not be taken for none.

    Raises:
        InputError: no tenant, no right, or a bound that is none.
    """
    return Grant(
        tenant=claims.get(tenant_claim, ""),
        rights=[right for right in RIGHTS if SCOPE_PREFIX + right in _scopes(claims)],
        bound=claims.get(BOUND_CLAIM, {}),
        name=claims["sub"],
    )


def _scopes(claims: Mapping[str, Any]) -> list[str]:
    """Return the scopes of a token: of RFC 9068 a text with blanks; of others a list, or under another name."""
    given = claims.get("scope", claims.get("scp", ""))
    if isinstance(given, str):
        return given.split()
    return [one for one in given if isinstance(one, str)] if isinstance(given, list) else []


@dataclass(frozen=True, slots=True)
class Known:
    """Keys as they were fetched.

    Attributes:
        keys: by their names; one without a name stands under "".
        fetched: when, by `ticks`.
        tried: when the last try was, whatever came of it.
    """

    keys: Mapping[str, jwt.PyJWK] = field(default_factory=dict)
    fetched: float = -math.inf
    tried: float = -math.inf

    def of(self, name: str | None, now: float) -> jwt.PyJWK | None:
        """Return the key of a name, while it holds; without a name, the only one that there is."""
        if now - self.fetched >= HELD:
            return None
        if name is None:
            return next(iter(self.keys.values())) if len(self.keys) == 1 else None
        return self.keys.get(name)


class Keys:
    """The keys of an issuer, fetched when one is needed that is not there, or is old. Safe to share between threads.

    Args:
        fetch: returns them, or raises `KeysError`.
        ticks: tells their age, seconds.
    """

    def __init__(self, fetch: Callable[[], Mapping[str, jwt.PyJWK]], ticks: Callable[[], float]) -> None:
        self._fetch = fetch
        self._ticks = ticks
        self._known = Known()
        self._lock = threading.Lock()

    def of(self, name: str | None) -> jwt.PyJWK | None:
        """Return the key of a name; None if the issuer has none, or cannot be reached.

        Fetches once at most. One thread does, while those whose key is there go on with it.
        """
        now = self._ticks()
        found = self._known.of(name, now)
        if found is not None and now - self._known.fetched < FRESH:
            return found
        if not self._lock.acquire(blocking=found is None):
            return found
        try:
            if self._ticks() - self._known.tried >= PAUSE:
                self._known = self._renewed(self._known)
        finally:
            self._lock.release()
        return self._known.of(name, self._ticks())

    def _renewed(self, known: Known) -> Known:
        tried = self._ticks()
        try:
            return Known(self._fetch(), tried, tried)
        except KeysError as error:
            _log.warning("oauth: the keys of the issuer cannot be had, so that its tokens do not hold: %s", error)
            return replace(known, tried=tried)


class KeysError(Exception):
    """The keys of an issuer cannot be had; says why, for the log."""


@dataclass(frozen=True, slots=True)
class Published:
    """What an issuer publishes.

    Attributes:
        issuer: its address.
        jwks_url: where its keys are; None: where its metadata says.
        patience: seconds that a fetch may take in all.
    """

    issuer: str
    jwks_url: str | None
    patience: float

    def keys(self) -> dict[str, jwt.PyJWK]:
        """Return its keys by their names.

        Raises:
            KeysError: it cannot be reached, or answers something else.
        """
        ends = time.monotonic() + self.patience
        try:
            with httpx.Client(headers={"accept": "application/json"}) as client:
                url = self.jwks_url or _keys_url(client, self.issuer, ends)
                listed = _document(client, url, ends).get("keys")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise KeysError(type(error).__name__) from None
        keys = dict(_usable(listed))
        if not keys:
            raise KeysError("it publishes no key that can be used")
        return keys


def _keys_url(client: httpx.Client, issuer: str, ends: float) -> str:
    """Return where the metadata of an issuer says that its keys are.

    Raises:
        KeysError: there is no metadata, or it is another issuer's.
    """
    why = KeysError("it has no metadata")
    for url in metadata_urls(issuer):
        try:
            found = _document(client, url, ends)
        except KeysError as error:
            why = error
            continue
        if found.get("issuer") != issuer:
            raise KeysError("its metadata name another issuer")
        try:
            return _address("jwks_uri", found.get("jwks_uri"))
        except InputError:
            raise KeysError("its metadata name no address of keys that can be trusted") from None
    raise why


def metadata_urls(issuer: str) -> list[str]:
    """Return where the metadata of an issuer may be, by RFC 8414 and by OpenID Connect Discovery."""
    parts = urlsplit(issuer)
    host, path = f"{parts.scheme}://{parts.netloc}/.well-known", parts.path.rstrip("/")
    inserted = [f"{host}/{name}{path}" for name in ("oauth-authorization-server", "openid-configuration")]
    return list(dict.fromkeys([*inserted, f"{issuer.rstrip('/')}/.well-known/openid-configuration"]))


def _document(client: httpx.Client, url: str, ends: float) -> dict[str, Any]:
    """Return the JSON object at an address, read within limits of size and time; redirects are not followed.

    Raises:
        KeysError: another answer.
        httpx.HTTPError: none.
    """
    body, left = bytearray(), ends - time.monotonic()
    if left <= 0:
        raise KeysError("it takes too long")
    with client.stream("GET", url, timeout=left) as answer:
        if answer.status_code != httpx.codes.OK:
            raise KeysError(f"status {answer.status_code}")
        for chunk in answer.iter_bytes():
            body += chunk
            if len(body) > DOCUMENT_LIMIT or time.monotonic() > ends:
                raise KeysError("its answer is too long, or takes too long")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise KeysError(_NO_JSON_OBJECT) from None
    if not isinstance(found, dict):
        raise KeysError(_NO_JSON_OBJECT)
    return found


def _usable(listed: object) -> Iterator[tuple[str, jwt.PyJWK]]:
    """Yield those of an issuer's keys with which it may sign, by their names; others are left out."""
    for one in listed if isinstance(listed, list) else ():
        algorithm = ALGORITHMS.get(str(one.get("kty"))) if isinstance(one, dict) else None
        if algorithm is None or (one.get("use", "sig"), one.get("alg", algorithm)) != ("sig", algorithm):
            continue
        if "d" in one:  # a private one: it is nobody's any more
            continue
        try:
            key = jwt.PyJWK(one, algorithm)
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        if algorithm != "RS256" or key.key.key_size >= KEY_BITS:
            yield str(one.get("kid", "")), key


def _address(field: str, url: object) -> str:
    """Return an address of which nobody on the way can change what it answers.

    Raises:
        InputError: it is not https, nor this machine.
    """
    text = url if isinstance(url, str) else ""
    try:
        parts = httpx.URL(text)
    except httpx.InvalidURL:
        parts = httpx.URL("")
    if parts.host and (parts.scheme == "https" or (parts.scheme == "http" and parts.host in _LOOPBACK)):
        return text
    raise InputError(field, masked(text), "Give an https:// address; http:// is for this machine alone.")
