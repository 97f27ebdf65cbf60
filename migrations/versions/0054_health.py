"""Outcomes of webhooks and schedules, and job runs found by their connection.

An endpoint that fails keeps the oldest delivery that it did not accept as the beginning of its failures; one that does
not is UNKNOWN until its next delivery.
"""

from alembic import op

revision = "0054"
down_revision = "0053"


def upgrade() -> None:
    op.execute(
        "alter table webhooks add column last_success_at timestamptz, add column failures_since timestamptz,"
        " add column consecutive_failures integer not null default 0, add column failure_reason text"
    )
    op.execute(
        """
        update webhooks w set failures_since = d.created_at, consecutive_failures = d.attempts,
            failure_reason = d.reason
        from (
            select distinct on (webhook_id) webhook_id, created_at, attempts, reason from webhook_deliveries
            where status <> 'DELIVERED' and attempts > 0 and reason is not null order by webhook_id, sequence
        ) d
        where w.failing and d.webhook_id = w.id
        """
    )
    op.execute(
        "alter table schedules add column refused_since timestamptz, add column refusals integer not null default 0"
    )
    op.execute(
        "create index jobs_of_connection on jobs ((config ->> 'connectionId'))"
        " where config ->> 'connectionId' is not null"
    )
