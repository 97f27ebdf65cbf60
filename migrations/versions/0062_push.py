"""Push addresses of connections, and the trigger of a job run."""

from alembic import op

revision = "0062"
down_revision = "0061"


def upgrade() -> None:
    op.execute(
        """
        create table pushes (
            connection_id text primary key references connections (id) on delete cascade,
            address text not null unique,
            secret bytea,
            confirmed_at timestamptz,
            hints bigint not null default 0,
            hinted_at timestamptz,
            refusals bigint not null default 0,
            refused_at timestamptz,
            due_at timestamptz,
            run_at timestamptz,
            created_at timestamptz not null default now()
        )
        """
    )
    op.execute("create index pushes_due on pushes (due_at) where due_at is not null")
    op.execute("alter table job_runs add column trigger text")
