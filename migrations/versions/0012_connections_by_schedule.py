"""How often a connection is ingested by itself."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("connections", sa.Column("sync_minutes", sa.Integer(), nullable=True))


def downgrade() -> None:
    op.drop_column("connections", "sync_minutes")
