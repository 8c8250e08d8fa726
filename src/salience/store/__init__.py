"""Stores of memories: SQLite and PostgreSQL, under one contract."""
