"""How many memories a scope shows, and how many terms they have: counted anew once a hundredth may have changed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Connection

from salience.records import Scope
from salience.store.postgres import statements
from salience.store.postgres.books import Books

SCOPES: Final = 10_000
"""Scopes whose sizes are kept, those asked for last."""
SHARE: Final = 100
"""One in so many memories may have come or gone since they were counted: no term tells noticeably more by it."""


@dataclass(frozen=True, slots=True)
class Size:
    """Live memories visible in a scope, and the terms that they have together, as counted under some books."""

    documents: int
    terms: int
    books: Books

    def holds(self, books: Books) -> bool:
        """Return whether it may stand for what would be counted now."""
        return not self.books.is_void(books) and books.sequence - self.books.sequence <= self.documents // SHARE


class Sizes:
    """Sizes by scope."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Scope, Size] = OrderedDict()

    def of(self, reader: Connection, scope: Scope, books: Books) -> Size:
        """Return the size of a scope."""
        scope = replace(scope, session_id=None)  # which hides nothing
        with self._lock:
            known = self._known.get(scope)
        if known is None or not known.holds(books):
            documents, terms = reader.execute(statements.size(scope)).one()
            known = Size(documents, terms, books)
        with self._lock:
            self._known[scope] = known
            self._known.move_to_end(scope)
            while len(self._known) > SCOPES:
                self._known.popitem(last=False)
        return known
