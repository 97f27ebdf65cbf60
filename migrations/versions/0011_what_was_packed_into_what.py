"""The archive or mail that a document was packed into."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("documents", sa.Column("archive_id", sa.Text(), nullable=True))
    op.create_index(
        "documents_by_archive", "documents", ["archive_id"], postgresql_where=sa.text("archive_id is not null")
    )
    op.execute(
        """
        update documents d set archive_id = a.id from documents a
        where d.properties ? 'archivePath' and a.partition_id = d.partition_id and a.source = d.source
          and a.deleted_at is null and d.deleted_at is null
          and d.external_id = a.external_id || '/' || (d.properties ->> 'archivePath')
        """
    )


def downgrade() -> None:
    op.drop_index("documents_by_archive", table_name="documents")
    op.drop_column("documents", "archive_id")
