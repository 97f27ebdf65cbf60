"""A lost and an overtaken run leave what one clean run leaves."""

from __future__ import annotations

import pytest

from flows import steps
from retrieval.ingestion import crash_isolation
from retrieval.ingestion.queries import results, run_documents
from retrieval.jobs.queries import batches
from tests.flows.configured import STEPS, Configured

TEXT = "\n\n".join(f"Paragraph {number} speaks of topic{number} and of thing{number}. " * 3 for number in range(20))


@pytest.fixture
def space(db):
    return Configured(db)


def contents(space):
    """Visible chunks in order."""
    rows = space.db.rows(
        "select c.content from documents d join chunks c on c.document_id = d.id and c.generation = d.active_generation"
        " join partitions p on p.id = d.partition_id where p.namespace_id = %(namespace)s and d.deleted_at is null"
        " order by d.name, c.index",
        {"namespace": space.scope.namespace},
    )
    return [row["content"] for row in rows]


def footprint(space):
    """Rows in every bulk table of the namespace."""
    counts = {}
    for table in ("chunks", "embeddings", "vectors", "postings"):
        row = space.db.row(
            f"select count(*) as n from {table} t join partitions p on p.id = t.partition_id"
            " where p.namespace_id = %(namespace)s",
            {"namespace": space.scope.namespace},
        )
        counts[table] = row["n"]
    return counts


def take(space, lease, chosen_steps):
    """Take the first window of a batch through these steps."""
    (window,) = run_documents.list_windows(space.db, lease, documents=64, size=1 << 24) or [[]]
    work = steps.Work(space.db, space.ring, lease, window)
    for step in chosen_steps:
        step(work)
    return work


def test_run_crash_and_run_again_leaves_what_one_clean_run_leaves(space):
    clean = Configured(space.db)
    clean.text(TEXT, "doc")
    clean.work()
    space.text(TEXT, "doc")
    for number in range(1, len(STEPS) + 1):
        lease = space.lease()
        take(space, lease, STEPS[:number])
        (batch,) = [batch for batch in batches.open_batches(space.db) if batch.id == lease.batch_id]
        crash_isolation.restart_batch(space.db, batch)
    space.work()
    space.sweep()
    assert footprint(space) == footprint(clean)
    assert contents(space) == contents(clean)


def test_an_older_run_that_ends_later_does_not_win(space):
    space.text("the older text", "doc")
    older = space.lease()
    work = take(space, older, STEPS[:-1])
    space.text("the newer text", "doc")
    space.work()
    steps.upsert(work)
    results.settle_runs(space.db, older)
    assert contents(space) == ["the newer text"]
