"""Text of others on a terminal: no sign of it acts there, and it takes the room that there is."""

from __future__ import annotations

from typing import Final

_CONTROLS: Final = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
} | {code: f"\\u{code:04x}" for code in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_BREAKS: Final = {ord("\n"): "\\n", ord("\t"): "\\t", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def visible(text: str) -> str:
    """Return `text` with control and direction signs spelled out, so that none of them acts on the terminal."""
    return text.translate(_CONTROLS)


def one_line(text: str) -> str:
    """Return `text` as `visible` does and on one line: line breaks and tabs are spelled out as well."""
    return visible(text).translate(_BREAKS)


def shortened(text: str, width: int) -> str:
    """Return the first `width` characters of `text` on one line, the last of them an ellipsis if more follow."""
    line = one_line(" ".join(text.split()))
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"
