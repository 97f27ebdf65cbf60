"""Answers of idempotency keys are dropped by their age."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_index("idempotent_answers_by_age", "idempotent_answers", ["created_at"])


def downgrade() -> None:
    op.drop_index("idempotent_answers_by_age", table_name="idempotent_answers")
