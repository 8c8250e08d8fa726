"""What is to be served."""

from __future__ import annotations

from dataclasses import dataclass

from salience import compose
from salience.errors import InputError
from salience.rank import profiles
from salience.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be served, in a form in which it can be handed to another process.

    Attributes:
        settings: of the installation and of the command line; `url` names the store.
        embedder: by its name.
        profile: of recalls that name none: the name of one that ships, or the path of a TOML file.
    """

    settings: Settings
    embedder: str = "minilm"
    profile: str = "salience"

    def check(self) -> None:
        """Return if nothing is wrong with it that can be told before a store is opened.

        Raises:
            InputError: a value that cannot be accepted.
        """
        profiles.load(self.profile)
        if self.settings.server_workers > 1 and self.settings.url == compose.MEMORY:
            raise InputError(
                "server_workers",
                self.settings.server_workers,
                f"Serve {compose.MEMORY} with 1: each process would have memories of its own.",
            )
