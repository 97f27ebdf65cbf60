"""Crawls of a site on loopback, through the engine and the flows' own steps without Prefect."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from flows import steps
from retrieval.ingestion import discover
from retrieval.ingestion.queries import listings
from retrieval.job_config import Ingestion
from retrieval.jobs import runs


def accept(space, source, **config):
    receipt = space.call(
        runs.accept_discovery(space.db, space.scope, source=source, config=config, ingestion=Ingestion())
    )
    return receipt.job_run_id


def listing(space):
    """Lease of the next batch and its first discovery."""
    lease = space.lease()
    (pending_listing,) = listings.pending_listings(space.db, lease)
    return steps.Discovery(space.db, space.ring, lease, pending_listing)


def crawl(space, source, *, ingest=False, **config):
    """Job run after discovery, or after all steps."""
    run = accept(space, source, **config)
    discovery = listing(space)
    steps.discover(discovery)
    if ingest:
        space.take(discovery.lease)
    return run


def names(space, run):
    """Addresses of the documents of the run, failed entries left out."""
    rows = space.db.rows(
        "select d.external_id from run_documents r join documents d on d.id = r.document_id"
        " where r.job_run_id = %(run)s order by r.position",
        {"run": run},
    )
    return [row["external_id"] for row in rows]


def reasons(space, run):
    rows = space.db.rows(
        "select name, error from run_documents where job_run_id = %(run)s and error is not null", {"run": run}
    )
    return {row["name"]: row["error"] for row in rows}


@contextmanager
def watch_pages(*, before=lambda: None, after=lambda _job_run: None):
    """Call `before()` and `after(job_run_id)` around the recording of each listed page."""
    record_page = discover._record_page

    def recorded(db, lease, pending, *arguments):
        before()
        saved = record_page(db, lease, pending, *arguments)
        after(pending.job_run_id)
        return saved

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(discover, "_record_page", recorded)
        yield


@contextmanager
def killed_after_pages(pages):
    """Expect the death of the worker once so many pages are recorded."""
    recorded = []

    class Killed(BaseException):
        pass

    def kill():
        if len(recorded) == pages:
            raise Killed

    with watch_pages(before=kill, after=recorded.append), pytest.raises(Killed):
        yield
