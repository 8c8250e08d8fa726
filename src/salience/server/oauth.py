"""OAuth 2.1 access tokens: Salience is the resource server and issues none.

A token is a JWT signed by a key that the issuer publishes. The algorithm follows from the key, never from the token.
Before verification, only the key id of a token is used.

`jwt.PyJWKClient` fetches keys for every unknown key id and follows redirects, so callers could trigger any number of
requests. `IssuerKeys` limits the rate, time and size of fetches.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import jwt

from salience.errors import InputError, SalienceError
from salience.records import RIGHTS, Grant
from salience.settings import masked

ALGORITHMS: Final[Mapping[str, str]] = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}
"""Key type -> algorithm. Shared secrets and `none` are not accepted."""
SCOPE_PREFIX: Final = "salience:"
"""Prefix of a right in the scope of a token: `salience:read`."""
BOUND_CLAIM: Final = "salience_bound"
"""Claim that restricts the caller to a scope: `{"project": "website"}`."""
LATEST: Final = 1e12
"""Latest valid time in a token, seconds since 1970."""
LEEWAY: Final = 30.0
"""Tolerated clock difference between issuer and server, seconds."""
REFRESH_AFTER: Final = 600.0
"""Age of keys after which the next use refreshes them, seconds."""
EXPIRE_AFTER: Final = 3600.0
"""Age after which unrefreshed keys are invalid, seconds; limits the use of revoked keys."""
MIN_INTERVAL: Final = 60.0
"""Minimum time between two fetches, seconds."""
FETCH_TIMEOUT: Final = 5.0
"""Total timeout of a fetch, seconds."""
TOKEN_LIMIT: Final = 16_384
"""Maximum length of a token, characters."""
DOCUMENT_LIMIT: Final = 262_144
"""Maximum size of a response of the issuer, bytes."""
RSA_BITS: Final = 2048
"""Minimum size of an RSA key."""
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_log = logging.getLogger(__name__)


def token_verifier(
    issuer: str,
    audience: str,
    jwks_url: str | None = None,
    tenant_claim: str = "tenant",
    *,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    monotonic: Callable[[], float] = time.monotonic,
    timeout: float = FETCH_TIMEOUT,
) -> Callable[[str], Grant | None]:
    """Return a function from a token to its grant; None for invalid tokens.

    A valid token is signed by a key of the issuer, names issuer, audience, subject and a tenant, is current, and has
    one of the scopes `salience:read`, `salience:write`, `salience:admin`. If the keys cannot be fetched, no token is
    valid, and a warning is logged.

    Args:
        issuer: exactly as in its tokens.
        audience: required in a token.
        jwks_url: URL of the keys; None to read it from the issuer's metadata (RFC 8414 or OpenID Connect Discovery).
        tenant_claim: the claim with the tenant.
        clock: for the times in tokens.
        monotonic: for the age of keys, seconds.
        timeout: of a fetch of keys, seconds.

    Raises:
        InputError: a URL is not https.
    """
    where = None if jwks_url is None else _trusted_url("oauth_jwks_url", jwks_url)
    issuer_url = _trusted_url("oauth_issuer", issuer)
    keys = IssuerKeys(lambda: fetch_keys(issuer_url, where, timeout), monotonic)
    # `verify` checks the times itself, with `clock`
    options: Any = {"require": ["iss", "aud", "sub", "exp"]}
    options |= dict.fromkeys(("verify_exp", "verify_nbf", "verify_iat"), False)

    def verify(token: str) -> Grant | None:
        try:
            if len(token) > TOKEN_LIMIT:
                raise jwt.DecodeError("too long")
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in ALGORITHMS.values():
                raise jwt.InvalidAlgorithmError("not accepted")
            if (key := keys.get(header.get("kid"))) is None:
                return None
            claims = jwt.decode(
                token, key, algorithms=[key.algorithm_name], issuer=issuer, audience=audience, options=options
            )
            begins, ends = _seconds(claims.get("nbf", 0)), _seconds(claims.get("exp"))
            if not begins - LEEWAY <= clock().timestamp() < ends + LEEWAY:
                return None
            scopes = claims.get("scope", claims.get("scp", ""))  # RFC 9068: text with spaces; others: a list, or `scp`
            if isinstance(scopes, str):
                scopes = scopes.split()
            rights = [right for right in RIGHTS if isinstance(scopes, list) and SCOPE_PREFIX + right in scopes]
            # raises InputError without a tenant or a right, and for an invalid bound, which must not mean no bound
            return Grant(
                tenant=claims.get(tenant_claim, ""),
                rights=rights,
                bound=claims.get(BOUND_CLAIM, {}),
                name=claims["sub"],
                issuer=issuer,
            )
        except (jwt.PyJWTError, SalienceError, ValueError, RecursionError) as error:
            _log.debug("oauth: a token was refused: %s", type(error).__name__)  # the message may quote the token
            return None

    return verify


def _seconds(value: object) -> float:
    """Return a time in seconds; NaN, which compares False, for an invalid value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > LATEST:
        return math.nan
    return float(value)


class KeysError(Exception):
    """The keys of an issuer cannot be fetched; the message has the reason, for the log."""


