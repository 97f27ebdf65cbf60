"""What waits by PostgreSQL's clock after that went back: it waits for no moment that is later than any of its kind.

What is valid for a time is so for no longer than any of its kind. Each begins anew: nothing is late by more than it
waits at all, and nothing is done early. Leases of batches and breakers are set right by whoever looks at them
(`batches.open_batches`, `breakers.set_right`).
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import LiteralString

import structlog

from retrieval import settings
from retrieval.connections import oauth_states
from retrieval.database.database import Database
from retrieval.evaluations import runs
from retrieval.jobs import batches, breakers
from retrieval.maintenance.moving import frame
from retrieval.webhooks import endpoints, sending

log = structlog.get_logger()

BACK = timedelta(minutes=1)
"""From which it matters; NTP sets clocks right by less."""
_MARGIN: LiteralString = "interval '1 minute'"
"""Between two clocks of one transaction, and for whoever waits a little longer than is known here."""

_SWEEPS: LiteralString = (
    """
    update sweeps s set due_at = now() + w.longest
    from sweeps o cross join lateral (select case
        when o.tries > 0 then interval '1 minute' * least(power(2, o.tries - 1), 720)
        when o.kind = 'file' then interval '1 day'
        when o.deletion_id is not null then interval '30 seconds'
        else make_interval(mins => %(import)s) end as longest) w
    where s.id = o.id and o.due_at > now() + w.longest + """
    + _MARGIN
)
"""An import keeps what it writes by a sweep that it puts off (`moving.frame`)."""
_DELIVERIES: LiteralString = (
    """
    update webhook_deliveries d
    set next_attempt_at = now() + w.longest, give_up_at = least(d.give_up_at, now() + interval '1 day')
    from webhook_deliveries o cross join lateral (
        select make_interval(secs => case when o.tries = 0 then %(lease)s
            else greatest(%(lease)s, coalesce((%(schedule)s::float8[])[o.tries], %(later)s)) end) as longest) w
    where d.id = o.id and o.status = 'PENDING' and o.next_attempt_at > now() + w.longest + """
    + _MARGIN
)
_EVALUATIONS: LiteralString = (
    """
    update evaluation_runs r set lease_until = now() + w.longest
    from evaluation_runs o cross join lateral (select make_interval(
        secs => case when o.status = 'RUNNING' then %(held)s else %(asked)s end) as longest) w
    where r.id = o.id and o.finished_at is null and o.lease_until > now() + w.longest + """
    + _MARGIN
)
_CLOSED: LiteralString = """
    update batches b set lease_until = now() + make_interval(secs => %(latest)s)
    from sweeps s
    where s.kind = 'partition' and b.partition_id = s.partition_id and b.finished_at is not null
      and b.lease_until > now() + make_interval(secs => %(latest)s)
"""
"""Of namespaces that are deleted: their receipts wait for workers that may still write."""
_BREAKERS: LiteralString = "update breakers set opened_at = now() where opened_at > now() + " + _MARGIN
"""Patience is counted from it."""
_WEBHOOKS: LiteralString = (
    "update webhooks set created_at = now() - interval '1 minute' where created_at > now() + " + _MARGIN
)
"""They hear of what happens from then on; until here of all that is published (`publishing`)."""
_STATES: LiteralString = (
    "update oauth_states set expires_at = now() + make_interval(mins => %(state)s)"
    " where expires_at > now() + make_interval(mins => %(state)s) + " + _MARGIN
)
_ANSWERS: LiteralString = "update idempotent_answers set created_at = now() where created_at > now() + " + _MARGIN
_SECRETS: LiteralString = (
    "update webhooks set previous_until = now() + make_interval(hours => %(overlap)s)"
    " where previous_until > now() + make_interval(hours => %(overlap)s) + " + _MARGIN
)
"""How long one was to count stands nowhere: it is known to be too long only beyond what may be asked for."""


class Watch:
    """Knows whether PostgreSQL's clock went back: it is compared with the seconds that passed on this machine.

    What it was before the process began is not known, so that all is set right once then.
    """

    def __init__(self) -> None:
        self._ahead: timedelta | None = None
        """How far PostgreSQL's clock is before this machine's seconds."""

    def look(self, db: Database) -> None:
        """Set right what waits by it, if it went back since the last look."""
        row = db.row("select extract(epoch from clock_timestamp())::float8 as now")
        ahead = timedelta(seconds=(row["now"] if row else 0.0) - time.monotonic())
        if self._ahead is None or ahead < self._ahead - BACK:
            if self._ahead is not None:
                log.warning("clock.went_back", seconds=round((self._ahead - ahead).total_seconds()))
            set_right(db)
        self._ahead = ahead


def set_right(db: Database) -> None:
    """In statements of their own: whoever holds some of the rows keeps none of the others waiting."""
    values = {
        "import": frame.LEASE_MINUTES,
        "lease": sending.LEASE,
        "schedule": list(sending.SCHEDULE),
        "later": sending.LATER,
        "held": runs.LEASE_SECONDS,
        "asked": runs.START_SECONDS,
        "latest": batches.LATEST * settings.load().lease_seconds + 60,
        "state": oauth_states.MINUTES,
        "overlap": endpoints.OVERLAP_HOURS,
    }
    waiting = (_SWEEPS, _DELIVERIES, _EVALUATIONS, _CLOSED, _BREAKERS, _WEBHOOKS)
    for statement in (*waiting, _STATES, _ANSWERS, _SECRETS):
        db.rows(statement, values)
    breakers.set_right(db)
