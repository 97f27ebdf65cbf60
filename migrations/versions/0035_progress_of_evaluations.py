"""How many searches of an evaluation's run are done."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    with op.get_context().autocommit_block():  # the lock is held for a moment
        op.execute("set lock_timeout = '500ms'")
        op.add_column("evaluation_runs", sa.Column("progress", JSONB(), nullable=True), if_not_exists=True)
        op.execute("set lock_timeout = 0")


def downgrade() -> None:
    op.drop_column("evaluation_runs", "progress")
