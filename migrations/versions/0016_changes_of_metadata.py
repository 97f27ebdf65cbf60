"""What clients changed in a document's metadata, and of which request the rest is."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Columns with constants: no row is written, however many there are."""
    op.execute("set local lock_timeout = '500ms'")
    op.add_column("documents", sa.Column("changes", JSONB(), nullable=False, server_default=sa.text("'[]'::jsonb")))
    op.add_column("documents", sa.Column("metadata_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    op.drop_column("documents", "metadata_at")
    op.drop_column("documents", "changes")
