"""The store on PostgreSQL with pgvector."""

from salience.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
