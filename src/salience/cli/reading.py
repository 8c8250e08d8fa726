"""Commands that read: recall, graph-recall, context, get, list, stats, help."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from salience import checks
from salience.cli import recalls, records, words
from salience.cli.calls import Call, command, present
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
from salience.cli.surface import app
from salience.engine import Engine
from salience.help import TOPICS

if TYPE_CHECKING:
    from salience.client import Client

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
        "since": since,
        "until": until,
        "as_of": as_of,
        "now": now,
        "deadline_ms": deadline_ms,
        "weights": pairs(weights or ()),
        "dry_run": dry_run,
        **call.where,
    }
    instant = now or as_of
    with call.engine() as engine:
        if also:
            queries = [query, *also]
            return recalls.answers(queries, engine.recall_many(queries, **given), _looked_at(engine, instant), explain)
        return recalls.answer(engine.recall(query, **given), _looked_at(engine, instant), explain)


def _looked_at(engine: Engine | Client, instant: str | None) -> datetime:
    return checks.instant("now", instant) if instant else present(engine)


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

    The score is (1 - w) x similarity + w x nearness in the graph of memories and the names that they share.
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
            since=since,
            until=until,
            limit=limit,
            cursor=cursor,
            **call.where,
        )
        return records.page(found, present(engine))


@command(app)
def stats(call: Call) -> Answer:
    """Count memories by kind, tier, project, user, agent."""
    with call.engine() as engine:
        return records.stats(engine.stats(**call.where))


@command(app, "help", scope=())
def help_(_: Call, topic: Annotated[str | None, typer.Argument(help=f"One of: {', '.join(TOPICS)}.")] = None) -> Answer:
    """Explain a topic of the API in a few lines.

    For the options of a command: salience COMMAND --help.
    """
    chosen = checks.choice("topic", topic or "verbs", TOPICS)
    return Answer({"topic": chosen, "text": TOPICS[chosen]}, TOPICS[chosen].splitlines)
