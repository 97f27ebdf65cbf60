"""Connections of content services, and the OAuth states on their way."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "connections",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("partition_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("connector", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default="PENDING", nullable=False),
        sa.Column("status_reason", sa.Text(), nullable=True),
        sa.Column("client_redirect_url", sa.Text(), nullable=True),
        sa.Column("credentials", sa.LargeBinary(), nullable=True),
        sa.Column("account", sa.Text(), nullable=True),
        sa.Column("cursor", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("status in ('PENDING','ACTIVE','FAILED','REVOKED')", name="connection_status"),
        sa.ForeignKeyConstraint(["partition_id"], ["partitions.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("connections_of_partition", "connections", ["partition_id", "created_at", "id"])
    op.create_table(
        "oauth_states",
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("connector", sa.Text(), nullable=False),
        sa.Column("verifier", sa.LargeBinary(), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["connection_id"], ["connections.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_index("oauth_states_expiring", "oauth_states", ["expires_at"])
    op.create_index(op.f("ix_oauth_states_connection_id"), "oauth_states", ["connection_id"])


def downgrade() -> None:
    op.drop_table("oauth_states")
    op.drop_table("connections")
