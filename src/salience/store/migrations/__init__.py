"""Alembic migrations of the tables, run when a store is opened."""
