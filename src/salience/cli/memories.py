"""Commands on memories: remember, recall, context, get, list, update, forget, history, ..."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer

from salience.cli import results
from salience.cli.options import (
    CALLER,
    AsOf,
    Call,
    Deadline,
    Dry,
    Entities,
    FactKey,
    FromSession,
    Id,
    IfVersion,
    Importance,
    Kind,
    Kinds,
    Limit,
    Metadata,
    MinScore,
    NewTags,
    Now,
    Profile,
    QueryText,
    Reason,
    RequestKey,
    Since,
    Tags,
    Tier,
    Tiers,
    Ttl,
    Until,
    Weight,
    Weights,
    Yes,
    command,
    from_stdin,
    given,
    instants,
    json_object,
    now,
    weights,
)
from salience.cli.output import FAILED, SCOPE_HINT, Answer, UnconfirmedError, is_interactive, out_of_scope, sanitize
from salience.errors import InputError, Words
from salience.text import counted

app = typer.Typer()
ERASE: Final = "erase"
ERASE_WARNING: Final = (
    "Texts, versions, vectors and the reflections made of them are deleted for good; `restore` cannot bring them back. "
    "Exports and backups keep what they hold."
)
Explain = Annotated[bool, typer.Option("--explain", help="Show the arithmetic of every score.")]


@command(app)
def remember(
    call: Call,
    content: Annotated[str, typer.Argument(metavar="CONTENT", help="The text; - reads it from standard input.")],
    kind: Kind = None,
    importance: Importance = None,
    weight: Weight = None,
    tags: NewTags = None,
    entities: Entities = None,
    fact_key: FactKey = None,
    supersedes: Annotated[str | None, typer.Option(metavar="ID", help="The memory that this one replaces.")] = None,
    ttl: Ttl = None,
    tier: Tier = None,
    metadata: Metadata = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Idempotency key: a second remember with it stores nothing.")
    ] = None,
    created_at: Annotated[
        str | None,
        typer.Option("--created-at", metavar="TIME", help="Time of the event: 2026-05-01, 2d, yesterday or ISO 8601."),
    ] = None,
    duplicate: Annotated[
        bool, typer.Option("--duplicate", help="Store it even if a current memory has the same text.")
    ] = False,
) -> Answer:
    """Store one memory, and report possible contradictions."""
    fields = given(
        kind=kind,
        importance=importance,
        weight=weight,
        tags=tags,
        entities=entities,
        fact_key=fact_key,
        supersedes=supersedes,
        ttl=ttl,
        tier=tier,
        metadata=json_object(metadata),
        key=key,
        duplicate=duplicate or None,
        **instants(created_at=created_at),
    )
    text = from_stdin(content) or ""
    with call.engine(create=True) as engine:
        return results.receipt(engine.remember(text, **fields, **call.where))


@command(app)
def recall(
    call: Call,
    query: QueryText,
    also: Annotated[
        list[str] | None, typer.Option("--also", metavar="QUERY", help="Another question; may be repeated.")
    ] = None,
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
    at: Now = None,
    deadline_ms: Deadline = None,
    weight: Weights = None,
    explain: Explain = False,
    dry_run: Dry = False,
) -> Answer:
    """Find what matters for a question, with each score's parts.

    The length of a bar shows the score. Signals that are added are solid segments side by side. Where factors multiply
    (mememory, cmm, or a factor on a sum), the solid part is the resulting score and the shaded segments are the losses
    to each factor, divided by their logarithms; a factor above 1 makes the whole bar longer. Without colours, segments
    are letters: capitals for kept parts, small ones for losses.
    """
    fields: dict[str, Any] = {
        "limit": limit,
        "profile": call.profile(profile),
        "min_score": min_score,
        "tags": tags or (),
        "kinds": kinds or (),
        "tiers": tiers or (),
        "sessions": sessions or (),
        "deadline_ms": deadline_ms,
        "weights": weights(weight),
        "dry_run": dry_run,
        **instants(since=since, until=until, as_of=as_of, now=at),
        **call.where,
    }
    with call.engine() as engine:
        current = fields.get("now") or fields.get("as_of") or now(engine)
        if also:
            queries = [query, *also]
            return results.recalls(queries, engine.recall_many(queries, **fields), current, explain)
        return results.recall(engine.recall(query, **fields), current, explain)


@command(app, "graph-recall")
def graph_recall(
    call: Call,
    query: QueryText,
    graph_weight: Annotated[
        float | None, typer.Option("--graph-weight", metavar="NUMBER", help="Share of the graph, 0 to 1.")
    ] = None,
    max_hops: Annotated[
        int | None, typer.Option("--max-hops", metavar="N", help="Maximum distance in the graph, 0 to 10.")
    ] = None,
    limit: Limit = None,
    profile: Profile = None,
    tags: Tags = None,
    explain: Explain = False,
    dry_run: Dry = False,
) -> Answer:
    """Find by similarity and by the entities of a question.

    The score is (1 - w) x similarity + w x proximity in the graph of memories and the entities that they share. Stages
    and defaults are those of the profile zeromemory, unless --profile names another.
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
        return results.recall(found, now(engine), explain)


