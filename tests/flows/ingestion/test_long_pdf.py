"""A PDF of thousands of pages fits a child's memory and its batch keeps the lease."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from connectors.parsers import confinement
from flows import steps
from flows.lease_renewal import keep_lease
from retrieval.ingestion.queries import results, run_documents
from retrieval.jobs.queries import batches
from tests.flows.configured import STEPS, Configured
from tests.standins import long_pdf

PAGES = 5_000
LEASE_SECONDS = 6
MOST_BYTES = 512 << 20


@pytest.fixture
def house(db):
    return Configured(db)


class Watch:
    """Peak memory of the parser's children, and losses of the lease."""

    def __init__(self, db, lease):
        self.memory, self.lost = 0, False
        self._db, self._lease, self._over = db, lease, threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _look(self):
        while not self._over.wait(0.1):
            self.memory = max([self.memory, *map(confinement.data_bytes_of, children())])
            row = self._db.row(
                "select lease_until < now() and finished_at is null as late from batches where id = %(id)s",
                {"id": self._lease.batch_id},
            )
            self.lost = self.lost or row["late"]


def children():
    child_lists = (path.read_text().split() for path in Path(f"/proc/{os.getpid()}/task").glob("*/children"))
    return [int(pid) for pids in child_lists for pid in pids]


@pytest.mark.slow
def test_five_thousand_pages_are_seen_to_the_end(house, tmp_path):
    path = tmp_path / "rules.pdf"
    long_pdf.write(path, PAGES, lambda page: [f"Rule number {page} of the harbour holds for every vessel."] * 3)
    content = path.read_bytes()
    run = house.file("rules.pdf", content).job_run_id
    batches.form_batches(house.db, size=64, batches=8)
    (batch,) = batches.undispatched_batches(house.db)
    batches.record_flow_run(house.db, batch, "run")
    lease = batches.claim_lease(house.db, batch.id, batch.attempt, seconds=LEASE_SECONDS)
    with keep_lease(house.db, lease, seconds=LEASE_SECONDS), Watch(house.db, lease) as watch:
        for window in run_documents.list_windows(house.db, lease, documents=64, size=1 << 24):
            for step in STEPS:
                step(steps.Work(house.db, house.ring, lease, window))
        results.settle_runs(house.db, lease)
        batches.finish_batch(house.db, lease)
    assert [outcome.status for outcome in results.list_outcomes(house.db, lease)] == ["SUCCESS"]
    assert house.run(run).status == "COMPLETED"
    assert not watch.lost
    assert 0 < watch.memory < MOST_BYTES
    last = house.db.row(
        "select c.content, d.properties -> 'pageCount' as pages from chunks c join documents d"
        " on d.id = c.document_id and d.active_generation = c.generation where d.job_run_id = %(run)s"
        " order by c.index desc limit 1",
        {"run": run},
    )
    assert last["pages"] == PAGES
    assert f"{PAGES} of the harbour" in last["content"]
