"""Memories put into the tables by COPY, the indexes that can wait made afterwards, and what all of it takes."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final

import psycopg
from psycopg import sql

from bench.bench_postgres.corpus import Corpus
from bench.bench_postgres.meaning import MadeUp
from bench.bench_postgres.place import FIRST, Store, connected, opened
from bench.made_up import DIMENSION, FUNCTION
from salience.batch import Vectors32
from salience.extract.subjects import index_terms
from salience.ports import Stored
from salience.records import Memory
from salience.store import rows
from salience.store.columns import BinaryVector
from salience.store.postgres.connection import VectorDumper
from salience.store.postgres.statements import indexed
from salience.store.schema import memories as table
from salience.store.schema import postings
from salience.text import Tokeniser

PART: Final = 2_000
"""Memories made at a time."""
_TYPES: Final = {"BigInteger": "int8", "Double": "float8", "ARRAY": "int8[]", "LargeBinary": "bytea"}
"""Type of a column -> the one whose binary form is sent; text else. A vector is put into its own form before."""
_LATER: Final = """
    SELECT i.indexname AS name, i.indexdef AS definition FROM pg_indexes i
    WHERE i.schemaname = 'salience' AND i.tablename = 'memories'
    AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conname = i.indexname) ORDER BY 1"""
_SETTLE: Final = (
    "INSERT INTO tenants (tenant, sequence, epoch) SELECT DISTINCT tenant, 1, '' FROM memories "
    "ON CONFLICT (tenant) DO NOTHING",
    "INSERT INTO sessions (tenant, session_key, turns) "
    r"SELECT tenant, concat_ws(E'\x1f', environment, coalesce(user_id, ''), session_id), max(turn) FROM memories "
    "WHERE session_id IS NOT NULL GROUP BY 1, 2 ON CONFLICT (tenant, session_key) DO NOTHING",
)
_NARROW: Final = tuple(column.name for column in postings.columns if column.name not in ("tenant", "key", "number"))
_POST: Final = (  # as the store itself does it, for all tenants at once
    f"INSERT INTO postings (tenant, key, number, {', '.join(_NARROW)}) "
    f"SELECT m.tenant, k.key, m.number, {', '.join(f'hashtext(m.{name})' for name in _NARROW)} "
    "FROM memories AS m, unnest(m.search_keys) AS k (key) WHERE m.forgotten_at IS NULL AND m.tenant <> %s"
)
_SIZES: Final = """
    SELECT c.relname AS name, coalesce(t.relname, '') AS of, coalesce(a.amname, 'heap') AS method,
        pg_relation_size(c.oid) AS bytes
    FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid LEFT JOIN pg_class t ON t.oid = i.indrelid
    LEFT JOIN pg_am a ON a.oid = c.relam AND c.relkind = 'i'
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'i', 't') AND (n.nspname = 'salience' OR c.oid IN (
        SELECT unnest(ARRAY[m.reltoastrelid, x.indexrelid]) FROM pg_class m
        JOIN pg_namespace k ON k.oid = m.relnamespace LEFT JOIN pg_index x ON x.indrelid = m.reltoastrelid
        WHERE k.nspname = 'salience' AND m.relname = 'memories'))
    ORDER BY bytes DESC"""


@dataclass(frozen=True, slots=True)
class Poured:
    """What one connection put in: memories, and the seconds that the client spent on making rows and on sending."""

    count: int
    making: float
    sending: float


@dataclass(frozen=True, slots=True)
class Step:
    """Something that took a while: what, seconds, and bytes on the disk if it made an index."""

    what: str
    seconds: float
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Size:
    """What a table or an index takes on the disk."""

    name: str
    table: str
    method: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """How the loading went: seconds from the first row to the last, what each connection did, and what came after."""

    seconds: float
    poured: tuple[Poured, ...]
    steps: tuple[Step, ...]

    @property
    def count(self) -> int:
        """Memories."""
        return sum(each.count for each in self.poured)


def seconds(work: Callable[[], object]) -> float:
    """Return how long `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def load(store: Store, corpus: Corpus, connections: int) -> Loaded:
    """Put a corpus into an empty store: rows first, indexes after them."""
    with opened(store.owner) as engine:  # which pins the store to its model
        engine.remember("The first memory of all.", user_id="somebody")
    with connected(store.owner) as connection:
        later = connection.execute(_LATER).fetchall()
        for name, _ in later:
            connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
    start = time.perf_counter()
    poured = tuple(poured_by_all(store, corpus, connections))
    took = time.perf_counter() - start
    with connected(store.owner) as connection:
        steps = tuple(finished(connection, later))
    return Loaded(took, poured, steps)


def poured_by_all(store: Store, corpus: Corpus, connections: int) -> list[Poured]:
    """Put a corpus in on some connections at the same time, in a process each."""
    parts = [(store.owner, corpus, number, connections) for number in range(connections)]
    if len(parts) == 1:
        return [pour(*parts[0])]
    with multiprocessing.get_context("spawn").Pool(connections) as pool:
        return pool.starmap(pour, parts, chunksize=1)


def finished(connection: psycopg.Connection[Any], later: Sequence[tuple[str, str]]) -> Iterator[Step]:
    """Make what is not there yet, and yield how long each took."""
    yield Step("tenants and sessions", sum(seconds(partial(connection.execute, each)) for each in _SETTLE))
    for name, definition in later:
        took = seconds(partial(connection.execute, definition))
        yield Step(name, took, _size(connection, name))
    key = "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'postings'::regclass"
    name, definition = next(iter(row for row in connection.execute(key) if row[1].startswith("PRIMARY KEY")))
    connection.execute(sql.SQL("ALTER TABLE postings DROP CONSTRAINT {}").format(sql.Identifier(name)))
    yield Step(
        "postings, out of the rows", seconds(lambda: connection.execute(_POST, (FIRST,))), _size(connection, "postings")
    )
    add = sql.SQL("ALTER TABLE postings ADD CONSTRAINT {} {}").format(sql.Identifier(name), sql.SQL(definition))
    yield Step(name, seconds(partial(connection.execute, add)), _size(connection, name))
    yield Step("VACUUM (ANALYZE)", seconds(lambda: connection.execute("VACUUM (ANALYZE)")))
    yield Step("CHECKPOINT", seconds(lambda: connection.execute("CHECKPOINT")))


def _size(connection: psycopg.Connection[Any], name: str) -> int:
    row = connection.execute("SELECT pg_relation_size(to_regclass(%s))", (name,)).fetchone()
    assert row is not None
    return int(row[0])


def sizes(store: Store) -> list[Size]:
    """Return what tables and indexes take, the largest first."""
    with connected(store.owner) as connection:
        return [Size(*row) for row in connection.execute(_SIZES)]


def pour(dsn: str, corpus: Corpus, number: int, of: int) -> Poured:
    """Put a part of a corpus in by one COPY; return how that went."""
    source, embedder, making, count = corpus.part(number, of), MadeUp(), 0.0, 0
    start = time.perf_counter()
    with connected(dsn) as connection, connection.cursor() as cursor, cursor.copy(copying()) as copy:
        copy.set_types(types())
        while True:
            begin = time.perf_counter()
            made = list(lines(list(islice(source, PART)), embedder))
            making += time.perf_counter() - begin
            if not made:
                break
            for line in made:
                copy.write_row(line)
            count += len(made)
    return Poured(count, making, time.perf_counter() - start - making)


def copying() -> sql.Composed:
    """Return the statement that takes memories in, in binary."""
    names = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns)
    return sql.SQL("COPY memories ({}) FROM STDIN (FORMAT BINARY)").format(names)


def types() -> list[str]:
    """Return in which types' binary form columns are sent."""
    return [_TYPES.get(type(column.type).__name__, "text") for column in table.columns]


def lines(memories: Sequence[Memory], embedder: MadeUp) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of some memories, as their columns are."""
    vectors = embedder.embed([memory.content for memory in memories])
    return (line(memory, vector) for memory, vector in zip(memories, vectors, strict=True))


def line(memory: Memory, vector: Vectors32) -> tuple[Any, ...]:
    """Return the row of a memory, as the store itself would write it; its distinctions are left out."""
    said = terms(memory)
    values = rows.of_stored(Stored(memory, vector, said, {}, ()), DIMENSION) | dict(indexed(memory, said))
    values |= {"seq": 1, "short_id": memory.short_id, "vector": sent(values["vector"])}
    return tuple(values[column.name] for column in table.columns)


def sent(vector: bytes) -> bytes:
    """Return a vector in the form in which pgvector receives it."""
    return bytes(VectorDumper(BinaryVector).dump(BinaryVector(vector)))


def terms(memory: Memory) -> tuple[str, ...]:
    """Return the terms of a memory, as the store indexes them.

    Stemming would take longer than all else, and the made-up words are their own stems: only what stands beside the
    text is put through it, and remembered.
    """
    own = tuple(word for word in memory.content.rstrip(".").lower().split() if word not in FUNCTION)
    known = (memory.speaker, memory.tags, memory.created_at.date())
    if known not in _BESIDE:
        _BESIDE[known] = index_terms(_TOKENISER, replace(memory, content=""))
    return own + _BESIDE[known]


_TOKENISER: Final = Tokeniser()
_BESIDE: Final[dict[tuple[object, ...], tuple[str, ...]]] = {}
"""Speaker, tags and day -> their terms."""
