"""How texts are put before a model as data, and how the JSON of its answer is found."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from salience.text import spelled

LONGEST: Final = 50_000
"""Characters of an answer that are read; a longer one is none to what we ask, and the work stays bounded."""
_BRACKETS: Final = "<>"
"""Signs with which chat formats mark who speaks; they are escaped, so that no text can close its own message."""


def quoted(records: Sequence[Mapping[str, str]]) -> str:
    """Return records of texts as a JSON list.

    JSON's escapes keep a text inside its quotation marks; angle brackets and invisible signs are escaped as well.
    """
    return spelled(json.dumps(list(records), ensure_ascii=False), _BRACKETS)


def objects(answer: str, keys: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in an answer that have some keys; models put words and fences around them."""
    answer = answer[:LONGEST]
    decoder, start = json.JSONDecoder(), answer.find("{")
    while start >= 0:
        try:
            found, end = decoder.raw_decode(answer, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            if isinstance(found, dict) and found.keys() >= set(keys):
                yield found
        start = answer.find("{", end)


def last(found: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the last of some objects, None if there is none: models may think aloud before they answer."""
    return next(iter(list(found)[::-1]), None)
