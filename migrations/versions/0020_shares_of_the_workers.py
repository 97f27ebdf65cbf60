"""Which work queue a batch leaves by; job runs that wait, by scope."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

WAITING = sa.text("batch_id is null and finished_at is null")


def upgrade() -> None:
    with op.get_context().autocommit_block():  # one table at a time, whatever order the service locks them in
        op.execute("set lock_timeout = '500ms'")
        queue = sa.Column("queue", sa.Text(), nullable=False, server_default="default")
        op.add_column("batches", queue, if_not_exists=True)
        op.execute("set lock_timeout = 0")  # nobody waits for an index that is built concurrently
        op.drop_index("job_runs_waiting", table_name="job_runs", if_exists=True, postgresql_concurrently=True)
        op.create_index(
            "job_runs_waiting",
            "job_runs",
            ["partition_id", "source", "number"],
            postgresql_where=WAITING,
            postgresql_concurrently=True,
        )


def downgrade() -> None:
    op.drop_index("job_runs_waiting", table_name="job_runs")
    op.create_index("job_runs_waiting", "job_runs", ["number"], postgresql_where=WAITING)
    op.drop_column("batches", "queue")
