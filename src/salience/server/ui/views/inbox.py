"""Inbox: problems that a person should look at, side by side, resolved one by one or in bulk, with an undo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from salience.errors import InputError, SalienceError
from salience.records import ReviewItem, ReviewPage, checks
from salience.records.answers import counted
from salience.records.ids import ID, short_id
from salience.server.ui import words
from salience.server.ui.page import Form, Page, Visit
from salience.verbs import VERBS

router = APIRouter()
PAGE: Final = 20
"""Problems on a page."""
ROUNDS: Final = 2
"""Maximum number of calls of `review` for one page, until there is a problem to show."""
KINDS: Final = {
    "contradiction": "Contradictions", "update": "Updates", "duplicate": "Duplicates", "stale": "Stale reflections",
    "pending": "Pending embeddings", "relation": "Relations to confirm",
}  # fmt: skip
"""Kind of a problem -> its label."""
RESOLUTIONS: Final = {
    "both": "Keep both", "replaces": "Newer replaces older", "newer": "Keep newer", "older": "Keep older",
    "neither": "Forget both",
}  # fmt: skip
"""What to do with a pair -> its label."""
OF_STALE: Final = {"restore": "Restore", "both": "Leave hidden"}
"""The same for a stale reflection."""
OF_RELATION: Final = {"replaces": "Confirm", "both": "Dismiss"}
"""The same for a relation."""
REASON: Final = "resolved in the inbox"
UNDO: Final = {"forget": "restore", "restore": "forget", "dismiss": "undo", "supersede": "free"}
"""Change -> the change that undoes it."""


@router.get("/inbox")
def show(page: Visit) -> Response:
    """Return the problems of the kind that the URL names, those of the newest memory first."""
    kind = checks.choice("kind", page.query.get("kind") or "", ("", *KINDS))
    cursor, examined, items = page.query.get("cursor") or None, 0, list[ReviewItem]()
    for _ in range(ROUNDS):
        found: ReviewPage = page.call("review", kinds=[kind] if kind else [], limit=PAGE, cursor=cursor)
        cursor, examined = found.cursor, examined + found.examined
        items += found.items
        if items or cursor is None:
            break
    sides = [None if one.other is None else differing(one.other.content, one.memory.content) for one in items]
    return page.render(
        "views/inbox.html",
        KINDS=KINDS,
        OF_PAIR=OF_RELATION if kind == "relation" else RESOLUTIONS,
        OF_STALE=OF_STALE,
        kind=kind,
        items=list(zip(items, sides, strict=True)),
        cursor=cursor,
        examined=examined,
        may_resolve=page.may("forget") and page.may("dismiss"),
        may_run=page.may("upkeep") and not page.grant.bound,
    )


@router.post("/inbox")
def resolve(page: Visit, form: Form) -> Response:
    """Resolve one problem, or all that are chosen."""
    page.require("dismiss")
    chosen = [form["one"]] if form.get("one") else [f"{form.get('do', '')}:{one}" for one in form.getlist("item")]
    if not chosen:
        return page.redirect(page.here(), flash="Nothing is chosen. Tick the problems first.")
    steps = dict.fromkeys(step for one in chosen for step in steps_of(one))
    done, failures = _apply(page, list(steps))
    notes = [_summary(done), *_failed(failures)]
    return page.redirect(page.here(), flash=" ".join(notes), undo=" ".join(":".join(step) for step in done))


@router.post("/inbox/undo")
def undo(page: Visit, form: Form) -> Response:
    """Undo the changes of a resolution."""
    page.require("dismiss")
    steps = [(UNDO[change], *ids) for change, *ids in map(read_step, form.get("steps", "").split())]
    done, failures = _apply(page, steps)
    return page.redirect(page.url("inbox", kind=page.query.get("kind")), flash=" ".join(
        [f"{counted(len(done), 'change')} undone.", *_failed(failures)]
    ))  # fmt: skip


@router.post("/inbox/upkeep")
def run_upkeep(page: Visit, form: Form) -> Response:
    """Run upkeep, which adds the vectors of pending memories."""
    report = page.call("upkeep")
    warning = f" {report.warning}" if report.warning else ""
    return page.redirect(
        page.url("inbox", kind=form.get("kind")),
        flash=f"Upkeep ran: {counted(report.embedded, 'memory', 'memories')} embedded.{warning}",
    )


def differing(older: str, newer: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the passages of both texts: `same`, `other` where the texts differ, and `cut`, which is left out."""
    parts = words.diff(older, newer)
    sides: tuple[list[tuple[str, str]], list[tuple[str, str]]] = ([], [])
    for place, (kind, text) in enumerate(parts):
        of = kind
        if kind == "cut":  # it is in the middle of a passage, or at the end of one that both share
            of = parts[place + 1][0] if place + 1 < len(parts) else parts[place - 1][0]
        name = "cut" if kind == "cut" else "same" if kind == "same" else "other"
        for side, left_out in zip(sides, ("new", "gone"), strict=True):
            if of != left_out:
                side.append((name, text))
    return sides


