"""How far a job run's listing has come, saved with what it found."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("job_runs", sa.Column("discover_cursor", sa.Text))


def downgrade() -> None:
    op.drop_column("job_runs", "discover_cursor")
