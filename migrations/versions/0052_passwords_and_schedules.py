"""Passwords of protected files, and schedules of connections.

A password is kept with the job run that opens the file and deleted at its end. Intervals of connections become
schedules; their column stays for processes of 0.2.0.
"""

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
    op.execute(
        """
        insert into schedules (id, partition_id, job_id, source, config, minutes)
        select 'sch_' || substr(c.id, 6), c.partition_id, coalesce(j.id, 'job_' || substr(c.id, 6)), c.connector,
               jsonb_build_object('request', '{}'::jsonb, 'connectionId', c.id, 'scheduled', true), c.sync_minutes
        from connections c left join lateral (
            select id from jobs where partition_id = c.partition_id and source = c.connector
              and config ->> 'connectionId' = c.id and config ? 'scheduled' order by created_at desc limit 1
        ) j on true
        where c.sync_minutes is not null and not exists (
            select from schedules s where s.partition_id = c.partition_id and s.minutes is not null
              and s.config ->> 'connectionId' = c.id
        )
        """
    )
    op.execute("update connections set sync_minutes = null where sync_minutes is not null")
