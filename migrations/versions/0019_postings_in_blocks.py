"""Long posting lists as blocks that a search reads and adds up at once; the upkeep of large scopes fills them.

The tables start empty, so that nothing waits for the migration: until a scope's lists are packed, its searches read
the rows of `postings`, which stay what is true.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0019"
down_revision = "0018"

INLINE = 8160
"""Bytes of a row that stay in its page."""


def upgrade() -> None:
    op.create_table(
        "posting_blocks",
        sa.Column("partition_id", sa.Integer(), nullable=False),
        sa.Column("term", sa.Text(), nullable=False),
        sa.Column("block", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("partition_id", "term", "block"),
    )
    op.execute("alter table posting_blocks alter column body set storage external")
    op.execute(f"alter table posting_blocks set (toast_tuple_target = {INLINE})")
    op.create_table(
        "posting_changes",
        sa.Column("partition_id", sa.Integer(), nullable=False),
        sa.Column("change", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("removed", sa.Boolean(), nullable=False),
        sa.Column("chunks", ARRAY(sa.BigInteger()), nullable=False),
        sa.PrimaryKeyConstraint("partition_id", "change"),
    )
    op.create_table(
        "posting_packs",
        sa.Column("partition_id", sa.Integer(), nullable=False),
        sa.Column("base", sa.BigInteger(), nullable=False),
        sa.Column("packed_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("partition_id"),
    )


def downgrade() -> None:
    for table in ("posting_packs", "posting_changes", "posting_blocks"):
        op.drop_table(table)
