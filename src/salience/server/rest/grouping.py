"""How the verbs stand on the paths: which of them share one, and where the arguments of each stand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from salience.wire.verbs import VERBS, Verb

STREAMED: Final = ("export", "import_")
"""Verbs that answer or take lines, and no object."""


def groups() -> list[Sequence[Verb]]:
    """Return the verbs, those of one method and path together."""
    return [tuple(verbs) for _, verbs in groupby(VERBS.values(), key=lambda verb: (verb.method, verb.path))]


def is_in_query(verb: Verb) -> bool:
    """Return whether the arguments stand in the query, so that there is no body, or that is something else."""
    return verb.method in ("GET", "DELETE") or verb.name in STREAMED


def arguments(verb: Verb) -> tuple[list[str], list[str]]:
    """Return the names of the arguments that stand in the path, and of those in the query."""
    in_path = re.findall(r"{(\w+)}", verb.path)
    rest = [name for name in verb.request.model_fields if name not in in_path]
    return in_path, rest if is_in_query(verb) else []
