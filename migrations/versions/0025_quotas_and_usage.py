"""Quotas of organizations and tenants, what is counted for them, and tokens that were embedded, by day.

Documents of an organization that has a quota are counted by a trigger, whichever statement makes or deletes them: each
transaction adds a row of its own, so that no two wait for one.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0025"
down_revision = "0024"

EMPTY = sa.text("'{}'::jsonb")

SIZE = """
    create function document_size(properties jsonb, accepted_bytes bigint) returns bigint
    language sql immutable parallel safe return
        greatest(coalesce((properties ->> 'fileSize')::bigint, 0), coalesce(accepted_bytes, 0))
"""
COUNT = """
    create function count_documents() returns trigger language plpgsql as $$
    begin
        if not exists (select from organizations where counted) then
            return null;
        end if;
        if tg_op = 'INSERT' then
            insert into quota_changes (organization_id, tenant, documents, stored_bytes)
            select n.organization_id, p.tenant, count(*), sum(document_size(d.properties, d.accepted_bytes))
            from new_rows d join partitions p on p.id = d.partition_id join namespaces n on n.id = p.namespace_id
            join organizations o on o.id = n.organization_id and o.counted
            where d.deleted_at is null group by 1, 2;
        elsif tg_op = 'DELETE' then
            insert into quota_changes (organization_id, tenant, documents, stored_bytes)
            select n.organization_id, p.tenant, -count(*), -sum(document_size(d.properties, d.accepted_bytes))
            from old_rows d join partitions p on p.id = d.partition_id join namespaces n on n.id = p.namespace_id
            join organizations o on o.id = n.organization_id and o.counted
            where d.deleted_at is null group by 1, 2;
        else
            insert into quota_changes (organization_id, tenant, documents, stored_bytes)
            select n.organization_id, p.tenant, sum(d.documents), sum(d.bytes)
            from (select partition_id, 1 as documents, document_size(properties, accepted_bytes) as bytes
                  from new_rows where deleted_at is null
                  union all
                  select partition_id, -1, -document_size(properties, accepted_bytes)
                  from old_rows where deleted_at is null) d
            join partitions p on p.id = d.partition_id join namespaces n on n.id = p.namespace_id
            join organizations o on o.id = n.organization_id and o.counted
            group by 1, 2 having sum(d.documents) <> 0 or sum(d.bytes) <> 0;
        end if;
        return null;
    end $$
"""
TRIGGERS = {
    "insert": "referencing new table as new_rows",
    "update": "referencing old table as old_rows new table as new_rows",
    "delete": "referencing old table as old_rows",
}


def upgrade() -> None:
    with op.get_context().autocommit_block():  # one table at a time, whatever order the service locks them in
        op.execute("set lock_timeout = '500ms'")
        for table in ("organizations", "tenants"):
            quotas = sa.Column("quotas", postgresql.JSONB(), server_default=EMPTY, nullable=False)
            op.add_column(table, quotas, if_not_exists=True)
        counted = sa.Column("counted", sa.Boolean(), server_default="false", nullable=False)
        op.add_column("organizations", counted, if_not_exists=True)
        counted_at = sa.Column("counted_at", sa.DateTime(timezone=True), nullable=True)
        op.add_column("organizations", counted_at, if_not_exists=True)
        op.add_column("documents", sa.Column("accepted_bytes", sa.BigInteger(), nullable=True), if_not_exists=True)
        op.create_index(
            "organizations_counted", "organizations", ["id"], postgresql_where=sa.text("counted"), if_not_exists=True
        )
    op.execute("set local lock_timeout = '500ms'")  # triggers hold documents for a moment
    op.create_table(
        "quota_changes",
        sa.Column("organization_id", sa.Text(), nullable=False),
        sa.Column("change", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("documents", sa.BigInteger(), nullable=False),
        sa.Column("stored_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("organization_id", "change"),
    )
    op.create_table(
        "token_usage",
        sa.Column("organization_id", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("namespace_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("organization_id", "day", "namespace_id", "tenant", "provider", "model"),
    )
    op.execute(SIZE)
    op.execute(COUNT)
    for event, tables in TRIGGERS.items():
        op.execute(
            f"create trigger count_{event} after {event} on documents {tables}"
            " for each statement execute function count_documents()"
        )


def downgrade() -> None:
    for event in TRIGGERS:
        op.execute(f"drop trigger count_{event} on documents")
    op.execute("drop function count_documents()")
    op.execute("drop function document_size(jsonb, bigint)")
    op.drop_table("token_usage")
    op.drop_table("quota_changes")
    op.drop_index("organizations_counted", table_name="organizations")
    op.drop_column("documents", "accepted_bytes")
    op.drop_column("tenants", "quotas")
    op.drop_column("organizations", "counted_at")
    op.drop_column("organizations", "counted")
    op.drop_column("organizations", "quotas")
