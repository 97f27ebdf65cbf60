"""The pages that crawls have seen and still have to fetch."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "crawl_pages",
        sa.Column("job_run_id", sa.Text(), sa.ForeignKey("job_runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("done", sa.Boolean(), nullable=False, server_default="false"),
        sa.Column("kept", sa.Boolean(), nullable=False, server_default="false"),
        sa.Column("tries", sa.Integer(), nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("job_run_id", "key"),
    )


def downgrade() -> None:
    op.drop_table("crawl_pages")
