"""The command hook: gives coding agents (Claude Code, Codex, Cursor) memories at their events, and stores their turns.

An agent starts the command at an event, writes the event as JSON to its standard input, and reads JSON from its
standard output. The command never stops the agent: after an error or the time limit it prints nothing, writes one line
to standard error and exits with code 0. Protocols: https://code.claude.com/docs/en/hooks,
https://developers.openai.com/codex/hooks, https://cursor.com/docs/hooks.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from salience.cli.options import Call, Globals
from salience.cli.output import complain
from salience.errors import InputError, SalienceError, Words
from salience.loading import uncollected
from salience.records.checks import NAME_LIMIT
from salience.verbs import Verbs

app = typer.Typer()
EVENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "claude-code": {"SessionStart": "start", "UserPromptSubmit": "prompt", "Stop": "stop"},
    "codex": {"SessionStart": "start", "UserPromptSubmit": "prompt", "Stop": "stop"},
    "cursor": {"sessionStart": "start", "beforeSubmitPrompt": "prompt", "afterAgentResponse": "stop"},
}
"""Agent -> its events, and our part in each: bootstrap memories, memories for the prompt, storing turns."""
SECONDS: Final[Mapping[str, float]] = {"start": 5, "prompt": 9, "stop": 30}
"""Time limit of each part, below the agents' own: 10 seconds, and 60 for the last one, which may store many turns."""
EMBEDDING: Final = 4.0
"""Seconds until a question has to be embedded."""
BUDGET: Final = 2000
"""Maximum tokens for a prompt: 8,000 characters of English; agents cut a context at 10,000."""
CONSIDERED: Final = 50
"""Hits before unlikely ones and turns of the session itself are removed."""
LIKELY: Final = 0.3
"""Least confidence of the best hit for a prompt. It is lower than for an answer, since most prompts are no questions:
among 62 notes of a backend team, the best hits for "Deploy it" and "fix the lint errors" have 0.72 and 0.47, those for
prompts without a related note 0.23 to 0.41."""
SHARE: Final = 0.6
"""Least score of a hit, as a share of the best one; the confidence of all hits but the best is low."""
MOST: Final = 5
"""Maximum hits for a prompt."""
QUERY: Final = 4000
"""Characters of a prompt that are searched for."""
BATCH: Final = 50
"""Turns of one transaction: if the time limit ends the command, the next event goes on after them."""
BATCH_SIZE: Final = 1_000_000
"""Characters of one transaction, unless a turn alone has more; a server refuses bodies over 8 MiB."""
START: Final = "What has to be known before work begins?"
PLACE: Final = "Memories of this project: give project={} to the memory tools.\n"
WITHOUT_USAGE_ERRORS: Final = {"ignore_unknown_options": True, "allow_extra_args": True}
"""Exit code 2 of a usage error would block the user's prompt."""


@app.command(context_settings=WITHOUT_USAGE_ERRORS)
def hook(
    ctx: typer.Context,
    event: Annotated[str, typer.Argument(metavar="EVENT", help="The agent's event, such as UserPromptSubmit.")] = "",
    client: Annotated[str, typer.Option(metavar="NAME", help=f"One of: {', '.join(EVENTS)}.")] = "claude-code",
    project: Annotated[
        str | None, typer.Option(metavar="NAME", help="Project. Default: the path of the repository.")
    ] = None,
    user_id: Annotated[str | None, typer.Option("--user", metavar="NAME", help="User.")] = None,
    agent_id: Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Agent.")] = None,
    environment: Annotated[str | None, typer.Option(metavar="NAME", help="Environment (default: default).")] = None,
) -> None:
    """Answer an event of a coding agent, which starts this: see salience mcp install --hooks.

    Reads the event as JSON from standard input. At the start of a session, prints the bootstrap memories; for a prompt,
    the memories that matter; after an answer, stores the new turns. The exit code is always 0.
    """
    given = {"project": project, "user_id": user_id, "agent_id": agent_id, "environment": environment}
    part = EVENTS.get(client, {}).get(event, "")
    limit = SECONDS.get(part, 5)
    deadline = time.monotonic() + EMBEDDING
    timer = threading.Timer(limit, _give_up, (limit,))
    timer.daemon = True
    timer.start()
    try:
        where = {name: value for name, value in given.items() if value}
        with uncollected():  # the process ends soon: a search for garbage in all that is imported takes a tenth of it
            _handle(ctx.obj, client, event, part, where, deadline)
    except SalienceError as error:
        complain(f"hook: {error}", 0)
    except Exception as error:  # its message could hold a text of the user
        complain(f"hook: {type(error).__name__}", 0)
    finally:
        timer.cancel()


def _give_up(limit: float) -> None:
    complain(f"hook: stopped after {limit:g} seconds", 0)
    sys.stderr.flush()
    os._exit(0)  # a transaction is written as a whole, or not at all


def _handle(options: Globals, client: str, event: str, part: str, where: dict[str, str], deadline: float) -> None:
    """Print the memories for an event, and store its turns.

    Memories are found by words alone if the text is not embedded by `deadline` (`time.monotonic`).

    Raises:
        InputError: an unknown event, or another input than its JSON.
    """
    if not part:
        raise InputError("event", event, f"{client} has {', '.join(EVENTS.get(client, ())) or 'no events here'}.")
    try:
        data = json.loads(sys.stdin.buffer.read())
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise InputError("event", Words("another input"), "Write it to standard input.", "is not a JSON object")
    session = data.get("session_id") or data.get("conversation_id")
    if "project" not in where:
        where["project"] = _project(client, data)
    with Call(options, {}, as_json=True).engine(create=True) as memory:
        if part == "start":
            _print(client, event, PLACE.format(json.dumps(where["project"])) + _bootstrap(memory, where, deadline))
        elif part == "prompt":
            prompt = str(data.get("prompt") or "")
            _print(client, event, _recalled(memory, prompt, session, where, deadline) if prompt.strip() else "")
            if client != "claude-code":  # its log has the prompts, too
                _store(memory, _turn(client, data, "user", prompt), session, where)
        else:
            said = data.get("last_assistant_message") or data.get("text")
            is_logged = client == "claude-code"
            turns = _logged(data.get("transcript_path")) if is_logged else _turn(client, data, "assistant", said)
            _store(memory, turns, session, where)


