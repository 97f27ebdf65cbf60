"""What a lost flow run was working on, and what is held against it."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

BLAMED = ("batches", "job_runs", "run_documents")


def upgrade() -> None:
    op.execute("set local lock_timeout = '30s'")
    op.add_column("batches", sa.Column("released", sa.Boolean(), nullable=False, server_default="false"))
    op.add_column("batches", sa.Column("at_work", sa.Text(), nullable=True))
    for table in BLAMED:
        op.add_column(table, sa.Column("blame", sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    for table in BLAMED:
        op.drop_column(table, "blame")
    op.drop_column("batches", "at_work")
    op.drop_column("batches", "released")
