"""Edits of JSON text that leave all else as it is: comments, order, white space, other members.

A text is first blanked: comments and trailing commas become spaces, so that what is left is JSON at the same places.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

_SPACE: Final = re.compile(r"\s*")
_NOISE: Final = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)
_STEP: Final = "  "
_DECODER: Final = json.JSONDecoder()


def blanked(text: str) -> str:
    """Return the text with comments, and commas that nothing follows, as spaces."""
    return _NOISE.sub(lambda match: " " if match[0] == "," else match[0], _uncommented(text))


def _uncommented(text: str) -> str:
    return _NOISE.sub(lambda match: " " * len(match[0]) if match[0].startswith("/") else match[0], text)


def parsed(text: str, comments: bool) -> Any:
    """Return what the text says, an object without members if it says nothing; `ValueError` if it is no JSON."""
    plain = blanked(text) if comments else text
    return json.loads(plain) if plain.strip() else {}


@dataclass(frozen=True, slots=True)
class Member:
    """Where a member of an object stands: its name, its value, and their end."""

    start: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class Members:
    """Where an object stands, and its members by their names."""

    start: int
    end: int
    named: dict[str, Member]


def members(plain: str, start: int) -> Members:
    """Return the members of the object that starts at or after a place; `ValueError` where none does."""
    start = _after_space(plain, start)
    if plain[start] != "{":
        raise ValueError("no object")
    at, named = _after_space(plain, start + 1), {}
    while plain[at] != "}":
        name, end = _DECODER.raw_decode(plain, at)
        value = _after_space(plain, _after_space(plain, end) + 1)
        _, end = _DECODER.raw_decode(plain, value)
        named[name] = Member(at, value, end)
        at = _after_space(plain, end)
        at = _after_space(plain, at + 1) if plain[at] == "," else at
    return Members(start, at + 1, named)


def _after_space(plain: str, at: int) -> int:
    found = _SPACE.match(plain, at)
    return at if found is None else found.end()


def with_member(text: str, key: str, name: str, value: Any) -> str:
    """Return the text in which the object under `key` has such a member; the object is made if it is not there.

    Raises:
        ValueError: the text is no object, or holds something else under the key.
    """
    if not blanked(text).strip():
        return text + json.dumps({key: {name: value}}, indent=2, ensure_ascii=False) + "\n"
    root = members(blanked(text), 0)
    if key not in root.named:
        return _put(text, root, key, {name: value})
    return _put(text, members(blanked(text), root.named[key].value), name, value)


def without_member(text: str, key: str, name: str) -> str:
    """Return the text in which the object under `key` has no member of that name; `ValueError` as above."""
    plain = blanked(text)
    root = members(plain, 0) if plain.strip() else Members(0, 0, {})
    if key not in root.named:
        return text
    inside = members(plain, root.named[key].value)
    return _taken(text, plain, inside, name) if name in inside.named else text


def _put(text: str, into: Members, name: str, value: Any) -> str:
    written = json.dumps(value, indent=2, ensure_ascii=False)
    if (there := into.named.get(name)) is not None:
        return text[: there.value] + _indented(written, _margin(text, there.start)) + text[there.end :]
    whole = f"{json.dumps(name, ensure_ascii=False)}: {written}"
    if not into.named:
        outer = _margin(text, into.start)
        inside = text[into.start + 1 : into.end - 1].rstrip()
        member = _indented(whole, outer + _STEP)
        return f"{text[: into.start]}{{{inside}\n{outer}{_STEP}{member}\n{outer}}}{text[into.end :]}"
    last = max(into.named.values(), key=lambda member: member.end)
    margin = _margin(text, last.start)
    return _after(text, last.end, into.end - 1, f"\n{margin}{_indented(whole, margin)}")


def _after(text: str, last: int, end: int, member: str) -> str:
    """Return the text with a member more, on the line after that of the last one, whose comments stay with it."""
    plain = _uncommented(text)
    comma = plain.find(",", last, end)
    line = plain.find("\n", max(last, comma), end)
    if comma >= 0:  # one that nothing followed
        line = comma + 1 if line < 0 else line
        return f"{text[:line]}{member},{text[line:]}"
    line = last if line < 0 else line
    return f"{text[:last]},{text[last:line]}{member}{text[line:]}"


def _taken(text: str, plain: str, out_of: Members, name: str) -> str:
    """Return the text without a member and its comma; comments around it stay."""
    member = out_of.named[name]
    before = max((other.end for other in out_of.named.values() if other.end <= member.start), default=None)
    if any(other.start >= member.end for other in out_of.named.values()):
        return text[: member.start] + text[plain.index(",", member.end) + 1 :].lstrip()
    if before is not None:
        comma = plain.index(",", before)
        return text[:comma] + text[comma + 1 : member.start].rstrip() + text[member.end :]
    rest = text[member.end : out_of.end - 1].lstrip().removeprefix(",")
    inside = (text[out_of.start + 1 : member.start].rstrip() + rest.rstrip()).rstrip()
    closing = f"\n{_margin(text, out_of.start)}" if inside else ""
    return f"{text[: out_of.start]}{{{inside}{closing}}}{text[out_of.end :]}"


def _margin(text: str, at: int) -> str:
    """Return the white space that the line of a place begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _indented(text: str, margin: str) -> str:
    return text.replace("\n", f"\n{margin}")
