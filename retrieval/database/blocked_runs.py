"""SQL condition for job runs free of open breakers and paused deployments."""

from __future__ import annotations

from typing import LiteralString

# Condition on job run `r`, by the last state read from Prefect. REEMBED is free: a namespace may change its model at
# any time.
NOT_BLOCKED: LiteralString = """
    (r.waits_for is null or r.waits_for <> all(array(select key from breakers where open_until > now())))
    and (r.source = 'REEMBED' or r.partition_id <> all(
        array(select unnest(partitions) from breakers where open_until > now())))
    and r.source <> all(array(select unnest(sources) from prefect_levers))
"""
