"""How many job runs a batch was made of."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.execute("set local lock_timeout = '500ms'")
    op.add_column("batches", sa.Column("size", sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("batches", "size")
