"""Audit entries name the objects that a write changed, access and members before and after, and the client's request id."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0046"
down_revision = "0045"

COLUMNS = (
    ("object_ids", sa.ARRAY(sa.Text())),
    ("object_count", sa.Integer()),
    ("changes", JSONB()),
    ("client_request_id", sa.Text()),
)


def upgrade() -> None:
    with op.get_context().autocommit_block():  # the lock is held for a moment
        op.execute("set lock_timeout = '500ms'")
        for name, kind in COLUMNS:
            op.add_column("audit_entries", sa.Column(name, kind, nullable=True), if_not_exists=True)
        op.execute("set lock_timeout = 0")


def downgrade() -> None:
    for name, _ in COLUMNS:
        op.drop_column("audit_entries", name)
