"""Entities known by their form: handles, tags, addresses, paths, identifiers, codes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from salience.extract.wordlists import NEVER

_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*://(?:[^/?#\s]*@)?|www\.)([^/?#\s]+)([^?#\s]*)", re.IGNORECASE)
_POSSESSIVE = re.compile(r"['’]s$")

FORMS: Final[Mapping[str, str]] = {
    "e-mail address": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "handle": r"@\w[\w.-]*(?:/\w[\w.-]*)?",
    "tag": r"#\w[\w-]*",
    "path": r"(?:~|\.{1,2})?/[\w.@-]*[^\W\d][\w./@-]*|[A-Za-z]:\\[\w.\\-]+",
    "path of a file": r"[\w.-]+(?:/[\w.-]+)*/[\w-]+\.[A-Za-z]\w{0,7}",
    "snake_case": r"(?=[\d_]*[^\W\d_])_*[^\W_]+(?:_+[^\W_]+)+_*",
    "dotted.name": r"_*[^\W\d_]\w+(?:\.[^\W\d]\w+)+",
    "camelCase": r"[a-z]+[A-Z][A-Za-z0-9]*",
    "code": r"(?=[A-Z-]*[0-9])[A-Z][A-Z0-9]*(?:-[A-Z0-9]+)*",
}
"""The forms, each linear in its input."""
_FORM = re.compile("|".join(f"(?:{form})" for form in FORMS.values()))


def mark(chunk: str) -> str | None:
    """Return the entity that `chunk` (text without white space) is by its form, or None.

    Of a URL it is host and path: without the scheme, name and password, `www.`, query and fragment.
    """
    core = _POSSESSIVE.sub("", chunk)
    if url := _URL.match(core):
        return (url[1].removeprefix("www.") + url[2]).rstrip("/") or None
    return core if _FORM.fullmatch(core) and not _is_missing_space(core) else None


def _is_missing_space(chunk: str) -> bool:
    """Whether `chunk` is the end of a sentence and the start of the next: "vault.The"."""
    last = chunk.rpartition(".")[2]
    return last[:1].isupper() and last.lower() in NEVER
