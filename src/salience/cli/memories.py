"""Commands on memories: remember, recall, context, get, list, update, forget, history, ..."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from salience.cli.options import Call, Id, QueryText, Yes, command, from_stdin, is_local, now, options
from salience.cli.output import (
    FAILED,
    LEFT_HINT,
    SCOPE_HINT,
    Answer,
    UnconfirmedError,
    hints,
    is_interactive,
    one_line,
    sanitize,
    tsv,
)
from salience.errors import InputError, Words

app = typer.Typer()
ERASE: Final = "erase"
ERASE_WARNING: Final = (
    "Texts, versions, vectors and the reflections made of them are deleted for good; `restore` cannot bring them back. "
    "Exports and backups keep what they hold."
)
Explain = Annotated[bool, typer.Option("--explain", help="Show the arithmetic of every score.")]


@command(app, options=options("remember", "content"))
def remember(
    call: Call,
    content: Annotated[str, typer.Argument(metavar="CONTENT", help="The text; - reads it from standard input.")],
) -> Answer:
    """Store one memory, and report possible contradictions."""
    from salience.cli import results

    text = from_stdin(content) or ""
    with call.engine(create=True) as engine:
        return results.receipt(engine.remember(text, **call.given))


@command(app, options=options("recall", "query"))
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
            return results.recalls(
                queries, engine.recall_many(queries, **call.given), current, explain, is_local(engine)
            )
        return results.recall(engine.recall(query, **call.given), current, explain, is_local(engine))


@command(app, "graph-recall", options=options("graph_recall", "query"))
def graph_recall(call: Call, query: QueryText, explain: Explain = False) -> Answer:
    """Find memories by similarity and by the entities of a question.

    The score is (1 - w) x similarity + w x proximity in the graph of memories and the entities that they share. Stages
    and defaults are those of the profile zeromemory, unless --profile names another.
    """
    from salience.cli import results

    with call.engine() as engine:
        return results.recall(engine.graph_recall(query, **call.given), now(engine), explain, is_local(engine))


@command(app, options=options("scores", "query"))
def scores(call: Call, query: QueryText) -> Answer:
    """Count the memories that each stage of a recall drops, and list the best ones that it does not return."""
    with call.engine() as engine:
        found = engine.scores(query, **call.given)
    lines = [tsv("candidates", found.candidates), *(tsv(stage, count) for stage, count in found.dropped.items())]
    lines.append("# id\tscore\tstage\trank\tcontent")
    lines += [
        tsv(one.memory.id, f"{one.score:.4f}", one.stage, one.rank or "-", one.memory.content) for one in found.missed
    ]
    return Answer(found, lines)


@command(app, options=options("decay", "ids"))
def decay(call: Call, ids: Annotated[list[str], typer.Argument(metavar="ID", help="The memories.")]) -> Answer:
    """Print how the scores of memories fade with age under a profile, at equal steps from now on."""
    with call.engine() as engine:
        found = engine.decay(ids, **call.given)
    return Answer(found, [tsv(one.id, *(f"{value:.3f}" for value in one.values)) for one in found])


@command(app, options=options("context", "query"))
def context(call: Call, query: QueryText) -> Answer:
    """Print memories quoted as data for a prompt.

    Bootstrap memories come first, then those for the question, as many as fit the budget.
    """
    with call.engine() as engine:
        packed = engine.context(query, **call.given)
    degraded = [f"degraded: no {', '.join(packed.degraded)}"] if packed.degraded else []
    for line in (*hints(packed), *degraded):
        typer.echo(line, err=True)  # standard output is for the prompt
    return Answer(packed, map(sanitize, packed.text.splitlines()))


@command(app, options=options("get", "id"))
def get(call: Call, id: Id) -> Answer:
    """Show one memory with all its fields."""
    from salience.cli import results

    with call.engine() as engine:
        return results.memory(engine.get(id, **call.given))


@command(app, "list", options=options("list"))
def list_(call: Call) -> Answer:
    """List memories in the order of storing, page by page."""
    from salience.cli import results

    with call.engine() as engine:
        return results.page(engine.list(**call.given), now(engine))


@command(app, options=options("facets"))
def facets(call: Call) -> Answer:
    """Count the memories that `list` pages through by the values of their fields, the most frequent first."""
    with call.engine() as engine:
        found = engine.facets(**call.given)
    lines = [tsv(name, value or "-", count) for name, values in found.values.items() for value, count in values.items()]
    return Answer(found, ("# field\tvalue\tmemories", *lines))


@command(app, options=options("sessions"))
def sessions(call: Call) -> Answer:
    """List sessions with live memories, the latest first: user, number of memories, first and last memory."""
    with call.engine() as engine:
        found = engine.sessions(**call.given)
    rows = ((one.id, one.user_id or "-", one.size, one.start, one.end) for one in found.sessions)
    more = [f"# more: repeat with --cursor '{found.cursor}'"] if found.cursor else []
    return Answer(found, ("# session\tuser\tmemories\tfirst\tlast", *(tsv(*row) for row in rows), *more))


@command(app, options=options("stats"))
def stats(call: Call) -> Answer:
    """Count memories by kind, tier, project, user and agent."""
    from salience.cli import results

    with call.engine() as engine:
        return results.stats(engine.stats(**call.given))


@command(app, options=options("recalls", "query"))
def recalls(
    call: Call,
    query: Annotated[str | None, typer.Argument(metavar="TEXT", help="A part of the question.")] = None,
) -> Answer:
    """List past recalls with their questions, newest first.

    Empty unless the setting recall_log is on. Lists the recalls of the project, user and agent that are given; '*'
    stands for any.
    """
    from salience.cli import results

    with call.engine() as engine:
        return results.recall_log(engine.recalls(query, **call.given), now(engine))


@command(app, options=options("update", "id content"))
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


@command(app, options=options("forget", "id"))
def forget(call: Call, id: Id) -> Answer:
    """Hide a memory from every recall; nothing is lost."""
    from salience.cli import results

    with call.engine() as engine:
        return results.receipt(engine.forget(id, **call.given))


@command(app, options=options("restore", "id"))
def restore(
    call: Call,
    id: Id,
    number: Annotated[int | None, typer.Argument(metavar="VERSION", help="The same as --version.")] = None,
) -> Answer:
    """Bring back a memory, or an older version of it.

    Without a version, a forgotten or expired memory is live again as it was. With one, the memory is as in that
    version. The current state is kept in the history.
    """
    from salience.cli import results

    if number is not None and "version" in call.given:
        remedy = "Give the version once: after the ID, or by --version."
        raise InputError("--version", Words("a second version"), remedy, "is given twice")
    given = call.given if number is None else {**call.given, "version": number}
    with call.engine() as engine:
        return results.receipt(engine.restore(id, **given))


@command(app, options=options("history", "id"))
def history(call: Call, id: Id) -> Answer:
    """Show every version of a memory: who changed what.

    Shows the time, author, change and reason of each version, and the fields that changed, the oldest first. A
    forgotten memory has a history too; restore brings back any version.
    """
    from salience.cli import results

    with call.engine() as engine:
        return results.history(engine.history(id, **call.given))


@command(app, options=options("erase", "ids dry_run"))
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

    if not ids and not call.given.keys() & {"project", "user_id", "agent_id", "session_id"}:
        remedy = "Give ids, or at least one of --project, --user, --agent and --session ('*' for any)."
        raise InputError("erase", Words("no memory"), remedy, "names no memory")
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
    notes = [LEFT_HINT] if count.pending else [] if count else [SCOPE_HINT]
    record = {"erased": int(count), "recalls": count.recalls, "pending": count.pending, "dry_run": dry_run}
    return Answer(record, (line, *notes))


@command(app, "end-session", options=options("end_session", "session_id"))
def end_session(
    call: Call, session_id: Annotated[str, typer.Argument(metavar="SESSION", help="The session.")]
) -> Answer:
    """Move a session's working memories to the next tier."""
    with call.engine() as engine:
        report = engine.end_session(session_id, **call.given)
    head = f"session {one_line(report.session_id)}: {len(report.promoted)} moved to the next tier"
    return Answer(report, (head, *report.promoted))


