"""Whether a connection's items bring whom they are shared with, and why that is not known of a document."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    with op.get_context().autocommit_block():  # one lock at a time, and each only for a moment
        op.execute("set lock_timeout = '500ms'")
        permissions = sa.Column("permissions", sa.Text(), server_default="IGNORE", nullable=False)
        op.add_column("connections", permissions, if_not_exists=True)
        op.add_column("documents", sa.Column("access_reason", sa.Text(), nullable=True), if_not_exists=True)
        op.execute("set lock_timeout = 0")


def downgrade() -> None:
    op.drop_column("documents", "access_reason")
    op.drop_column("connections", "permissions")
