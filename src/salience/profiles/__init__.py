"""The profiles that ship, as TOML beside this file, and the way from a name, a path or an object to a `Profile`."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

from salience.errors import ProfileError, shown
from salience.rank.profile import Profile, parse

ProfileLike = str | Path | Profile
"""A profile by the name of one that ships, by the path of a TOML file, or as it is."""

NAMES: Final = ("salience", "mememory", "memlayer", "zeromemory", "memorysync", "cmm")
"""The profiles that ship."""


def load(profile: ProfileLike) -> Profile:
    """Return a profile by the name of one that ships, by the path of a TOML file, or as it is.

    Raises:
        ProfileError: an unknown name (the error lists the known ones), a file that cannot be read, or bad TOML.
    """
    if isinstance(profile, Profile):
        return profile
    if isinstance(profile, str) and profile in NAMES:
        return _shipped(profile)
    path = Path(profile)
    if path.suffix != ".toml":
        remedy = f"Choose one of: {', '.join(NAMES)}; or a path to a .toml."
        raise ProfileError("profile", str(profile), remedy, f"{shown(str(profile))} is unknown")
    try:
        return parse(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(
            "profile",
            str(path),
            f"Give a file that can be read ({type(error).__name__}).",
            f"{shown(str(path))} cannot be read",
        ) from None


def source(name: str) -> str:
    """Return the TOML text of a profile that ships."""
    return resources.files(__name__).joinpath(f"{name}.toml").read_text("utf-8")


@cache
def _shipped(name: str) -> Profile:
    return parse(source(name), f"{name}.toml")
