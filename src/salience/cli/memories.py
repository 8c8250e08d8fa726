"""Commands on memories: remember, recall, context, get, list, update, forget, history, ..."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from salience.cli.options import (
    CALLER,
    CHANGES,
    FIELDS,
    IF_VERSION,
    KEY,
    REASON,
    RECALL,
    SCOPE,
    Call,
    Id,
    QueryText,
    Yes,
    command,
    from_stdin,
    instant,
    now,
    option,
    pick,
)
from salience.cli.output import FAILED, SCOPE_HINT, Answer, UnconfirmedError, is_interactive, out_of_scope, sanitize
from salience.errors import InputError, Words

app = typer.Typer()
ERASE: Final = "erase"
ERASE_WARNING: Final = (
    "Texts, versions, vectors and the reflections made of them are deleted for good; `restore` cannot bring them back. "
    "Exports and backups keep what they hold."
)
Explain = Annotated[bool, typer.Option("--explain", help="Show the arithmetic of every score.")]
SUPERSEDES: Final = {"supersedes": option(str, "--supersedes", "ID", "The older memory that this one replaces.")}
REMEMBER: Final = (
    FIELDS
    | SUPERSEDES
    | {
        "created_at": option(
            str, "--created-at", "TIME", "Time of the event: 2026-05-01, 2d, yesterday or ISO 8601.", instant
        ),
        "duplicate": option(bool, "--duplicate", None, "Store it even if a current memory has the same text."),
    }
)


@command(app, options=REMEMBER | SCOPE)
def remember(
    call: Call,
    content: Annotated[str, typer.Argument(metavar="CONTENT", help="The text; - reads it from standard input.")],
) -> Answer:
    """Store one memory, and report possible contradictions."""
    from salience.cli import results

    text = from_stdin(content) or ""
    with call.engine(create=True) as engine:
        return results.receipt(engine.remember(text, **call.given))


@command(app, options=RECALL | SCOPE)
def recall(
    call: Call,
    query: QueryText,
    also: Annotated[
        list[str] | None, typer.Option("--also", metavar="QUERY", help="Another question; may be repeated.")
    ] = None,
    explain: Explain = False,
) -> Answer:
    """Find the memories that matter for a question, with the parts of each score.

    The length of a bar shows the score. Signals that are added are solid segments side by side. Where factors multiply
    (mememory, cmm, or a factor on a sum), the solid part is the resulting score and the shaded segments are the losses
    to each factor, divided by their logarithms; a factor above 1 makes the whole bar longer. Without colours, segments
    are letters: capitals for kept parts, small letters for losses.
    """
    from salience.cli import results

    with call.engine() as engine:
        current = call.given.get("now") or call.given.get("as_of") or now(engine)
        if also:
            queries = [query, *also]
            return results.recalls(queries, engine.recall_many(queries, **call.given), current, explain)
        return results.recall(engine.recall(query, **call.given), current, explain)


GRAPH: Final = {
    "graph_weight": option(float, "--graph-weight", "NUMBER", "Share of the graph, 0 to 1."),
    "max_hops": option(int, "--max-hops", "N", "Maximum distance in the graph, 0 to 10."),
}


@command(app, "graph-recall", options=GRAPH | pick(RECALL, "limit profile tags dry_run") | SCOPE)
def graph_recall(call: Call, query: QueryText, explain: Explain = False) -> Answer:
    """Find memories by similarity and by the entities of a question.

    The score is (1 - w) x similarity + w x proximity in the graph of memories and the entities that they share. Stages
    and defaults are those of the profile zeromemory, unless --profile names another.
    """
    from salience.cli import results

    with call.engine() as engine:
        return results.recall(engine.graph_recall(query, **call.given), now(engine), explain)


@command(app, options=pick(RECALL, "limit profile min_score tags dry_run") | SCOPE)
def context(
    call: Call,
    query: QueryText,
    budget_tokens: Annotated[int, typer.Option("--budget", metavar="TOKENS", help="Maximum number of tokens.")] = 2000,
) -> Answer:
    """Print memories quoted as data for a prompt.

    Bootstrap memories come first, then those for the question, as many as fit the budget.
    """
    with call.engine() as engine:
        packed = engine.context(query, budget_tokens=budget_tokens, **call.given)
    for line in out_of_scope(packed.out_of_scope):
        typer.echo(line, err=True)  # standard output is for the prompt
    return Answer(packed, map(sanitize, packed.text.splitlines()))


@command(app, options=SCOPE)
def get(call: Call, id: Id) -> Answer:
    """Show one memory with all its fields."""
    from salience.cli import results

    with call.engine() as engine:
        return results.memory(engine.get(id, **call.given))


@command(app, "list", options=pick(RECALL, "tags kinds tiers sessions since until") | SCOPE)
def list_(
    call: Call,
    fact_keys: Annotated[
        list[str] | None, typer.Option("--fact-key", metavar="KEY", help="Only memories of this fact; may be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Memories per page, 1 to 1000.")] = 100,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Where the previous page ended.")] = None,
) -> Answer:
    """List memories in the order of storing, page by page."""
    from salience.cli import results

    with call.engine() as engine:
        found = engine.list(fact_keys=fact_keys or (), limit=limit, cursor=cursor, **call.given)
        return results.page(found, now(engine))


@command(app, options=SCOPE)
def stats(call: Call) -> Answer:
    """Count memories by kind, tier, project, user and agent."""
    from salience.cli import results

    with call.engine() as engine:
        return results.stats(engine.stats(**call.given))


@command(app, options=CALLER)
def recalls(
    call: Call,
    query: Annotated[str | None, typer.Argument(metavar="TEXT", help="A part of the question.")] = None,
    session_id: Annotated[str | None, typer.Option("--session", metavar="NAME", help="Only of this session.")] = None,
    id: Annotated[str | None, typer.Option(metavar="ID", help="Only this entry.")] = None,
    memory_id: Annotated[
        str | None, typer.Option("--memory", metavar="ID", help="Only recalls that returned this memory.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Entries per page, 1 to 1000.")] = 100,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Where the previous page ended.")] = None,
) -> Answer:
    """List past recalls with their questions, newest first.

    Empty unless the setting recall_log is on. Lists the recalls of the project, user and agent that are given; '*'
    stands for any.
    """
    from salience.cli import results

    with call.engine() as engine:
        found = engine.recalls(
            query, id=id, memory_id=memory_id, limit=limit, cursor=cursor, session_id=session_id, **call.given
        )
        return results.recall_log(found, now(engine))


@command(app, options=FIELDS | SUPERSEDES | REASON | IF_VERSION | SCOPE)
def update(
    call: Call,
    id: Id,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The new text; - reads it from standard input.")
    ] = None,
    content: Annotated[str | None, typer.Option(metavar="TEXT", help="The same as TEXT.")] = None,
    no_fact_key: Annotated[
        bool, typer.Option("--no-fact-key", help="Remove the fact key; no newer memory then replaces this one.")
    ] = False,
    no_supersedes: Annotated[
        bool, typer.Option("--no-supersedes", help="Undo --supersedes: recall returns the older memory again.")
    ] = False,
) -> Answer:
    """Change a memory; the previous version is kept.

    Tags and entities that are given replace the previous ones.
    """
    from salience.cli import results

    if text is not None and content is not None:
        raise InputError("--content", Words("a second text"), "Give the new text once: after the ID, or by --content.")
    changes = dict(call.given)
    for name, removes in (("fact-key", no_fact_key), ("supersedes", no_supersedes)):
        if removes and (field := name.replace("-", "_")) in changes:
            value, problem = Words(f"--no-{name} beside --{name}"), f"is given beside --{name}"
            raise InputError(f"--no-{name}", value, "Give one of them.", problem)
        if removes:
            changes[field] = None
    new = from_stdin(content if text is None else text)
    if new is not None:
        changes["content"] = new
    with call.engine() as engine:
        return results.receipt(engine.update(id, **changes))


@command(app, options=REASON | IF_VERSION | KEY | SCOPE)
def forget(call: Call, id: Id) -> Answer:
    """Hide a memory from every recall; nothing is lost."""
    from salience.cli import results

    with call.engine() as engine:
        return results.receipt(engine.forget(id, **call.given))


@command(app, options=REASON | KEY | SCOPE)
def restore(
    call: Call,
    id: Id,
    version: Annotated[
        int | None,
        typer.Option(metavar="N", help="Version from the history. Default: the last before it was forgotten."),
    ] = None,
) -> Answer:
    """Bring back a memory, or an older version of it.

    Without --version, a forgotten or expired memory is live again as it was. With it, the memory is as in that version.
    The current state is kept in the history.
    """
    from salience.cli import results

    with call.engine() as engine:
        return results.receipt(engine.restore(id, version, **call.given))


@command(app, options=SCOPE)
def history(call: Call, id: Id) -> Answer:
    """Show every version of a memory: who changed what.

    Shows the time, author, change and reason of each version, and the fields that changed, the oldest first. A
    forgotten memory has a history too; restore brings back any version.
    """
    from salience.cli import results

    with call.engine() as engine:
        return results.history(engine.history(id, **call.given))


@command(app, options=SCOPE)
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
    from salience.cli.results import erased

    with call.engine() as engine:
        count = engine.erase(ids or None, dry_run=True, **call.given)
        memories = erased(count)
        if not dry_run:
            if (count or count.recalls) and not yes:
                if not is_interactive():
                    raise UnconfirmedError("erased")
                typer.echo(
                    f"{memories} to erase. {ERASE_WARNING}\nType {count} or {ERASE} to go on: ", err=True, nl=False
                )
                if sys.stdin.readline().strip().replace(",", "") not in (str(count), ERASE):
                    typer.echo("Nothing was erased.", err=True)
                    raise typer.Exit(FAILED)
            count = engine.erase(ids or None, **call.given)
            memories = erased(count)
    line = f"{'would erase' if dry_run else 'erased'} {memories}"
    return Answer(
        {"erased": int(count), "recalls": count.recalls, "dry_run": dry_run}, (line, *([] if count else [SCOPE_HINT]))
    )


@command(app, "end-session", options=CALLER)
def end_session(
    call: Call, session_id: Annotated[str, typer.Argument(metavar="SESSION", help="The session.")]
) -> Answer:
    """Move a session's working memories to the next tier."""
    from salience.cli.output import one_line

    with call.engine() as engine:
        report = engine.end_session(session_id, **call.given)
    head = f"session {one_line(report.session_id)}: {len(report.promoted)} moved to the next tier"
    return Answer(report, (head, *report.promoted))


