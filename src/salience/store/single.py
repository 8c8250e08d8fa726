"""One live memory as numbers: what `parsed` makes of many, with as little done as one needs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from salience.records import TIERS
from salience.store.numbering import CODED, Numbers, pair
from salience.store.parsed import NEVER, code
from salience.store.sql import ARENA

_ID, _FORGOTTEN = (ARENA.index(name) for name in ("id", "forgotten_at"))
_TIERS: Final = {tier: number for number, tier in enumerate(TIERS)}
_AS_IS: Final = ("importance", "access_count", "weight", "created_at", "updated_at", "version")
Row = Sequence[Any]
"""The columns `sql.ARENA` of a memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Single:
    """A live memory.

    Attributes:
        id: its id.
        sequence: of the change that made it what it is.
        columns: those of `parsed.FIXED`, but for `supersedes` and where the runs of the lists below begin.
        supersedes: the id of the memory that it names, if any.
        terms, tags: how often each number occurs.
        mentions: the numbers of entities, distinct.
        distinctions: their codes.
        vector: its bytes; None for none.
    """

    id: str
    sequence: int
    columns: Mapping[str, Any]
    supersedes: str | None
    terms: Mapping[int, int]
    tags: Mapping[int, int]
    mentions: Sequence[int]
    distinctions: Sequence[int]
    vector: bytes | None

    @classmethod
    def of(cls, numbers: Numbers, row: Row) -> Single:
        """Return a memory from its row, whose texts are numbered on the way; its id has no number yet."""
        of = dict(zip(ARENA, row, strict=True))
        terms = [numbers.terms[term] for term in of["terms"].split(" ")] if of["terms"] else []
        mentions = [*dict.fromkeys([numbers.entities[name] for name in _listed(of["entities"])])]
        distinctions = [code(line) for line in of["distinctions"].split("\n")] if of["distinctions"] else []
        columns = {
            **_columns(numbers, of),
            "id": int(numbers.ids.of((of["id"],), 1)[0]),
            "length": len(terms),
            "entities": len(mentions),
            "distinctions": len(distinctions),
        }
        tags = _counted([numbers.tags[tag] for tag in _listed(of["tags"])])
        return cls(
            of["id"], of["seq"], columns, of["supersedes"], _counted(terms), tags, mentions, distinctions, of["vector"]
        )


def is_live(row: Row) -> bool:
    """Return whether a memory is live."""
    return row[_FORGOTTEN] is None


def id_of(row: Row) -> str:
    """Return the id of a memory."""
    return str(row[_ID])


def _columns(numbers: Numbers, of: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that are of one value of the row each."""
    coded = {name: numbers.coded[name][of[name]] for name in CODED}
    home = numbers.homes[pair(coded["environment"], coded["user_id"])]
    session = numbers.sessions[pair(home, coded["session_id"])]
    fact = of["fact_key"]
    return {
        **coded,
        **{name: of[name] for name in _AS_IS},
        "accessed_at": of["created_at"] if of["accessed_at"] is None else of["accessed_at"],
        "tier": _TIERS[of["tier"]],
        "expires_at": NEVER if of["expires_at"] is None else of["expires_at"],
        "fact": 0 if fact is None else numbers.facts[of["user_id"], fact],
        "home": home,
        "session": session if coded["session_id"] else 0,
        "turn": of["turn"] or 0,
        "speaker": numbers.speakers[of["speaker"]],
        "has_vector": of["vector"] is not None,
    }


def _counted(numbers: Sequence[int]) -> dict[int, int]:
    """Return how often each number occurs."""
    counts: dict[int, int] = {}
    for number in numbers:
        counts[number] = counts.get(number, 0) + 1
    return counts


def _listed(text: str) -> list[Any]:
    """Return the items of a list in JSON; most memories have none."""
    return [] if text == "[]" else list(json.loads(text))
