"""The command explain: the path of one memory through a recall, as lines and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from salience.cli import words
from salience.cli.calls import Call, command
from salience.cli.options import (
    AsOf,
    Deadline,
    FromSession,
    Id,
    Kinds,
    Limit,
    MinScore,
    Now,
    Profile,
    QueryText,
    Since,
    Tags,
    Tiers,
    Until,
    Weights,
    pairs,
)
from salience.cli.screen import Answer
from salience.cli.signs import one_line, visible
from salience.cli.surface import app
from salience.cli.times import instants
from salience.records import Explanation

MARKS: Final[Mapping[str, tuple[str, str]]] = {
    "passed": ("✓", "green"),
    "fell": ("✗", "bold red"),
    "revived": ("↑", "bold blue"),
    "not reached": ("·", "dim"),
}
"""Outcome of a step -> its sign and style."""


@command(app)
def explain(
    call: Call,
    query: QueryText,
    memory_id: Id,
    limit: Limit = None,
    profile: Profile = None,
    min_score: MinScore = None,
    tags: Tags = None,
    kinds: Kinds = None,
    tiers: Tiers = None,
    sessions: FromSession = None,
    since: Since = None,
    until: Until = None,
    as_of: AsOf = None,
    now: Now = None,
    deadline_ms: Deadline = None,
    weights: Weights = None,
) -> Answer:
    """Tell why a memory is, or is not, in an answer.

    The options are those of recall. Shown are what became of the memory, its path through the stages with the number
    that decided at each, the arithmetic of its score, and the one change that would have it returned. Nothing is
    changed by asking.
    """
    with call.engine() as engine:
        found = engine.explain(
            query,
            memory_id,
            limit=limit,
            profile=call.profile(profile),
            min_score=min_score,
            tags=tags or (),
            kinds=kinds or (),
            tiers=tiers or (),
            sessions=sessions or (),
            deadline_ms=deadline_ms,
            weights=pairs(weights or ()),
            **instants(since=since, until=until, as_of=as_of, now=now),
            **call.where,
        )
        return Answer(found, lambda: lines(found), lambda _: view(found))


def lines(found: Explanation) -> Iterator[str]:
    """Yield a line of name and value for what became of the memory, then its path, then the arithmetic as comments."""
    yield f"# {'; '.join(_head(found))}"
    for name in ("stage", "rank", "by", "reason", "counterfactual"):
        if (value := getattr(found, name)) is not None:
            yield f"{name}\t{one_line(str(value))}"
    yield "# step\toutcome\tnote"
    for step in found.path:
        yield "\t".join(map(one_line, (step.stage, step.outcome, step.note or "-")))
    if found.score_detail is not None:
        yield from (f"# {one_line(line)}" for line in words.arithmetic(found.score_detail))


def view(found: Explanation) -> RenderableType:
    """Return the explanation for a terminal: what became of the memory, path, arithmetic, what would change it."""
    parts: list[RenderableType] = [
        Text(visible(" · ".join(_head(found))), style="dim"),
        Text.assemble(
            (found.stage.replace("_", " "), "bold green" if found.stage == "returned" else "bold yellow"),
            "  ",
            visible(found.reason),
        ),
        _path(found),
    ]
    if found.score_detail is not None:
        parts.append(Text(visible("\n".join(words.arithmetic(found.score_detail)))))
    if found.counterfactual is not None:
        parts.append(Text.assemble("\n", ("What would change it  ", "dim"), visible(found.counterfactual)))
    return Group(*parts)


def _head(found: Explanation) -> list[str]:
    return [
        found.id,
        f"profile {found.profile}",
        *([f"degraded: no {', '.join(found.degraded)}"] if found.degraded else []),
    ]


def _path(found: Explanation) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", style="dim")
    table.add_row("")
    for step in found.path:
        sign, style = MARKS[step.outcome]
        table.add_row(Text(f" {sign}", style=style), Text(step.stage, style=style), Text(visible(step.note)))
    table.add_row("")
    return table
