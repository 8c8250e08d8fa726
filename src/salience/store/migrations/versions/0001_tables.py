"""The tables of the first release."""

from alembic import op

from salience.store.schema import creation

revision = "1"
down_revision = None


def upgrade() -> None:
    for statement in creation(op.get_context().dialect.name):
        op.execute(statement)
