"""Texts of hidden passages, by which the passages of a new version are hidden."""

from alembic import op

revision = "0061"
down_revision = "0060"


def upgrade() -> None:
    op.execute("alter table documents add column hidden_texts jsonb not null default '{}'")
