"""Compare: one question under several profiles, at two instants, or before and after a change of weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any, Final

from fastapi import APIRouter
from markupsafe import Markup
from starlette.responses import Response

from salience.errors import InputError
from salience.records import Hit, Recall, checks
from salience.server.ui import charts, question
from salience.server.ui.page import Page, Visit
from salience.server.ui.question import Question

router = APIRouter()
MODES: Final = {"profiles": "Profiles", "instants": "Two instants", "weights": "Weights"}
FEWEST: Final = 2
MOST: Final = 6
"""Number of profiles to compare."""
HITS: Final = 15
"""Maximum number of hits of an answer, so that the page of six stays small."""
DEFAULT: Final = ("salience", "precise", "zeromemory")
BACK: Final = timedelta(days=30)
"""Time between the instants, unless they are given."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the answers to compare, and the parameters of a URL that ask for it."""

    label: str
    recall: Recall
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """A hit in a column: its rank, its move against the column before, and its colour."""

    hit: Hit
    rank: int
    move: str
    color: int


@router.get("/compare")
def show(page: Visit) -> Response:
    """Return the answers side by side."""
    asked = question.read(page, HITS)
    mode = checks.choice("mode", page.query.get("mode", "profiles"), tuple(MODES))
    chosen = _chosen(page) if mode == "profiles" else ()
    before, after = _instants(page)
    sides: list[Side] = []
    if asked.text:
        match mode:
            case "profiles":
                sides = [_under_profile(page, asked, name) for name in chosen]
            case "instants":
                options = {name: value for name, value in asked.options.items() if name not in ("now", "as_of")}
                for name, at in (("before", before), ("after", after)):
                    past = {} if name == "after" and not page.query.get("after") else {"as_of": at}
                    label = f"{at:%Y-%m-%d %H:%M} UTC" if past else "now"
                    sides.append(_side(page, label, _with(asked, options={**options, **past})))
            case _:
                sides = [_side(page, "own weights", _with(asked, weights={})),
                         _side(page, "changed weights", asked)]  # fmt: skip
    columns = [[hit.memory.id for hit in side.recall] for side in sides]
    return page.render(
        "views/compare.html",
        **question.values(page, asked, HITS),
        mode=mode,
        MODES=MODES,
        MOST_PROFILES=MOST,
        chosen=chosen,
        before=f"{before:%Y-%m-%dT%H:%M}",
        after=page.query.get("after", ""),
        sides=sides,
        cells=cells([list(side.recall) for side in sides]),
        links=[bumps(left, right, colors(columns)) for left, right in pairwise(columns)],
        ranks=ranks(columns),
        memories={hit.memory.id: hit.memory for side in sides for hit in side.recall},
    )


def _chosen(page: Page) -> tuple[str, ...]:
    """Return the names of the profiles to compare."""
    names = tuple(dict.fromkeys(page.query.getlist("with")))
    if not names:
        return tuple(dict.fromkeys((page.profile.name, *DEFAULT)))[: len(DEFAULT)]
    if not FEWEST <= len(names) <= MOST:
        raise InputError("with", list(names), f"Choose {FEWEST} to {MOST} profiles.", f"names {len(names)}")
    return names


def _instants(page: Page) -> tuple[Any, Any]:
    """Return the two instants to compare."""
    before, after = page.query.get("before"), page.query.get("after")
    last = checks.instant("after", after) if after else page.now
    return checks.instant("before", before) if before else last - BACK, last


def _with(asked: Question, **changes: Any) -> Question:
    values = {name: getattr(asked, name) for name in ("text", "profile", "weights", "options", "named", "where")}
    return Question(**{**values, **changes})


def _under_profile(page: Page, asked: Question, name: str) -> Side:
    profile, named = question.profile_named(page, name)
    return _side(page, name, _with(asked, profile=profile, named=named, weights={}))


def _side(page: Page, label: str, asked: Question) -> Side:
    return Side(label, page.call("recall", dry_run=True, **asked.arguments), asked.parameters)


def colors(columns: Sequence[Sequence[str]]) -> dict[str, int]:
    """Return the colour of each memory, in the order of first appearance."""
    ids = dict.fromkeys(one for column in columns for one in column)
    return {one: place % charts.SERIES for place, one in enumerate(ids)}


def moved(rank: int, before: int | None) -> str:
    """Return the move from a rank in the column before: `new`, `same`, `up 2` or `down 1`."""
    if before is None:
        return "new"
    return "same" if rank == before else f"up {before - rank}" if rank < before else f"down {rank - before}"


def cells(columns: Sequence[Sequence[Hit]]) -> list[list[Cell]]:
    """Return the hits of each column with their moves; those of the first column have none."""
    ids = [[hit.memory.id for hit in column] for column in columns]
    color, found = colors(ids), list[list[Cell]]()
    for place, column in enumerate(columns):
        before = {one: rank for rank, one in enumerate(ids[place - 1], 1)} if place else {}
        found.append(
            [
                Cell(hit, rank, moved(rank, before.get(hit.memory.id)) if place else "", color[hit.memory.id])
                for rank, hit in enumerate(column, 1)
            ]
        )
    return found


def ranks(columns: Sequence[Sequence[str]]) -> dict[str, list[int | None]]:
    """Return the rank of each memory in each column; None where it is missing."""
    places = [{one: rank for rank, one in enumerate(column, 1)} for column in columns]
    return {one: [place.get(one) for place in places] for one in colors(columns)}


def bumps(left: Sequence[str], right: Sequence[str], color: dict[str, int]) -> Markup:
    """Return the lines from the ranks of one column to those of the next."""
    lines = [(left.index(one), right.index(one), color[one]) for one in right if one in left]
    kept = sum(1 for start, end, _ in lines if start == end)
    new, gone = len(right) - len(lines), len(left) - len(lines)
    label = f"{kept} keep their rank, {len(lines) - kept} move, {new} are new, {gone} are gone"
    return charts.bump(lines, max(len(left), len(right)), label)
