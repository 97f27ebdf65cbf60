"""No embedding is left of a text that is gone, whoever writes and whoever deletes at that moment."""

from __future__ import annotations

import random
import threading
import time

import psycopg
import pytest

from connectors import registry
from local import admin
from retrieval import settings
from retrieval.database.database import Database
from retrieval.ingestion import embed
from retrieval.maintenance.fsck import check, tables
from retrieval.maintenance.fsck.findings import Instance
from retrieval.readiness import files_folder
from tests.flows.configured import Configured

SEED = 20_261_123
SECONDS = 6.0


@pytest.fixture
def space(monkeypatch, tmp_path, fresh_database, request):
    """In a database of its own: the check looks at all of it."""
    monkeypatch.setenv("RETRIEVAL_FILES_DIRECTORY", str(tmp_path))
    settings.load_settings.cache_clear()
    registry._instances.clear()
    (tmp_path / files_folder.MARKER_NAME).write_text("a folder in use\n")
    db = Database(fresh_database(f"left_{abs(hash(request.node.name)) % 10**9}"), size=8)
    yield Configured(db)
    db.close()
    settings.load_settings.cache_clear()
    registry._instances.clear()


def instance(space):
    return Instance(
        space.db, lambda one: admin.build_stores(space.db, space.ring, one), "english", registry.make_local_file_store()
    )


def embeddings(space):
    return space.db.row("select count(*) as n from embeddings")["n"]


def test_of_a_text_that_is_deleted_while_the_model_is_at_work(space, monkeypatch):
    """Its chunks are swept before the vectors come."""
    made = space.text("Bats hunt moths.", "bats").document_id
    space.text("Owls hunt mice.", "owls")
    whole = embed._check_vectors

    def late(*given):
        space.delete(made)
        space.sweep()
        return whole(*given)

    monkeypatch.setattr(embed, "_check_vectors", late)
    space.work()
    assert space.search("hunting") == ["owls"]
    assert embeddings(space) == 1
    assert check.run_check(instance(space)).findings == []


def test_of_a_text_that_is_deleted_while_its_embedding_is_put_back(space):
    document = space.text("Bats hunt moths.", "bats").document_id
    space.work()
    space.db.rows("delete from embeddings")
    whole = instance(space)
    found = [one for one in check.find_all(whole) if one.kind == "MISSING_EMBEDDING"]
    assert len(found) == 1
    with psycopg.connect(space.db.url) as sweep:  # what the sweep of the deleted document does, slowly
        sweep.execute("select pg_advisory_xact_lock(partition_id) from chunks")
        sweep.execute("delete from chunks where document_id = %s", [document])
        repair = threading.Thread(target=tables._copy_embeddings, args=(whole, found))
        repair.start()
        time.sleep(0.5)
        sweep.commit()
        repair.join()
    assert embeddings(space) == 0


def test_of_a_chunk_of_no_document(space):
    """The repair itself takes it away with its chunk."""
    space.text("Bats hunt moths.", "bats")
    space.work()
    space.db.rows("delete from connection_documents")
    space.db.rows("delete from run_documents")
    space.db.rows("delete from documents")
    whole = instance(space)
    found = check.find_all(whole)
    assert "ORPHAN_CHUNK" in {one.kind for one in found}
    check.repair_all(whole, [one for one in found if one.kind == "ORPHAN_CHUNK"])
    assert embeddings(space) == 0


def test_while_texts_come_and_go_and_are_checked(space, monkeypatch):
    """Texts that share words and texts that come again, one worker, one sweeper, deletions and repairs."""
    chance, until = random.Random(SEED), time.monotonic() + SECONDS
    known, lock, trouble = [], threading.Lock(), []
    whole = embed._check_vectors

    def slowly(*given):
        time.sleep(0.1)
        return whole(*given)

    monkeypatch.setattr(embed, "_check_vectors", slowly)

    def loop(act):
        def run():
            try:
                while time.monotonic() < until:
                    act()
            except Exception as error:  # noqa: BLE001 - told by the test
                trouble.append(error)

        return threading.Thread(target=run)

    def come():
        number = chance.randrange(30)
        words = f"Owl {number % 10} hunts mouse {chance.randrange(2) * number}."
        made = space.text(words, f"owl {number}").document_id
        with lock:
            known.append(made)
        space.work()

    def go():
        with lock:
            some = [known.pop(chance.randrange(len(known))) for _ in range(min(2, len(known)))]
        if some:
            space.delete(*some)
        time.sleep(0.02)

    def lose():
        space.db.rows("delete from embeddings where key in (select key from embeddings order by random() limit 1)")
        time.sleep(0.2)

    def look():
        check.run_check(instance(space), repair=True)

    threads = [loop(act) for act in (come, go, space.sweep, look, lose)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trouble == []
    space.work()
    space.sweep()
    assert [one for one in check.run_check(instance(space)).findings if one.kind == "ORPHAN_EMBEDDING"] == []
