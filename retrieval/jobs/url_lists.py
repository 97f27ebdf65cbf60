"""A list of URLs to ingest: its documents are known, and recorded, at acceptance."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from retrieval import ids, origin, principals
from retrieval.database import scopes
from retrieval.database.database import Database
from retrieval.job_config import Ingestion, JobConfig
from retrieval.jobs import acceptance
from retrieval.jobs.runs import Receipt
from retrieval.namespaces import namespaces
from retrieval.ports import Scope


async def accept(
    db: Database,
    scope: Scope,
    *,
    urls: Sequence[str],
    config: Mapping[str, Any],
    ingestion: Ingestion,
) -> Receipt:
    """Record one document per URL; the URL is its identity, so a repeated one gives one document."""
    pages = list(dict.fromkeys(urls))
    run = ids.job_run_id()
    values: dict[str, Any] = {
        **scopes.params(scope),
        "job": ids.job_id(),
        "run": run,
        "source": "URLS_LIST",
        "document_type": "URL",
        "config": JobConfig(ingestion, config).dump(),
        **origin.values(),
        "metadata": None if ingestion.metadata is None else json.dumps(ingestion.metadata),
        "access": principals.stored(ingestion.access),
        "documents": [ids.document_id() for _ in pages],
        "urls": pages,
    }
    rows = await acceptance.record(db, acceptance.SEVERAL, values)
    if not rows:
        raise namespaces.not_found()
    return Receipt(run, tuple(row.id for row in rows), sum(row.replaces for row in rows))
