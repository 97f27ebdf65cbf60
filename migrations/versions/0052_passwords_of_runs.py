"""Passwords of protected files, kept with the job run that opens them and deleted at its end."""

from alembic import op

revision = "0052"
down_revision = "0051"


def upgrade() -> None:
    op.execute("alter table job_runs add column password bytea")
    op.execute(
        "create function forget_password() returns trigger language plpgsql as"
        " 'begin new.password := null; return new; end'"
    )
    op.execute(
        "create trigger forget_password before update of finished_at on job_runs for each row"
        " when (new.finished_at is not null and new.password is not null) execute function forget_password()"
    )
