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

CURRENT: LiteralString = """coalesce((
    select levers from prefect_levers where recorded_at > now() - interval '1 minute'), '[]'::jsonb)"""
"""The levers that hold something back now, as JSON."""

_RECORD: LiteralString = """
    insert into prefect_levers (id, levers, sources, recorded_at)
    values (1, %(levers)s::jsonb, %(sources)s::text[], now())
    on conflict (id) do update
    set levers = excluded.levers, sources = excluded.sources, recorded_at = excluded.recorded_at
"""


@dataclass(frozen=True, slots=True)
class Lever:
    """A lever and its effect in words. It holds back one source, work queue or batch; all of them if none is named."""

    effect: str
    source: str | None = None
    queue: str | None = None
    batch: str | None = None

    @property
    def holds_all(self) -> bool:
        """Tell if it stops all new ingestion."""
        return self.source is None and self.queue is None and self.batch is None

    def holds(self, *, source: str, queue: str | None, batch: str | None) -> bool:
        """Tell if it blocks a waiting job run: by its source, and its queue and batch as far as it has them."""
        if self.batch is not None:
            return self.batch == batch
        if self.queue is not None:
            return self.queue == queue if queue is not None else source in STORED
        return self.source in {None, source}


def record_levers(db: Database, levers: Sequence[Lever]) -> None:
    """Write the levers as they are now. Job runs of paused deployments do not leave until these are resumed."""
    sources = sorted({lever.source for lever in levers if lever.source is not None})
    db.execute(_RECORD, {"levers": json.dumps([asdict(lever) for lever in levers]), "sources": sources})


def held_sources(db: Database) -> set[str]:
    """Sources whose deployments are paused in Prefect, or have a limit of 0."""
    return set(
        db.fetch(str, "select unnest(sources) from prefect_levers where recorded_at > now() - interval '1 minute'")
    )


def load_levers(rows: Sequence[Mapping[str, Any]]) -> tuple[Lever, ...]:
    """The levers of a `CURRENT` column."""
    return tuple(Lever(**row) for row in rows)
