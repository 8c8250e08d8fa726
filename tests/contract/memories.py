"""Test data for stores: memories made from a number each, and comparable forms of what a store returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from salience.batch import COLUMNS, KINDS, PARTS, Batch, Codes, Entities, Lexicon, Ragged, Tokens, Vectors32
from salience.extract.reading import Reading
from salience.ports import Add, Interval, Need, Store, Stored
from salience.rank.criteria import Criteria
from salience.records import ANY, CALLER, Memory, Receipt, Relation, Scope
from salience.records.checks import frozen
from salience.text import content_hash

DIMENSION: Final = 8
"""Length of the vectors of the contract's memories."""
NOW: Final = datetime(2026, 5, 1, 12, tzinfo=UTC)
"""When the contract's memories are made, unless they say otherwise."""
EVERYTHING: Final = Scope(environment=ANY, project=ANY, user_id=ANY, agent_id=ANY)
"""Sees all memories of the default tenant."""
_COORDINATES: Final = frozenset(item.name for item in fields(Scope))


def id_of(number: int) -> str:
    """Return the id of the contract's memory `number`; ids sort as the numbers do."""
    return f"{number:032x}"


def memory(number: int, **values: Any) -> Memory:
    """Return a memory; `values` are fields of `Memory` or coordinates of its scope; its metadata is frozen."""
    scope = Scope(**{name: values.pop(name) for name in _COORDINATES & values.keys()})
    content = values.setdefault("content", f"memory {number}")
    made: dict[str, Any] = {
        "id": id_of(number), "scope": scope, "content_hash": content_hash(content), "kind": "fact", "importance": 0.5,
        "weight": 1.0, "tier": "episodic", "tags": (), "entities": (), "fact_key": None, "supersedes": None,
        "key": None, "speaker": None, "created_at": NOW, "updated_at": NOW, "tier_since": NOW,
        "changed_at": NOW,
    }  # fmt: skip
    return Memory(**{**made, **values, "metadata": frozen(values.get("metadata", {}))})


def unit(*numbers: float) -> Vectors32:
    """Return the numbers, and zeros behind them, as a vector of length 1: float32[DIMENSION]."""
    vector = np.zeros(DIMENSION)
    vector[: len(numbers)] = numbers
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def random_unit(seed: int) -> Vectors32:
    """Return a vector of length 1 that depends on `seed` alone."""
    return unit(*np.random.default_rng(seed).normal(size=DIMENSION))


def random_tokens(seed: int, count: int = 3, length: int = 4) -> Tokens:
    """Return token vectors that depend on `seed` alone: int8[count, length]."""
    return np.random.default_rng(seed).integers(-127, 128, (count, length), np.int8)


def fitted(vector: Vectors32 | None, dimension: int) -> Vectors32 | None:
    """Return what the vector's first `dimension` numbers are as a vector of length 1; None for None."""
    if vector is None or len(vector) == dimension:
        return vector
    short = vector[:dimension].astype(np.float64)
    return (short / np.linalg.norm(short)).astype(np.float32)


_DERIVED: Final = random_unit(0)


def stored(
    number: int,
    vector: Vectors32 | None = _DERIVED,
    terms: Sequence[str] | None = None,
    activations: dict[str, int] | None = None,
    distinctions: Sequence[str] = (),
    tokens: Tokens | None = None,
    event: Interval | None = None,
    **values: Any,
) -> Stored:
    """Return a memory with a vector of its own and the words of its content as terms, unless these are given."""
    made = memory(number, **values)
    own = random_unit(number) if vector is _DERIVED else vector
    words = tuple(made.content.split() if terms is None else terms)
    return Stored(made, own, words, activations or {}, tuple(distinctions), tokens, event)


def replaces(number: int, probability: float = 1.0, by: str = CALLER) -> Relation:
    """Return the relation to the contract's memory `number` of a memory that replaces it."""
    return Relation(id_of(number), "replaces", probability, by, "a reason")


def add(store: Store, *items: Stored) -> list[Receipt]:
    """Store the memories in one transaction."""
    return store.apply([Add(item) for item in items])