def _print(client: str, event: str, text: str) -> None:
    """Print the output for an event, if there is a text."""
    if not text:
        return
    output: dict[str, Any] = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}
    if client == "cursor":
        is_prompt = EVENTS[client][event] == "prompt"
        output = {**({"continue": True} if is_prompt else {}), "additional_context": text}
    sys.stdout.write(json.dumps(output) + "\n")  # ASCII, whatever the encoding of the stream
    sys.stdout.flush()


def _project(client: str, data: Mapping[str, Any]) -> str:
    """Return the path of the repository that the agent works in; of its folder, outside of a repository.

    Raises:
        InputError: the event names no folder. Memories without a project would be seen in all projects.
    """
    roots = data.get("workspace_roots") or [None]
    named = os.environ.get("CLAUDE_PROJECT_DIR") if client == "claude-code" else roots[0]
    folder = named or data.get("cwd")
    if not isinstance(folder, str) or not folder:
        raise InputError("cwd", folder, "Give --project.")
    path = Path(folder).resolve()
    repositories = (one for one in (path, *path.parents) if one != Path.home() and (one / ".git").exists())
    return next(repositories, path).as_posix()[-NAME_LIMIT:]


def _bootstrap(memory: Verbs, where: Mapping[str, Any], deadline: float) -> str:
    """Return the current bootstrap memories, quoted as data."""
    from salience.context import BOOTSTRAP, quote

    left = _milliseconds(deadline)
    found = memory.context(START, limit=1, budget_tokens=BUDGET, deadline_ms=left, dry_run=True, **where)
    return quote([hit for hit in found.hits if hit.memory.kind == BOOTSTRAP])


def _recalled(memory: Verbs, prompt: str, session: object, where: Mapping[str, Any], deadline: float) -> str:
    """Return the memories that a prompt may need, quoted as data; empty for none.

    Turns of the session itself are left out, since the agent has them, and bootstrap memories, since it got them.
    """
    from salience.context import BOOTSTRAP, pack, replacements, successors_first

    left = _milliseconds(deadline)
    found = memory.recall(prompt[:QUERY], limit=CONSIDERED, deadline_ms=left, dry_run=True, **where)
    if not found.hits or (found.hits[0].weak and (found.hits[0].confidence or 0) < LIKELY):
        return ""
    hits = [
        hit
        for hit in found.hits
        if hit.score >= SHARE * found.hits[0].score
        and hit.memory.kind != BOOTSTRAP
        and (session is None or hit.memory.scope.session_id != session)
    ]
    best = successors_first(hits[:MOST], replacements(hits[:MOST]))
    return pack(best, BUDGET, unsure=found.verdict == "does not answer")[1]


def _milliseconds(deadline: float) -> float:
    """Return the time until a deadline (`time.monotonic`); 0 after it."""
    return max((deadline - time.monotonic()) * 1e3, 0.0)


def _turn(client: str, data: Mapping[str, Any], speaker: str, text: object) -> list[dict[str, Any]]:
    """Return a message as a turn, with a key by which it is stored once; no turn for an empty message."""
    if not isinstance(text, str) or not text.strip():
        return []
    from salience.text import content_hash

    names = ("session_id", "conversation_id", "turn_id", "generation_id")
    whole = json.dumps([*map(data.get, names), speaker, text])
    return [{"content": text, "speaker": speaker, "key": f"{client}:{content_hash(whole)}"}]


def _logged(path: object) -> list[dict[str, Any]]:
    """Return the turns of a session log of Claude Code.

    Raises:
        InputError: no such file.
    """
    from salience.transfer.importers import records
    from salience.transfer.importers.records import Record

    if not isinstance(path, str) or not Path(path).is_file():
        raise InputError("transcript_path", Words("another value"), "Give a file.", "is not a file")
    with records("claude-code", path) as items:
        drafts = [item.draft for item in items if isinstance(item, Record) and item.draft["kind"] == "turn"]
    return [
        {
            "content": draft["content"],
            "speaker": draft["speaker"],
            "timestamp": draft["created_at"],
            "key": draft["key"],
        }
        for draft in drafts
    ]


def _store(memory: Verbs, turns: Sequence[dict[str, Any]], session: Any, where: Mapping[str, Any]) -> None:
    """Store the turns that the session does not have yet, in order.

    The keys alone would suffice for that, but only after each turn was embedded again.
    """
    cursor, known = None, set[str]()
    while turns:
        page = memory.list(sessions=[session], kinds=["turn"], limit=1000, cursor=cursor, **where)
        known |= {one.key for one in page.memories if one.key is not None}
        cursor = page.cursor
        if cursor is None:
            break
    new = [turn for turn in turns if not known & {turn["key"], f"{turn['key']}#1"}]  # a long turn is stored in parts
    while new:
        sizes = accumulate(len(turn["content"]) for turn in new[:BATCH])
        count = max(sum(size <= BATCH_SIZE for size in sizes), 1)
        memory.ingest(new[:count], session_id=session, **where)
        new = new[count:]
