"""Options and arguments that several commands share, each as a type."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from salience.errors import InputError, Words

Id = Annotated[str, typer.Argument(metavar="ID", help="Id of a memory, whole or its last 8 characters.")]
QueryText = Annotated[str, typer.Argument(metavar="QUERY", help="The question.")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", help="Most hits. Default: the profile's.")]
Profile = Annotated[
    str | None, typer.Option("--profile", metavar="NAME", help="Ranking profile: a name or the path of a TOML file.")
]
Tags = Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="Carries this tag; may be repeated.")]
Kinds = Annotated[list[str] | None, typer.Option("--kind", metavar="KIND", help="Is of this kind; may be repeated.")]
Tiers = Annotated[
    list[str] | None, typer.Option("--tier", metavar="TIER", help="Is in this tier: working, episodic, semantic.")
]
FromSession = Annotated[
    list[str] | None, typer.Option("--from-session", metavar="NAME", help="Comes from this session; may be repeated.")
]
_TIMES = "2026-05-01, 2d, yesterday, 'last week' or ISO 8601; local time unless it has an offset."
Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help=f"Earliest creation: {_TIMES} A day means its start.")
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Creation before this time, written as for --since.")
]
MinScore = Annotated[float | None, typer.Option("--min-score", metavar="NUMBER", help="Least score.")]
Now = Annotated[str | None, typer.Option("--now", metavar="TIME", help=f"Ask as if at this time: {_TIMES}")]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", metavar="TIME", help=f"Answer from what was stored at this earlier time: {_TIMES}"),
]
Deadline = Annotated[
    float | None,
    typer.Option("--deadline-ms", metavar="MS", help="Do without an embedding or a reranking that takes longer."),
]
Weights = Annotated[
    list[str] | None, typer.Option("--weights", metavar="SIGNAL=NUMBER", help="Another weight for a signal.")
]
Dry = Annotated[bool, typer.Option("--dry-run", help="Leave every counter and clock as it is.")]

Kind = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="fact, rule, decision, ... or your own.")]
Importance = Annotated[
    float | None, typer.Option("--importance", metavar="NUMBER", help="0 to 1. Default: read from the text.")
]
Weight = Annotated[float | None, typer.Option("--weight", metavar="NUMBER", help="How sure it is, 0.1 to 1.")]
Entities = Annotated[
    list[str] | None,
    typer.Option("--entity", metavar="NAME", help="A name it is about; may be repeated. Default: read from the text."),
]
NewTags = Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag; may be repeated.")]
FactKey = Annotated[
    str | None, typer.Option("--fact-key", metavar="KEY", help="Identity of the fact, such as user.theme.")
]
Ttl = Annotated[str | None, typer.Option("--ttl", metavar="TIME", help="Time to live: 24h, 7d, seconds.")]
Tier = Annotated[str | None, typer.Option("--tier", metavar="TIER", help="working, episodic or semantic.")]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; kept in the memory's history.")]
IfVersion = Annotated[
    int | None, typer.Option("--if-version", metavar="N", help="Only if it is at this version, as history shows it.")
]
RequestKey = Annotated[
    str | None, typer.Option("--key", metavar="KEY", help="A second call under this key changes nothing.")
]
Metadata = Annotated[str | None, typer.Option("--metadata", metavar="JSON", help="A JSON object, kept as it is.")]

TOOLS_HELP = "MCP tools to offer: default, all, or names with commas. Default: the six that agents need."
STDIN = "-"
"""The argument that stands for standard input."""


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that were given, so that the verb's own defaults hold for the others."""
    return {name: value for name, value in fields.items() if value is not None}


def from_stdin(content: str | None) -> str | None:
    """Return `content`, or all of standard input without its last line break where it is `-`.

    Raises:
        InputError: standard input is not text in its encoding.
    """
    if content != STDIN:
        return content
    try:
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise InputError(
            "content", Words("standard input"), f"Give text in {error.encoding}.", f"is not {error.encoding}"
        ) from None


def json_object(written: str | None) -> Any:
    """Return the JSON value of an option; what kind it has to be is for the engine to say.

    Raises:
        InputError: no JSON.
    """
    try:
        return None if written is None else json.loads(written)
    except (ValueError, RecursionError):
        raise InputError(
            "metadata", Words("text that is not JSON"), 'Write an object such as {"page": 7}.', "is not JSON"
        ) from None


def pairs(written: Sequence[str]) -> dict[str, float]:
    """Return SIGNAL=NUMBER texts as a mapping.

    Raises:
        InputError: a text of another form.
    """
    return dict(_pair(text) for text in written)


def _pair(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        return name, float(number)
    except ValueError:
        raise InputError("weights", text, "Write SIGNAL=NUMBER, such as recency=0.4.") from None