def need(scope: Scope = EVERYTHING, **values: Any) -> Need:
    """Return a need for every column, as seen from `scope`, and for the parts that are set to True."""
    parts = frozenset([name for name in PARTS - {"terms"} if values.pop(name, False)])
    return Need(**{"scope": scope, "now": NOW, "columns": frozenset(COLUMNS), "parts": parts, **values})


def criteria(**values: Any) -> Criteria:
    """Return criteria of a ranking; `values` are fields of `Criteria`, or of its reading."""
    names = {item.name for item in fields(Reading)} & values.keys()
    reading = Reading(**{"now": NOW, **{name: values.pop(name) for name in names}})
    return Criteria(reading=reading, **values)


def numbers(batch: Batch) -> list[int]:
    """Return which of the contract's memories are in the batch, in its order."""
    return [int(name, 16) for name in batch.ids]


def successors(batch: Batch) -> list[int | None]:
    """Return which of the contract's memories replaces each memory of the batch; None for none."""
    assert batch.successors is not None
    return [int(name, 16) if name else None for name in batch.successors.tolist()]


def listed(store: Store, scope: Scope = EVERYTHING, **values: Any) -> list[int]:
    """Return which of the contract's memories a scan returns, in its order."""
    return [int(item.memory.id, 16) for item in store.scan(scope, **values)]


def only(store: Store, number: int) -> Stored:
    """Return what a scan says of one memory."""
    return next(item for item in store.scan(EVERYTHING, forgotten=True) if item.memory.id == id_of(number))


_OWN: Final = ("fact", "speaker")


def comparable(item: Stored) -> tuple[Any, ...]:
    """Return a memory with what is derived from it."""
    vector = None if item.vector is None else item.vector.tobytes()
    tokens = None if item.tokens is None else item.tokens.tolist()
    return item.memory, vector, item.terms, dict(item.activations), item.distinctions, tokens, item.event


def shown(batch: Batch) -> tuple[Any, ...]:
    """Return all that a batch holds; it has to have the column `code`, if it has `supersedes`."""
    columns = {name: (column.dtype, column.tolist()) for name, column in batch.columns.items() if name != "code"}
    if "supersedes" in batch.columns:
        columns["supersedes"] = columns["supersedes"][0], _superseded(batch)
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
        batch.distinctions and _distinctions(batch.distinctions, batch.asked),
        {word: rows.tolist() for word, rows in batch.rivals.items()},
        None if batch.neighbours is None else batch.neighbours.tolist(),
        None if batch.successors is None else batch.successors.tolist(),
    )


def relabelled(codes: Sequence[int], keep: int | None = None) -> list[int]:
    """Return the codes numbered in the order in which they come up, `keep` left as it is."""
    numbers: dict[int, int] = {}
    return [code if code == keep else numbers.setdefault(code, len(numbers)) for code in codes]


def _superseded(batch: Batch) -> list[str | None]:
    """Return the ids that `supersedes` stands for; of memories out of the batch it is known only that."""
    names = dict(zip(batch["code"].tolist(), batch.ids.tolist(), strict=True))
    return [names.get(code, "elsewhere" if code >= 0 else None) for code in batch["supersedes"].tolist()]


def _lexicon(found: Lexicon) -> tuple[Any, ...]:
    postings = [(rows.tolist(), frequency.tolist()) for rows, frequency in found.postings]
    return found.documents, found.average_length, found.document_frequency.tolist(), found.length.tolist(), postings


def _entities(found: Entities) -> tuple[Any, ...]:
    codes = relabelled([*found.of_row.values.tolist(), *found.of_query.tolist()])
    return found.of_row.offsets.tolist(), codes, found.frequency.tolist(), found.documents


def _distinctions(found: Ragged, asked: Codes | None) -> tuple[Any, ...]:
    assert asked is not None
    codes = [*found.values.tolist(), *asked.tolist()]
    return found.offsets.tolist(), relabelled(codes), [code % len(KINDS) for code in codes]
