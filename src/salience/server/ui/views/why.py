"""Why: why a memory is, or is not, in the answer to a question, and the fixes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from salience.errors import CALL, InputError
from salience.records import BOUNDS, STATUSES, Explanation, Memory, Recall, Relation, ScoreDetail, checks
from salience.records.ids import ID, short_id
from salience.server.ui import question
from salience.server.ui.page import Form, Page, Visit
from salience.server.ui.question import NAMES, Question
from salience.server.ui.views import inbox
from salience.server.ui.views.profiles import check, with_figures
from salience.wire import requests

router = APIRouter()
FOUND: Final = 20
"""Maximum number of memories that a search shows."""
TRIES: Final = 3
"""Number of weights to check by another explanation."""
SHORT_ID: Final = re.compile("[0-9a-f]{8}")
MOST: Final = 4
"""Maximum of a suggested weight as a multiple of the old one."""
MARGIN: Final = 0.01
"""Step of a suggested weight."""
EDITS: Final = {"importance": "Set the importance to {}", "weight": "Set the weight to {}",
                "ttl": "Remove the time to live", "fact_key": "Remove the fact key",
                "tags": "Set the tags to {}", "supersedes": "Replace {}"}  # fmt: skip
"""Field of a memory that a counterfactual changes -> the label of the button."""
SETTLED: Final = {
    "dismiss": "Dismissed. The memory no longer replaces the other one.",
    "supersede": "Confirmed. No recall returns the older memory any more.",
}  # fmt: skip
"""What settles a relation, as in `inbox.UNDO` -> the message after it."""


@dataclass(frozen=True, slots=True)
class WeightChange:
    """Another weight of a signal under which the recall returns the memory, and the rank that it then has."""

    label: str
    old: float
    new: float
    rank: int


@router.get("/why")
def show(page: Visit) -> Response:
    """Return the explanation of the memory of the URL, or a search for one."""
    asked, memory_id = question.read(page), page.query.get("memory", "").strip()
    words = page.query.get("find", "").strip()
    if asked.text and (ID.fullmatch(words) or SHORT_ID.fullmatch(words)):
        return page.redirect(page.here(find=None, memory=words))
    values: dict[str, Any] = {**question.values(page, asked), "words": words, "found": None, "explanation": None}
    if words or not (asked.text and memory_id):
        values["found"] = _find(page, words) if words or asked.text else None
        return page.render("views/why.html", **values)
    explanation: Explanation = page.call("explain", memory_id=memory_id, **asked.arguments)
    versions = page.call("history", id=explanation.id)
    memory: Memory = versions[-1].memory
    recall: Recall = page.call("recall", dry_run=True, **asked.arguments)
    rival = next((hit for hit in recall if hit.memory.id == explanation.by), None)
    bar = recall[-1] if recall and explanation.stage == "outranked" else rival
    change = _weight_change(page, asked, explanation, bar.score_detail if bar else None)
    return page.render(
        "views/why.html",
        **values
        | {
            "explanation": explanation,
            "memory": memory,
            "decided": next((step for step in explanation.path if step.outcome == "fell"), None),
            "recall": recall,
            "rival": rival,
            "relations": _relations(page, explanation),
            "advice": CALL.sub("the button below", explanation.counterfactual or ""),
            "rows": compared(explanation.score_detail, rival.score_detail if rival else None),
            "change": change,
            "edits": _edits(explanation),
            "arguments": _arguments(asked, explanation),
            "copies": _copies(page, asked, explanation, change),
            "may_change": page.may_change(memory),
        },
    )


def _relations(page: Page, explanation: Explanation) -> list[tuple[Memory, Relation, Memory]]:
    """Return the relations among the memory and those that decided, each with its newer and its older memory."""
    ids = {explanation.id, explanation.by, *explanation.change.get("dismiss", {}).values()} - {None}
    found = {one.id: one for one in page.call("list", ids=sorted(ids), statuses=STATUSES, limit=len(ids))}
    return [(one, link, found[link.id]) for one in found.values() for link in one.relations or () if link.id in found]


def _find(page: Page, words: str) -> list[Memory]:
    """Return memories of any status whose text contains all words, the newest first."""
    return list(page.call("list", words=words.split()[:20], statuses=STATUSES, descending=True, limit=FOUND))


@dataclass(frozen=True, slots=True)
class ComparedPart:
    """A signal of the memory's score beside that of another one; `other` is None without one."""

    label: str
    combine: str
    weight: float
    raw: float
    own: float
    other: float | None


