"""Prompts, and resources with the bootstrap memories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from mcp import types

from salience.context import BOOTSTRAP, quote
from salience.errors import InputError, unknown_field
from salience.records import ANY, Stats
from salience.server.mcp.texts import context
from salience.server.mcp.tools import TOOLS, Caller

URI: Final = "salience://bootstrap"
TEMPLATE: Final = f"{URI}/{{project}}"
TOKENS: Final = 10_000
"""Maximum number of tokens of the bootstrap memories."""
COMPLETIONS: Final = 100
"""Maximum number of values in a completion, by the protocol."""
NONE: Final = 'No bootstrap memories here yet. To store one, call remember(content=..., kind="bootstrap").'
_QUERY: Final = "What has to be known before work begins?"
_FORM: Final[Mapping[str, Any]] = {
    "mime_type": "text/plain",
    "annotations": types.Annotations(audience=["assistant"], priority=1.0),
}
RESOURCE: Final = types.Resource(
    uri=URI,
    name="bootstrap",
    title="What to know at the start",
    description="Memories of the kind bootstrap that apply everywhere, or to the project of this connection.",
    **_FORM,
)
RESOURCE_TEMPLATE: Final = types.ResourceTemplate(
    uri_template=TEMPLATE,
    name="bootstrap of a project",
    title="What to know at the start of work on a project",
    description="Memories of the kind bootstrap that apply everywhere, and the project's own.",
    **_FORM,
)


def project_of(uri: str) -> str | None:
    """Return the project in the URI of a resource; None for the resource without a project.

    Raises:
        InputError: no such resource exists.
    """
    if uri == URI:
        return None
    name = unquote(uri.removeprefix(f"{URI}/"))
    if not uri.startswith(f"{URI}/") or not name:
        raise InputError("uri", uri, f"Read {URI} or {TEMPLATE}.")
    return name


def bootstrap_memories(caller: Caller, project: str | None = None) -> str:
    """Return the current bootstrap memories, quoted as data, most important first."""
    where = {} if project is None else {"project": project}
    found = _call(caller, "context", query=_QUERY, limit=1, budget_tokens=TOKENS, dry_run=True, **where)
    return quote([hit for hit in found.hits if hit.memory.kind == BOOTSTRAP]) or NONE


def projects(caller: Caller, start: str) -> list[str]:
    """Return the projects whose names begin with `start`, at most `COMPLETIONS`."""
    found: Stats = _call(caller, "stats", project=ANY.value)
    return sorted(name for name in found.by_project if name and name.startswith(start))[:COMPLETIONS]


def _call(caller: Caller, name: str, **given: Any) -> Any:
    tool = TOOLS[name]
    return caller.call(tool.verb, tool.request(given, caller.defaults))


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt: its entry in a list of prompts, and a function from the caller and the arguments to its text."""

    listing: types.Prompt
    text: Callable[[Caller, Mapping[str, str]], str]

    def messages(self, caller: Caller, given: Mapping[str, str]) -> types.GetPromptResult:
        """Return the user's message; raises `InputError` for an unknown or missing argument."""
        arguments = self.listing.arguments or []
        known = [argument.name for argument in arguments]
        for name in given:
            if name not in known:
                raise unknown_field(name, known)
        for argument in arguments:
            if argument.required and not given.get(argument.name, "").strip():
                raise InputError(argument.name, None, "Give some text.")
        text = self.text(caller, {name: value for name, value in given.items() if value.strip()})
        messages = [types.PromptMessage(role="user", content=types.TextContent(text=text))]
        return types.GetPromptResult(description=self.listing.description, messages=messages)


def _remember(_: Caller, given: Mapping[str, str]) -> str:
    project = given.get("project")
    where = f"Give project={project!r}." if project else "Give project if it belongs to one."
    return (
        "Store the following in memory with the tool remember: one memory for each fact, rule or decision in it, each "
        f"a self-contained sentence. {where} If the tool warns of contradictions, show me the warning and ask me which "
        f"memory is right.\n\n{given['text']}"
    )


def _recall(caller: Caller, given: Mapping[str, str]) -> str:
    where = {"project": given["project"]} if "project" in given else {}
    found = _call(caller, "context", query=given["topic"], **where)
    return (
        f"What do you know about this from earlier conversations: {given['topic']}\n\nAnswer from the memories below, "
        f"say which are old or contradict each other, and recall more if they are not enough.\n\n{context(found)}"
    )


def _start(caller: Caller, given: Mapping[str, str]) -> str:
    project = given.get("project")
    scope = f" on the project {project!r}; give project={project!r} to the memory tools" if project else ""
    return (
        f"We start work{scope}. Read the memories below first. Use recall before you answer anything that may depend "
        "on earlier conversations; use remember to store what will matter later.\n\n"
        f"{bootstrap_memories(caller, project)}"
    )


def _end(_: Caller, given: Mapping[str, str]) -> str:
    session = given.get("session_id")
    close = f" Then call end_session, if you have it, with session_id={session!r}." if session else ""
    return (
        "We are done for now. Go through this conversation and store with remember everything that will matter later "
        "and is not stored yet: decisions with their reasons, preferences, facts, open tasks. Use update or supersedes "
        f"for changes. Skip what matters only today.{close} Summarise in a few lines what you stored."
    )


_ARGUMENTS: Final = {
    "project": types.PromptArgument(
        name="project", description="the project; omit it for memories that apply everywhere"
    ),
    "text": types.PromptArgument(name="text", description="what to remember", required=True),
    "topic": types.PromptArgument(name="topic", description="the topic", required=True),
    "session_id": types.PromptArgument(name="session_id", description="the session, if it has a name"),
}
_ALL: Final = (
    ("start_session", "Start with what is known", "Begin a conversation with the bootstrap memories.",
     ("project",), _start),
    ("remember_this", "Remember this", "Store a text as memories.", ("text", "project"), _remember),
    ("recall_about", "What do you know about ...", "Ask about a topic, with its memories included.",
     ("topic", "project"), _recall),
    ("end_session", "Store what matters from this conversation",
     "End a conversation: store what will matter later.", ("session_id",), _end),
)  # fmt: skip
PROMPTS: Final[Mapping[str, Prompt]] = {
    name: Prompt(
        types.Prompt(name=name, title=title, description=text, arguments=[_ARGUMENTS[one] for one in takes]), function
    )
    for name, title, text, takes, function in _ALL
}
"""All prompts by name."""
