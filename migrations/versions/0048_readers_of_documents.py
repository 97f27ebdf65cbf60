"""A role that reads documents for users: policies show it the rows that the settings of its connection name.

`app.partition` is the number of the scope, `app.names` a JSON object of what documents list that the user may see. A
setting that is missing shows nothing. The owner of the tables, as which everything else works, reads as before.
"""

from alembic import op

revision = "0048"
down_revision = "0047"

ROLE = "retrieval_viewer"
MAKE = f"""
    do $$ begin
        if not exists (select from pg_roles where rolname = '{ROLE}') then
            create role {ROLE} nologin;
        end if;
        if not pg_has_role(current_user, '{ROLE}', 'member') then
            grant {ROLE} to current_user;
        end if;
    exception when duplicate_object or unique_violation then
        grant {ROLE} to current_user;
    end $$
"""
PARTITION = "partition_id = (select nullif(current_setting('app.partition', true), '')::int)"
NAMES = "(select nullif(current_setting('app.names', true), '')::jsonb)"
SEEN = "exists (select from documents d where d.id = document_id offset 0)"
POLICIES = {
    "documents": f"{PARTITION} and {NAMES} ?| allowed and not {NAMES} ?| denied",
    "chunks": f"{PARTITION} and {SEEN}",
    "vectors": f"{PARTITION} and {SEEN}",
    "run_documents": SEEN,
    "connection_documents": SEEN,
    "departures": SEEN,
    "embeddings": PARTITION,
    "postings": PARTITION,
}
"""`offset 0` keeps the planner from reading all documents first."""
COLUMNS = {"partitions": "", "namespaces": " (id, organization_id, deleted_at)"}


def upgrade() -> None:
    op.execute(MAKE)
    op.execute(f"grant usage on schema public to {ROLE}")
    with op.get_context().autocommit_block():  # one lock at a time, and each only for a moment
        op.execute("set lock_timeout = '500ms'")
        for table, condition in POLICIES.items():
            op.execute(f"drop policy if exists visible on {table}")
            op.execute(f"create policy visible on {table} for select to {ROLE} using ({condition})")
            op.execute(f"alter table {table} enable row level security")
            op.execute(f"grant select on {table} to {ROLE}")
        for table, columns in COLUMNS.items():
            op.execute(f"grant select{columns} on {table} to {ROLE}")
        op.execute("set lock_timeout = 0")


def downgrade() -> None:
    for table in POLICIES:
        op.execute(f"alter table {table} disable row level security")
        op.execute(f"drop policy visible on {table}")
    for table in (*POLICIES, *COLUMNS):
        op.execute(f"revoke all on {table} from {ROLE}")
    op.execute(f"revoke usage on schema public from {ROLE}")
