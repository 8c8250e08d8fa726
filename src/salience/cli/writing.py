"""Commands that write a memory: remember, update, forget, end-session."""

from __future__ import annotations

from typing import Annotated

import typer

from salience.cli import records
from salience.cli.calls import CALLER, Call, command
from salience.cli.options import (
    Entities,
    FactKey,
    Id,
    IfVersion,
    Importance,
    Kind,
    Metadata,
    NewTags,
    Reason,
    RequestKey,
    Tier,
    Ttl,
    Weight,
    from_stdin,
    given,
    json_object,
)
from salience.cli.screen import Answer
from salience.cli.surface import app
from salience.cli.times import instants
from salience.errors import InputError, Words


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
        str | None, typer.Option(metavar="KEY", help="A second remember with this key stores nothing.")
    ] = None,
    created_at: Annotated[
        str | None,
        typer.Option("--created-at", metavar="TIME", help="When it was said: 2026-05-01, 2d, yesterday or ISO 8601."),
    ] = None,
    duplicate: Annotated[
        bool, typer.Option("--duplicate", help="Store it even where a current memory has the same text.")
    ] = False,
) -> Answer:
    """Store one memory; tell what it may contradict."""
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
        **instants(created_at=created_at),
    )
    fields |= {"duplicate": True} if duplicate else {}
    text = from_stdin(content) or ""
    with call.engine(create=True) as engine:
        return records.receipt(engine.remember(text, **fields, **call.where))


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
        bool, typer.Option("--no-fact-key", help="Take the fact key away; no newer memory replaces it then.")
    ] = False,
    ttl: Ttl = None,
    tier: Tier = None,
    metadata: Metadata = None,
    reason: Reason = None,
    if_version: IfVersion = None,
    key: RequestKey = None,
) -> Answer:
    """Change a memory; the version before is kept.

    Tags and entities that are given replace all that were there.
    """
    if text is not None and content is not None:
        raise InputError("--content", Words("a second text"), "Give the new text once: after the ID, or by --content.")
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
    if no_fact_key and fact_key is not None:
        raise InputError(
            "--no-fact-key", Words("--no-fact-key beside --fact-key"), "Give one of them.", "is given beside --fact-key"
        )
    changes |= {"fact_key": None} if no_fact_key else {}
    with call.engine() as engine:
        return records.receipt(
            engine.update(id, reason=reason, if_version=if_version, key=key, **changes, **call.where)
        )


@command(app)
def forget(call: Call, id: Id, reason: Reason = None, if_version: IfVersion = None, key: RequestKey = None) -> Answer:
    """Take a memory out of every recall; nothing is lost."""
    with call.engine() as engine:
        return records.receipt(engine.forget(id, reason=reason, if_version=if_version, key=key, **call.where))


@command(app, "end-session", scope=CALLER)
def end_session(
    call: Call, session_id: Annotated[str, typer.Argument(metavar="SESSION", help="The session.")]
) -> Answer:
    """Move a session's working memories to the next tier."""
    with call.engine() as engine:
        return records.session(engine.end_session(session_id, **call.where))
