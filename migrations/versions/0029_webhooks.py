"""Webhooks: who is told of changes, the outbox of what changed, and what is sent to whom.

The outbox is written by triggers, in the transaction of whichever statement changes a status, and only where somebody
listens. That a job run is COMPLETED is noted when its transaction ends, after all that is noted of its documents.
"""

import re

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0029"
down_revision = "0028"

_NOW = sa.text("now()")
HEARD = """
    create function webhooks_hear(of_partition integer, said text) returns boolean language sql stable as $$
        select exists (
            select from partitions p join namespaces n on n.id = p.namespace_id and n.deleted_at is null
            join webhooks h on h.organization_id = n.organization_id and h.status = 'ACTIVE'
                and (h.namespace_id is null or h.namespace_id = n.id) and (h.tenant is null or h.tenant = p.tenant)
                and h.events && array['*', said]
            where p.id = of_partition
        )
    $$
"""
DOCUMENTS = """
    create function note_documents() returns trigger language plpgsql as $$
    begin
        if not exists (select from webhooks where status = 'ACTIVE') then
            return null;
        end if;
        if tg_op = 'INSERT' then
            insert into webhook_outbox (partition_id, type, lane, data)
            select t.partition_id, t.type, t.job_run_id, jsonb_build_object(
                'ingestJobRunId', t.job_run_id, 'documents', jsonb_agg(jsonb_build_object(
                    'id', t.id, 'externalId', t.external_id, 'status', t.status, 'error', t.error) order by t.place))
            from (select d.*, 'DOCUMENTS_QUEUED_FOR_INGESTION' as type,
                         row_number() over (partition by d.partition_id, d.job_run_id order by d.id) as place
                  from new_rows d where d.status = 'QUEUED' and d.deleted_at is null) t
            where webhooks_hear(t.partition_id, t.type)
            group by t.partition_id, t.type, t.job_run_id, (t.place - 1) / 100
            order by t.partition_id, t.job_run_id, (t.place - 1) / 100;
        else
            insert into webhook_outbox (partition_id, type, lane, data)
            select t.partition_id, t.type, t.run, jsonb_strip_nulls(jsonb_build_object('ingestJobRunId', t.run))
                || jsonb_build_object('documents', jsonb_agg(jsonb_build_object(
                    'id', t.id, 'externalId', t.external_id, 'status', t.shown, 'error', t.error) order by t.place))
            from (
                select c.*, row_number() over (partition by c.partition_id, c.type, c.run order by c.id) as place
                from (
                    select d.id, d.partition_id, d.external_id, s.rank, s.type,
                           case when d.deleted_at is null then d.job_run_id end as run,
                           coalesce(s.shown, d.status) as shown, case when d.deleted_at is null then d.error end as error
                    from new_rows d join old_rows o on o.id = d.id and o.deleted_at is null
                    cross join lateral (
                        select 1 as rank, 'DOCUMENTS_QUEUED_FOR_DELETION' as type, 'QUEUED_FOR_DELETION' as shown
                        where d.deleted_at is not null
                        union all
                        select 2, 'DOCUMENTS_DELETED', 'DELETED' where d.deleted_at is not null
                        union all
                        select 0, case d.status
                            when 'QUEUED' then case when d.active_generation > 0 then 'DOCUMENTS_QUEUED_FOR_UPDATE'
                                                    else 'DOCUMENTS_QUEUED_FOR_INGESTION' end
                            when 'QUEUED_FOR_RESYNC' then 'DOCUMENTS_QUEUED_FOR_RESYNC'
                            when 'PROCESSING' then 'DOCUMENTS_PROCESSING'
                            when 'SUCCESS' then 'DOCUMENTS_READY'
                            when 'FAILED' then 'DOCUMENTS_ERROR' end, null
                        where d.deleted_at is null and (
                            d.status <> o.status
                            or (d.status in ('QUEUED', 'QUEUED_FOR_RESYNC') and d.job_run_id <> o.job_run_id))
                    ) s
                    where s.type is not null
                ) c
                where webhooks_hear(c.partition_id, c.type)
            ) t
            group by t.partition_id, t.rank, t.type, t.run, (t.place - 1) / 100
            order by t.partition_id, t.rank, t.type, t.run, (t.place - 1) / 100;
        end if;
        return null;
    end $$
"""
JOB_RUNS = """
    create function note_job_run() returns trigger language plpgsql as $$
    begin
        if exists (select from webhooks where status = 'ACTIVE')
                and webhooks_hear(new.partition_id, 'INGEST_JOB_RUN_' || new.status) then
            insert into webhook_outbox (partition_id, type, lane, data)
            values (new.partition_id, 'INGEST_JOB_RUN_' || new.status, new.id,
                    jsonb_build_object('ingestJobRunId', new.id, 'status', new.status));
        end if;
        return null;
    end $$
"""
CONNECTIONS = """
    create function note_connection() returns trigger language plpgsql as $$
    begin
        if exists (select from webhooks where status = 'ACTIVE')
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
    create function note_removals() returns trigger language plpgsql as $$
    begin
        if exists (select from webhooks where status = 'ACTIVE') then
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
TRIGGERS = (
    (
        "create trigger note_insert after insert on documents referencing new table as new_rows"
        " for each statement execute function note_documents()"
    ),
    (
        "create trigger note_update after update on documents referencing old table as old_rows new table as new_rows"
        " for each statement execute function note_documents()"
    ),
    (
        "create trigger note_insert after insert on job_runs for each row when (new.status = 'QUEUED')"
        " execute function note_job_run()"
    ),
    (
        "create trigger note_update after update of status on job_runs for each row"
        " when (old.status <> new.status and new.status <> 'COMPLETED') execute function note_job_run()"
    ),
    (
        "create constraint trigger note_end after update of status on job_runs deferrable initially deferred for each row"
        " when (old.status <> new.status and new.status = 'COMPLETED') execute function note_job_run()"
    ),
    (
        "create trigger note_update after update of status on connections for each row"
        " when (old.status <> new.status and new.status in ('ACTIVE', 'FAILED')) execute function note_connection()"
    ),
    (
        "create trigger note_update after update on departures referencing old table as old_rows new table as new_rows"
        " for each statement execute function note_removals()"
    ),
)


def upgrade() -> None:
    """One table at a time, whatever order the service locks them in; each statement may be repeated."""
    with op.get_context().autocommit_block():
        op.execute("set lock_timeout = '500ms'")
        op.create_table(
            "webhooks",
            sa.Column("id", sa.Text(), primary_key=True),
            sa.Column(
                "organization_id", sa.Text(), sa.ForeignKey("organizations.id", ondelete="CASCADE"), nullable=False
            ),
            sa.Column("namespace_id", sa.Text(), sa.ForeignKey("namespaces.id", ondelete="CASCADE")),
            sa.Column("tenant", sa.Text()),
            sa.Column("url", sa.Text(), nullable=False),
            sa.Column("events", ARRAY(sa.Text()), nullable=False),
            sa.Column("description", sa.Text()),
            sa.Column("status", sa.Text(), nullable=False, server_default="ACTIVE"),
            sa.Column("status_reason", sa.Text()),
            sa.Column("secret", sa.LargeBinary(), nullable=False),
            sa.Column("previous", sa.LargeBinary()),
            sa.Column("previous_until", sa.DateTime(timezone=True)),
            sa.Column("sequence", sa.BigInteger(), nullable=False, server_default="0"),
            sa.Column("failing", sa.Boolean(), nullable=False, server_default="false"),
            sa.Column("alive_at", sa.DateTime(timezone=True), nullable=False, server_default=_NOW),
            sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=_NOW),
            sa.CheckConstraint("status in ('ACTIVE','DISABLED')", name="webhook_status"),
            if_not_exists=True,
        )
        op.create_index(
            "webhooks_of_organization", "webhooks", ["organization_id", "created_at", "id"], if_not_exists=True
        )
        op.create_index("webhooks_of_namespace", "webhooks", ["namespace_id"], if_not_exists=True)
        op.create_table(
            "webhook_outbox",
            sa.Column("id", sa.BigInteger(), sa.Identity(always=True), primary_key=True),
            sa.Column("partition_id", sa.Integer(), nullable=False),
            sa.Column("type", sa.Text(), nullable=False),
            sa.Column("lane", sa.Text()),
            sa.Column("data", JSONB(), nullable=False, server_default=sa.text("'{}'::jsonb")),
            sa.Column("xact", sa.BigInteger(), nullable=False, server_default=sa.text("txid_current()")),
            sa.Column("at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("clock_timestamp()")),
            if_not_exists=True,
        )
        op.create_table(
            "webhook_deliveries",
            sa.Column("id", sa.Text(), primary_key=True),
            sa.Column("webhook_id", sa.Text(), sa.ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
            sa.Column("event_id", sa.Text(), nullable=False),
            sa.Column("sequence", sa.BigInteger(), nullable=False),
            sa.Column("type", sa.Text(), nullable=False),
            sa.Column("namespace_id", sa.Text()),
            sa.Column("lane", sa.Text()),
            sa.Column("body", sa.Text(), nullable=False),
            sa.Column("status", sa.Text(), nullable=False, server_default="PENDING"),
            sa.Column("ordered", sa.Boolean(), nullable=False, server_default="true"),
            sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"),
            sa.Column("tries", sa.Integer(), nullable=False, server_default="0"),
            sa.Column("response_status", sa.Integer()),
            sa.Column("reason", sa.Text()),
            sa.Column("next_attempt_at", sa.DateTime(timezone=True)),
            sa.Column("give_up_at", sa.DateTime(timezone=True), nullable=False),
            sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=_NOW),
            sa.CheckConstraint("status in ('PENDING','DELIVERED','FAILED')", name="webhook_delivery_status"),
            if_not_exists=True,
        )
        pending = sa.text("status = 'PENDING'")
        op.create_index(
            "webhook_deliveries_of_webhook",
            "webhook_deliveries",
            ["webhook_id", "sequence"],
            unique=True,
            if_not_exists=True,
        )
        op.create_index(
            "webhook_deliveries_due",
            "webhook_deliveries",
            ["webhook_id", "next_attempt_at", "sequence"],
            postgresql_where=pending,
            if_not_exists=True,
        )
        op.create_index(
            "webhook_deliveries_in_order",
            "webhook_deliveries",
            ["webhook_id", "lane", "sequence"],
            postgresql_where=sa.text("status = 'PENDING' and ordered"),
            if_not_exists=True,
        )
        op.create_index("webhook_deliveries_by_age", "webhook_deliveries", ["created_at"], if_not_exists=True)
        for function in (HEARD, DOCUMENTS, JOB_RUNS, CONNECTIONS, REMOVALS):
            op.execute(function.replace("create function", "create or replace function", 1))
        for trigger in TRIGGERS:
            name, table = re.findall(r"trigger (\w+) after .*? on (\w+)", trigger)[0]
            op.execute(f"drop trigger if exists {name} on {table}")
            op.execute(trigger)


def downgrade() -> None:
    op.execute("drop trigger note_update on departures")
    op.execute("drop trigger note_update on connections")
    for name in ("note_insert", "note_update", "note_end"):
        op.execute(f"drop trigger {name} on job_runs")
    for name in ("note_insert", "note_update"):
        op.execute(f"drop trigger {name} on documents")
    for name in ("note_removals", "note_connection", "note_job_run", "note_documents"):
        op.execute(f"drop function {name}()")
    op.execute("drop function webhooks_hear(integer, text)")
    for table in ("webhook_deliveries", "webhook_outbox", "webhooks"):
        op.drop_table(table)
