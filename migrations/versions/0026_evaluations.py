"""Judged questions and the runs that compare settings of the search."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0026"
down_revision = "0025"

_NOW = sa.text("now()")


def upgrade() -> None:
    op.execute("set local lock_timeout = '500ms'")  # a reference holds partitions for a moment
    op.create_table(
        "evaluations",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("partition_id", sa.Integer(), sa.ForeignKey("partitions.id", ondelete="CASCADE"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=_NOW),
    )
    op.create_index("evaluations_of_partition", "evaluations", ["partition_id", "created_at", "id"])
    op.create_table(
        "evaluation_questions",
        sa.Column("evaluation_id", sa.Text(), sa.ForeignKey("evaluations.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.BigInteger(), sa.Identity(always=True), primary_key=True),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("relevant", JSONB(), nullable=False, server_default=sa.text("'[]'::jsonb")),
        sa.Column("filter", JSONB()),
    )
    op.create_table(
        "evaluation_runs",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("evaluation_id", sa.Text(), sa.ForeignKey("evaluations.id", ondelete="CASCADE"), nullable=False),
        sa.Column("status", sa.Text(), nullable=False, server_default="QUEUED"),
        sa.Column("settings", JSONB(), nullable=False, server_default=sa.text("'[]'::jsonb")),
        sa.Column("result", JSONB()),
        sa.Column("error", sa.Text()),
        sa.Column("attempt", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("lease_until", sa.DateTime(timezone=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=_NOW),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.CheckConstraint("status in ('QUEUED','RUNNING','COMPLETED','FAILED')", name="evaluation_run_status"),
    )
    op.create_index("evaluation_runs_of_evaluation", "evaluation_runs", ["evaluation_id", "created_at", "id"])
    op.create_index(
        "evaluation_runs_open", "evaluation_runs", ["created_at"], postgresql_where=sa.text("finished_at is null")
    )


def downgrade() -> None:
    for table in ("evaluation_runs", "evaluation_questions", "evaluations"):
        op.drop_table(table)
