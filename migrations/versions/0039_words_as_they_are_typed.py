"""By which rules for words each document is indexed.

Nothing is indexed here: the upkeep indexes documents of the former rules again, some at a time.
"""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"


def upgrade() -> None:
    with op.get_context().autocommit_block():  # the lock is held for a moment
        op.execute("set lock_timeout = '500ms'")
        op.add_column("documents", sa.Column("keyword_version", sa.SmallInteger(), nullable=True), if_not_exists=True)
        op.execute("set lock_timeout = 0")


def downgrade() -> None:
    op.execute("update documents set keyword_language = null")  # what is indexed by these rules is indexed again
    op.execute("update partitions set keyword_state = null")
    op.drop_column("documents", "keyword_version")
