"""Levers of Prefect that block ingestion: paused pools, queues and deployments, limits of 0, missing workers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, LiteralString

from retrieval.database.database import Database
from retrieval.sources import STORED_SOURCES

_SOURCE_LEVERS: LiteralString = "jsonb_path_query_array(prefect_levers.levers, '$[*] ? (@.source != null)')"
# Current levers as JSON: the last known ones of sources, the others from a read in the last two minutes, the duration
# of a slow read.
CURRENT_LEVERS: LiteralString = f"""coalesce((
    select case when recorded_at > now() - interval '2 minutes' then levers else {_SOURCE_LEVERS} end
    from prefect_levers), '[]'::jsonb)"""

_RECORD_STATEMENT: LiteralString = """
    insert into prefect_levers (id, levers, sources, recorded_at)
    values (1, %(levers)s::jsonb, %(sources)s::text[], now())
    on conflict (id) do update
    set levers = excluded.levers, sources = excluded.sources, recorded_at = excluded.recorded_at
"""

_RECORD_FAILURE_STATEMENT: LiteralString = f"""
    insert into prefect_levers (id, levers, sources, recorded_at) values (1, %(levers)s::jsonb, '{{}}', now())
    on conflict (id) do update set levers = excluded.levers || {_SOURCE_LEVERS}, recorded_at = excluded.recorded_at
"""


@dataclass(frozen=True, slots=True)
class Lever:
    """Lever with its effect in words. Blocks a source, a work queue, a batch, or everything."""

    effect: str
    source: str | None = None
    queue: str | None = None
    batch: str | None = None
    # Delays ingestion only.
    delays: bool = False

    @property
    def blocks_all(self) -> bool:
        """Check if the lever blocks all new ingestion."""
        return self.source is None and self.queue is None and self.batch is None and not self.delays

    def blocks(self, *, source: str, queue: str | None, batch: str | None) -> bool:
        """Check if the lever blocks a job run of this source, queue and batch."""
        if self.batch is not None:
            return self.batch == batch
        if self.queue is not None:
            return self.queue == queue if queue is not None else source in STORED_SOURCES
        return self.source in {None, source}


def record_levers(db: Database, levers: Sequence[Lever]) -> None:
    """Record the current levers."""
    # Job runs of paused deployments wait until a read reports them as resumed.
    sources = sorted({lever.source for lever in levers if lever.source is not None})
    db.execute(_RECORD_STATEMENT, {"levers": _to_json(levers), "sources": sources})


def record_failed_read(db: Database, lever: Lever) -> None:
    """Record the reason of a failed read; paused deployments stay paused until the next read."""
    db.execute(_RECORD_FAILURE_STATEMENT, {"levers": _to_json([lever])})


def _to_json(levers: Sequence[Lever]) -> str:
    # Without defaults: an API process of the version before knows no later field.
    return json.dumps([{name: value for name, value in asdict(lever).items() if value} for lever in levers])


def blocked_sources(db: Database) -> set[str]:
    """List the sources whose deployments were paused or had a limit of 0 at the last read."""
    return set(db.fetch(str, "select unnest(sources) from prefect_levers"))


def load_levers(rows: Sequence[Mapping[str, Any]]) -> tuple[Lever, ...]:
    """Load the levers of a `CURRENT_LEVERS` column."""
    return tuple(Lever(**row) for row in rows)
