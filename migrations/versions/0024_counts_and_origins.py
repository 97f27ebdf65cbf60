"""Counts for Prometheus; which request a job run came of."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.execute("set local lock_timeout = '500ms'")
    op.create_table(
        "metric_counts",
        sa.Column("organization_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("part", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("organization_id", "name", "labels", "part"),
    )
    op.execute("alter table metric_counts set (fillfactor = 50)")  # each row is changed again and again, in its page
    op.add_column("job_runs", sa.Column("request_id", sa.Text(), nullable=True))
    op.add_column("job_runs", sa.Column("traceparent", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("job_runs", "traceparent")
    op.drop_column("job_runs", "request_id")
    op.drop_table("metric_counts")
