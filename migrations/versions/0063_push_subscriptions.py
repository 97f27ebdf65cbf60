"""Subscriptions at content services that end by themselves, for push."""

from alembic import op

revision = "0063"
down_revision = "0062"


def upgrade() -> None:
    op.execute(
        """
        alter table pushes
            add column subscription text,
            add column expires_at timestamptz,
            add column renew_at timestamptz,
            add column failures bigint not null default 0,
            add column problem text
        """
    )
    op.execute("create index pushes_to_renew on pushes (renew_at) where renew_at is not null")
