"""What the three groups of verbs share: the services, the profile, and how scope keywords are read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Self

from salience import keywords
from salience.errors import InputError, Words
from salience.ports import Embedder, Services
from salience.rank import profiles
from salience.rank.profile import Profile
from salience.rank.profiles import ProfileLike
from salience.records import Scope, checks

Moved = Callable[[Services, str | Embedder], Services]
"""From a services and an embedder, by name or itself, to the same services under that embedder."""


Follow = Callable[[Services], Services | None]
"""From services to the same services under the model that the store is pinned to; None if it is not available."""
REST: Final = 60.0
"""Seconds after which a model that could not be loaded is tried again."""


class Base:
    """An engine's state; `services` is replaced as a whole when the store is given another model.

    Args:
        services: the ports.
        profile: of recalls that name none.
        moved: for `reembed` with a model by name.
        follow: asked for another services once the store turns out to have another model.
    """

    def __init__(
        self,
        services: Services,
        profile: ProfileLike = "salience",
        moved: Moved | None = None,
        follow: Follow | None = None,
    ) -> None:
        self._world = services
        self.profile = profiles.load(profile)
        self._moved = moved
        self._follow = follow
        self._following = threading.Lock()
        self._rests_until = 0.0

    @property
    def services(self) -> Services:
        """The ports: under another embedder once an earlier call met a store that has another model, if it can be."""
        if self._follow is not None and getattr(self._world.store, "moved", False):
            self._go_over(self._follow)
        return self._world

    @services.setter
    def services(self, services: Services) -> None:
        self._world = services

    def _go_over(self, follow: Follow) -> None:
        """Go over to the model of the store; calls that come meanwhile go on without it."""
        if time.monotonic() < self._rests_until or not self._following.acquire(blocking=False):
            return
        try:
            found = follow(self._world)
            if found is None:
                self._rests_until = time.monotonic() + REST
            else:
                self._world = found
        finally:
            self._following.release()

    def of(self, tenant: str, answer_limit: int | None = None) -> Self:
        """Return an engine for another tenant, on the store, the models and the profile that this one has now.

        They share them: to close one is to close both. That the tenant's memories are whole is for its writes to find
        out, as long as a copy of them is under way. An answer over `answer_limit` bytes is a LimitError.
        """
        services = replace(self.services, tenant=checks.name("tenant", tenant), answer_limit=answer_limit)
        return type(self)(services, self.profile, self._moved)

    def _under(self, embedder: str | Embedder) -> Services:
        """Return the services under another embedder; one by name needs an engine that `connect` made."""
        if self._moved is None:
            raise InputError(
                "embedder",
                Words(str(embedder)),
                "Connect with salience.connect, then reembed.",
                f"{embedder!r} cannot be made here",
            )
        return self._moved(self.services, embedder)

    def _profile(self, profile: ProfileLike | None, weights: Mapping[str, float] | None = None) -> Profile:
        chosen = self.profile if profile is None else profiles.load(profile)
        return chosen if weights is None else chosen.with_weights(weights)

    def _scope(self, where: Mapping[str, object]) -> tuple[Scope, str | None]:
        return keywords.scope(self.services.tenant, where)

    def _home(self, where: Mapping[str, object]) -> Scope:
        return keywords.home(self.services.tenant, where)
