"""Events of job runs and connections for Prefect, from the same outbox; only where the setting asks for them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, UUID

revision = "0030"
down_revision = "0029"

HEARD = """
    create or replace function webhooks_hear(of_partition integer, said text) returns boolean language sql stable as $$
        select exists (
            select from partitions p join namespaces n on n.id = p.namespace_id and n.deleted_at is null
            join webhooks h on h.organization_id = n.organization_id and h.status = 'ACTIVE'
                and (h.namespace_id is null or h.namespace_id = n.id) and (h.tenant is null or h.tenant = p.tenant)
                and h.events && array['*', said]
            where p.id = of_partition
        ) {feed}
    $$
"""
FED = "or (said not like 'DOCUMENTS%' and exists (select from event_feeds))"
JOB_RUNS = """
    create or replace function note_job_run() returns trigger language plpgsql as $$
    begin
        if (exists (select from webhooks where status = 'ACTIVE') {feed})
                and webhooks_hear(new.partition_id, 'INGEST_JOB_RUN_' || new.status) then
            insert into webhook_outbox (partition_id, type, lane, data)
            values (new.partition_id, 'INGEST_JOB_RUN_' || new.status, new.id,
                    jsonb_build_object('ingestJobRunId', new.id, 'status', new.status));
        end if;
        return null;
    end $$
"""
CONNECTIONS = """
    create or replace function note_connection() returns trigger language plpgsql as $$
    begin
        if (exists (select from webhooks where status = 'ACTIVE') {feed})
                and webhooks_hear(new.partition_id, 'CONNECTION_' || new.status) then
            insert into webhook_outbox (partition_id, type, lane, data)
            values (new.partition_id, 'CONNECTION_' || new.status, new.id,
                    jsonb_build_object('connectionId', new.id, 'connector', new.connector, 'status', new.status,
                                       'statusReason', new.status_reason));
        end if;
        return null;
    end $$
"""
REMOVALS = """
    create or replace function note_removals() returns trigger language plpgsql as $$
    begin
        if exists (select from webhooks where status = 'ACTIVE') {feed} then
            insert into webhook_outbox (partition_id, type, lane, data)
            select c.partition_id, 'CONNECTION_REMOVALS_WAITING', c.id,
                   jsonb_build_object('connectionId', c.id, 'connector', c.connector, 'status', c.status,
                                      'removals', count(*))
            from new_rows d join old_rows o using (document_id, connection_id)
            join connections c on c.id = d.connection_id
            where d.held and not o.held and webhooks_hear(c.partition_id, 'CONNECTION_REMOVALS_WAITING')
            group by c.id;
        end if;
        return null;
    end $$
"""
ANY = "or exists (select from event_feeds)"


def upgrade() -> None:
    op.create_table("event_feeds", sa.Column("name", sa.Text(), primary_key=True))
    op.create_table(
        "prefect_events",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), primary_key=True),
        sa.Column("event_id", UUID(), nullable=False, server_default=sa.text("gen_random_uuid()")),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("data", JSONB(), nullable=False, server_default=sa.text("'{}'::jsonb")),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
    )
    _functions(FED, ANY)


def downgrade() -> None:
    _functions("", "")
    op.drop_table("prefect_events")
    op.drop_table("event_feeds")


def _functions(heard: str, feed: str) -> None:
    op.execute(HEARD.replace("{feed}", heard))
    for function in (JOB_RUNS, CONNECTIONS, REMOVALS):
        op.execute(function.replace("{feed}", feed))
