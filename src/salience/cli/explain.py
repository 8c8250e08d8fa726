"""Commands that explain: explain a memory's place in an answer; help on commands and topics."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from salience.cli.options import Call, Id, QueryText, command, options
from salience.cli.output import Answer, as_commands, one_line, sanitize, tsv
from salience.help import TOPICS
from salience.records import checks

app = typer.Typer()
MARKS: Final = {
    "passed": ("✓", "green"),
    "fell": ("✗", "bold red"),
    "revived": ("↑", "bold blue"),
    "not reached": ("·", "dim"),
}
"""Outcome of a step -> its symbol and style."""


@command(app, options=options("explain", "query memory_id"))
def explain(call: Call, query: QueryText, memory_id: Id) -> Answer:
    """Explain why a memory is, or is not, in an answer.

    Takes the options of recall. Shows the outcome, the memory's path through the stages with the number that decided
    each, the arithmetic of its score, what put the first hit above it, and the change that would put it first, or
    return it. Changes nothing.
    """
    from rich.console import Group, RenderableType
    from rich.table import Column, Table
    from rich.text import Text

    from salience.cli.results import above, arithmetic, confidence

    with call.engine() as engine:
        found = engine.explain(query, memory_id, **call.given)
    head = [found.id, f"profile {found.profile}"]
    head += [f"degraded: no {', '.join(found.degraded)}"] if found.degraded else []
    score = [] if found.score_detail is None else arithmetic(found.score_detail)
    score += [*above(found), *confidence(found)]
    change = None if found.counterfactual is None else as_commands(found.counterfactual)
    values = [*((name, getattr(found, name)) for name in ("stage", "rank", "by", "reason")), ("counterfactual", change)]
    lines = [f"# {'; '.join(head)}", *(tsv(name, value) for name, value in values if value is not None)]
    path = Table.grid(Column(no_wrap=True), Column(no_wrap=True), Column(overflow="fold", style="dim"), padding=(0, 2))
    lines.append("# step\toutcome\tnote")
    for step in found.path:
        lines.append(tsv(step.stage, step.outcome, step.note or "-"))
        mark, style = MARKS[step.outcome]
        path.add_row(Text(f" {mark}", style=style), Text(step.stage, style=style), Text(sanitize(step.note)))
    lines += [f"# {one_line(line)}" for line in score]
    stage = (found.stage.replace("_", " "), "bold green" if found.stage == "returned" else "bold yellow")
    parts: list[RenderableType] = [Text(sanitize(" · ".join(head)), style="dim")]
    parts += [Text.assemble(stage, "  ", sanitize(found.reason)), "", path, "", *map(Text, map(sanitize, score))]
    if change is not None:
        parts.append(Text.assemble("\n", ("What would change it  ", "dim"), sanitize(change)))
    return Answer(found, lines, Group(*parts))


def _topics(incomplete: str) -> list[str]:
    from salience.cli.main import PANELS

    names = [*TOPICS, *(name for commands in PANELS.values() for name in commands.split())]
    return [name for name in names if name.startswith(incomplete)]


@command(app, "help")
def help_(
    _: Call,
    topic: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help=f"A command, or one of: {', '.join(TOPICS)}.", autocompletion=_topics),
    ] = None,
) -> Answer:
    """Explain a command, or a topic of the API.

    If a name is both, the topic comes first.
    """
    from salience.cli.main import app as whole

    commands: Any = typer.main.get_command(whole)
    path = topic or ["verbs"]
    checks.choice("topic", path[0], {**TOPICS, **commands.commands})
    found = [TOPICS[path[0]]] if len(path) == 1 and path[0] in TOPICS else []
    if path[0] in commands.commands:
        for name in path:
            below = getattr(commands, "commands", {})
            commands = below[checks.choice("topic", name, below)]
        commands.rich_markup_mode = None
        names = {"help_option_names": ["-h", "--help"]}
        context = commands.context_class(commands, info_name=" ".join(("salience", *path)), **names)
        found.append(commands.get_help(context).strip())
    text = "\n\n".join(found)
    return Answer({"topic": " ".join(path), "text": text}, text.splitlines())
