"""Read the text of a context by its lines alone, as the model of a prompt would."""

from __future__ import annotations

import re
from dataclasses import dataclass

from salience.context import FOOTER, HEADER, UNSURE

_HEAD = re.compile(
    r"- \[(?P<short_id>[0-9a-f]{8})\] (?P<day>\d{4}-\d\d-\d\d)"
    r"(?: \((?P<notes>[^()]*)\))?(?: (?P<speaker>.+?))?:(?: (?P<text>.*))?",
)


@dataclass
class Entry:
    """A memory as a reader of the text sees it."""

    short_id: str
    day: str
    notes: str | None
    speaker: str | None
    content: str
    cut: str = ""


def read(text: str) -> list[Entry]:
    """Return the memories in a text; fails if a line is neither ours nor indented."""
    rows = text.splitlines()
    if not rows:
        return []
    assert rows[0] in (HEADER, UNSURE)
    assert rows[-1] == FOOTER
    found: list[Entry] = []
    rest: list[list[str]] = []
    for row in rows[1:-1]:
        if head := _HEAD.fullmatch(row):
            parts = head.groupdict()
            content = parts.pop("text")
            found.append(Entry(**parts, content=""))
            rest.append([] if content is None else [content])
        elif row.startswith("… [cut: "):
            found[-1].cut = row
        else:
            assert not row or row.startswith("  "), row
            rest[-1].append(row.removeprefix("  "))
    for one, content in zip(found, rest, strict=True):
        one.content = "\n".join(content)
    return found
