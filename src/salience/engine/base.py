"""What the three groups of verbs share: the world, the profile, and how scope keywords are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Self

from salience import checks, keywords, profiles
from salience.errors import InputError, Words
from salience.ports import Embedder, World
from salience.profiles import ProfileLike
from salience.rank.profile import Profile
from salience.records import Scope

Moved = Callable[[World, str | Embedder], World]
"""From a world and an embedder, by name or itself, to the same world under that embedder."""


class Base:
    """An engine's state; `world` is replaced as a whole when the store is given another model."""

    def __init__(self, world: World, profile: ProfileLike = "salience", moved: Moved | None = None) -> None:
        self.world = world
        self.profile = profiles.load(profile)
        self._moved = moved

    def of(self, tenant: str) -> Self:
        """Return an engine for another tenant, on the store, the models and the profile that this one has now.

        They share them: to close one is to close both. That the tenant's memories are whole is for its writes to find
        out, as long as a copy of them is under way.
        """
        return type(self)(replace(self.world, tenant=checks.name("tenant", tenant)), self.profile, self._moved)

    def _under(self, embedder: str | Embedder) -> World:
        """Return the world under another embedder; one by name needs an engine that `connect` made."""
        if self._moved is None:
            raise InputError(
                "embedder",
                Words(str(embedder)),
                "Connect with salience.connect, then reembed.",
                f"{embedder!r} cannot be made here",
            )
        return self._moved(self.world, embedder)

    def _profile(self, profile: ProfileLike | None, weights: Mapping[str, float] | None = None) -> Profile:
        chosen = self.profile if profile is None else profiles.load(profile)
        return chosen.with_weights(weights) if weights else chosen

    def _scope(self, where: Mapping[str, object]) -> tuple[Scope, str | None]:
        return keywords.scope(self.world.tenant, where)

    def _home(self, where: Mapping[str, object]) -> Scope:
        return keywords.home(self.world.tenant, where)
