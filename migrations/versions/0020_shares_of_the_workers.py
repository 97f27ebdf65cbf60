"""Which work queue a batch leaves by; job runs that wait, by scope."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

WAITING = sa.text("batch_id is null and finished_at is null")


def upgrade() -> None:
    op.execute("set local lock_timeout = '30s'")
    op.add_column("batches", sa.Column("queue", sa.Text(), nullable=False, server_default="default"))
    op.drop_index("job_runs_waiting", table_name="job_runs")
    op.create_index("job_runs_waiting", "job_runs", ["partition_id", "source", "number"], postgresql_where=WAITING)


def downgrade() -> None:
    op.drop_index("job_runs_waiting", table_name="job_runs")
    op.create_index("job_runs_waiting", "job_runs", ["number"], postgresql_where=WAITING)
    op.drop_column("batches", "queue")