@command(app, options=options("review"))
def review(call: Call) -> Answer:
    """List problems to look at, those of the newest memory first.

    Problems are pairs of memories that contradict each other, say the same or update one another, stale reflections,
    and memories without a vector. `salience dismiss` keeps a pair or a reflection out of the list.
    """
    from salience.cli import results

    with call.engine() as engine:
        return results.review(engine.review(**call.given))


@command(app, options=options("dismiss", "id other_id"))
def dismiss(
    call: Call,
    id: Id,
    other: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="The other memory; none for a stale reflection.")
    ] = None,
) -> Answer:
    """Undo the relation of two memories, and keep the pair, or a stale reflection, out of the review."""
    from salience.cli import results

    with call.engine() as engine:
        return results.receipt(engine.dismiss(id, other, **call.given))


@command(app, options=options("changes"))
def changes(call: Call) -> Answer:
    """List the changes of memories, newest first: who changed what, when and why."""
    from salience.cli import results

    with call.engine() as engine:
        return results.changes(engine.changes(**call.given))


@command(app, options=options("activity"))
def activity(call: Call) -> Answer:
    """Count the memories stored, changed, forgotten, recalled and dated on each day in UTC, by default in a year."""
    with call.engine() as engine:
        days = engine.activity(**call.given)
    lines = [tsv(day.day, day.created, day.changed, day.forgotten, day.recalled, day.dated) for day in days]
    return Answer(days, ("# day\tcreated\tchanged\tforgotten\trecalled\tdated", *lines))
