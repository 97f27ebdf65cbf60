"""Levers of Prefect that hold ingestion back: paused pools, queues and deployments, limits of 0, missing workers.

A dispatcher reads them every few seconds; status, the queue, job runs, the command line and the app show what it wrote.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, LiteralString

from retrieval.database.database import Database
from retrieval.sources import STORED

_OF_SOURCES: LiteralString = "jsonb_path_query_array(prefect_levers.levers, '$[*] ? (@.source != null)')"
CURRENT: LiteralString = f"""coalesce((
    select case when recorded_at > now() - interval '2 minutes' then levers else {_OF_SOURCES} end
    from prefect_levers), '[]'::jsonb)"""
"""The levers that hold something back now, as JSON: of sources the last known ones, of others those of a read
in the last two minutes: a slow Prefect takes that long to be read."""

_RECORD: LiteralString = """
    insert into prefect_levers (id, levers, sources, recorded_at)
    values (1, %(levers)s::jsonb, %(sources)s::text[], now())
    on conflict (id) do update
    set levers = excluded.levers, sources = excluded.sources, recorded_at = excluded.recorded_at
"""

_RECORD_FAILED_READ: LiteralString = f"""
    insert into prefect_levers (id, levers, sources, recorded_at) values (1, %(levers)s::jsonb, '{{}}', now())
    on conflict (id) do update set levers = excluded.levers || {_OF_SOURCES}, recorded_at = excluded.recorded_at
"""


@dataclass(frozen=True, slots=True)
class Lever:
    """A lever and its effect in words. It holds back one source, work queue or batch; all of them if none is named."""

    effect: str
    source: str | None = None
    queue: str | None = None
    batch: str | None = None
    delays: bool = False
    """Whether it only delays ingestion."""

    @property
    def holds_all(self) -> bool:
        """Tell if it stops all new ingestion."""
        return self.source is None and self.queue is None and self.batch is None and not self.delays

    def holds(self, *, source: str, queue: str | None, batch: str | None) -> bool:
        """Tell if it blocks a waiting job run: by its source, and its queue and batch as far as it has them."""
        if self.batch is not None:
            return self.batch == batch
        if self.queue is not None:
            return self.queue == queue if queue is not None else source in STORED
        return self.source in {None, source}


def record_levers(db: Database, levers: Sequence[Lever]) -> None:
    """Record the levers that were read. Job runs of paused deployments wait until these are read as resumed."""
    sources = sorted({lever.source for lever in levers if lever.source is not None})
    db.execute(_RECORD, {"levers": _to_json(levers), "sources": sources})


def record_failed_read(db: Database, lever: Lever) -> None:
    """Record why Prefect's levers could not be read. Deployments that were paused stay paused until the next read."""
    db.execute(_RECORD_FAILED_READ, {"levers": _to_json([lever])})


def _to_json(levers: Sequence[Lever]) -> str:
    # Without defaults: an API process of the version before knows no later field.
    return json.dumps([{name: value for name, value in asdict(lever).items() if value} for lever in levers])


def held_sources(db: Database) -> set[str]:
    """List the sources whose deployments were paused in Prefect, or had a limit of 0, when they were last read."""
    return set(db.fetch(str, "select unnest(sources) from prefect_levers"))


def load_levers(rows: Sequence[Mapping[str, Any]]) -> tuple[Lever, ...]:
    """The levers of a `CURRENT` column."""
    return tuple(Lever(**row) for row in rows)
