"""A job run may have to find out first what there is to ingest: crawl a site, list a drive."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("job_runs", sa.Column("to_discover", sa.Boolean(), server_default=sa.text("false"), nullable=False))


def downgrade() -> None:
    op.drop_column("job_runs", "to_discover")
