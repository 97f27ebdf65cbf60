"""Receipts of deletions hold nothing of who asked for them or whom the documents were for: users read none."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0049"
down_revision = "0048"
unused_since = "0.1.0"  # these columns are of no release


def upgrade() -> None:
    with op.get_context().autocommit_block():  # the lock is held for a moment
        op.execute("set lock_timeout = '500ms'")
        op.drop_column("deletions", "asked_by", if_exists=True)
        op.drop_column("deletions", "audience", if_exists=True)
        op.execute("set lock_timeout = 0")


def downgrade() -> None:
    op.add_column("deletions", sa.Column("asked_by", sa.Text(), nullable=True))
    op.add_column("deletions", sa.Column("audience", postgresql.JSONB(), nullable=True))
