"""The steps on a real database and file store with a counting model."""

import base64
import hashlib
import os

import numpy as np
import pytest

from connectors.files.local import LocalFiles
from connectors.vectors.pgvector import PgVectorStore
from retrieval.documents import documents
from retrieval.filters import DocumentFilter
from retrieval.ingestion import chunk, embed, fetch, parse, poison_detection, upsert
from retrieval.ingestion.chunking.tokenizer import tokenizer_for
from retrieval.ingestion.queries import results, run_documents
from retrieval.job_config import Ingestion
from retrieval.jobs import runs
from retrieval.jobs.queries import batches
from retrieval.maintenance import garbage as sweep
from retrieval.security.secrets import KeyRing
from tests.loops import run_coroutine

MODEL = {"provider": "LOCAL", "model": "counting", "dimensions": 8}


class CountingModel:
    """Deterministic vectors by hash; records every text."""

    provider, model, dimensions, batch_size, calls, max_tokens = "LOCAL", "counting", 8, 16, 1, 64
    passage_prefix = ""

    def __init__(self):
        self.texts = []

    def embed(self, texts, kind):
        self.texts += texts
        raw = np.array([list(hashlib.sha256(text.encode()).digest()[:8]) for text in texts], dtype=np.float32) + 1
        return raw / np.linalg.norm(raw, axis=1, keepdims=True)


class House:
    """One scope with its stores and a worker."""

    def __init__(self, db, scope, folder):
        self.db, self.scope = db, scope
        self.files = LocalFiles(folder)
        self.ring = KeyRing.parse("1:" + base64.b64encode(os.urandom(32)).decode())
        self.vectors = PgVectorStore(db, scope.namespace, 8)
        self.model = CountingModel()
        self.tokenizer = tokenizer_for("LOCAL", "all-MiniLM-L6-v2")

    def post(self, text, name, **ingestion):
        return self.run_async(
            runs.accept_text(self.db, self.scope, text=text, name=name, ingestion=Ingestion(**ingestion))
        )

    def run_async(self, coroutine):
        return run_coroutine(self.db, coroutine)

    def lease(self):
        batches.form_batches(self.db, size=64, batches=8)
        for batch in batches.undispatched_batches(self.db):
            batches.record_flow_run(self.db, batch, "run")
            if lease := batches.claim_lease(self.db, batch.id, batch.attempt, seconds=30):
                return lease
        raise AssertionError("nothing waits")

    def steps(self, lease, window, *, until=None, parser=None):
        run_documents.start_window(self.db, lease, window)
        for name, step in {
            "fetch": lambda: fetch.fetch_documents(self.db, lease, window, self.files, MODEL),
            "parse": lambda: parse.parse_documents(self.db, lease, window, self.files, parser, ring=self.ring),
            "chunk": lambda: chunk.chunk_documents(self.db, lease, window, self.files, self.tokenizer, self.model),
            "embed": lambda: embed.embed_documents(self.db, lease, window, self.model),
            "upsert": lambda: upsert.upsert_documents(self.db, lease, window, self.vectors, "english"),
        }.items():
            step()
            if name == until:
                return

    def work(self, **options):
        """Take all waiting work through the steps."""
        lease = self.lease()
        for window in run_documents.list_windows(self.db, lease, documents=64, size=1 << 24):
            self.steps(lease, window, **options)
        results.settle_runs(self.db, lease)
        batches.finish_batch(self.db, lease)

    def ingest(self, text, name, **ingestion):
        accepted = self.post(text, name, **ingestion)
        self.work()
        return accepted

    def sweep(self):
        self.db.rows("update sweeps set due_at = now()")
        while sweep.collect_garbage(self.db, lambda _: sweep.Stores(self.vectors, self.files, lambda _: None)):
            pass

    def contents(self):
        """Visible chunks in order."""
        rows = self.db.rows(
            """
            select c.content from documents d
            join chunks c on c.document_id = d.id and c.generation = d.active_generation
            join partitions p on p.id = d.partition_id
            where p.namespace_id = %(namespace)s and d.deleted_at is null order by d.name, c.index
            """,
            {"namespace": self.scope.namespace},
        )
        return [row["content"] for row in rows]

    def footprint(self):
        """Rows in every bulk table of the scope."""
        counts = {}
        for table in ("chunks", "embeddings", "vectors", "postings"):
            row = self.db.row(
                f"select count(*) as n from {table} t join partitions p on p.id = t.partition_id"
                " where p.namespace_id = %(namespace)s",
                {"namespace": self.scope.namespace},
            )
            counts[table] = row["n"]
        return counts


