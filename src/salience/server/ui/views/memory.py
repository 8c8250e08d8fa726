"""Memory: one memory with its versions, links and conflicts, and the forms that change it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter
from starlette.datastructures import QueryParams
from starlette.responses import RedirectResponse, Response

from salience.errors import InputError, SalienceError, Words
from salience.records import STATUSES, Memory, RecallLogPage, Relation, Version, checks
from salience.records.ids import short_id
from salience.server.ui import texts, words
from salience.server.ui.page import Form, Page, Visit
from salience.server.ui.views import inbox
from salience.wire.errors import problem_of

router = APIRouter()
VERSIONS: Final = 20
"""Versions on a page."""
CONTENT: Final = 60_000
"""Characters of the content on a page; the rest is one click away."""
RECENT: Final = 20
"""Memories on the page without one."""
RELATED: Final = 30
"""Relations on a page."""
RECALLS: Final = 10
"""Logged recalls on a page."""
DEFAULT_REASON: Final = "changed in the dashboard"
LABELS: Final = {
    "kind": "Kind", "importance": "Importance", "weight": "Weight", "tier": "Tier", "tags": "Tags",
    "entities": "Entities", "fact_key": "Fact", "supersedes": "Supersedes", "relations": "Relations",
    "expires_at": "Expires", "forgotten_at": "Hidden since", "metadata": "Metadata", "speaker": "Speaker",
    "reflection": "Reflection", "sources": "Sources",
}  # fmt: skip
"""Field whose change is shown -> its label; the others follow from these or are shown apart."""


@router.get("/memory")
def find(page: Visit) -> Response:
    """Return the form that asks for an id with recent memories, or the page of the memory that the URL names."""
    if memory_id := page.query.get("id", "").strip():
        return RedirectResponse(page.url(f"memory/{quote(memory_id, safe='')}"), 303)
    recent = page.call("list", statuses=STATUSES, order="updated_at", descending=True, limit=RECENT)
    return page.render("views/memory_find.html", recent=recent.memories)


@router.get("/memory/{memory_id}")
def show(page: Visit, memory_id: str) -> Response:
    """Return the page of a memory."""
    versions: tuple[Version, ...] = page.call("history", id=memory_id)
    memory = versions[-1].memory
    memory = memory if memory.forgotten_at else page.call("get", id=memory.id)  # with `replaced_by`
    logged: RecallLogPage = page.call("recalls", memory_id=memory.id, limit=RECALLS)
    last = checks.whole("before", _number(page.query.get("before")) or memory.version + 1, 2, memory.version + 1)
    older = [(None, versions[0]), *pairwise(versions)]
    shown = [_Step(one, before, memory) for before, one in older if one.memory.version < last][-VERSIONS:]
    first = shown[0].memory.version
    whole = page.query.get("whole") == "1"
    return page.render(
        "views/memory.html",
        memory=memory,
        versions=versions,
        steps=shown[::-1],
        older=first if first > versions[0].memory.version else None,
        content=memory.content if whole else memory.content[:CONTENT],
        is_cut=not whole and len(memory.content) > CONTENT,
        related=related(page, memory),
        activations=list(versions[-1].activations.items()),
        logged=logged,
        ranks=[
            {hit.id: rank for rank, hit in enumerate(entry.hits, start=1)}.get(memory.id) for entry in logged.recalls
        ],
        conflicts=None if memory.forgotten_at else list(page.call("review", id=memory.id).items),
        may_change=page.may_change(memory),
        may_dismiss=page.may_change(memory) and page.may("dismiss"),
        gained=importance_gained(versions),
        undo=undo(versions),
    )


@router.get("/memory/{memory_id}/edit")
def edit(page: Visit, memory_id: str) -> Response:
    """Return the form with the fields of a live memory."""
    page.require("update")
    memory = page.call("get", id=memory_id)
    return page.render("views/memory_edit.html", memory=memory, given=fields_of(memory), error=None)


@router.post("/memory/{memory_id}/edit")
def save(page: Visit, memory_id: str, form: Form) -> Response:
    """Write the changed fields as the next version; an invalid field shows the form again."""
    page.require("update")
    memory = page.call("get", id=memory_id)
    given = {name: form.get(name, text) for name, text in fields_of(memory).items()}
    try:
        changes = changed_fields(memory, given)
        if not changes:
            return page.redirect(page.url(f"memory/{memory.id}"), flash="Nothing was changed.")
        version = checks.whole("version", _number(form.get("version")), 1, 2**31 - 1)
        receipt = page.call("update", id=memory.id, if_version=version, reason=_reason(form), **changes)
    except SalienceError as error:
        status = problem_of(error).status
        if status not in (409, 412, 422):
            raise
        return page.render("views/memory_edit.html", status=status, memory=memory, given=given, error=str(error))
    notes = [f"Saved as version {receipt.memory.version}."]
    if receipt.superseded:
        notes.append(f"It replaces {short_id(receipt.superseded)}.")
    return page.redirect(page.url(f"memory/{memory.id}"), flash=" ".join(notes))


@router.post("/memory/{memory_id}/forget")
def forget(page: Visit, memory_id: str, form: Form) -> Response:
    """Hide a memory from recalls."""
    receipt = page.call("forget", id=memory_id, reason=_reason(form))
    return page.redirect(page.url(f"memory/{receipt.memory.id}"), flash="Forgotten: no recall returns it any more.")


@router.post("/memory/{memory_id}/restore")
def restore(page: Visit, memory_id: str, form: Form) -> Response:
    """Make an older version, or without a version a hidden memory, current again."""
    version = _number(form.get("version"))
    receipt = page.call("restore", id=memory_id, version=version, reason=_reason(form))
    what = "Restored" if version is None else f"Restored version {version}"
    return page.redirect(page.url(f"memory/{receipt.memory.id}"), flash=f"{what}, as version {receipt.memory.version}.")


@router.post("/memory/{memory_id}/dismiss")
def dismiss(page: Visit, memory_id: str, form: Form) -> Response:
    """Remove the relation of a memory to another one, or with `undo` decide it again."""
    other, undo_ = form.get("other", ""), form.get("undo") == "1"
    newer, older = sorted((memory_id, other), reverse=True)
    if undo_ and page.call("get", id=newer).supersedes == older:  # the other one was confirmed
        inbox.make(page, "free", (newer, older))
    else:
        page.call("dismiss", id=newer, other_id=older, reason=_reason(form), undo=undo_)
    what = "Decided again." if undo_ else f"Dismissed: {short_id(memory_id)} and {short_id(other)} are not related."
    return page.redirect(page.url(f"memory/{memory_id}"), flash=what, undo="" if undo_ else other)


@router.post("/memory/{memory_id}/confirm")
def confirm(page: Visit, memory_id: str, form: Form) -> Response:
    """Say that the memory replaces another one, `older`."""
    newer, older = memory_id, form.get("older", "")
    page.call("update", id=newer, supersedes=older, reason=_reason(form))
    what = f"Confirmed: {short_id(newer)} replaces {short_id(older)}, which no recall returns any more."
    return page.redirect(page.url(f"memory/{newer}"), flash=what, undo=older)


class _Step:
    """A version for the template: what it changed, and whether `restore` accepts it."""

    def __init__(self, version: Version, before: Version | None, current: Memory) -> None:
        self.version, self.memory = version, version.memory
        self.is_current = self.memory.version == current.version
        self.can_restore = not self.is_current and self.memory.forgotten_at is None
        has_text = before is not None and "content" in version.changed
        self.diff = words.diff(before.memory.content, self.memory.content) if before and has_text else None
        self.fields = [
            (label, field_text(getattr(before.memory, name)), field_text(getattr(self.memory, name)))
            for name, label in LABELS.items()
            if before is not None and name in version.changed
        ]


def field_text(value: object) -> str:
    """Return the value of a field as text; empty for none."""
    match value:
        case None | () | "":
            return ""
        case float():
            return f"{value:.2f}"
        case datetime():
            return texts.instant(value)
        case Mapping():
            return json.dumps(value, ensure_ascii=False, default=str) if value else ""
        case Relation(id=id_, kind=kind, probability=probability, by=by):
            return f"{kind} {short_id(id_)} ({probability:.2f}, {by})"
        case tuple():
            return ", ".join(map(field_text, value))
    return str(value)


def importance_gained(versions: tuple[Version, ...]) -> float:
    """Return how much recalls have added to the importance, as far as the versions show it."""
    changed = [one.memory.importance for one in versions if not one.changed or "importance" in one.changed]
    return max(0.0, versions[-1].memory.importance - changed[-1]) if changed else 0.0


def undo(versions: tuple[Version, ...]) -> dict[str, Any] | None:
    """Return the form that undoes the last change: its path after the id, and the version to restore."""
    if len(versions) < 2:
        return None
    last, before = versions[-1].memory, versions[-2].memory
    if last.forgotten_at is not None:
        return {"path": "restore", "version": None}
    return (
        {"path": "forget", "version": None} if before.forgotten_at else {"path": "restore", "version": before.version}
    )


def related(page: Page, memory: Memory) -> list[tuple[Relation, Memory, bool]]:
    """Return the relations of a memory to older ones and of newer ones to it, the surest first.

    Each has the other memory, and whether that is the older one.
    """
    to_older = {one.id: one for one in memory.relations or ()}
    older = page.call("list", ids=[*to_older], statuses=STATUSES, limit=len(to_older)) if to_older else ()
    newer = page.call("list", linked_to=[memory.id], statuses=STATUSES, descending=True, limit=RELATED)
    found = [(to_older[other.id], other, True) for other in older]
    found += [(one, other, False) for other in newer for one in other.relations or () if one.id == memory.id]
    return sorted(found, key=lambda pair: (-pair[0].probability, pair[1].id))[:RELATED]


def of_fact(one: Memory, other: Memory) -> bool:
    """Return whether two memories state the same fact of the same user, and one of them sees the other."""
    if one.fact_key is None or (one.fact_key, one.scope.user_id) != (other.fact_key, other.scope.user_id):
        return False
    return one.scope.sees(other.scope) or other.scope.sees(one.scope)


def fields_of(memory: Memory) -> dict[str, str]:
    """Return the fields of the form as text, one tag or entity per line."""
    return {
        "content": memory.content,
        "kind": memory.kind,
        "tier": memory.tier,
        "importance": f"{memory.importance:.2f}",
        "weight": f"{memory.weight:.2f}",
        "fact_key": memory.fact_key or "",
        "supersedes": memory.supersedes or "",
        "tags": "\n".join(memory.tags),
        "entities": "\n".join(memory.entities),
        "metadata": json.dumps(memory.metadata, ensure_ascii=False, indent=2, default=dict) if memory.metadata else "",
        "ttl": "",
    }


def changed_fields(memory: Memory, given: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `update` for the fields whose text differs from that of the memory.

    Raises:
        InputError: a number or the metadata cannot be read.
    """
    before = fields_of(memory)
    texts_ = {name: text.replace("\r\n", "\n") for name, text in given.items()}
    changes: dict[str, Any] = {}
    for name, text in texts_.items():
        if text == before[name].replace("\r\n", "\n"):
            continue
        match name:
            case "importance" | "weight":
                if (number := _decimal(name, text)) != float(before[name]):
                    changes[name] = number
            case "tags" | "entities":
                changes[name] = [line.strip() for line in text.split("\n") if line.strip()]
            case "metadata":
                changes[name] = _json(text)
            case "fact_key" | "supersedes":
                changes[name] = text.strip() or None
            case "ttl":
                changes[name] = None if text.strip().lower() in ("none", "no limit") else text.strip()
            case "content":
                changes[name] = text
            case _:
                changes[name] = text.strip()
    return changes


def _decimal(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(name, text, "Give a number such as 0.5.", "is not a number") from None


def _json(text: str) -> Any:
    if not text.strip():
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError("metadata", Words("other text"), 'Write {"name": "value"}.', "is not a JSON object")
    return found


def _number(text: str | None) -> int | None:
    """Return the whole number in a parameter; None if it is missing."""
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise InputError("number", text, "Give a whole number.", "is not a whole number")
    return int(text)


def _reason(form: QueryParams) -> str:
    return form.get("reason", "").strip() or DEFAULT_REASON