@command(app)
def context(
    call: Call,
    query: QueryText,
    budget_tokens: Annotated[int, typer.Option("--budget", metavar="TOKENS", help="Maximum number of tokens.")] = 2000,
    limit: Limit = None,
    profile: Profile = None,
    min_score: MinScore = None,
    tags: Tags = None,
    dry_run: Dry = False,
) -> Answer:
    """Print memories quoted as data for a prompt.

    Bootstrap memories come first, then those for the question, as many as fit the budget.
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
    for line in out_of_scope(packed.out_of_scope):
        typer.echo(line, err=True)  # standard output is for the prompt
    return Answer(packed, map(sanitize, packed.text.splitlines()))


@command(app)
def get(call: Call, id: Id) -> Answer:
    """Show one memory with all its fields."""
    with call.engine() as engine:
        return results.memory(engine.get(id, **call.where))


@command(app, "list")
def list_(
    call: Call,
    tags: Tags = None,
    kinds: Kinds = None,
    tiers: Tiers = None,
    sessions: FromSession = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Memories per page, 1 to 1000.")] = 100,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Where the previous page ended.")] = None,
) -> Answer:
    """List memories in the order of storing, page by page."""
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
        return results.page(found, now(engine))


@command(app)
def stats(call: Call) -> Answer:
    """Count memories by kind, tier, project, user and agent."""
    with call.engine() as engine:
        return results.stats(engine.stats(**call.where))


@command(app)
def update(
    call: Call,
    id: Id,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The new text; - reads it from standard input.")
    ] = None,
    content: Annotated[str | None, typer.Option(metavar="TEXT", help="The same as TEXT.")] = None,
    kind: Kind = None,
    importance: Importance = None,
    weight: Weight = None,
    tags: NewTags = None,
    entities: Entities = None,
    fact_key: FactKey = None,
    no_fact_key: Annotated[
        bool, typer.Option("--no-fact-key", help="Remove the fact key; no newer memory then replaces this one.")
    ] = False,
    ttl: Ttl = None,
    tier: Tier = None,
    metadata: Metadata = None,
    reason: Reason = None,
    if_version: IfVersion = None,
    key: RequestKey = None,
) -> Answer:
    """Change a memory; the previous version is kept.

    Tags and entities that are given replace the previous ones.
    """
    if text is not None and content is not None:
        raise InputError("--content", Words("a second text"), "Give the new text once: after the ID, or by --content.")
    if no_fact_key and fact_key is not None:
        value, problem = Words("--no-fact-key beside --fact-key"), "is given beside --fact-key"
        raise InputError("--no-fact-key", value, "Give one of them.", problem)
    changes = given(
        content=from_stdin(content if text is None else text),
        kind=kind,
        importance=importance,
        weight=weight,
        tags=tags,
        entities=entities,
        fact_key=fact_key,
        ttl=ttl,
        tier=tier,
        metadata=json_object(metadata),
    )
    changes |= {"fact_key": None} if no_fact_key else {}
    with call.engine() as engine:
        made = engine.update(id, reason=reason, if_version=if_version, key=key, **changes, **call.where)
        return results.receipt(made)


@command(app)
def forget(call: Call, id: Id, reason: Reason = None, if_version: IfVersion = None, key: RequestKey = None) -> Answer:
    """Hide a memory from every recall; nothing is lost."""
    with call.engine() as engine:
        return results.receipt(engine.forget(id, reason=reason, if_version=if_version, key=key, **call.where))


@command(app)
def restore(
    call: Call,
    id: Id,
    version: Annotated[
        int | None,
        typer.Option(metavar="N", help="Version from the history. Default: the last before it was forgotten."),
    ] = None,
    reason: Reason = None,
    key: RequestKey = None,
) -> Answer:
    """Bring back a memory, or an older version of it.

    Without --version, a forgotten or expired memory is live again as it was. With it, the memory is as in that version.
    The current state is kept in the history.
    """
    with call.engine() as engine:
        return results.receipt(engine.restore(id, version, reason=reason, key=key, **call.where))


@command(app)
def history(call: Call, id: Id) -> Answer:
    """Show every version of a memory: who changed what.

    Shows the time, author, change and reason of each version, and the fields that changed, the oldest first. A
    forgotten memory has a history too; restore brings back any version.
    """
    with call.engine() as engine:
        return results.history(engine.history(id, **call.where))


@command(app)
def erase(
    call: Call,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Ids of memories; without any, all memories of the scope."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and delete nothing.")] = False,
    yes: Yes = False,
) -> Answer:
    """Delete memories for good, with all their versions.

    Give ids, or at least one of --project, --user, --agent and --session. Without ids, every memory whose own project,
    user, agent and session are those given ('*' for any) is deleted; memories shared with others stay. The count is
    shown first and has to be confirmed, or --yes given.
    """
    with call.engine() as engine:
        count = engine.erase(ids or None, dry_run=True, **call.where)
        if not dry_run:
            if count:
                _confirm_erase(count, yes)
            count = engine.erase(ids or None, **call.where)
    line = f"{'would erase' if dry_run else 'erased'} {counted(count, 'memory', 'memories')}"
    return Answer({"erased": count, "dry_run": dry_run}, (line, *([] if count else [SCOPE_HINT])))


def _confirm_erase(count: int, yes: bool) -> None:
    """Ask for the number of memories, or the word `erase`; end the command on anything else."""
    if yes:
        return
    if not is_interactive():
        raise UnconfirmedError("erased")
    typer.echo(f"{counted(count, 'memory', 'memories')} to erase. {ERASE_WARNING}", err=True)
    typer.echo(f"Type {count} or {ERASE} to go on: ", err=True, nl=False)
    if sys.stdin.readline().strip().replace(",", "") not in (str(count), ERASE):
        typer.echo("Nothing was erased.", err=True)
        raise typer.Exit(FAILED)


@command(app, "end-session", scope=CALLER)
def end_session(
    call: Call, session_id: Annotated[str, typer.Argument(metavar="SESSION", help="The session.")]
) -> Answer:
    """Move a session's working memories to the next tier."""
    with call.engine() as engine:
        return results.session(engine.end_session(session_id, **call.where))
