"""The shipped profiles, as TOML beside this file; `load` finds a profile by name, path or object."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

from salience.errors import ProfileError, Words, shown
from salience.rank.profile import Profile, parse
from salience.records import checks

ProfileLike = str | Path | Profile
"""The name of a shipped profile, the path of a TOML file, or a `Profile`."""

NAMES: Final = ("salience", "precise", "mememory", "memlayer", "zeromemory", "memorysync", "cmm")
"""Names of the shipped profiles."""


def load(profile: ProfileLike) -> Profile:
    """Return a shipped profile by name, a profile from the path of a TOML file, or the given `Profile`.

    Raises:
        ProfileError: an unknown name (the message lists the known names), an unreadable file, invalid TOML, or a value
            of another type.
    """
    if isinstance(profile, Profile):
        return profile
    remedy = f"Choose one of: {', '.join(NAMES)}; or a path to a .toml."
    if not isinstance(profile, (str, Path)):
        raise ProfileError("profile", Words(type(profile).__name__), remedy, f"has the type {type(profile).__name__}")
    if isinstance(profile, str) and profile in NAMES:
        return _shipped(profile)
    path = checks.path("profile", profile)
    if path.suffix != ".toml":
        raise ProfileError("profile", str(profile), remedy, f"{shown(str(profile))} is unknown")
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:  # a path with a NUL, or text that is not UTF-8
        reason = (
            "it is not UTF-8" if isinstance(error, UnicodeError) else getattr(error, "strerror", None) or str(error)
        )
        problem = f"{shown(str(path))} cannot be read: {reason}"
        raise ProfileError("profile", str(path), "Give a file that can be read.", problem) from None
    return parse(text, str(path))


def source(name: str) -> str:
    """Return the TOML text of a shipped profile."""
    return resources.files(__name__).joinpath(f"{name}.toml").read_text("utf-8")


@cache
def _shipped(name: str) -> Profile:
    return parse(source(name), f"{name}.toml")
