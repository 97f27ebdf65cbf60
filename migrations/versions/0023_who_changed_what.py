"""One entry for every write: who changed what, when."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    op.create_table(
        "audit_entries",
        sa.Column("organization_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=True),
        sa.Column("key_name", sa.Text(), nullable=True),
        sa.Column("principal", sa.Text(), nullable=True),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("object_type", sa.Text(), nullable=False),
        sa.Column("object_id", sa.Text(), nullable=True),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("organization_id", "created_at", "id"),
        sa.CheckConstraint("source in ('API','CLI')", name="audit_source"),
    )
    op.create_index("audit_entries_by_age", "audit_entries", ["created_at"], postgresql_using="brin")


def downgrade() -> None:
    op.drop_table("audit_entries")
