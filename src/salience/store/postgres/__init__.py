"""The store on PostgreSQL with pgvector: `PostgresStore` is it; each module beside it is one part of how it works."""

from salience.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
