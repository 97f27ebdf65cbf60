"""What search needs at 100,000 chunks: postings read from the index alone, terms counted, vectors inline."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

INLINE = 8160
"""Bytes of a row that stay in its page: a halfvec of 3,072 dimensions, so that a scan reads no second table."""


def upgrade() -> None:
    op.execute("alter table postings drop constraint postings_pkey")
    op.execute(
        "alter table postings add constraint postings_pkey"
        " primary key (partition_id, term, chunk_id) include (tf, length)"
    )
    op.create_table(
        "term_counts",
        sa.Column("partition_id", sa.Integer(), nullable=False),
        sa.Column("term", sa.Text(), nullable=False),
        sa.Column("part", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("chunks", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("partition_id", "term", "part"),
    )
    for table in ("vectors", "embeddings"):
        op.execute(f"alter table {table} set (toast_tuple_target = {INLINE})")


def downgrade() -> None:
    for table in ("vectors", "embeddings"):
        op.execute(f"alter table {table} reset (toast_tuple_target)")
    op.drop_table("term_counts")
    op.execute("alter table postings drop constraint postings_pkey")
    op.execute("alter table postings add constraint postings_pkey primary key (partition_id, term, chunk_id)")
