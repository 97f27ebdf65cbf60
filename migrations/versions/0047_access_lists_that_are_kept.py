"""Documents keep the list that holds, versions the list that comes with them, and readers as arrays.

`access` is a document's own list or the one that it has from its container (`inherits_access`). A version that brings
another list holds it in `run_documents.access`; until it is shown or ends, `access_limit` is what all such lists have in
common. `allowed` and `denied` are who may read by both, kept by a trigger.
"""

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import postgresql

revision = "0047"
down_revision = "0046"
unused_since = "0.1.0"  # `document_principals` and `documents.access_at` are of no release

COMMON = """coalesce((
        select jsonb_agg(name order by place) from (
            select name, min(place) as place from (
                select name, place from jsonb_array_elements_text(b -> 'KEY') with ordinality s (name, place)
                where (a ->> 'public')::boolean or jsonb_exists(a -> 'KEY', name) OF_A
                union all
                select name, 10000 + place from jsonb_array_elements_text(a -> 'KEY') with ordinality o (name, place)
                where (b ->> 'public')::boolean OF_B
            ) named group by name
        ) listed), '[]')"""
EITHER = """coalesce((
        select jsonb_agg(name order by place) from (
            select name, min(place) as place from (
                select name, place from jsonb_array_elements_text(b -> 'denied' -> 'KEY') with ordinality s (name, place)
                union all
                select name, 10000 + place
                from jsonb_array_elements_text(a -> 'denied' -> 'KEY') with ordinality o (name, place)
            ) named group by name
        ) listed), '[]')"""


def _common(key: str) -> str:
    """Names of both lists; a user with an address is in the group of its domain."""
    statement = COMMON.replace("KEY", key)
    for side in ("A", "B"):
        within = f"or jsonb_exists({side.lower()} -> 'groups', 'domain:' || substring(name from '@([^@]+)$'))"
        statement = statement.replace(f"OF_{side}", within if key == "users" else "")
    return statement


FUNCTIONS = (
    f"""
    create or replace function intersect_access(a jsonb, b jsonb) returns jsonb
    language sql immutable parallel safe as $$
        select case when a is null then b when b is null or a = b then a else jsonb_build_object(
            'users', {_common("users")},
            'groups', {_common("groups")},
            'denied', jsonb_build_object(
                'users', {EITHER.replace("KEY", "users")}, 'groups', {EITHER.replace("KEY", "groups")}),
            'public', (a ->> 'public')::boolean and (b ->> 'public')::boolean) end
    $$
    """,
    """
    create or replace function access_allowed(list jsonb) returns text[] language sql immutable parallel safe as $$
        select case when list is null then '{@}'::text[] else array(
            select 'u:' || name from jsonb_array_elements_text(list -> 'users') name
            union all select 'g:' || name from jsonb_array_elements_text(list -> 'groups') name
            union all select '*' where (list ->> 'public')::boolean
        ) end
    $$
    """,
    """
    create or replace function access_denied(list jsonb) returns text[] language sql immutable parallel safe as $$
        select array(
            select 'u:' || name from jsonb_array_elements_text(list -> 'denied' -> 'users') name
            union all select 'g:' || name from jsonb_array_elements_text(list -> 'denied' -> 'groups') name
        )
    $$
    """,
    """
    create or replace function list_readers() returns trigger language plpgsql as $$
    declare held jsonb := intersect_access(new.access, new.access_limit);
    begin
        new.allowed := access_allowed(held);
        new.denied := access_denied(held);
        return new;
    end $$
    """,
    """
    create or replace function access_limit_of(document text) returns jsonb language plpgsql stable as $$
    declare list jsonb; held jsonb;
    begin
        for list in
            select m.access from run_documents m
            where m.document_id = document and m.access is not null and m.status in ('QUEUED', 'PROCESSING')
            union all
            select a.access_limit from documents d join documents a on a.id = d.archive_id
            where d.id = document and d.inherits_access and a.access_limit is not null
        loop
            held := intersect_access(held, list);
        end loop;
        return held;
    end $$
    """,
    """
    create or replace function limit_access(ids text[]) returns void language plpgsql as $$
    declare members text[];
    begin
        perform from documents where id = any(ids) order by id for no key update;
        with limited as (
            update documents d set access_limit = access_limit_of(d.id)
            where d.id = any(ids) and d.access_limit is distinct from access_limit_of(d.id) returning d.id
        )
        select array_agg(m.id) into members from limited l
        join documents m on m.archive_id = l.id and m.inherits_access and m.deleted_at is null;
        if members is not null then
            perform limit_access(members);
        end if;
    end $$
    """,
    """
    create or replace function limit_versioned() returns trigger language plpgsql as $$
    begin
        perform limit_access(array[coalesce(new.document_id, old.document_id)]);
        return null;
    end $$
    """,
    """
    create or replace function limit_packed() returns trigger language plpgsql as $$
    begin
        perform limit_access(array[new.id]);
        return null;
    end $$
    """,
    """
    create or replace function convert_former_access(partition integer) returns void language plpgsql as $$
    begin
        update documents set access = access - 'next' where partition_id = partition and access is not null;
        update documents m set inherits_access = m.access is not distinct from a.access
        from documents a where m.partition_id = partition and a.id = m.archive_id;
    end $$
    """,
)
TRIGGERS = (
    """
    create or replace trigger list_readers before insert or update of access, access_limit on documents
    for each row execute function list_readers()
    """,
    """
    create or replace trigger limit_packed after insert on documents
    for each row when (new.inherits_access) execute function limit_packed()
    """,
    """
    create or replace trigger limit_packed_elsewhere after update of archive_id, inherits_access on documents
    for each row when (old.archive_id is distinct from new.archive_id or old.inherits_access <> new.inherits_access)
    execute function limit_packed()
    """,
    """
    create or replace trigger limit_new_version after insert on run_documents
    for each row when (new.access is not null) execute function limit_versioned()
    """,
    """
    create or replace trigger limit_version after update of access, status on run_documents
    for each row when (old.access is distinct from new.access
                       or new.access is not null and old.status is distinct from new.status)
    execute function limit_versioned()
    """,
    """
    create or replace trigger limit_former_version after delete on run_documents
    for each row when (old.access is not null) execute function limit_versioned()
    """,
)
DROPPED = (
    ("list_readers", "documents"),
    ("limit_packed", "documents"),
    ("limit_packed_elsewhere", "documents"),
    ("limit_new_version", "run_documents"),
    ("limit_version", "run_documents"),
    ("limit_former_version", "run_documents"),
)
NAMES = (
    "intersect_access(jsonb, jsonb)",
    "access_allowed(jsonb)",
    "access_denied(jsonb)",
    "list_readers()",
    "access_limit_of(text)",
    "limit_access(text[])",
    "limit_versioned()",
    "limit_packed()",
    "convert_former_access(integer)",
)
OPEN = "allowed = '{@}'::text[]"
LISTED = "allowed <> '{@}'::text[]"


