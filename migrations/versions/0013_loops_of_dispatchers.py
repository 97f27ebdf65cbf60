"""When each loop of each dispatcher succeeded last."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.create_table(
        "dispatcher_loops",
        sa.Column("dispatcher", sa.Text(), nullable=False),
        sa.Column("loop", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("succeeded_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("recorded_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("dispatcher", "loop"),
    )


def downgrade() -> None:
    op.drop_table("dispatcher_loops")
