"""How long searches took, by the hour."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "search_times",
        sa.Column("namespace_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("hour", sa.DateTime(timezone=True), nullable=False),
        sa.Column("bucket", sa.Integer(), nullable=False),
        sa.Column("searches", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "tenant", "hour", "bucket"),
    )


def downgrade() -> None:
    op.drop_table("search_times")
