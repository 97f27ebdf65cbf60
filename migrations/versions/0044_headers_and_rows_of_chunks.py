"""Chunks hold the header of the table they begin in, and the typed fields of their rows and records."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0044"
down_revision = "0043"


def upgrade() -> None:
    with op.get_context().autocommit_block():  # the lock is held for a moment
        op.execute("set lock_timeout = '500ms'")
        header = sa.Column("header", sa.Text(), nullable=False, server_default="")
        op.add_column("chunks", header, if_not_exists=True)
        op.add_column("chunks", sa.Column("rows", JSONB(), nullable=True), if_not_exists=True)
        op.execute("set lock_timeout = 0")


def downgrade() -> None:
    op.drop_column("chunks", "rows")
    op.drop_column("chunks", "header")
