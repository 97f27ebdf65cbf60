"""When a batch at work last took up what its scope had sent meanwhile."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0036"


def upgrade() -> None:
    with op.get_context().autocommit_block():  # the lock is held for a moment
        op.execute("set lock_timeout = '500ms'")
        op.add_column("batches", sa.Column("looked_at", sa.DateTime(timezone=True), nullable=True), if_not_exists=True)
        op.execute("set lock_timeout = 0")


def downgrade() -> None:
    op.drop_column("batches", "looked_at")
