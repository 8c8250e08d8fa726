"""Prompts: texts that a user starts a task with, some with memories in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from mcp import types

from salience.errors import InputError, unknown_field
from salience.server.mcp import bootstrap
from salience.server.mcp.asking import Asker
from salience.server.mcp.texts import context
from salience.server.mcp.tools import TOOLS

_PROJECT: Final = types.PromptArgument(
    name="project", description="the project; leave it out for what holds everywhere"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt.

    Attributes:
        name, title, description: what it is called and for.
        arguments: what it takes.
        text: from who answers and the arguments to what the user says.
    """

    name: str
    title: str
    description: str
    arguments: tuple[types.PromptArgument, ...]
    text: Callable[[Asker, Mapping[str, str]], str]

    def told(self) -> types.Prompt:
        """Return the prompt as it is listed."""
        return types.Prompt(
            name=self.name, title=self.title, description=self.description, arguments=list(self.arguments)
        )

    def messages(self, asker: Asker, given: Mapping[str, str]) -> types.GetPromptResult:
        """Return what the user says.

        Raises:
            InputError: an argument that there is not, or that is missing.
            SalienceError: whatever the memory raises.
        """
        known = [argument.name for argument in self.arguments]
        for name in given:
            if name not in known:
                raise unknown_field(name, known)
        for argument in self.arguments:
            if argument.required and not given.get(argument.name, "").strip():
                raise InputError(argument.name, None, "Give some text.")
        held = {name: value for name, value in given.items() if value.strip()}
        said = types.TextContent(text=self.text(asker, held))
        return types.GetPromptResult(
            description=self.description, messages=[types.PromptMessage(role="user", content=said)]
        )


def _remember(_: Asker, given: Mapping[str, str]) -> str:
    project = given.get("project")
    where = f"Give project={project!r}." if project else "Give project where it belongs to one."
    return (
        "Store the following in memory with the tool remember: one memory for each fact, rule or decision in it, each "
        f"a sentence that stands by itself. {where} If a warning of contradictions comes back, show it to me and ask "
        f"me which holds.\n\n{given['text']}"
    )


def _recall(asker: Asker, given: Mapping[str, str]) -> str:
    tool = TOOLS["context"]
    asked = {"query": given["topic"], **({"project": given["project"]} if "project" in given else {})}
    found = asker.ask(tool.verb, tool.request(asked, asker.defaults))
    return (
        f"What do you know of this from earlier: {given['topic']}\n\nThese memories were found. Answer from them, say "
        f"which are old or contradict each other, and recall more where they are not enough.\n\n{context(found)}"
    )


def _start(asker: Asker, given: Mapping[str, str]) -> str:
    project = given.get("project")
    of = f" on the project {project!r}; give project={project!r} to the tools of the memory" if project else ""
    return (
        f"We start to work{of}. This is what you are to know at the start, from memory. Before you answer what may "
        "depend on earlier conversations, use recall; store what will matter later with remember.\n\n"
        f"{bootstrap.memories(asker, project)}"
    )


def _end(_: Asker, given: Mapping[str, str]) -> str:
    session = given.get("session_id")
    close = f" Then call end_session, if you have it, with session_id={session!r}." if session else ""
    return (
        "We are done for now. Go through this conversation and store with remember what will matter later and is not "
        "stored yet: decisions with their reasons, preferences, facts, what is left to do. Use update or supersedes "
        f"for what has changed. Leave out what is only of today.{close} Tell me in a few lines what you stored."
    )


_ALL: Final = (
    Prompt(
        name="start_session",
        title="Start with what is known",
        description="Begin a conversation with the bootstrap memories.",
        arguments=(_PROJECT,),
        text=_start,
    ),
    Prompt(
        name="remember_this",
        title="Remember this",
        description="Have a text stored as memories.",
        arguments=(types.PromptArgument(name="text", description="what to remember", required=True), _PROJECT),
        text=_remember,
    ),
    Prompt(
        name="recall_about",
        title="What do you know about ...",
        description="Ask with the memories on a topic at hand.",
        arguments=(types.PromptArgument(name="topic", description="what about", required=True), _PROJECT),
        text=_recall,
    ),
    Prompt(
        name="end_session",
        title="Keep what matters of this conversation",
        description="End a conversation: store what will matter later.",
        arguments=(types.PromptArgument(name="session_id", description="the session, if it has a name"),),
        text=_end,
    ),
)

PROMPTS: Final[Mapping[str, Prompt]] = {prompt.name: prompt for prompt in _ALL}
"""Each prompt by its name."""
