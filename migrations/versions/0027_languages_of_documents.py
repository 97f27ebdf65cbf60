"""In which language each document is indexed; which ones a scope has; the one that a namespace fixes.

Nothing is indexed here: documents without a language are read as before, and the upkeep indexes them again, some at a time.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    with op.get_context().autocommit_block():  # one table at a time, whatever order the service locks them in
        op.execute("set lock_timeout = '500ms'")
        for table in ("namespaces", "documents"):
            op.add_column(table, sa.Column("keyword_language", sa.Text()), if_not_exists=True)
        languages = sa.Column("keyword_languages", ARRAY(sa.Text()), nullable=False, server_default="{}")
        op.add_column("partitions", languages, if_not_exists=True)
        op.add_column("partitions", sa.Column("keyword_state", sa.Text()), if_not_exists=True)


def downgrade() -> None:
    op.drop_column("partitions", "keyword_state")
    op.drop_column("partitions", "keyword_languages")
    op.drop_column("documents", "keyword_language")
    op.drop_column("namespaces", "keyword_language")
