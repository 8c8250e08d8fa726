"""Playground: a question, how each hit got its score, and the scores of all memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.responses import Response

from salience.records import Hit, Part, Recall, Scores
from salience.server.ui import question
from salience.server.ui.page import BASE, Page, Visit
from salience.server.ui.question import Question

router = APIRouter()


@dataclass(frozen=True, slots=True)
class Row:
    """A hit for display: the parts that are added, the parts that multiply, and the sum."""

    hit: Hit
    sums: tuple[Part, ...]
    factors: tuple[Part, ...]

    @property
    def total(self) -> float:
        """The sum of the added parts."""
        return sum(part.contribution for part in self.sums)

    @property
    def bar(self) -> list[tuple[str, float]]:
        """The added parts of a stacked bar."""
        return [(part.signal.replace("_", " "), part.contribution) for part in self.sums]


def rows(hits: Sequence[Hit]) -> list[Row]:
    """Return the hits for display."""
    found = []
    for hit in hits:
        parts = hit.score_detail.parts
        sums = tuple(part for part in parts if part.combine == "sum")
        found.append(Row(hit, sums, tuple(part for part in parts if part.combine == "product")))
    return found


@router.get("/playground")
def show(page: Visit) -> Response:
    """Return the answer to the question of the URL."""
    asked = question.read(page)
    recall: Recall | None = None
    if asked.text:
        recall = page.call("recall", dry_run=True, **asked.arguments)
    shown = rows(recall or ())
    base = str(page.request.base_url).rstrip("/").removesuffix(BASE)
    return page.render(
        "views/playground.html",
        **question.values(page, asked),
        recall=recall,
        rows=shown,
        widest=max((row.total for row in shown), default=1.0) or 1.0,
        best=max((row.hit.score for row in shown), default=1.0) or 1.0,
        timings=[f"{step} {ms:.1f} ms" for step, ms in (recall.timings if recall else {}).items()],
        scores=_scores(page, asked) if asked.text and page.query.get("scores") else None,
        snippets=question.snippets(page, asked, base) if asked.text else {},
        has_memories=bool(recall) or bool(page.call("list", limit=1).memories),
    )


@router.get("/playground/scores")
def show_scores(page: Visit) -> Response:
    """Return the part of the playground with the scores of all memories, which takes longer than the answer."""
    asked = question.read(page)
    found = _scores(page, asked) if asked.text else None
    return page.render("views/playground_scores.html", question=asked, scores=found)


def _scores(page: Page, asked: Question) -> Scores:
    found: Scores = page.call("scores", **asked.arguments)
    return found
