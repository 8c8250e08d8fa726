"""Text of others on a terminal: no sign of it acts there, and it takes the room that there is."""

from __future__ import annotations

from typing import Final


class _Spelled(dict[int, str]):
    """Code point -> what is shown of it: itself, or its escape where it shows nothing of its own or acts on others."""

    def __missing__(self, code: int) -> str:
        sign = chr(code)
        if sign in "\n\t" or (sign.isascii() and sign.isprintable()):
            return sign
        from salience.text import is_hidden  # the version and the help of the command line need no stemmer

        if not is_hidden(sign):
            return sign
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_SPELLED: Final = _Spelled()
_BREAKS: Final = {ord("\n"): "\\n", ord("\t"): "\\t"}


def visible(text: str) -> str:
    """Return `text` with every hidden character spelled out: controls, direction signs, zero-width signs, tags."""
    return text.translate(_SPELLED)


def one_line(text: str) -> str:
    """Return `text` as `visible` does and on one line: line breaks and tabs are spelled out as well."""
    return visible(text).translate(_BREAKS)


def shortened(text: str, width: int) -> str:
    """Return the first `width` characters of `text` on one line, the last of them an ellipsis if more follow."""
    line = one_line(" ".join(text.split()))
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"
