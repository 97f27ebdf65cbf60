"""Flow runs that are suspended and continue as the same flow run."""

from alembic import op

revision = "0055"
down_revision = "0054"


def upgrade() -> None:
    op.execute(
        "alter table batches add column suspended_at timestamptz, add column resumes boolean not null default false"
    )
    op.execute("alter table job_runs add column resumes_batch text references batches (id) on delete set null")
    op.execute("create index job_runs_resuming on job_runs (resumes_batch) where resumes_batch is not null")
    op.execute("create index batches_suspended on batches (suspended_at) where suspended_at is not null")
