"""Web pages that are gone at their site, and further addresses of a page."""

from alembic import op

revision = "0058"
down_revision = "0057"


def upgrade() -> None:
    op.execute(
        """
        create table page_misses (
            document_id text primary key references documents (id) on delete cascade,
            job_run_id text not null,
            misses integer not null default 1,
            reason text not null,
            final boolean not null default false,
            held boolean not null default false,
            created_at timestamptz not null default now()
        )
        """
    )
    op.execute(
        """
        create table document_aliases (
            partition_id integer references partitions (id) on delete cascade,
            source text,
            address text,
            document_id text not null references documents (id) on delete cascade,
            version text not null default '',
            job_run_id text not null,
            primary key (partition_id, source, address)
        )
        """
    )
    op.execute("create index ix_document_aliases_document_id on document_aliases (document_id)")
    for table in ("page_misses", "document_aliases"):
        op.execute(f"grant select on {table} to retrieval_viewer")
        op.execute(
            f"create policy visible on {table} for select to retrieval_viewer using ("
            " exists (select from documents d where d.id = document_id offset 0))"
        )
        op.execute(f"alter table {table} enable row level security")
