"""Whom documents are for, and what groups hold.

`documents.access` is what a client said; a trigger lists its names beside it, whichever statement sets it, and has what
was packed into a document follow it.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0031"
down_revision = "0030"

LIST = """
    create or replace function list_principals() returns trigger language plpgsql as $$
    begin
        if tg_op = 'UPDATE' then
            delete from document_principals where document_id = new.id;
            update documents set access = new.access, access_at = new.access_at, updated_at = new.updated_at
            where archive_id = new.id and deleted_at is null and access is distinct from new.access;
        end if;
        if new.access is not null then
            insert into document_principals (document_id, denied, principal, partition_id)
            select distinct new.id, named.denied, named.principal, new.partition_id from (
                select false as denied, 'u:' || value as principal
                from jsonb_array_elements_text(new.access -> 'users') value
                union all
                select false, 'g:' || value from jsonb_array_elements_text(new.access -> 'groups') value
                union all
                select true, 'u:' || value from jsonb_array_elements_text(new.access -> 'denied' -> 'users') value
                union all
                select true, 'g:' || value from jsonb_array_elements_text(new.access -> 'denied' -> 'groups') value
                union all
                select false, '*' where (new.access ->> 'public')::boolean
            ) named;
        end if;
        return null;
    end $$
"""


NEW = """
    create or replace trigger list_principals_of_new after insert on documents
    for each row when (new.access is not null) execute function list_principals()
"""
SET = """
    create or replace trigger list_principals after update of access on documents
    for each row when (old.access is distinct from new.access) execute function list_principals()
"""
_FLAG = sa.Column("principal_required", sa.Boolean(), server_default="false", nullable=False)


def upgrade() -> None:
    now = sa.text("now()")
    with op.get_context().autocommit_block():  # one lock at a time, and each only for a moment
        op.execute("set lock_timeout = '500ms'")
        op.add_column("documents", sa.Column("access", postgresql.JSONB(), nullable=True), if_not_exists=True)
        time = sa.Column("access_at", sa.DateTime(timezone=True), nullable=True)
        op.add_column("documents", time, if_not_exists=True)
        op.add_column("api_keys", sa.Column("principal", sa.Text(), nullable=True), if_not_exists=True)
        op.add_column("api_keys", _FLAG, if_not_exists=True)
        op.create_table(
            "document_principals",
            sa.Column("document_id", sa.Text(), nullable=False),
            sa.Column("denied", sa.Boolean(), nullable=False),
            sa.Column("principal", sa.Text(), nullable=False),
            sa.Column("partition_id", sa.Integer(), nullable=False),
            sa.ForeignKeyConstraint(["document_id"], ["documents.id"], ondelete="CASCADE"),
            sa.PrimaryKeyConstraint("document_id", "denied", "principal"),
            if_not_exists=True,
        )
        op.create_index(
            "documents_of_principal",
            "document_principals",
            ["partition_id", "principal", "document_id"],
            postgresql_where=sa.text("not denied"),
            if_not_exists=True,
        )
        op.execute(LIST)
        op.execute(NEW)
        op.execute(SET)
        op.execute("set lock_timeout = 0")  # nobody waits for an index that is built concurrently
        op.drop_index("documents_open", table_name="documents", if_exists=True, postgresql_concurrently=True)
        op.create_index(
            "documents_open",
            "documents",
            ["partition_id"],
            postgresql_where=sa.text("access is null and deleted_at is null"),
            postgresql_concurrently=True,
        )
    op.execute("set local lock_timeout = '500ms'")  # a reference holds partitions for a moment
    op.create_table(
        "access_groups",
        sa.Column("partition_id", sa.Integer(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=now, nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=now, nullable=False),
        sa.ForeignKeyConstraint(["partition_id"], ["partitions.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("partition_id", "id"),
    )
    op.create_table(
        "group_members",
        sa.Column("partition_id", sa.Integer(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("member", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["partition_id", "group_id"], ["access_groups.partition_id", "access_groups.id"], ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("partition_id", "group_id", "member"),
    )
    op.create_index("groups_of_member", "group_members", ["partition_id", "member"])


def downgrade() -> None:
    op.execute("drop trigger list_principals on documents")
    op.execute("drop trigger list_principals_of_new on documents")
    op.execute("drop function list_principals()")
    op.drop_table("group_members")
    op.drop_table("access_groups")
    op.drop_table("document_principals")
    op.drop_index("documents_open", table_name="documents")
    op.drop_column("api_keys", "principal_required")
    op.drop_column("api_keys", "principal")
    op.drop_column("documents", "access_at")
    op.drop_column("documents", "access")
