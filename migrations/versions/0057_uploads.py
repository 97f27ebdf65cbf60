"""Uploads that one request ingests together."""

from alembic import op

revision = "0057"
down_revision = "0056"


def upgrade() -> None:
    op.execute("alter table sweeps add column upload jsonb")
    op.execute("create index sweeps_uploads on sweeps (file_key) where upload is not null")
