"""Who asked for a write with a token of the identity provider."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    with op.get_context().autocommit_block():  # one lock, and only for a moment
        op.execute("set lock_timeout = '500ms'")
        op.add_column("audit_entries", sa.Column("subject", sa.Text(), nullable=True), if_not_exists=True)
        op.execute("set lock_timeout = 0")


def downgrade() -> None:
    op.drop_column("audit_entries", "subject")
