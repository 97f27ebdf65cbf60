"""Archives of which a member with a list of its own was deleted: their file, which still holds it, is not for users."""

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0049"


def upgrade() -> None:
    with op.get_context().autocommit_block():  # the lock is held for a moment
        op.execute("set lock_timeout = '500ms'")
        op.add_column(
            "documents",
            sa.Column("withholds_file", sa.Boolean(), nullable=False, server_default="false"),
            if_not_exists=True,
        )
        op.execute("set lock_timeout = 0")


def downgrade() -> None:
    op.drop_column("documents", "withholds_file")
