"""Sweeps by scope, unfinished job runs by scope, batches by scope."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.execute("set local lock_timeout = '30s'")
    op.create_index("sweeps_of_partition", "sweeps", ["partition_id", "due_at"])
    op.create_index("batches_of_partition", "batches", ["partition_id"])
    op.create_index(
        "job_runs_unfinished",
        "job_runs",
        ["partition_id", "source", "number"],
        postgresql_where=sa.text("finished_at is null"),
    )


def downgrade() -> None:
    op.drop_index("job_runs_unfinished", table_name="job_runs")
    op.drop_index("batches_of_partition", table_name="batches")
    op.drop_index("sweeps_of_partition", table_name="sweeps")