TEXTS = postgresql.ARRAY(sa.Text())
COLUMNS = (
    ("access_limit", postgresql.JSONB(), None),
    ("access_after", sa.BigInteger(), None),
    ("inherits_access", sa.Boolean(), "false"),
    ("allowed", TEXTS, "{@}"),
    ("denied", TEXTS, "{}"),
)


def upgrade() -> None:
    with op.get_context().autocommit_block():  # one lock at a time, and each only for a moment
        op.execute("set lock_timeout = '500ms'")
        for name, kind, default in COLUMNS:
            column = sa.Column(name, kind, nullable=default is None, server_default=default)
            op.add_column("documents", column, if_not_exists=True)
        op.add_column("run_documents", sa.Column("access", postgresql.JSONB(), nullable=True), if_not_exists=True)
        for function in FUNCTIONS:
            op.execute(function)
        op.execute("drop trigger if exists list_principals on documents")
        op.execute("drop trigger if exists list_principals_of_new on documents")
        for trigger in TRIGGERS:
            op.execute(trigger)
        op.execute("drop function if exists list_principals()")
        op.execute("drop function if exists narrowed_access(jsonb, jsonb, bigint, boolean)")
        op.drop_table("document_principals", if_exists=True)
        op.drop_column("documents", "access_at", if_exists=True)
        op.execute("set lock_timeout = 0")  # nobody waits for what follows
        for (partition,) in op.get_bind().execute(sa.text("select id from partitions order by id")).fetchall():
            op.get_bind().execute(sa.text("select convert_former_access(:partition)"), {"partition": partition})
        op.drop_index("documents_open", table_name="documents", if_exists=True, postgresql_concurrently=True)
        op.create_index(
            "documents_open",
            "documents",
            ["partition_id"],
            postgresql_where=sa.text(f"{OPEN} and deleted_at is null"),
            postgresql_concurrently=True,
        )
        op.drop_index("documents_of_reader", table_name="documents", if_exists=True, postgresql_concurrently=True)
        op.create_index(
            "documents_of_reader",
            "documents",
            ["allowed"],
            postgresql_using="gin",
            postgresql_where=sa.text(LISTED),
            postgresql_concurrently=True,
        )


def downgrade() -> None:
    op.drop_index("documents_of_reader", table_name="documents")
    op.drop_index("documents_open", table_name="documents")
    for trigger, table in DROPPED:
        op.execute(f"drop trigger {trigger} on {table}")
    for function in reversed(NAMES):
        op.execute(f"drop function {function}")
    op.drop_column("run_documents", "access")
    for column in ("denied", "allowed", "inherits_access", "access_after", "access_limit"):
        op.drop_column("documents", column)
    op.add_column("documents", sa.Column("access_at", sa.DateTime(timezone=True), nullable=True))
    op.create_table(
        "document_principals",
        sa.Column("document_id", sa.Text(), nullable=False),
        sa.Column("denied", sa.Boolean(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("partition_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["document_id"], ["documents.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("document_id", "denied", "principal"),
    )
    where = sa.text("not denied")
    columns = ["partition_id", "principal", "document_id"]
    op.create_index("documents_of_principal", "document_principals", columns, postgresql_where=where)
    where = sa.text("access is null and deleted_at is null")
    op.create_index("documents_open", "documents", ["partition_id"], postgresql_where=where)
    first, second = (context.script.get_revision(number).module for number in ("0031", "0043"))
    second.upgrade()
    for trigger in (first.NEW, first.SET):
        op.execute(trigger)
    op.execute("update documents set access = access where access is not null")
