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
_BOM: Final = "\ufeff"
_DECODER: Final = json.JSONDecoder()


def blanked(text: str) -> str:
    """Return the text with a byte order mark, comments, and commas that nothing follows, as spaces."""
    return _NOISE.sub(lambda match: " " if match[0] == "," else match[0], _uncommented(text))


def _uncommented(text: str) -> str:
    plain = _NOISE.sub(lambda match: " " * len(match[0]) if match[0].startswith("/") else match[0], text)
    return " " + plain[1:] if plain.startswith(_BOM) else plain


def parsed(text: str, comments: bool) -> Any:
    """Return what the text says, an object without members if it says nothing; `ValueError` if it is no JSON."""
    plain = blanked(text) if comments else text.removeprefix(_BOM)
    return json.loads(plain) if plain.strip() else {}


@dataclass(frozen=True, slots=True)
class Part:
    """Where a member of an object stands, or an item of a list: its start (a member's name), its value, its end."""

    start: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class Parts:
    """Where an object or a list stands, and its parts by their names or places."""

    start: int
    end: int
    named: dict[str | int, Part]


def parts(plain: str, start: int, kinds: str = "{[") -> Parts:
    """Return the parts of the object or list that starts at or after a place; `ValueError` where none does."""
    start = _after_space(plain, start)
    if plain[start] not in kinds:
        raise ValueError("no object")
    at, named = _after_space(plain, start + 1), dict[str | int, Part]()
    while plain[at] not in "}]":
        first, value = at, at
        name: str | int = len(named)
        if plain[start] == "{":
            name, end = _DECODER.raw_decode(plain, at)
            value = _after_space(plain, _after_space(plain, end) + 1)
        _, end = _DECODER.raw_decode(plain, value)
        named[name] = Part(first, value, end)
        at = _after_space(plain, end)
        at = _after_space(plain, at + 1) if plain[at] == "," else at
    return Parts(start, at + 1, named)


def _after_space(plain: str, at: int) -> int:
    found = _SPACE.match(plain, at)
    return at if found is None else found.end()


def with_member(text: str, key: str, name: str, value: Any) -> str:
    """Return the text in which the object under `key` has such a member; the object is made if it is not there.

    In the place of a member that is there, what the two have in common stays, and so do its comments.

    Raises:
        ValueError: the text is no object, or holds something else under the key.
    """
    if not blanked(text).strip():
        head = text if text.endswith("\n") or not text.strip(_BOM) else text + _line_end(text)
        return head + _written({key: {name: value}}, "", text) + _line_end(text)
    root = parts(blanked(text), 0, "{")
    if key not in root.named:
        return _added(text, root, key, {name: value})
    inside = parts(blanked(text), root.named[key].value, "{")
    return _changed(text, inside.named[name], value) if name in inside.named else _added(text, inside, name, value)


def without_member(text: str, key: str, name: str) -> str:
    """Return the text in which the object under `key` has no member of that name; `ValueError` as above."""
    plain = blanked(text)
    root = parts(plain, 0, "{") if plain.strip() else Parts(0, 0, {})
    if key not in root.named:
        return text
    inside = parts(plain, root.named[key].value, "{")
    return _taken(text, inside, name) if name in inside.named else text


def _changed(text: str, there: Part, value: Any) -> str:
    """Return the text with another value in the place of one; where that has comments, only what differs is changed."""
    before = text[there.value : there.end]
    old = json.loads(blanked(before))
    has_comments = _uncommented(before) != before
    if not has_comments or type(old) is not type(value) or not isinstance(value, (dict, list)):
        margin = _margin(text, there.start)
        return text[: there.value] + _written(value, margin, text) + text[there.end :]
    new: dict[str | int, Any] = dict(enumerate(value)) if isinstance(value, list) else value
    for name in reversed(parts(blanked(text), there.value).named):
        if name not in new:
            text = _taken(text, parts(blanked(text), there.value), name)
    for name, item in new.items():
        here = parts(blanked(text), there.value)
        if name not in here.named:
            text = _added(text, here, name, item)
        elif json.dumps(old[name]) != json.dumps(item):
            text = _changed(text, here.named[name], item)
    return text


def _added(text: str, into: Parts, name: str | int, value: Any) -> str:
    """Return the text with a part more, on a line of its own after the last; comments stay with what they follow."""
    head = f"{json.dumps(name, ensure_ascii=False)}: " if isinstance(name, str) else ""
    if not into.named:
        outer = _margin(text, into.start)
        inside, ends = text[into.start + 1 : into.end - 1].rstrip(), _line_end(text)
        member = head + _written(value, outer + _STEP, text)
        return f"{text[: into.start + 1]}{inside}{ends}{outer}{_STEP}{member}{ends}{outer}{text[into.end - 1 :]}"
    last = max(into.named.values(), key=lambda part: part.end)
    margin, end = _margin(text, last.start), into.end - 1
    member = f"{_line_end(text)}{margin}{head}{_written(value, margin, text)}"
    plain = _uncommented(text)
    comma = plain.find(",", last.end, end)  # one that nothing follows
    line = plain.find("\n", max(last.end, comma), end)
    if line < 0:  # no comment goes on to the end of this line
        line = last.end + len(text[last.end : end].rstrip())
    elif text[line - 1] == "\r":
        line -= 1
    if comma >= 0:
        return f"{text[:line]}{member},{text[line:]}"
    return f"{text[: last.end]},{text[last.end : line]}{member}{text[line:]}"


def _taken(text: str, out_of: Parts, name: str | int) -> str:
    """Return the text without a part and its comma; comments around it stay, and a line that is left blank goes."""
    part, plain = out_of.named[name], _uncommented(text)
    later = [other.start for other in out_of.named.values() if other.start >= part.end]
    comma = plain.find(",", part.end, min(later, default=out_of.end - 1))
    start, end = part.start, part.end
    if comma >= 0:
        between = text[end:comma]
        end = comma + 1
        text = text[:start] + between + text[end:]
        start, end = start, start + len(between)
    else:
        before = max((other.end for other in out_of.named.values() if other.end <= start), default=None)
        text = text[:start] + text[end:]
        if before is not None:
            comma = plain.index(",", before)
            text = text[:comma] + text[comma + 1 :]
            start -= 1
        end = start
    return _tidied(text, out_of.start, start, end)


def _tidied(text: str, opening: int, start: int, end: int) -> str:
    """Return the text without the blanks that a part has left, which stood from `start` to `end`."""
    if text[start:end].strip():
        return text
    before = text[:start].rstrip(" \t")
    after = text[end:].lstrip(" \t")
    if not text[opening + 1 : start].strip() and after.lstrip()[:1] in ("}", "]"):  # nothing is left at all
        return text[: opening + 1] + after.lstrip()
    if before.endswith("\n") and after.startswith(("\n", "\r\n")):  # a line of its own
        return before + after.removeprefix("\r").removeprefix("\n")
    if before.endswith("\n"):
        return text[:start] + after
    return before + ("" if after[:1] in ("}", "]", "\n", "\r") or before[-1:] in ("{", "[") else " ") + after


def _written(value: Any, margin: str, text: str) -> str:
    """Return a value as it is written into a text, under a margin."""
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", f"{_line_end(text)}{margin}")


def _line_end(text: str) -> str:
    """Return what the lines of a text end with."""
    return "\r\n" if "\r\n" in text else "\n"


def _margin(text: str, at: int) -> str:
    """Return the white space that the line of a place begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]
