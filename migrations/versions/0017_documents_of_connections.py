"""Which connections have a document: pairs, since several connections may list one item."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """The pairs are read from `documents` without a lock on it, and indexed once they are there.

    A column held one connection a document: where several share a place, each is listed whole by its next run, which
    finds the pairs that were not kept.
    """
    op.execute("set local lock_timeout = '500ms'")
    op.create_table(
        "connection_documents",
        sa.Column("document_id", sa.Text(), nullable=False),
        sa.Column("connection_id", sa.Text(), nullable=False),
        sa.Column("listed_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
    )
    op.execute(
        """
        insert into connection_documents (document_id, connection_id, listed_at)
        select d.id, d.connection_id, d.created_at from documents d join connections c on c.id = d.connection_id
        where d.deleted_at is null and d.archive_id is null and c.status <> 'REVOKED'
        """
    )
    op.create_primary_key("connection_documents_pkey", "connection_documents", ["document_id", "connection_id"])
    op.create_index("documents_by_connection", "connection_documents", ["connection_id", "document_id"])
    op.execute("alter table departures drop constraint departures_pkey, add primary key (document_id, connection_id)")
    op.execute(
        """
        update connections c set cursor = null
        where c.cursor ->> 'at' is not null and c.status <> 'REVOKED' and exists (
            select from connections o where o.partition_id = c.partition_id and o.connector = c.connector
              and o.id <> c.id and o.status <> 'PENDING'
        )
        """
    )


def downgrade() -> None:
    op.execute("delete from departures g using departures o where g.document_id = o.document_id and g.ctid > o.ctid")
    op.execute("alter table departures drop constraint departures_pkey, add primary key (document_id)")
    op.drop_table("connection_documents")
