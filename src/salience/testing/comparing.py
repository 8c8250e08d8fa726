"""Answers of stores in a form that compares: a number that a store chose itself gives way to what it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from salience.batch import KINDS, Batch, Entities, Lexicon, Ragged
from salience.ports import Stored

_OF_MEMORIES: Final = ("supersedes", "successor")
_OWN: Final = ("fact", "speaker")


def kept(item: Stored) -> tuple[Any, ...]:
    """Return a memory with what is derived from it."""
    vector = None if item.vector is None else item.vector.tobytes()
    return item.memory, vector, item.terms, dict(item.activations), item.distinctions


def shown(batch: Batch) -> tuple[Any, ...]:
    """Return all that a batch holds; it has to have the column `code`, if it has `supersedes` or `successor`."""
    columns = {name: (column.dtype, column.tolist()) for name, column in batch.columns.items() if name != "code"}
    for name in _OF_MEMORIES:
        if name in batch.columns:
            columns[name] = columns[name][0], _named(batch, name)
    for name in _OWN:
        if name in batch.columns:
            columns[name] = columns[name][0], relabelled(batch[name].tolist(), keep=-1)
    return (
        batch.ids.tolist(),
        columns,
        batch.complete,
        batch.vectors and batch.vectors.at(np.arange(len(batch))).tobytes(),
        batch.lexicon and _lexicon(batch.lexicon),
        batch.windows and _lexicon(batch.windows),
        batch.entities and _entities(batch.entities),
        batch.distinctions and _distinctions(batch.distinctions),
    )


def relabelled(codes: Sequence[int], keep: int | None = None) -> list[int]:
    """Return the codes numbered in the order in which they come up, `keep` left as it is."""
    numbers: dict[int, int] = {}
    return [code if code == keep else numbers.setdefault(code, len(numbers)) for code in codes]


def _named(batch: Batch, name: str) -> list[str | None]:
    """Return the ids that the codes of a column stand for; of memories out of the batch it is known only that."""
    names = dict(zip(batch["code"].tolist(), batch.ids.tolist(), strict=True))
    return [names.get(code, "elsewhere" if code >= 0 else None) for code in batch[name].tolist()]


def _lexicon(found: Lexicon) -> tuple[Any, ...]:
    postings = [(rows.tolist(), frequency.tolist()) for rows, frequency in found.postings]
    return found.documents, found.average_length, found.document_frequency.tolist(), found.length.tolist(), postings


def _entities(found: Entities) -> tuple[Any, ...]:
    codes = relabelled([*found.of_row.values.tolist(), *found.of_query.tolist()])
    return found.of_row.offsets.tolist(), codes, found.frequency.tolist(), found.documents


def _distinctions(found: Ragged) -> tuple[Any, ...]:
    codes = found.values.tolist()
    return found.offsets.tolist(), relabelled(codes), [code % len(KINDS) for code in codes]