def compared(own: ScoreDetail | None, other: ScoreDetail | None) -> list[ComparedPart]:
    """Return the parts of a score beside those of another one."""
    if own is None:
        return []
    others = {part.signal: part.contribution for part in other.parts} if other else {}
    return [
        ComparedPart(part.signal, part.combine, part.weight, part.raw, part.contribution, others.get(part.signal))
        for part in own.parts
    ]


def weights_to_try(own: ScoreDetail, other: ScoreDetail) -> list[tuple[str, float, float]]:
    """Return (label, old, new) for each signal whose other weight alone puts `own` above `other`; least change first.

    The weights are rounded away from the old one to hundredths, and at most `MOST` times the old one, or 1. Scores that
    another memory passed on are left out.
    """
    if own.via is not None or other.via is not None:
        return []
    found = []
    for mine, theirs in zip(own.parts, other.parts, strict=True):
        new = _level(own, other, mine.signal)
        if new is None:
            continue
        steps = new / MARGIN
        new = (math.floor(steps) + 1 if new >= mine.weight else math.ceil(steps) - 1) * MARGIN
        if 0 <= new <= max(MOST * mine.weight, 1.0) and theirs.signal == mine.signal:
            found.append((mine.signal, mine.weight, round(new, 2)))
    return sorted(found, key=lambda change: abs(change[2] - change[1]))


def _level(own: ScoreDetail, other: ScoreDetail, label: str) -> float | None:
    """Return the weight of a signal at which two scores are equal; None if there is none."""
    mine, theirs = (next(part for part in detail.parts if part.signal == label) for detail in (own, other))
    if mine.combine == "sum":
        factors = [math.prod(p.contribution for p in one.parts if p.combine == "product") for one in (own, other)]
        slope = factors[0] * mine.raw - factors[1] * theirs.raw
        gap = other.recompute() - own.recompute()
        return mine.weight + gap / slope if abs(slope) > 1e-9 else None
    if min(mine.raw, theirs.raw, own.final, other.final) <= 0:
        return None
    slope = math.log(mine.raw) - math.log(theirs.raw)
    gap = math.log(other.final) - math.log(own.final)
    return mine.weight + gap / slope if abs(slope) > 1e-9 else None


def _weight_change(
    page: Page, asked: Question, explanation: Explanation, other: ScoreDetail | None
) -> WeightChange | None:
    """Return the least change of one weight that returns the memory, or moves a hit up, checked by an explanation."""
    own, is_hit = explanation.score_detail, explanation.stage == "returned"
    if own is None or other is None or explanation.stage not in ("outranked", "returned"):
        return None
    for label, old, new in weights_to_try(own, other)[:TRIES]:
        weights = {**asked.weights, label: new}
        found: Explanation = page.call("explain", memory_id=explanation.id, **{**asked.arguments, "weights": weights})
        if found.stage == "returned" and found.rank and (not is_hit or found.rank < (explanation.rank or 0)):
            return WeightChange(label, old, new, found.rank)
    return None


