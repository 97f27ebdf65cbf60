"""Who may read the receipt of a deletion."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    with op.get_context().autocommit_block():  # the lock is held for a moment
        op.execute("set lock_timeout = '500ms'")
        op.add_column("deletions", sa.Column("asked_by", sa.Text(), nullable=True), if_not_exists=True)
        op.add_column("deletions", sa.Column("audience", JSONB(), nullable=True), if_not_exists=True)
        op.execute("set lock_timeout = 0")


def downgrade() -> None:
    op.drop_column("deletions", "audience")
    op.drop_column("deletions", "asked_by")
