"""Runs the migrations on the connection, and in the transaction, of whoever asked for them."""

from alembic import context

from salience.store import schema

context.configure(connection=context.config.attributes["connection"], target_metadata=schema.metadata)
with context.begin_transaction():
    context.run_migrations()
