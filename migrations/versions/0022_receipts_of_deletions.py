"""What a client's deletion has removed, store by store; sweeps know the deletion that they carry out."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    with op.get_context().autocommit_block():  # one table at a time, whatever order the service locks them in
        op.execute("set lock_timeout = '500ms'")
        op.add_column("sweeps", sa.Column("deletion_id", sa.Text(), nullable=True), if_not_exists=True)
        removed = sa.Column("removed", JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False)
        op.add_column("sweeps", removed, if_not_exists=True)
        op.execute("set lock_timeout = 0")  # nobody waits for an index that is built concurrently
        op.drop_index("sweeps_of_deletion", table_name="sweeps", if_exists=True, postgresql_concurrently=True)
        op.create_index(
            "sweeps_of_deletion",
            "sweeps",
            ["deletion_id"],
            postgresql_where=sa.text("deletion_id is not null"),
            postgresql_concurrently=True,
        )
    op.execute("set local lock_timeout = '500ms'")  # a reference holds organizations for a moment
    op.create_table(
        "deletions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("organization_id", sa.Text(), nullable=False),
        sa.Column("namespace_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=True),
        sa.Column("documents", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("chunks", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("vectors", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("files", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("unread", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("requested_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("confirmed_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], ondelete="CASCADE"),
    )
    op.create_table(
        "deletion_stores",
        sa.Column("deletion_id", sa.Text(), nullable=False),
        sa.Column("store", sa.Text(), nullable=False),
        sa.Column("removed", sa.BigInteger(), nullable=False),
        sa.Column("read_back_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("deletion_id", "store"),
        sa.ForeignKeyConstraint(["deletion_id"], ["deletions.id"], ondelete="CASCADE"),
    )


def downgrade() -> None:
    op.drop_index("sweeps_of_deletion", table_name="sweeps")
    op.drop_column("sweeps", "removed")
    op.drop_column("sweeps", "deletion_id")
    op.drop_table("deletion_stores")
    op.drop_table("deletions")
