"""The command chat: a conversation with a language model that recalls before each answer and remembers after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from salience.cli.options import FLAGS, Call, command, options
from salience.cli.output import FAILED, complain, is_interactive, sanitize, truncate
from salience.errors import SalienceError
from salience.records import Hit
from salience.records.answers import replacement, said
from salience.verbs import Verbs

app = typer.Typer()
SYSTEM: Final = """\
You are a helpful assistant that remembers earlier conversations. Memories that may matter for the user's message are
below. Use those that help, prefer newer ones where they differ, and say so if you do not know.
"""
BUDGET: Final = 1000
"""Maximum tokens of memories for an answer."""
OPTIONS: Final = {name: one for name, one in options("context").items() if name in ("profile", *FLAGS, "scope")}
RECENT: Final = 6
"""Messages of this conversation that the model sees; memories bring back the older ones."""
HELP: Final = "/why ID: why it was recalled, or not. /forget ID. /quit. Recalled memories are shown with their scores."


@command(app, options=OPTIONS, json=False)
def chat(
    call: Call,
    session_id: Annotated[
        str | None, typer.Option("--session", metavar="NAME", help="Session. Default: a new one.")
    ] = None,
) -> None:
    """Talk to a language model that has your memories.

    Before each answer, the memories that matter are recalled and shown with the parts of their scores; after it, both
    turns are stored. In the conversation: /why ID, /forget ID, /quit. Reads lines from a pipe, too. Needs the extra llm
    and an endpoint: SALIENCE_LLM_BASE_URL, SALIENCE_LLM_MODEL, SALIENCE_LLM_API_KEY.
    """
    from salience import compose

    model, session = compose.chat(), session_id or f"chat-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    where = {name: value for name, value in call.given.items() if name != "profile"}
    recent: list[dict[str, str]] = []
    question = ""
    with call.engine(create=True) as memory:
        for text in _lines():
            try:
                if text.startswith("/"):
                    if text.strip() == "/quit":
                        break
                    _run(memory, text, question, call.given, where)
                    continue
                question = text
                found = memory.context(text, budget_tokens=BUDGET, **call.given)
                for hit in found.hits:
                    typer.secho(describe(hit), dim=True, err=True)
                messages = [*recent, {"role": "user", "content": text}]
                answer = model.reply([{"role": "system", "content": f"{SYSTEM}\n{found.text}"}, *messages])
                typer.echo(sanitize(answer))
                recent = [*messages, {"role": "assistant", "content": answer}][-RECENT:]
                memory.ingest(recent[-2:], session_id=session, **where)
            except SalienceError as error:
                complain(str(error), FAILED)
                if not is_interactive():
                    raise typer.Exit(FAILED) from None


def _lines() -> Iterator[str]:
    """Yield the lines of the user that are not blank."""
    if is_interactive():
        with suppress(ImportError):
            import readline  # noqa: F401 - lets `input` edit lines
        typer.secho(HELP, dim=True, err=True)
    while True:
        try:
            line = input("> " if is_interactive() else "")
        except EOFError:
            return
        if line.strip():
            yield line


def _run(memory: Verbs, text: str, question: str, given: dict[str, Any], where: dict[str, Any]) -> None:
    """Run a command of the conversation."""
    from salience.cli.results import formula

    name, _, short_id = text.partition(" ")
    short_id = short_id.strip()
    if name == "/forget" and short_id:
        typer.echo(sanitize(f"{memory.forget(short_id, **where).status} {short_id}"))
    elif name == "/why" and short_id and question:
        why = memory.explain(question, short_id, **given)
        detail = why.score_detail
        typer.echo(sanitize(why.reason + ("" if detail is None else f"\n{formula(detail)} = {detail.final:.6f}")))
    else:
        typer.echo(HELP)


def describe(hit: Hit) -> str:
    """Return a recalled memory on a line: score, short id, content, and the parts of the score."""
    detail = hit.score_detail
    added = [f"{part.signal} {part.contribution:.2f}" for part in detail.parts if part.combine == "sum" and part.raw]
    factors = [f"{part.signal} {part.contribution:.2f}" for part in detail.parts if part.combine == "product"]
    parts = " x ".join([*([" + ".join(added)] if added else []), *factors]) or hit.memory.kind
    replaced = "".join(f" [{mark}]" for mark in replacement(hit.memory))
    head = " ".join((f"{hit.score:.2f}", *said(hit), f"[{hit.memory.short_id}]"))
    return sanitize(f"  {head} {truncate(hit.memory.content, 60)}{replaced} = {parts}")
