"""Levers of Prefect that hold ingestion back, as a dispatcher saw them last."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0045"
down_revision = "0044"


def upgrade() -> None:
    op.create_table(
        "prefect_levers",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("levers", JSONB(), nullable=False),
        sa.Column("sources", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def downgrade() -> None:
    op.drop_table("prefect_levers")
