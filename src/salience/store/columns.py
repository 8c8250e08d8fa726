"""Types of columns that the two databases keep in different forms: text in the order of its bytes, and vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from sqlalchemy import ColumnElement, Dialect, LargeBinary, Text, func
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import UserDefinedType

_HEADER: Final = 4
"""Bytes before the numbers in pgvector's own form: the dimension and a reserved number, two each."""


@dataclass(frozen=True, slots=True)
class BinaryVector:
    """A vector as a parameter of psycopg: float32, little endian."""

    data: bytes


class PostgresVector(UserDefinedType[bytes]):
    """A pgvector `vector`: float32, little endian, to whoever reads or writes it here.

    Args:
        dimension: its length; None for any.
        is_half: whether it is a `halfvec`, of half the precision, as which an index may hold what the rows hold whole.
    """

    cache_ok = True
    render_bind_cast = True

    def __init__(self, dimension: int | None = None, is_half: bool = False) -> None:
        self.dimension = dimension
        self.is_half = is_half

    def get_col_spec(self, **_: Any) -> str:
        """Return the name of the type."""
        return ("halfvec" if self.is_half else "vector") + (f"({self.dimension})" if self.dimension else "")

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return what reads a column: pgvector's own form, which no text has to be parsed for."""
        return func.vector_send(column, type_=self)

    def bind_processor(self, dialect: Dialect) -> Callable[[bytes | None], object | None]:
        """Return what makes a parameter of a vector."""
        return lambda value: None if value is None else BinaryVector(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[bytes | None], bytes | None]:
        """Return what makes a vector of pgvector's own form."""
        return lambda value: (
            None if value is None else np.frombuffer(value, ">f4", offset=_HEADER).astype("<f4").tobytes()
        )


def TEXT() -> Text:  # noqa: N802 - stands where a type stands
    """Return the type of text; PostgreSQL too is to order it by its bytes, whatever the locale of the database."""
    return Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def VECTOR() -> LargeBinary:  # noqa: N802 - likewise
    """Return the type of a vector: float32, little endian."""
    return LargeBinary().with_variant(PostgresVector(), "postgresql")