@command(app, options=SCOPE)
def review(
    call: Call,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Problems per page, 1 to 1000.")] = 20,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Where the previous page ended.")] = None,
) -> Answer:
    """List problems to look at, those of the newest memory first.

    Problems are pairs of memories that contradict each other, say the same or update one another, stale reflections,
    and memories without a vector. `salience dismiss` keeps a pair or a reflection out of the list.
    """
    from salience.cli import results

    with call.engine() as engine:
        return results.review(engine.review(limit=limit, cursor=cursor, **call.given))


@command(app, options=REASON | SCOPE)
def dismiss(
    call: Call,
    id: Id,
    other: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="The other memory; none for a stale reflection.")
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="List the problem again.")] = False,
) -> Answer:
    """Keep a pair of memories, or a stale reflection, out of the review."""
    from salience.cli import results

    with call.engine() as engine:
        return results.receipt(engine.dismiss(id, other, undo=undo, **call.given))


CHANGED: Final = {
    "change": option(str, "--change", "NAME", "Only this change: create, update, forget, ...", complete=CHANGES),
    "changed_by": option(str, "--by", "AUTHOR", "Only by this author: agent:NAME, user:NAME or upkeep."),
}
PERIOD: Final = {
    "since": option(str, "--since", "TIME", "Changed at or after: 2026-05-01, 2d, yesterday or ISO 8601.", instant),
    "until": option(str, "--until", "TIME", "Changed before; written as for --since.", instant),
}


@command(app, options=CHANGED | PERIOD | SCOPE)
def changes(
    call: Call,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Changes per page, 1 to 1000.")] = 50,
    cursor: Annotated[str | None, typer.Option(metavar="CURSOR", help="Where the previous page ended.")] = None,
) -> Answer:
    """List the changes of memories, newest first: who changed what, when and why."""
    from salience.cli import results

    with call.engine() as engine:
        return results.changes(engine.changes(limit=limit, cursor=cursor, **call.given))


@command(app, options=PERIOD | SCOPE)
def activity(call: Call) -> Answer:
    """Count the memories created, changed, forgotten and recalled on each day in UTC, by default of the last year."""
    from salience.cli.output import tsv

    with call.engine() as engine:
        days = engine.activity(**call.given)
    lines = [tsv(day.day, day.created, day.changed, day.forgotten, day.recalled) for day in days]
    return Answer(days, ("# day\tcreated\tchanged\tforgotten\trecalled", *lines))
