"""A view of documents for the role that reads for users: of a document with a visible version it shows that version's
state, whatever became of later ones."""

from alembic import op

revision = "0051"
down_revision = "0050"

ROLE = "retrieval_viewer"
COLUMNS = """
    id partition_id source external_id document_type name metadata changes metadata_at connection_id archive_id
    active_generation latest_generation fingerprint raw_key parsed_key properties embedding accepted_bytes
    keyword_language keyword_version access access_limit access_after inherits_access allowed denied withholds_file
    access_reason created_at synced_at deleted_at
"""
OTHER_VERSION = "d.active_generation > 0 and d.status <> 'SUCCESS'"
"""The newest version is not the one that is shown."""
RUN = """
    (select {} from public.run_documents m join public.job_runs r on r.id = m.job_run_id
     where m.document_id = d.id and m.generation = d.latest_generation limit 1)
"""
FOR_OTHERS = """
    exists (select from public.run_documents m
            where m.job_run_id = d.job_run_id and m.document_id = d.id and m.access is not null)
"""
VIEW = f"""
    create or replace view viewer.documents with (security_invoker) as
    select {", ".join(f"d.{column}" for column in COLUMNS.split())},
           case when d.active_generation > 0 then 'SUCCESS' else d.status end as status,
           case when d.active_generation = 0 and not {FOR_OTHERS} then d.error end as error,
           case when {OTHER_VERSION} then coalesce({RUN.format("r.job_id")}, d.job_id) else d.job_id end as job_id,
           case when {OTHER_VERSION} then coalesce({RUN.format("r.id")}, d.job_run_id) else d.job_run_id
           end as job_run_id,
           case when d.active_generation > 0
                then greatest(d.created_at, d.synced_at, (d.changes -> -1 ->> 'at')::timestamptz) else d.updated_at
           end as updated_at
    from public.documents d
"""


def upgrade() -> None:
    op.execute("create schema if not exists viewer")
    op.execute(VIEW)
    op.execute(f"grant usage on schema viewer to {ROLE}")
    op.execute(f"grant select on viewer.documents to {ROLE}")
    op.execute(f"grant select (id, job_id) on job_runs to {ROLE}")


def downgrade() -> None:
    op.execute(f"revoke select (id, job_id) on job_runs from {ROLE}")
    op.execute("drop schema viewer cascade")
