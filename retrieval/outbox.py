"""Which of the job runs that wait may leave now."""

from __future__ import annotations

from typing import LiteralString

MAY_LEAVE: LiteralString = """
    r.batch_id is null and r.finished_at is null and (r.source <> all(%(connected)s) or not exists (
        select from job_runs earlier join jobs before on before.id = earlier.job_id join jobs j on j.id = r.job_id
        where earlier.partition_id = r.partition_id and earlier.source = r.source and earlier.number < r.number
          and earlier.finished_at is null and before.config ->> 'connectionId' = j.config ->> 'connectionId'
    ))
"""
"""That a job run `r` waits and is not held back by an earlier one of its connection."""
