"""Vendors and sites that do not answer, job runs that wait for one, and batches in work queues that are closed."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    with op.get_context().autocommit_block():  # one table at a time, whatever order the service locks them in
        op.execute("set lock_timeout = '500ms'")
        closed = sa.Column("closed", sa.Boolean(), server_default="false", nullable=False)
        op.add_column("batches", closed, if_not_exists=True)
        op.add_column("job_runs", sa.Column("waits_for", sa.Text(), nullable=True), if_not_exists=True)
    op.execute("set local lock_timeout = '500ms'")  # a reference holds organizations for a moment
    now = sa.text("now()")
    op.create_table(
        "breakers",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("organization_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("lost", sa.Float(), server_default="0", nullable=False),
        sa.Column("opens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("patience", sa.Float(), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("open_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("probe", sa.Text(), nullable=True),
        sa.Column("partitions", postgresql.ARRAY(sa.BigInteger()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=now, nullable=False),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_index("breakers_open", "breakers", ["open_until"], postgresql_where=sa.text("open_until is not null"))
    op.create_index("breakers_of_organization", "breakers", ["organization_id", "updated_at"])


def downgrade() -> None:
    op.drop_column("job_runs", "waits_for")
    op.drop_column("batches", "closed")
    op.drop_index("breakers_of_organization", table_name="breakers")
    op.drop_index("breakers_open", table_name="breakers")
    op.drop_table("breakers")
