"""Who calls over HTTP, as the SDK wants to know it, and where a client learns which issuer grants access."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, BearerAuthBackend
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from pydantic import AnyHttpUrl, ConfigDict, InstanceOf, TypeAdapter
from starlette.requests import HTTPConnection
from starlette.routing import Route

from salience.errors import AccessError
from salience.records import RIGHTS, Grant
from salience.server.keys import Door
from salience.server.oauth import SCOPE_PREFIX

METADATA: Final = "/.well-known/oauth-protected-resource"
"""Where the metadata of a server are, for a client that knows no more than its host (RFC 9728)."""
_AS_WRITTEN: Final = TypeAdapter(AnyHttpUrl, config=ConfigDict(url_preserve_empty_path=True))
"""Reads a URL and adds no slash: clients compare issuers to the letter."""
NOT_KEPT: Final = "not kept"
"""In the place of the token, which nobody needs once it is verified."""


class Admitted(AccessToken):
    """What the SDK keeps of a caller: it binds to one what is to be handed back by the same one alone."""

    grant: InstanceOf[Grant]

    @classmethod
    def of(cls, grant: Grant) -> Admitted:
        """Return what is kept of a caller with a grant. Name and tenant together say who it is."""
        scopes = [SCOPE_PREFIX + right for right in grant.rights]
        return cls(token=NOT_KEPT, client_id=grant.name, subject=grant.tenant, scopes=scopes, grant=grant)


class Verifier:
    """The SDK's token verifier: a door, asked in threads, since it reads the store."""

    def __init__(self, door: Door, threads: anyio.CapacityLimiter) -> None:
        self._door = door
        self._threads = threads
        self._backend = BearerAuthBackend(self)

    async def verify_token(self, token: str) -> Admitted | None:
        """Return who shows a token; None for one that does not hold."""
        try:
            return await self._entered(f"Bearer {token}")
        except AccessError:
            return None

    async def user(self, request: HTTPConnection) -> AuthenticatedUser:
        """Return who calls; without a token that holds, whoever may without one.

        Raises:
            AccessError: nobody may.
            StoreError: the keys cannot be read.
        """
        found = await self._backend.authenticate(request)
        return AuthenticatedUser(await self._entered(None)) if found is None else found[1]

    async def _entered(self, authorization: str | None) -> Admitted:
        return Admitted.of(await anyio.to_thread.run_sync(self._door.enter, authorization, limiter=self._threads))


@dataclass(frozen=True, slots=True)
class Resource:
    """A server as OAuth knows it.

    Attributes:
        metadata_url: where its metadata are, for the answer to one who has no access.
        routes: that answer with them.
    """

    metadata_url: str
    routes: tuple[Route, ...]


def resource(audience: str, issuer: str) -> Resource | None:
    """Return the metadata of the server that is called by the URL of its audience; None where that is no URL.

    Then clients have to be told the issuer some other way: metadata are of a URL (RFC 9728), and there is none.
    """
    if urlsplit(audience).scheme not in ("http", "https"):
        return None
    url = _AS_WRITTEN.validate_python(audience)
    scopes = [SCOPE_PREFIX + right for right in RIGHTS]
    (route,) = create_protected_resource_routes(url, [_AS_WRITTEN.validate_python(issuer)], scopes, "Salience")
    at_the_root = Route(METADATA, route.endpoint, methods=["GET", "OPTIONS"])
    return Resource(str(build_resource_metadata_url(url)), (route, at_the_root))
