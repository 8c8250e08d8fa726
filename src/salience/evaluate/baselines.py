"""Rankings to hold a profile against, written as profiles so that the same code ranks them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from salience.errors import InputError, ProfileError, shown
from salience.rank import profiles
from salience.rank.profile import Profile, parse

BASELINES: Final[Mapping[str, str]] = {
    # Robertson's BM25 over the index terms of each turn alone. k1 and b as Anserini has them for short passages.
    # An index of terms returns only what holds one of them.
    "bm25": """
        name = "bm25"
        summary = "BM25 of each memory alone."
        combine = "sum"
        stages = ["score", "nonzero", "trim"]
        [signal.lexical]
        k1 = 0.9
        b = 0.4
    """,
    "cosine": """
        name = "cosine"
        summary = "Cosine of query and memory alone."
        combine = "sum"
        stages = ["score", "trim"]
        [signal.similarity]
    """,
}
"""Name -> TOML."""


def contender(name: str) -> Profile:
    """Return a profile that ships, one of a file, or a baseline.

    Raises:
        ProfileError: an unknown name (the error lists the known ones), or a file that is no profile.
    """
    if name in BASELINES:
        return parse(BASELINES[name], f"baseline {name}")
    if name not in profiles.NAMES and Path(name).suffix != ".toml":
        known = ", ".join((*profiles.NAMES, *BASELINES))
        raise ProfileError("profiles", name, f"Choose of: {known}; or a path to a .toml.", f"{shown(name)} is unknown")
    return profiles.load(name)


def contenders(names: list[str]) -> dict[str, Profile]:
    """Return label -> profile; the label of a file is its stem.

    Raises:
        ProfileError: as from `contender`.
        InputError: two of the same label.
    """
    found: dict[str, Profile] = {}
    for name in names:
        label = Path(name).stem if name.endswith(".toml") else name
        if label in found:
            raise InputError(
                "profiles", label, "Name each once; a file is called by its stem.", f"{shown(label)} is there twice"
            )
        found[label] = contender(name)
    return found
