"""Tiers and decay: memories by tier, what moves next, how memories fade, and what upkeep did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from salience.errors import InputError
from salience.records import TIERS, ConsolidateReport, Memory, checks
from salience.server.ui.page import Form, Page, Visit

router = APIRouter()
AT_ONCE: Final = 5000
"""Live memories up to which the page makes the dry runs itself; above, a link does."""
LISTED: Final = 20
"""Memories of a dry run that are listed."""
CHOSEN: Final = 6
"""Most memories whose curves are drawn."""
OFFERED: Final = 8
"""Memories that are offered for curves."""
LOG: Final = 25
"""Changes of upkeep on a page."""
HORIZONS: Final = (7, 30, 90, 365)
"""Days of a curve."""
MARKS: Final = (0.0, 0.25, 0.5, 1.0)
"""Columns of the table, as shares of the horizon."""
STEPS: Final = 49
"""Points of a curve: a multiple of 4, and one."""


@router.get("/tiers")
def show(page: Visit) -> Response:
    """Return the page."""
    stats = page.call("stats")
    days = int(checks.choice("days", page.query.get("days", "30"), tuple(map(str, HORIZONS))))
    wants = page.query.get("due") == "1" or stats.memories <= AT_ONCE
    chosen, offered = _chosen(page)
    return page.render(
        "views/tiers.html",
        stats=stats,
        tiers=[(tier, stats.by_tier.get(tier, 0)) for tier in TIERS],
        wants=wants,
        due=_due(page) if wants and page.may("consolidate") else None,
        upkeep=_upkeep(page) if wants and _may_run(page) else None,
        may_run=_may_run(page),
        changes=page.call("changes", changed_by="upkeep", limit=LOG, cursor=page.query.get("cursor") or None),
        chosen=chosen,
        offered=offered,
        plots=[_plot(memory, days, found) for memory, found in zip(chosen, _curves(page, chosen, days), strict=True)],
        fading=page.fading,
        days=days,
        HORIZONS=HORIZONS,
    )


@router.post("/tiers/consolidate")
def consolidate(page: Visit, _: Form) -> Response:
    """Move the memories of the scope to the tiers that they have earned."""
    report: ConsolidateReport = page.call("consolidate")
    moved = sum(map(len, report.promoted.values()))
    return page.redirect(page.url("tiers"), flash=f"{moved} of {report.examined:,} memories moved to the next tier.")


@router.post("/tiers/upkeep")
def run_upkeep(page: Visit, _: Form) -> Response:
    """Run one pass of upkeep on the whole store."""
    report = page.call("upkeep")
    moved = sum(map(len, report.promoted.values()))
    done = f"Upkeep: {report.embedded} embedded, {len(report.expired)} expired, {moved} moved, {report.pruned} pruned."
    return page.redirect(page.url("tiers"), flash=f"{done} {report.warning or ''}".strip())


def _may_run(page: Page) -> bool:
    """Return whether the key may run upkeep, which is for the whole store."""
    return page.may("upkeep") and not page.grant.bound


def _due(page: Page) -> dict[str, Any]:
    """Return a dry run of `consolidate`, and the first memories that it would move, with the reason."""
    report: ConsolidateReport = page.call("consolidate", dry_run=True)
    ids = [id_ for promoted in report.promoted.values() for id_ in promoted]
    tiers = {id_: tier for tier, promoted in report.promoted.items() for id_ in promoted}
    steps = [(one, tiers[one.id], report.reasons[one.id]) for one in _fetched(page, ids[:LISTED])]
    return {"report": report, "count": len(ids), "steps": steps}


def _upkeep(page: Page) -> dict[str, Any]:
    """Return a dry run of `upkeep`, and the first memories that would expire."""
    report = page.call("upkeep", dry_run=True)
    moved = sum(map(len, report.promoted.values()))
    return {"report": report, "moved": moved, "expiring": _fetched(page, report.expired[:LISTED], "expired")}


def _fetched(page: Page, ids: Sequence[str], status: str = "live") -> list[Memory]:
    """Return the memories of some ids and a status that are visible in the scope of the URL."""
    found = {one.id: one for one in page.call("list", ids=ids, statuses=[status], limit=len(ids))} if ids else {}
    return [found[one] for one in ids if one in found]


def _chosen(page: Page) -> tuple[list[Memory], list[Memory]]:
    """Return the memories whose curves are drawn, and the others that the form offers.

    Without a choice, three of the offered ones are drawn: those that match the words, else those recalled last.

    Raises:
        InputError: too many memories.
    """
    ids, words = list(dict.fromkeys(page.query.getlist("id"))), page.query.get("words", "").split()[:20]
    if len(ids) > CHOSEN:
        raise InputError("id", f"{len(ids)} memories", f"Choose at most {CHOSEN}.", "are too many")
    offered = list(page.call("list", words=words, order="accessed_at", descending=True, limit=OFFERED))
    chosen = _fetched(page, ids)
    if not ids:
        chosen = offered[:3]
    taken = {memory.id for memory in chosen}
    return chosen, [memory for memory in offered if memory.id not in taken]


def _curves(page: Page, memories: Sequence[Memory], days: int) -> list[dict[str, tuple[float, ...]]]:
    """Return for each memory its curve under each profile that fades."""
    found = {name: page.curves(memories, name, days, STEPS) for name in page.fading}
    return [{name: curves[place] for name, curves in found.items()} for place in range(len(memories))]


def _plot(memory: Memory, days: int, found: Mapping[str, tuple[float, ...]]) -> dict[str, Any]:
    """Return the curves of a memory by profile, and the numbers of the table."""
    places = [round(share * (STEPS - 1)) for share in MARKS]
    return {
        "memory": memory,
        "series": list(found.items()),
        "rows": [(name, [curve[place] for place in places]) for name, curve in found.items()],
        "heads": ["now" if share == 0 else f"in {round(days * share)} days" for share in MARKS],
        "data": {
            "x": [round(days * step / (STEPS - 1), 3) for step in range(STEPS)],
            "series": [
                {"label": name, "values": [round(value, 4) for value in curve]} for name, curve in found.items()
            ],
        },
    }
