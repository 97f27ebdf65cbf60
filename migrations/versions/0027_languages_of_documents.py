"""In which language each document is indexed; which ones a scope has; the one that a namespace fixes.

Nothing is indexed here: documents without a language are read as before, and the upkeep indexes them again, some at a time.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    op.execute("set local lock_timeout = '30s'")
    op.add_column("namespaces", sa.Column("keyword_language", sa.Text()))
    op.add_column("documents", sa.Column("keyword_language", sa.Text()))
    op.add_column("partitions", sa.Column("keyword_languages", ARRAY(sa.Text()), nullable=False, server_default="{}"))
    op.add_column("partitions", sa.Column("keyword_state", sa.Text()))


def downgrade() -> None:
    op.drop_column("partitions", "keyword_state")
    op.drop_column("partitions", "keyword_languages")
    op.drop_column("documents", "keyword_language")
    op.drop_column("namespaces", "keyword_language")
