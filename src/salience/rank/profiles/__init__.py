"""The profiles that ship, as TOML beside this file, and the way from a name, a path or an object to a `Profile`."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

from salience.errors import ProfileError, Words, shown
from salience.rank.profile import Profile, parse

ProfileLike = str | Path | Profile
"""A profile by the name of one that ships, by the path of a TOML file, or as it is."""

NAMES: Final = ("salience", "precise", "mememory", "memlayer", "zeromemory", "memorysync", "cmm")
"""The profiles that ship."""


def load(profile: ProfileLike) -> Profile:
    """Return a profile by the name of one that ships, by the path of a TOML file, or as it is.

    Raises:
        ProfileError: an unknown name (the error lists the known ones), a file that cannot be read, bad TOML, or a value
            of another type.
    """
    if isinstance(profile, Profile):
        return profile
    remedy = f"Choose one of: {', '.join(NAMES)}; or a path to a .toml."
    if not isinstance(profile, (str, Path)):
        raise ProfileError("profile", Words(type(profile).__name__), remedy, f"has the type {type(profile).__name__}")
    if isinstance(profile, str) and profile in NAMES:
        return _shipped(profile)
    path = Path(profile)
    if path.suffix != ".toml":
        raise ProfileError("profile", str(profile), remedy, f"{shown(str(profile))} is unknown")
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:  # a path with a NUL, or text that is not UTF-8
        remedy = f"Give a file that can be read ({type(error).__name__})."
        raise ProfileError("profile", str(path), remedy, f"{shown(str(path))} cannot be read") from None
    return parse(text, str(path))


def source(name: str) -> str:
    """Return the TOML text of a profile that ships."""
    return resources.files(__name__).joinpath(f"{name}.toml").read_text("utf-8")


@cache
def _shipped(name: str) -> Profile:
    return parse(source(name), f"{name}.toml")
