"""SQL condition for job runs that no open circuit breaker and no paused deployment blocks."""

from __future__ import annotations

from typing import LiteralString

NOT_HELD: LiteralString = """
    (r.waits_for is null or r.waits_for <> all(array(select key from breakers where open_until > now())))
    and (r.source = 'REEMBED' or r.partition_id <> all(
        array(select unnest(partitions) from breakers where open_until > now())))
    and r.source <> all(array(select unnest(sources) from prefect_levers))
"""
"""SQL: the deployment of job run `r` was not paused in Prefect at the last read, and no open breaker blocks it.

A namespace may be led to another model at any time.
"""
