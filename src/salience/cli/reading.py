"""Commands that read: recall, graph-recall, context, get, list, stats, help."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from salience.cli import recalls, records, words
from salience.cli.calls import Call, command, present
from salience.cli.commands import COMMANDS
from salience.cli.options import (
    AsOf,
    Deadline,
    Dry,
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
from salience.cli.signs import visible
from salience.cli.surface import app, read
from salience.cli.times import instants
from salience.help import TOPICS
from salience.records import checks

Also = Annotated[list[str] | None, typer.Option("--also", metavar="QUERY", help="One more question; may be repeated.")]
Explain = Annotated[bool, typer.Option("--explain", help="Show the arithmetic of every score.")]


@command(app)
def recall(
    call: Call,
    query: QueryText,
    also: Also = None,
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
    explain: Explain = False,
    dry_run: Dry = False,
) -> Answer:
    """Find what matters for a question, scores taken apart.

    The bar of a hit is as long as its score, on the scale of the longest. Signals that are added are solid segments
    side by side. Where factors multiply (mememory, cmm, or a factor on a sum), the solid part is the score that is left
    and the shaded segments are what each factor took away, shared out among them by their logarithms; a factor above 1
    makes the whole bar longer. Without colours, segments are letters: capitals for what is kept, small ones for what is
    taken.
    """
    given: dict[str, Any] = {
        "limit": limit,
        "profile": call.profile(profile),
        "min_score": min_score,
        "tags": tags or (),
        "kinds": kinds or (),
        "tiers": tiers or (),
        "sessions": sessions or (),
        **instants(since=since, until=until, as_of=as_of, now=now),
        "deadline_ms": deadline_ms,
        "weights": pairs(weights or ()),
        "dry_run": dry_run,
        **call.where,
    }
    instant = given.get("now") or given.get("as_of")
    with call.engine() as engine:
        if also:
            queries = [query, *also]
            return recalls.answers(queries, engine.recall_many(queries, **given), instant or present(engine), explain)
        return recalls.answer(engine.recall(query, **given), instant or present(engine), explain)


@command(app, "graph-recall")
def graph_recall(
    call: Call,
    query: QueryText,
    graph_weight: Annotated[
        float | None, typer.Option("--graph-weight", metavar="NUMBER", help="Share of the graph, 0 to 1.")
    ] = None,
    max_hops: Annotated[int | None, typer.Option("--max-hops", metavar="N", help="How far to go, 0 to 10.")] = None,
    limit: Limit = None,
    profile: Profile = None,
    tags: Tags = None,
    explain: Explain = False,
    dry_run: Dry = False,
) -> Answer:
    """Find by similarity and by the entities of a question.

    The score is (1 - w) x similarity + w x nearness in the graph of memories and the names that they share. Stages and
    defaults are those of the profile zeromemory, unless --profile names another; the first line says which.
    """
    with call.engine() as engine:
        found = engine.graph_recall(
            query,
            graph_weight=graph_weight,
            max_hops=max_hops,
            limit=limit,
            profile=call.profile(profile),
            tags=tags or (),
            dry_run=dry_run,
            **call.where,
        )
        return recalls.answer(found, present(engine), explain)


@command(app)
def context(
    call: Call,
    query: QueryText,
    budget_tokens: Annotated[int, typer.Option("--budget", metavar="TOKENS", help="Most tokens.")] = 2000,
    limit: Limit = None,
    profile: Profile = None,
    min_score: MinScore = None,
    tags: Tags = None,
    dry_run: Dry = False,
) -> Answer:
    """Print memories quoted as data for a prompt.

    Bootstrap memories come first, then those for the question, as many as the budget holds.
    """
    with call.engine() as engine:
        packed = engine.context(
            query,
            budget_tokens=budget_tokens,
            limit=limit,
            profile=call.profile(profile),
            min_score=min_score,
            tags=tags or (),
            dry_run=dry_run,
            **call.where,
        )
    for line in words.elsewhere(packed.out_of_scope):
        typer.echo(line, err=True)  # what goes to standard output is for a prompt
    return Answer(packed, lambda: map(visible, packed.text.splitlines()))


@command(app)
def get(call: Call, id: Id) -> Answer:
    """Show one memory with all its fields."""
    with call.engine() as engine:
        return records.memory(engine.get(id, **call.where))


@command(app, "list")
def list_(
    call: Call,
    tags: Tags = None,
    kinds: Kinds = None,
    tiers: Tiers = None,
    sessions: FromSession = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Memories on a page, 1 to 1000.")] = 100,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Where the page before ended.")] = None,
) -> Answer:
    """List memories in order of storing, a page at a time."""
    with call.engine() as engine:
        found = engine.list(
            tags=tags or (),
            kinds=kinds or (),
            tiers=tiers or (),
            sessions=sessions or (),
            limit=limit,
            cursor=cursor,
            **instants(since=since, until=until),
            **call.where,
        )
        return records.page(found, present(engine))


@command(app)
def stats(call: Call) -> Answer:
    """Count memories by kind, tier, project, user, agent."""
    with call.engine() as engine:
        return records.stats(engine.stats(**call.where))


@command(app, "help", scope=())
def help_(
    _: Call,
    topic: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help=f"A command, or one of: {', '.join(TOPICS)}.")
    ] = None,
) -> Answer:
    """Explain a command, or a topic of the API.

    Of a name that is both, the topic comes first.
    """
    path = topic or ["verbs"]
    checks.choice("topic", path[0], {**TOPICS, **COMMANDS})
    found = [TOPICS[path[0]]] if len(path) == 1 and path[0] in TOPICS else []
    if path[0] in COMMANDS:
        found.append(_of_command(path))
    text = "\n\n".join(found)
    return Answer({"topic": " ".join(path), "text": text}, text.splitlines)


def _of_command(path: list[str]) -> str:
    """Return the help of a command, such as `recall` or `mcp install`."""
    command = read(path[0])
    for name in path[1:]:
        below = getattr(command, "commands", {})
        command = below[checks.choice("topic", name, below)]
    command.rich_markup_mode = None  # plain text, whoever reads
    names = {"help_option_names": ["-h", "--help"]}
    made = command.context_class(command, info_name=" ".join(("salience", *path)), **names)
    told: str = command.get_help(made)
    return told.strip()
