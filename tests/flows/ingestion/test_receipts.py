"""Receipts of deletions are confirmed after every store was emptied and read back."""

import time

import pytest

from connectors import registry
from flows import lease_renewal
from retrieval import settings
from retrieval.documents import receipts
from retrieval.errors import Fatal
from retrieval.ingestion.queries import run_documents
from retrieval.jobs.queries import leases
from retrieval.namespaces import namespaces
from retrieval.ports import Vector
from retrieval.readiness import files_folder
from tests import registry_instances
from tests.flows.configured import Configured
from tests.standins import s3_server
from tests.standins.pinecone import status

DIMENSIONS = 256
LONG = "\n\n".join(f"Owl {n} hunts mice in valley {n} at night, and sleeps in barn {n} by day." for n in range(120))


@pytest.fixture
def quiet(db, monkeypatch, tmp_path):
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.0/8")
    monkeypatch.setenv("RETRIEVAL_FILES_DIRECTORY", str(tmp_path / "files"))
    settings.load_settings.cache_clear()
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / files_folder.MARKER_NAME).write_text("a folder in use\n")
    registry_instances.forget_instances()
    yield db
    settings.load_settings.cache_clear()
    registry_instances.forget_instances()


def receipt(space, deletion=None):
    scope = space.scope
    query = {"organization": scope.organization, "namespace": None, "tenant": "", "all_tenants": True}
    return space.call(receipts.find_receipt(space.db, deletion or space.deletion, **query))


def stores(receipt):
    return {store.store: (store.removed, store.read_back_at is not None) for store in receipt.stores}


def chunks_of(space):
    row = space.db.row(
        "select count(*) as n from chunks c join partitions p on p.id = c.partition_id where p.namespace_id = %(id)s",
        {"id": space.scope.namespace},
    )
    return row["n"]


def test_the_embedded_stores_are_emptied_and_read_back(quiet):
    space = Configured(quiet)
    text, file = space.text(LONG, "owls"), space.file("mice.md", b"# Mice\n\nMice eat corn.")
    space.work()
    chunks = chunks_of(space)
    assert chunks > 2
    assert space.delete(text.document_id, file.document_id) == 2
    pending = receipt(space)
    assert (pending.status, pending.documents, pending.confirmed_at) == ("PENDING", 2, None)
    space.sweep()
    confirmed = receipt(space)
    assert (confirmed.status, confirmed.documents, confirmed.chunks, confirmed.vectors) == (
        "CONFIRMED",
        2,
        chunks,
        chunks,
    )
    assert confirmed.files == 3  # a text is its own parsed text
    assert stores(confirmed) == {"DATABASE": (chunks, True), "PGVECTOR": (chunks, True), "LOCAL": (3, True)}
    assert confirmed.confirmed_at >= max(store.read_back_at for store in confirmed.stores)


def test_a_namespace_has_one_receipt_for_all_of_it(quiet):
    space = Configured(quiet)
    first = space.text("Owls hunt mice at night.", "owls")
    space.text(LONG, "more owls")
    space.work()
    space.delete(first.document_id)
    chunks = chunks_of(space)
    whole = space.call(namespaces.delete_namespace(space.db, space.scope.organization, space.scope.namespace))
    for _ in range(3):  # the namespace waits for the document that was deleted before
        space.sweep()
    assert receipt(space).status == "CONFIRMED"
    namespace_receipt = receipt(space, whole)
    assert (
        namespace_receipt.status,
        namespace_receipt.documents,
        namespace_receipt.chunks,
        namespace_receipt.files,
    ) == ("CONFIRMED", 1, chunks - 1, 1)
    assert receipt(space).chunks == 1


def test_an_index_that_is_away_confirms_nothing_until_it_is_back(quiet, pinecone_index):
    index = pinecone_index(dimension=DIMENSIONS)
    space = Configured(quiet, vectorStorageConfig=index.config())
    text = space.text(LONG, "owls")
    space.work()
    chunks = chunks_of(space)
    space.delete(text.document_id)
    index.always.append(("/vectors/delete", status(503)))
    space.sweep()
    assert receipt(space).status == "PENDING"
    space.db.rows("update sweeps set tries = 8 where document_id = %(id)s", {"id": text.document_id})
    assert receipt(space).status == "FAILED"
    index.always.clear()
    space.sweep()
    confirmed = receipt(space)
    assert (confirmed.status, confirmed.vectors) == ("CONFIRMED", chunks)
    assert stores(confirmed)["PINECONE"] == (chunks, True)
    assert index.space(space.scope.namespace) == {}


def test_a_bucket_that_may_not_be_listed_is_emptied_and_said_to_be_unread(quiet):
    with s3_server.running() as storage:
        space = Configured(quiet, fileStorageConfig=storage.config(name := s3_server.bucket(storage)))
        text = space.text("Owls hunt mice at night.", "owls")
        space.work()
        space.delete(text.document_id)
        refused = s3_server.answer(403, "AccessDenied")
        storage.always = lambda handler: "list-type" in handler.path and refused(handler)
        space.sweep()
        failed = receipt(space)
        assert (failed.status, failed.confirmed_at) == ("FAILED", None)
        assert stores(failed)["S3_COMPATIBLE"] == (1, False)
        assert storage.object_keys(name) == []
        registry_instances.forget_instances()


def files_of(space, tmp_path):
    return [path for path in (tmp_path / "files" / space.scope.namespace).rglob("*") if path.is_file()]


def test_nothing_is_confirmed_while_a_worker_may_store_more_of_a_document(quiet, tmp_path):
    space = Configured(quiet)
    text, neighbour = space.text("Owls hunt mice at night.", "owls"), space.text("Mice eat corn.", "mice")
    lease = space.lease()

    def deleted(step):
        if step == "fetch":
            begun = run_documents.list_windows(quiet, lease, documents=64, size=1 << 24)
            run_documents.start_window(quiet, lease, begun[0])
            space.delete(text.document_id)
            space.sweep()
            assert receipt(space).status == "PENDING"

    space.take(lease, before_step=deleted)
    assert receipt(space).status == "PENDING"
    space.sweep()
    assert receipt(space).status == "CONFIRMED"
    assert {path.parent.parent.name for path in files_of(space, tmp_path)} == {neighbour.document_id}


def test_a_namespace_is_not_confirmed_before_an_upsert_under_way(quiet, pinecone_index):
    # The lost worker's upsert outlives its lease.
    index = pinecone_index(dimension=DIMENSIONS)
    space = Configured(quiet, vectorStorageConfig=index.config())
    text, late = space.text(LONG, "owls"), []
    lease = space.lease()
    leases.renew_lease(quiet, lease, seconds=1)

    def on_its_way(step):
        """The namespace is deleted and cleared while the request for the vectors has not come to the vendor."""
        if step == "upsert":
            config = space.config
            late.append(space.call(namespaces.delete_namespace(quiet, space.scope.organization, space.scope.namespace)))
            time.sleep(1.5)
            space.sweep()
            assert receipt(space, late[0]).status == "PENDING"
            vectors = [Vector(f"{text.document_id}#1#0", text.document_id, [1.0] * DIMENSIONS, {"document": "x"})]
            registry.make_vector_store(config, quiet).upsert(space.scope, vectors)

    with pytest.raises(Fatal, match="namespace was deleted"), lease_renewal.keep_lease(quiet, lease, seconds=1):
        space.take(lease, before_step=on_its_way)
    assert index.space(space.scope.namespace)
    space.sweep()
    assert receipt(space, late[0]).status == "CONFIRMED"
    assert index.space(space.scope.namespace) == {}
