"""Documents that left their content service and wait for their removal."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "departures",
        sa.Column("document_id", sa.Text(), sa.ForeignKey("documents.id", ondelete="CASCADE"), nullable=False),
        sa.Column("connection_id", sa.Text(), sa.ForeignKey("connections.id", ondelete="CASCADE"), nullable=False),
        sa.Column("job_run_id", sa.Text(), nullable=False),
        sa.Column("held", sa.Boolean(), nullable=False, server_default="false"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
        sa.PrimaryKeyConstraint("document_id"),
    )
    op.create_index("ix_departures_connection_id", "departures", ["connection_id"])


def downgrade() -> None:
    op.drop_table("departures")
