"""What a lost flow run was working on, and what is held against it."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

BLAMED = ("batches", "job_runs", "run_documents")


def upgrade() -> None:
    with op.get_context().autocommit_block():  # one table at a time, whatever order the service locks them in
        op.execute("set lock_timeout = '500ms'")
        released = sa.Column("released", sa.Boolean(), nullable=False, server_default="false")
        op.add_column("batches", released, if_not_exists=True)
        op.add_column("batches", sa.Column("at_work", sa.Text(), nullable=True), if_not_exists=True)
        for table in BLAMED:
            blame = sa.Column("blame", sa.Integer(), nullable=False, server_default="0")
            op.add_column(table, blame, if_not_exists=True)


def downgrade() -> None:
    for table in BLAMED:
        op.drop_column(table, "blame")
    op.drop_column("batches", "at_work")
    op.drop_column("batches", "released")