def steps_of(chosen: str) -> list[tuple[str, ...]]:
    """Return the changes that resolve a problem, from a resolution and ids: `newer:ID:OLDER`, or `restore:ID`.

    Raises:
        InputError: it is no resolution of such a problem.
    """
    do, *ids = chosen.split(":")
    steps: list[tuple[str, ...]]
    match do, ids:
        case "replaces", [new, old]:
            steps = [("supersede", new, old)]
        case "newer", [new, old]:
            steps = [("forget", old)]
        case "older", [new, old]:
            steps = [("forget", new)]
        case "neither", [new, old]:
            steps = [("forget", new), ("forget", old)]
        case "both", [_] | [_, _]:
            steps = [("dismiss", *ids)]
        case "restore", [one]:
            steps = [("restore", one)]
        case (("replaces" | "newer" | "older" | "neither"), [_]):
            return []  # a stale reflection among chosen pairs
        case _:
            raise InputError("do", do, "Reload the page and choose again.", "is no way to resolve this")
    return [read_step(":".join(step)) for step in steps]


def read_step(text: str) -> tuple[str, ...]:
    """Return a change with its ids from a text of a form."""
    change, *ids = text.split(":")
    if change not in UNDO or not 1 <= len(ids) <= 2 or not all(map(ID.fullmatch, ids)):
        raise InputError("steps", text, "Reload the page and choose again.", "is no change of this page")
    return change, *ids


def _apply(page: Page, steps: Sequence[tuple[str, ...]]) -> tuple[list[tuple[str, ...]], list[str]]:
    """Make changes, and return those that were made, and the messages of the others.

    Raises:
        ForbiddenError: the key does not allow any change.
    """
    for verb in ("forget", "dismiss"):
        page.site.gate.require_right(page.grant, VERBS[verb])
    done, failures = list[tuple[str, ...]](), list[str]()
    for change, *ids in steps:
        try:
            make(page, change, ids)
        except SalienceError as error:
            failures.append(str(error))
        else:
            done.append((change, *ids))
    return done, failures


def make(page: Page, change: str, ids: Sequence[str]) -> None:
    """Make one change of `UNDO` to the memories of some ids."""
    match change:
        case "dismiss" | "undo":
            page.call("dismiss", id=ids[0], other_id=ids[1] if len(ids) == 2 else None, undo=change == "undo")
        case "supersede":
            page.call("update", id=ids[0], supersedes=ids[1], reason=REASON)
        case "free":
            page.call("update", id=ids[0], supersedes=None, reason=REASON)
            for undo in (False, True):  # decides the relation again, which the update ended
                page.call("dismiss", id=ids[0], other_id=ids[1], reason=REASON, undo=undo)
        case _:
            page.call(change, id=ids[0], reason=REASON)


def _summary(done: Sequence[tuple[str, ...]]) -> str:
    counts = {name: [ids for change, *ids in done if change == name] for name in UNDO}
    notes = []
    if found := counts["forget"]:
        which = short_id(found[0][0]) if len(found) == 1 else counted(len(found), "memory", "memories")
        notes.append(f"Forgot {which}.")
    if found := counts["restore"]:
        notes.append(f"Restored {counted(len(found), 'reflection')}.")
    if found := counts["supersede"]:
        notes.append(f"Replaced {counted(len(found), 'memory', 'memories')}.")
    if found := counts["dismiss"]:
        notes.append(f"Dismissed {counted(len(found), 'problem')}: the memories stay as they are.")
    return " ".join(notes) or "Nothing was changed."


def _failed(failures: Sequence[str]) -> list[str]:
    return [f"{counted(len(failures), 'change')} failed: {failures[0]}"] if failures else []
