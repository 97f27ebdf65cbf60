"""Sweeps by scope, unfinished job runs by scope, batches by scope."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

INDEXES = (
    ("sweeps_of_partition", "sweeps", ["partition_id", "due_at"], None),
    ("batches_of_partition", "batches", ["partition_id"], None),
    (
        "job_runs_unfinished",
        "job_runs",
        ["partition_id", "source", "number"],
        sa.text("finished_at is null"),
    ),
)


def upgrade() -> None:
    with op.get_context().autocommit_block():  # what an attempt before has left is not believed
        op.execute("set lock_timeout = 0")  # nobody waits for an index that is built concurrently
        for index, table, columns, where in INDEXES:
            op.drop_index(index, table_name=table, if_exists=True, postgresql_concurrently=True)
            op.create_index(index, table, columns, postgresql_where=where, postgresql_concurrently=True)


def downgrade() -> None:
    op.drop_index("job_runs_unfinished", table_name="job_runs")
    op.drop_index("batches_of_partition", table_name="batches")
    op.drop_index("sweeps_of_partition", table_name="sweeps")
