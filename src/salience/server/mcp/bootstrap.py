"""What a session starts with: bootstrap memories as resources, and the names of the projects that there are."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from mcp import types

from salience.context import BOOTSTRAP, quote
from salience.errors import InputError
from salience.records import ANY, Context, Stats
from salience.server.mcp.asking import Asker
from salience.server.mcp.tools import TOOLS

URI: Final = "salience://bootstrap"
TEMPLATE: Final = f"{URI}/{{project}}"
TOKENS: Final = 10_000
"""Most tokens of the memories that a session starts with."""
COMPLETIONS: Final = 100
"""Most names that a completion may hold, as the protocol has it."""
NONE: Final = 'No bootstrap memories here yet. One is stored by remember(content=..., kind="bootstrap").'
_QUERY: Final = "What has to be known before work begins?"

RESOURCES: Final = (
    types.Resource(
        uri=URI,
        name="bootstrap",
        title="What to know at the start",
        description="Memories of the kind bootstrap that hold everywhere, or in the project that this was started for.",
        mime_type="text/plain",
        annotations=types.Annotations(audience=["assistant"], priority=1.0),
    ),
)
TEMPLATES: Final = (
    types.ResourceTemplate(
        uri_template=TEMPLATE,
        name="bootstrap of a project",
        title="What to know at the start of work on a project",
        description="Memories of the kind bootstrap that hold everywhere, and those of the project.",
        mime_type="text/plain",
        annotations=types.Annotations(audience=["assistant"], priority=1.0),
    ),
)


def project_of(uri: str) -> str | None:
    """Return the project that the URI of a resource names; None for the one that names none.

    Raises:
        InputError: no resource has this URI.
    """
    if uri == URI:
        return None
    name = unquote(uri.removeprefix(f"{URI}/"))
    if not uri.startswith(f"{URI}/") or not name:
        raise InputError("uri", uri, f"Read {URI} or {TEMPLATE}.")
    return name


def memories(asker: Asker, project: str | None = None) -> str:
    """Return the bootstrap memories, quoted as data, most important first; those that no longer hold are left out."""
    given = {"query": _QUERY, "limit": 1, "budget_tokens": TOKENS, "dry_run": True}
    tool = TOOLS["context"]
    where = {} if project is None else {"project": project}
    found: Context = asker.ask(tool.verb, tool.request({**given, **where}, asker.defaults))
    return quote([hit for hit in found.hits if hit.memory.kind == BOOTSTRAP]) or NONE


def projects(asker: Asker, start: str) -> list[str]:
    """Return the projects whose names begin so, at most as many as a completion may hold."""
    tool = TOOLS["stats"]
    found: Stats = asker.ask(tool.verb, tool.request({"project": ANY.value}, asker.defaults))
    return sorted(name for name in found.by_project if name and name.startswith(start))[:COMPLETIONS]