@pytest.fixture
def house(db, new_scope, tmp_path):
    return House(db, new_scope(), tmp_path)


def paragraphs(count, changed=None):
    return "\n\n".join(
        f"Paragraph {n} {'was changed' if n == changed else 'speaks'} of topic{n} and of thing{n}. " * 3
        for n in range(count)
    )


def test_a_replacement_shows_whole_or_not_at_all(house):
    house.ingest(paragraphs(20), "doc")
    old = house.contents()
    house.post(paragraphs(30, changed=3), "doc")
    lease = house.lease()
    (window,) = run_documents.list_windows(house.db, lease, documents=64, size=1 << 24)
    for step in ("fetch", "parse", "chunk", "embed"):
        house.steps(lease, window, until=step)
        assert house.contents() == old
    house.steps(lease, window)
    assert "was changed" in " ".join(house.contents())


def test_run_crash_and_run_again_leaves_what_one_clean_run_leaves(house, db, new_scope, tmp_path):
    clean = House(db, new_scope(), tmp_path)
    clean.ingest(paragraphs(20), "doc")
    expected = clean.footprint()
    house.post(paragraphs(20), "doc")
    for step in ("fetch", "parse", "chunk", "embed", "upsert"):
        lease = house.lease()
        (window,) = run_documents.list_windows(house.db, lease, documents=64, size=1 << 24) or [[]]
        house.steps(lease, window, until=step)
        (batch,) = [b for b in batches.open_batches(house.db) if b.id == lease.batch_id]
        poison_detection.restart_batch(house.db, batch)
    house.work()
    house.sweep()
    assert house.footprint() == expected
    assert house.contents() == clean.contents()


def test_an_older_run_that_ends_later_does_not_win(house):
    house.post("the older text", "doc")
    older = house.lease()
    (window,) = run_documents.list_windows(house.db, older, documents=64, size=1 << 24)
    house.steps(older, window, until="embed")
    house.ingest("the newer text", "doc")
    upsert.upsert_documents(house.db, older, window, house.vectors, "english")
    results.settle_runs(house.db, older)
    assert house.contents() == ["the newer text"]


def test_a_document_deleted_in_flight_stays_deleted(house):
    accepted = house.post("soon to be gone", "doc")
    lease = house.lease()
    (window,) = run_documents.list_windows(house.db, lease, documents=64, size=1 << 24)
    house.steps(lease, window, until="embed")
    document_filter = DocumentFilter(document_ids=(accepted.document_id,))
    assert house.run_async(documents.delete_documents(house.db, house.scope, document_filter)).documents == 1
    house.steps(lease, window)
    results.settle_runs(house.db, lease)
    run = house.run_async(runs.read_run(house.db, house.scope, accepted.job_run_id))
    assert (run.status, [entry.status for entry in run.cancelled]) == ("COMPLETED", ["CANCELLED"])
    assert house.contents() == []
    house.sweep()
    assert set(house.footprint().values()) == {0}


def test_every_chunk_is_cut_exactly_from_the_stored_parsed_text(house):
    text = "Grüße aus Köln 🇩🇪 — " * 40 + "\n\n" + paragraphs(9)
    house.ingest(text, "unicode", chunk_size=20, chunk_overlap=5)
    rows = house.db.rows(
        'select c.start, c."end", c.content, d.parsed_key from chunks c join documents d on d.id = c.document_id'
        " join partitions p on p.id = c.partition_id where p.namespace_id = %(namespace)s",
        {"namespace": house.scope.namespace},
    )
    assert len(rows) > 10
    stored = parse.read_text(house.files, rows[0]["parsed_key"])
    assert stored == text
    assert all(stored[row["start"] : row["end"]] == row["content"] for row in rows)


def test_what_is_embedded_begins_with_the_title_and_what_is_stored_does_not(house):
    house.ingest("Ships wait outside.", "Harbour rules")
    house.ingest("Ships wait outside.", "file-0017.txt")
    assert house.model.texts == ["Harbour rules\nShips wait outside.", "Ships wait outside."]
    rows = house.db.rows(
        "select distinct c.content from chunks c join partitions p on p.id = c.partition_id"
        " where p.namespace_id = %(namespace)s",
        {"namespace": house.scope.namespace},
    )
    assert [row["content"] for row in rows] == ["Ships wait outside."]
    assert house.footprint()["embeddings"] == 2