class IssuerKeys:
    """The cached keys of an issuer. Safe to share between threads.

    `fetch` returns the keys by name, or raises `KeysError`; `monotonic` is the clock for their age, seconds.
    """

    def __init__(self, fetch: Callable[[], Mapping[str, jwt.PyJWK]], monotonic: Callable[[], float]) -> None:
        self._fetch = fetch
        self._now = monotonic
        self._lock = threading.Lock()
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._fetched = self._tried = -math.inf

    def get(self, name: str | None) -> jwt.PyJWK | None:
        """Return a key by name, or the only key if `name` is None; None if the issuer has no such key.

        Fetches at most once. One thread fetches while others use the cached keys.
        """
        found = self._cached(name)
        if found is not None and self._now() - self._fetched < REFRESH_AFTER:
            return found
        if not self._lock.acquire(blocking=found is None):
            return found
        try:
            if (tried := self._now()) - self._tried >= MIN_INTERVAL:
                try:
                    self._keys = self._fetch()
                    self._fetched = tried
                except KeysError as error:
                    message = "oauth: cannot fetch the keys of the issuer; its tokens are not accepted: %s"
                    _log.warning(message, error)
                self._tried = tried
        finally:
            self._lock.release()
        return self._cached(name)

    def _cached(self, name: str | None) -> jwt.PyJWK | None:
        keys = self._keys
        if self._now() - self._fetched >= EXPIRE_AFTER:
            return None
        if name is None:
            return next(iter(keys.values())) if len(keys) == 1 else None
        return keys.get(name)


def fetch_keys(issuer: str, jwks_url: str | None, timeout: float) -> dict[str, jwt.PyJWK]:
    """Return the signing keys of an issuer by name, without private, weak and unsupported keys.

    Raises:
        KeysError: the issuer does not respond, or publishes no usable key.
    """
    deadline = time.monotonic() + timeout
    try:
        with httpx.Client(headers={"accept": "application/json"}) as client:
            url = jwks_url or _discover_jwks_url(client, issuer, deadline)
            published = _get_json(client, url, deadline).get("keys")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise KeysError(type(error).__name__) from None
    keys: dict[str, jwt.PyJWK] = {}
    for item in published if isinstance(published, list) else ():
        algorithm = ALGORITHMS.get(str(item.get("kty"))) if isinstance(item, dict) else None
        if algorithm is None or (item.get("use", "sig"), item.get("alg", algorithm)) != ("sig", algorithm):
            continue
        if "d" in item:  # a published private key is compromised
            continue
        try:
            key = jwt.PyJWK(item, algorithm)
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        if algorithm != "RS256" or key.key.key_size >= RSA_BITS:
            keys[str(item.get("kid", ""))] = key
    if not keys:
        raise KeysError("the issuer publishes no usable key")
    return keys


def _discover_jwks_url(client: httpx.Client, issuer: str, deadline: float) -> str:
    reason = KeysError("the issuer has no metadata")
    for url in metadata_urls(issuer):
        try:
            metadata = _get_json(client, url, deadline)
        except KeysError as error:
            reason = error
            continue
        if metadata.get("issuer") != issuer:
            raise KeysError("the metadata names another issuer")
        try:
            return _trusted_url("jwks_uri", metadata.get("jwks_uri"))
        except InputError:
            raise KeysError("the metadata has no https URL of keys") from None
    raise reason


def metadata_urls(issuer: str) -> list[str]:
    """Return the possible metadata URLs of an issuer, by RFC 8414 and OpenID Connect Discovery."""
    parts = urlsplit(issuer)
    host, path = f"{parts.scheme}://{parts.netloc}/.well-known", parts.path.rstrip("/")
    inserted = [f"{host}/{name}{path}" for name in ("oauth-authorization-server", "openid-configuration")]
    return list(dict.fromkeys([*inserted, f"{issuer.rstrip('/')}/.well-known/openid-configuration"]))


def _get_json(client: httpx.Client, url: str, deadline: float) -> dict[str, Any]:
    """Return a JSON object within the limits of size and time; redirects are not followed.

    Raises:
        KeysError, httpx.HTTPError: no response, or not a JSON object.
    """
    body, left = bytearray(), deadline - time.monotonic()
    if left <= 0:
        raise KeysError("timeout")
    with client.stream("GET", url, timeout=left) as response:
        if response.status_code != httpx.codes.OK:
            raise KeysError(f"status {response.status_code}")
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > DOCUMENT_LIMIT or time.monotonic() > deadline:
                raise KeysError("the response is too long, or takes too long")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise KeysError("the response is not a JSON object")
    return found


def _trusted_url(field: str, url: object) -> str:
    """Return a URL if it is https, or http to this machine; raise `InputError` for others."""
    text = url if isinstance(url, str) else ""
    try:
        parts = httpx.URL(text)
    except httpx.InvalidURL:
        parts = httpx.URL("")
    if parts.host and (parts.scheme == "https" or (parts.scheme == "http" and parts.host in _LOOPBACK)):
        return text
    raise InputError(field, masked(text), "Give an https:// URL; http:// is accepted for this machine only.")
