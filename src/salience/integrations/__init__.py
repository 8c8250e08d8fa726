"""Adapters: Salience as the memory of agent frameworks, one module and one extra each.

An adapter takes a connected `Memory` and implements the framework's own interface. Its coroutines run the same calls in
worker threads. Importing an adapter without its framework raises `MissingExtraError`, which names the pip command.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import anyio.to_thread

from salience.records import ANY, NARROWING
from salience.records import Memory as Stored
from salience.verbs import Verbs

Memory = Verbs
"""A connection of `salience.connect`: a file, a PostgreSQL database or a server."""
START: Final = "0" * 32
"""Cursor before every memory. An empty page after a cursor costs no count of the memories out of scope."""
PAGE: Final = 250
"""Memories to read or write in one request."""
QUERY: Final = 4000
"""Maximum length of a question, characters; the rest of a longer text is not searched for."""
Result = TypeVar("Result")


async def in_thread(call: Callable[..., Result], *arguments: Any, **keywords: Any) -> Result:
    """Return the result of a call in a worker thread."""
    return await anyio.to_thread.run_sync(partial(call, *arguments, **keywords))


def named(**coordinates: Any) -> dict[str, Any]:
    """Return the coordinates that are not None: a server refuses None for those that a key is bound to."""
    return {name: value for name, value in coordinates.items() if value is not None}


def belongs(memory: Stored, where: Mapping[str, Any]) -> bool:
    """Return whether a memory was stored with these scope keywords, rather than being shared with them.

    A read for a user also returns the memories that no user owns. An adapter that changed those in place of the user's
    own would show them to every user. A coordinate that is not named matches any: a server fills in those of its key.
    """
    return all(where.get(name) in (None, ANY, getattr(memory.scope, name)) for name in NARROWING)


def scan(memory: Memory, where: Mapping[str, Any], **filters: Any) -> Iterator[Stored]:
    """Yield the memories that were stored with these scope keywords and pass filters of `list`, oldest first."""
    cursor: str | None = START
    while cursor is not None:
        page = memory.list(**where, limit=PAGE, cursor=cursor, **filters)
        yield from (one for one in page.memories if belongs(one, where))
        cursor = page.cursor