def _copies(
    page: Page, asked: Question, explanation: Explanation, change: WeightChange | None
) -> dict[str, str | None]:
    """Return the URL of the profile editor with a copy that has the changed figure: `min_score`, and `weight`.

    None for a change that is not one of the profile's figures, or whose copy, checked by an explanation, does not
    return the memory.
    """
    names = {term.label: f"signal.{term.signal}.weight" for term in asked.profile.terms}
    weights = {names[label]: weight for label, weight in asked.weights.items()}
    least = explanation.change.get("min_score")
    figures = {
        "min_score": {**weights, "min_score": least} if least is not None and "min_score" not in asked.options else {},
        "weight": {**weights, names[change.label]: change.new} if change else {},
    }
    arguments = {name: value for name, value in asked.arguments.items() if name not in ("profile", "weights")}
    found: dict[str, str | None] = dict.fromkeys(figures)
    for name, changed in figures.items():
        if changed and asked.profile.toml is not None:
            toml = with_figures(asked.profile.toml, changed)
            copied = check(toml)
            if isinstance(copied, InputError):
                continue
            text = requests.ProfileText(toml=toml)
            checked: Explanation = page.call("explain", memory_id=explanation.id, **{**arguments, "profile": text})
            if checked.stage == "returned":
                found[name] = page.url("profiles/edit", profile=asked.profile.name, toml=toml, q=asked.text)
    return found


def _edits(explanation: Explanation) -> dict[str, tuple[str, str]]:
    """Return the fields that the counterfactual changes -> their value in a form, and the label of the button."""
    found = {}
    for name, value in explanation.change.items():
        if name in EDITS and not (name == "tags" and value is None):  # a filter to leave out
            text = "" if value is None else ", ".join(value) if name == "tags" else value
            text = text if isinstance(text, str) else f"{text:g}"
            shown = short_id(text) if name == "supersedes" else text
            found[name] = text, EDITS[name].format(shown)
    return found


def _arguments(asked: Question, explanation: Explanation) -> dict[str, Any]:
    """Return the parameters of the playground with the arguments that the counterfactual changes; empty if none."""
    changed = {
        name: None if value is None else f"{value:g}" if isinstance(value, float) else value
        for name, value in explanation.change.items()
        if (name in NAMES or name in BOUNDS) and not isinstance(value, list | tuple)
    }
    return {**asked.parameters, **changed} if changed else {}


@router.post("/why")
def fix(page: Visit, form: Form) -> Response:
    """Apply the fix of a form to a memory, and return to the explanation."""
    memory_id = form.get("id", "")
    reason = f"dashboard: {page.query.get('q', '')}"[:200].strip()
    undo = ""
    match checks.choice("do", form.get("do", ""), ("edit", "forget", *SETTLED, "undo", "correct", "replace")):
        case ("dismiss" | "supersede") as change:
            pair = memory_id, form.get("other_id", "")
            inbox.make(page, change, pair)
            flash, undo = SETTLED[change], ":".join((change, *pair))
        case "undo":
            made, *ids = inbox.read_step(form.get("steps", ""))
            inbox.make(page, inbox.UNDO[made], ids)
            flash = "Undone."
        case "edit":
            changes = {name: _value(name, form[name]) for name in EDITS if name in form}
            page.call("update", id=memory_id, reason=reason, **changes)
            flash = "Changed. The earlier version is in the history of the memory."
        case "forget":
            page.call("forget", id=memory_id, reason=reason)
            flash = "Forgotten. Restore on the page of the memory undoes it."
        case "correct":
            page.call("update", id=memory_id, content=form.get("content", ""), reason=reason)
            flash = "Corrected. The earlier text is in the history of the memory."
        case _:
            memory: Memory = page.call("history", id=memory_id)[-1].memory
            home = {name: getattr(memory.scope, name) for name in BOUNDS} | {"session_id": None}
            fields = {"kind": memory.kind, "tags": list(memory.tags), "importance": memory.importance}
            content = form.get("content", "")
            receipt = page.call("remember", content=content, supersedes=memory.id, **fields, **home)
            target = page.here(memory=receipt.memory.id)
            return page.redirect(target, flash="Stored. It replaces the earlier memory in every recall.")
    return page.redirect(page.here(), flash=flash, undo=undo)


def _value(name: str, text: str) -> Any:
    """Return the value of a field in a form; an empty one removes it."""
    if name == "tags":
        return [tag.strip() for tag in text.split(",") if tag.strip()]
    if name == "supersedes":
        return text
    if not text and name in ("ttl", "fact_key"):
        return None
    try:
        return float(text)
    except ValueError:
        raise InputError(name, text, "Give a number.") from None
