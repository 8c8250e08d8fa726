"""Edits of JSON with comments that keep everything else: comments, order, white space, other members.

Comments and trailing commas are replaced by spaces before parsing, so that positions stay the same.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

_SPACE: Final = re.compile(r"\s*")
_NOISE: Final = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)
_INDENT: Final = "  "
_BOM: Final = "\ufeff"
_DECODER: Final = json.JSONDecoder()


def _without_comments(text: str) -> str:
    plain = _NOISE.sub(lambda match: " " * len(match[0]) if match[0].startswith("/") else match[0], text)
    return " " + plain[1:] if plain.startswith(_BOM) else plain


def _plain(text: str) -> str:
    """Return the text with byte order mark, comments and trailing commas as spaces."""
    return _NOISE.sub(lambda match: " " if match[0] == "," else match[0], _without_comments(text))


def parse(text: str, comments: bool) -> Any:
    """Return the value; an empty object for an empty text. Raises `ValueError` if the text is not JSON."""
    plain = _plain(text) if comments else text.removeprefix(_BOM)
    return json.loads(plain) if plain.strip() else {}


@dataclass(frozen=True, slots=True)
class _Member:
    """Positions of a member: its name, its value, its end."""

    start: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class _Object:
    """Positions of an object and its members."""

    start: int
    end: int
    members: dict[str, _Member]


def _object_at(plain: str, start: int) -> _Object:
    """Return the object that starts at or after a position; raises `ValueError` if there is none."""
    start = _skip_space(plain, start)
    if plain[start] != "{":
        raise ValueError("not an object")
    at, members = _skip_space(plain, start + 1), dict[str, _Member]()
    while plain[at] != "}":
        first = at
        name, end = _DECODER.raw_decode(plain, at)
        value = _skip_space(plain, _skip_space(plain, end) + 1)
        _, end = _DECODER.raw_decode(plain, value)
        members[name] = _Member(first, value, end)
        at = _skip_space(plain, end)
        at = _skip_space(plain, at + 1) if plain[at] == "," else at
    return _Object(start, at + 1, members)


def _skip_space(plain: str, at: int) -> int:
    found = _SPACE.match(plain, at)
    return at if found is None else found.end()


def set_member(text: str, key: str, name: str, value: Any) -> str:
    """Return the text with a member in the object under `key`; the object is created if it is missing.

    Raises:
        ValueError: the text, or the value under the key, is not an object.
    """
    plain = _plain(text)
    if not plain.strip():
        head = text if text.endswith("\n") or not text.strip(_BOM) else text + _line_end(text)
        return head + _dump({key: {name: value}}, "", text) + _line_end(text)
    root = _object_at(plain, 0)
    if key not in root.members:
        return _add(text, root, key, {name: value})
    inner = _object_at(plain, root.members[key].value)
    if name not in inner.members:
        return _add(text, inner, name, value)
    member = inner.members[name]
    return text[: member.value] + _dump(value, _margin(text, member.start), text) + text[member.end :]


def remove_member(text: str, key: str, name: str) -> str:
    """Return the text without a member of the object under `key`; raises `ValueError` as `set_member`."""
    plain = _plain(text)
    root = _object_at(plain, 0) if plain.strip() else _Object(0, 0, {})
    if key not in root.members:
        return text
    inner = _object_at(plain, root.members[key].value)
    return _remove(text, inner, name) if name in inner.members else text


def _add(text: str, into: _Object, name: str, value: Any) -> str:
    """Return the text with a new last member, on a line of its own after the comments of the previous one."""
    head = f"{json.dumps(name, ensure_ascii=False)}: "
    line_end = _line_end(text)
    if not into.members:
        outer = _margin(text, into.start)
        inside = text[into.start + 1 : into.end - 1].rstrip()
        member = head + _dump(value, outer + _INDENT, text)
        return (
            f"{text[: into.start + 1]}{inside}{line_end}{outer}{_INDENT}{member}{line_end}{outer}{text[into.end - 1 :]}"
        )
    last = max(into.members.values(), key=lambda member: member.end)
    margin, end = _margin(text, last.start), into.end - 1
    member = f"{line_end}{margin}{head}{_dump(value, margin, text)}"
    uncommented = _without_comments(text)
    comma = uncommented.find(",", last.end, end)  # a trailing one
    line = uncommented.find("\n", max(last.end, comma), end)
    if line < 0:  # no comment follows on this line
        line = last.end + len(text[last.end : end].rstrip())
    elif text[line - 1] == "\r":
        line -= 1
    if comma >= 0:
        return f"{text[:line]}{member},{text[line:]}"
    return f"{text[: last.end]},{text[last.end : line]}{member}{text[line:]}"


def _remove(text: str, out_of: _Object, name: str) -> str:
    """Return the text without a member and its comma. Comments around it stay; an empty line is removed."""
    member, uncommented = out_of.members[name], _without_comments(text)
    later = [other.start for other in out_of.members.values() if other.start >= member.end]
    comma = uncommented.find(",", member.end, min(later, default=out_of.end - 1))
    start, end = member.start, member.end
    if comma >= 0:
        between = text[end:comma]
        text = text[:start] + between + text[comma + 1 :]
        end = start + len(between)
    else:
        before = max((other.end for other in out_of.members.values() if other.end <= start), default=None)
        text = text[:start] + text[end:]
        if before is not None:
            comma = uncommented.index(",", before)
            text = text[:comma] + text[comma + 1 :]
            start -= 1
        end = start
    return _without_blank(text, out_of.start, start, end)


def _without_blank(text: str, opening: int, start: int, end: int) -> str:
    """Return the text without the blanks that a removed member left between `start` and `end`."""
    if text[start:end].strip():
        return text
    before = text[:start].rstrip(" \t")
    after = text[end:].lstrip(" \t")
    if not text[opening + 1 : start].strip() and after.lstrip()[:1] == "}":  # the object is empty now
        return text[: opening + 1] + after.lstrip()
    if before.endswith("\n") and after.startswith(("\n", "\r\n")):  # an empty line
        return before + after.removeprefix("\r").removeprefix("\n")
    if before.endswith("\n"):
        return text[:start] + after
    return before + ("" if after[:1] in ("}", "\n", "\r") or before[-1:] == "{" else " ") + after


def _dump(value: Any, margin: str, text: str) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", f"{_line_end(text)}{margin}")


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _margin(text: str, at: int) -> str:
    """Return the white space at the beginning of the line of a position."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]
