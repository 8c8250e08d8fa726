"""A tuned profile as TOML: the text that it was made from, with other numbers and a word on how they came about."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from salience.evaluate.baselines import BASELINES
from salience.evaluate.metrics import Estimate
from salience.evaluate.tune import Tuned
from salience.loading import require
from salience.rank import profiles


def source(name: str) -> str:
    """Return the TOML of a profile by the name of one that ships, of a baseline, or by its path."""
    if name in BASELINES:
        return BASELINES[name]
    return profiles.source(name) if name in profiles.NAMES else Path(name).read_text("utf-8")


def toml(tuned: Tuned, text: str, files: Sequence[str], embedder: str, day: date) -> str:
    """Return the TOML of the tuned profile, its other keys and comments as they were.

    Args:
        tuned: what tuning came to.
        text: the TOML that it started from.
        files: names of the data files.
        embedder: whose vectors they were.
        day: of the tuning.

    Raises:
        MissingExtraError: tomlkit is not installed.
    """
    require("tomlkit", "salience tune", "eval")
    import tomlkit

    document: Any = tomlkit.parse(text)
    name = str(document["name"])
    document["name"] = name if name.endswith("-tuned") else f"{name}-tuned"
    for change in tuned.changes:
        _, signal, key = change.path.split(".")
        document["signal"][signal][key] = change.after
    told = "".join(f"# {line}\n" for line in how(tuned, name, files, embedder, day))
    return f"{told}#\n{tomlkit.dumps(document).lstrip()}"


def how(tuned: Tuned, name: str, files: Sequence[str], embedder: str, day: date) -> list[str]:
    """Return how a tuned profile was made and what to expect of it, in lines."""
    data = ", ".join(files)
    lines = [
        f"Made by `salience tune` on {day.isoformat()} from {name}, with the embedder {embedder}.",
        f"Data: {data}; n = {tuned.n:,} questions, one memory a turn.",
        f"{tuned.metric}: {_told(tuned.held_out)} on conversations held out, {_told(tuned.before)} before;",
        f"{tuned.fitted.mean:.3f} on the data that it was fitted on, which is no promise.",
        f"Best of {tuned.trials:,} trials. The comments below are those of {name}.",
    ]
    if tuned.unfitted:
        lines.append(f"Not fitted, since the data does not vary in it: {', '.join(tuned.unfitted)}.")
    return lines


def _told(estimate: Estimate) -> str:
    return f"{estimate.mean:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
