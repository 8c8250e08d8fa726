"""One size of the corpus, the stores that hold it, and what is to be found out about them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.recall.clocks import Effort, Watch
from bench.recall.contender import KINDS, Contender
from bench.recall.corpus import VIEWS, Corpus, Question, View
from bench.recall.lookup import Lookup
from bench.recall.truth import nearest

QUESTIONS: Final = 200
"""Different questions of a view; those who have time for more are asked them again."""


@dataclass(frozen=True, slots=True)
class Row:
    """What was found out about a contender: a verb, on what view or by how many, and the figures by name."""

    verb: str
    view: str
    name: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class Bench:
    """What the parts of the measurement start from.

    Attributes:
        corpus: what is stored.
        folder: has a folder for the store of each contender.
        names: of the contenders.
        effort: how much is measured.
        tell: called with how far it is.
    """

    corpus: Corpus
    folder: Path
    names: tuple[str, ...]
    effort: Effort
    tell: Callable[[str], None]

    def place(self, name: str) -> Path:
        """Return the folder of a contender's store."""
        return self.folder / name.replace(" ", "-")

    def mark(self, name: str) -> Path:
        """Return the file that is there once a contender's store is whole."""
        return self.place(name).with_suffix(".whole")

    def load(self, name: str) -> float:
        """Make the store of a contender anew and return the seconds that it took itself."""
        self.tell(f"{self.corpus.size:,}: {name} loads")
        self.mark(name).unlink(missing_ok=True)
        shutil.rmtree(self.place(name), ignore_errors=True)
        watch = Watch()
        contender = KINDS[name].open(self.place(name), Lookup())
        try:
            contender.load(self.corpus.blocks(), watch)
        finally:
            contender.close()
        self.mark(name).touch()
        return watch.seconds

    def made(self, name: str) -> Path:
        """Return the folder of a contender's store, which is made if it is not whole."""
        if not self.mark(name).exists():
            self.load(name)
        return self.place(name)

    @contextmanager
    def opened(self, names: tuple[str, ...]) -> Iterator[dict[str, Contender]]:
        """Yield some of the contenders, open on their stores."""
        with ExitStack() as stack:
            yield {name: self._open(stack, name, self.made(name)) for name in names}

    @contextmanager
    def copied(self, names: tuple[str, ...]) -> Iterator[dict[str, Contender]]:
        """Yield some of the contenders, open on copies of their stores, which are gone afterwards."""
        with TemporaryDirectory(prefix="copies-", dir=self.folder) as folder, ExitStack() as stack:
            opened = {}
            for name in names:
                copy = Path(folder) / self.place(name).name
                shutil.copytree(self.made(name), copy)
                opened[name] = self._open(stack, name, copy)
            yield opened

    def that(self, wanted: Callable[[str], bool]) -> tuple[str, ...]:
        """Return the names that are wanted."""
        return tuple(filter(wanted, self.names))

    def _open(self, stack: ExitStack, name: str, folder: Path) -> Contender:
        contender = KINDS[name].open(folder, Lookup())
        stack.callback(contender.close)
        return contender


@cache
def questions(corpus: Corpus, view: View) -> tuple[Question, ...]:
    """Return what is asked of a view."""
    return corpus.questions(view, QUESTIONS)


@cache
def right(corpus: Corpus, view: View) -> list[list[int]]:
    """Return the rows of the nearest memories for each question of a view; one pass does for all views."""
    return _right(corpus)[view]


@cache
def _right(corpus: Corpus) -> dict[View, list[list[int]]]:
    found = iter(nearest(corpus, [question for view in VIEWS for question in questions(corpus, view)]))
    return {view: [next(found) for _ in questions(corpus, view)] for view in VIEWS}
