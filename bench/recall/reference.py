"""The engine's own whole ranking, in which every memory in view is scored, to hold its answers against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from bench.recall import export
from bench.recall.bench import questions
from bench.recall.contender import MODES, Mode
from bench.recall.corpus import VIEWS, Corpus, View
from bench.recall.lookup import Lookup
from bench.recall.ours import Ours, rows
from salience import compose
from salience.batch import Batch
from salience.engine import Engine
from salience.ports import Need, Store

SMALL: Final = 10_000
"""Most memories that are held in Python objects for it."""
COMPARED: Final = 25
"""Most questions of a view for which it is made."""
SCORED: Final = 1_000_000
"""Memories that are scored for the questions of a view, about; but at least `FEWEST` questions are asked."""
FEWEST: Final = 3


def ranked(corpus: Corpus, ours: Ours, mode: Mode, view: View) -> list[list[int]]:
    """Return the rows that rank first for the first questions of a view.

    Those of few memories come from the executable specification, a store that knows no short cut; those of many from
    the store that is measured, which is kept from leaving anything out.
    """
    if corpus.size <= SMALL:
        return _specified(corpus)[mode, view]
    count = max(FEWEST, min(COMPARED, SCORED // corpus.size))
    engine = ours.engine
    store = cast(Store, Whole(engine.services.store))
    whole = Ours(Engine(replace(engine.services, store=store), engine.profile), Path(), ours.lookup)
    return _answers(whole, corpus, mode, view, count)


class Whole:
    """A store that brings every candidate, whatever may be left out."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def gather(self, need: Need) -> Batch:
        """Return all candidates."""
        return self._store.gather(replace(need, pruning=None))


@cache
def _specified(corpus: Corpus) -> dict[tuple[Mode, View], list[list[int]]]:
    lookup = Lookup()
    with compose.local(compose.MEMORY, embedder=lookup) as engine, TemporaryDirectory() as folder:
        path = Path(folder) / "export.jsonl"
        export.write(path, corpus.blocks())
        engine.import_(path)
        ours, modes = Ours(engine, Path(folder), lookup), _hybrids()
        return {(mode, view): _answers(ours, corpus, mode, view, COMPARED) for mode in modes for view in VIEWS}


def _hybrids() -> Sequence[Mode]:
    return [mode for mode in MODES if mode != "dense"]


def _answers(ours: Ours, corpus: Corpus, mode: Mode, view: View, count: int) -> list[list[int]]:
    return [rows(ours.answer(question, mode, dry_run=True)) for question in questions(corpus, view)[:count]]
