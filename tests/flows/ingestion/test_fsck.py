"""The check finds and repairs all planted damage in tables, files and vector stores."""

import pytest

from connectors import registry
from local import admin
from retrieval import ids, settings
from retrieval.database.database import Database
from retrieval.documents import file_keys
from retrieval.jobs import control
from retrieval.maintenance.fsck import check
from retrieval.maintenance.fsck.findings import Instance
from retrieval.maintenance.stores import Stores
from retrieval.ports import Vector
from retrieval.principals import Access
from retrieval.readiness import files_folder
from tests import registry_instances
from tests.flows.configured import Configured
from tests.nightly import nightly_except
from tests.standins import s3_server

DIMENSIONS = 256
PARAGRAPHS = 70


@pytest.fixture
def quiet(monkeypatch, tmp_path, fresh_database, request):
    """A database and a folder of files of the test's own."""
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.0/8")
    monkeypatch.setenv("RETRIEVAL_FILES_DIRECTORY", str(tmp_path / "files"))
    settings.load_settings.cache_clear()
    registry_instances.forget_instances()
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / files_folder.MARKER_NAME).write_text("a folder in use\n")
    db = Database(fresh_database(f"fsck_{abs(hash(request.node.name)) % 10**9}"), size=4)
    yield db
    db.close()
    settings.load_settings.cache_clear()
    registry_instances.forget_instances()


def filled(space, documents):
    """Texts of three chunks each, ingested; the ids of the documents."""
    document_ids = []
    for number in range(documents):
        words = "\n\n".join(f"Owl {number} hunts mouse {n} in valley{number}x{n} at night." for n in range(PARAGRAPHS))
        document_ids.append(space.text(words, f"owl {number}").document_id)
    space.work()
    return document_ids


def instance(space):
    files = registry.make_local_file_store()
    return Instance(space.db, lambda namespace: admin.build_stores(space.db, space.ring, namespace), "english", files)


def only(space, statement, **values):
    return space.db.rows(statement, values)


def rows_of(space, document):
    return only(
        space,
        "select c.*, d.raw_key from chunks c join documents d on d.id = c.document_id"
        " and d.active_generation = c.generation where d.id = %(id)s order by c.index",
        id=document,
    )


def partition(space):
    return only(space, "select id from partitions where namespace_id = %(n)s", n=space.scope.namespace)[0]["id"]


def plant(space, documents):
    """Plant damage of each kind; return kind and search word of each."""
    store, files = registry.make_vector_store(space.config, space.db), registry.make_file_store(space.config)
    planted, remaining, number = [], iter(documents), partition(space)
    for document in (ids.document_id(), next(remaining)):  # an unknown document, and a version that is not visible
        name = ids.vector_id(document, 10**9, 0)
        store.upsert(space.scope, [Vector(name, document, [1.0] * DIMENSIONS, {"document": document})])
        planted.append(("ORPHAN_VECTOR", name))
    row = rows_of(space, next(remaining))[0]
    name = ids.vector_id(row["document_id"], row["generation"], row["index"])
    store.delete(space.scope, [name])
    planted.append(("MISSING_VECTOR", name))
    for path in (f"{ids.document_id()}/{10**9}/raw", "stray"):
        key = f"{space.scope.namespace}/_/{path}"
        files.put(key, [b"x"])
        planted.append(("ORPHAN_FILE", key))
    key = rows_of(space, next(remaining))[0]["raw_key"]
    files.delete([key])
    planted.append(("MISSING_FILE", key))
    for document in (ids.document_id(), next(remaining)):
        only(
            space,
            'insert into chunks (partition_id, document_id, generation, index, start, "end", tokens, content,'
            " embedding_key) values (%(p)s, %(d)s, 1000000000, 0, 0, 1, 1, 'x', %(k)s)",
            p=number,
            d=document,
            k=b"k" * 32,
        )
        planted.append(("ORPHAN_CHUNK", document))
    row = rows_of(space, next(remaining))[1]
    only(space, "delete from chunks where id = %(id)s", id=row["id"])
    planted.append(("MISSING_CHUNKS", row["document_id"]))
    row = rows_of(space, next(remaining))[0]
    only(space, "delete from postings where chunk_id = %(c)s and term like 'valley%%'", c=row["id"])
    planted.append(("MISSING_POSTINGS", row["document_id"]))
    linked, deleted = next(remaining), next(remaining)
    for statement, kind, word in (
        (
            "insert into postings (partition_id, term, chunk_id, tf, length) values (%(p)s, 'stray', 9999999, 1, 1)",
            "ORPHAN_POSTINGS",
            "9999999",
        ),
        (
            "insert into term_counts (partition_id, term, chunks) values (%(p)s, 'never', 3)",
            "WRONG_TERM_COUNT",
            "term counted in 3 chunks, stands in 0",
        ),
        (
            "insert into document_counts (partition_id, source, status, documents) values (%(p)s, 'BOX', 'FAILED', 3)",
            "WRONG_DOCUMENT_COUNT",
            "counted 3 documents of BOX as FAILED, there are 0",
        ),
        (
            "insert into embeddings (partition_id, key, values) values (%(p)s, 'no chunk', '[1]')",
            "ORPHAN_EMBEDDING",
            b"no chunk".hex(),
        ),
        (
            "insert into connection_documents (document_id, connection_id) values (%(linked)s, 'conn_x')",
            "ORPHAN_LINK",
            linked,
        ),
        ("update partitions set chunks = chunks + 7, terms = terms - 1 where id = %(p)s", "WRONG_COUNTER", "counted"),
        ("update documents set deleted_at = now() where id = %(deleted)s", "UNSWEPT_DOCUMENT", deleted),
        (
            "insert into term_counts (partition_id, term, chunks) values (10000000, 'x', 1)",
            "ORPHAN_ROWS",
            "10000000",
        ),
    ):
        only(space, statement, p=number, linked=linked, deleted=deleted)
        planted.append((kind, word))
    return planted


def found_of(planted, findings):
    """Number of planted defects with a finding."""
    remaining = list(findings)
    count = 0
    for kind, word in planted:
        for finding in remaining:
            if finding.kind == kind and word in f"{finding.document} {finding.detail}":
                remaining.remove(finding)
                count += 1
                break
    return count


@pytest.fixture(params=nightly_except(["embedded", "hosted"], "embedded"))
def space(request, quiet, pinecone_index):
    """Namespace with embedded stores, or with a bucket and an index of Pinecone."""
    if request.param == "embedded":
        yield Configured(quiet)
        return
    index = pinecone_index(dimension=DIMENSIONS)
    with s3_server.running() as storage:
        bucket = storage.config(s3_server.bucket(storage))
        yield Configured(quiet, vectorStorageConfig=index.config(), fileStorageConfig=bucket)
        registry_instances.forget_instances()


def test_damage_of_each_kind_is_found_and_repaired(space):
    documents = filled(space, 8)
    assert check.run_check(instance(space)).findings == []
    foreign_key = f"{ids.namespace_id()}/_/{ids.document_id()}/7/raw"
    registry.make_local_file_store().put(foreign_key, [b"x"])
    planted = [*plant(space, documents), ("ORPHAN_FILE", foreign_key)]
    assert found_of(planted, check.run_check(instance(space)).findings) == len(planted)
    assert check.run_check(instance(space), repair=True).remaining == []
    space.work()
    space.sweep()
    assert check.run_check(instance(space)).findings == []
    lost = only(space, "select status from documents where error like 'Parts of this document%%'")
    assert lost == [{"status": "FAILED"}], "a text whose only file is gone cannot be made again"


def test_a_file_that_a_row_has_come_to_refer_to_is_not_removed(quiet):
    space = Configured(quiet)
    referenced, deleted = filled(space, 2)
    store = registry.make_file_store(space.config)
    keys = [f"{space.scope.namespace}/_/{document}/999999/raw" for document in (referenced, deleted)]
    for key in keys:
        store.put(key, [b"x"])
    whole = instance(space)
    findings = check.find_all(whole)
    assert found_of([("ORPHAN_FILE", key) for key in keys], findings) == 2
    only(space, "update documents set raw_key = %(key)s where id = %(id)s", key=keys[0], id=referenced)
    check.repair_all(whole, findings)
    assert [key for key in store.keys(f"{space.scope.namespace}/") if key in keys] == keys[:1]


def test_a_file_of_a_killed_worker_is_deleted_after_its_run_was_cancelled(quiet):
    space = Configured(quiet)
    accepted = space.text("Owls hunt mice.", "owls")
    lease = space.lease()
    (generation,) = only(space, "select number from job_runs where id = %(run)s", run=accepted.job_run_id)
    key = file_keys.document_key(space.scope, accepted.document_id, generation["number"], file_keys.RAW_NAME)
    store = registry.make_file_store(space.config)
    # The worker stored the text and was killed before it recorded the key.
    store.put(key, [b"Owls hunt mice."])
    only(
        space,
        "insert into sweeps (partition_id, kind, document_id, generation)"
        " select partition_id, 'generation', %(document)s, number from job_runs where id = %(run)s",
        document=accepted.document_id,
        run=accepted.job_run_id,
    )
    space.sweep()
    assert list(store.keys(f"{space.scope.namespace}/")) == [key], "another worker may still record it"
    control.cancel_run(space.db, space.scope, accepted.job_run_id)
    space.take(lease)
    assert check.run_check(instance(space)).findings == []
    space.sweep()
    assert list(store.keys(f"{space.scope.namespace}/")) == []
    assert check.run_check(instance(space)).findings == []


def test_what_a_running_flow_writes_is_left_alone(quiet):
    space = Configured(quiet)
    filled(space, 3)
    space.text("Bats hunt moths.\n\n" * 30, "bats")
    lease = space.lease()
    step_findings = []

    def look(step):
        step_findings.append((step, check.run_check(instance(space), repair=True).findings))

    space.take(lease, before_step=look)
    assert len(step_findings) == 5
    assert {step: step_found for step, step_found in step_findings if step_found} == {}
    assert space.search("bats")[:1] == ["bats"]
    assert check.run_check(instance(space)).findings == []


def test_a_store_that_is_away_is_told_and_hides_nothing_else(quiet):
    space = Configured(quiet)
    filled(space, 3)
    only(space, "update partitions set chunks = chunks + 7")
    real = instance(space)

    class Away:
        def __getattr__(self, name):
            def refuse(*_):
                from retrieval.errors import Retryable

                raise Retryable("The vector store cannot be reached or is busy.")

            return refuse

    def stores(namespace):
        real_stores = real.stores(namespace)
        return Stores(Away(), real_stores.files, real_stores.end_authorizations)

    outcome = check.run_check(Instance(space.db, stores, "english", real.local_files), repair=True)
    assert {finding.kind for finding in outcome.findings} == {"WRONG_COUNTER", "UNREADABLE_STORE"}
    assert {finding.kind for finding in outcome.remaining} == {"UNREADABLE_STORE"}


def test_readers_that_are_not_those_of_the_list_are_found_and_repaired(quiet):
    space = Configured(quiet)
    access = Access(users=("ada",), groups=("staff",), denied_users=("bob",))
    document_ids = [space.text(f"Owl {n} hunts.", f"owl {n}", access=access).document_id for n in range(4)]
    space.work()
    _kept, lacking, widened, limited = document_ids
    only(space, "update documents set allowed = '{g:staff}' where id = %(id)s", id=lacking)
    only(space, "update documents set allowed = allowed || '{*}', denied = '{}' where id = %(id)s", id=widened)
    only(space, "update documents set access_limit = access where id = %(id)s", id=limited)
    findings = check.run_check(instance(space)).findings
    assert {(finding.kind, finding.document) for finding in findings} == {
        ("WRONG_READERS", finding) for finding in (lacking, widened, limited)
    }
    assert check.run_check(instance(space), repair=True).remaining == []
    assert check.run_check(instance(space)).findings == []
    rows = [
        row for finding in document_ids for row in only(space, "select * from documents where id = %(id)s", id=finding)
    ]
    assert {(*row["allowed"], *row["denied"]) for row in rows} == {("u:ada", "g:staff", "u:bob")}
    assert {row["access_limit"] for row in rows} == {None}


def stored_at(tmp_path, key):
    return tmp_path / "files" / key


def kinds_and_documents(outcome):
    return sorted((finding.kind, finding.document) for finding in outcome)


def test_files_that_were_emptied_or_cut_are_found(quiet, tmp_path):
    # Parsed text is rebuilt from the raw file; a damaged raw text is FAILED.
    space = Configured(quiet)
    emptied, cut, intact = filled(space, 3)
    page = b"<html><body><h1>Seals</h1>" + b"<p>Seals sleep under water.</p>" * 40 + b"</body></html>"
    read, deleted = (space.file(f"{name}.html", page + name.encode(), "text/html").document_id for name in ("a", "b"))
    space.work()
    assert check.run_check(instance(space)).findings == []
    keys = {row["id"]: row for row in only(space, "select id, raw_key, parsed_key from documents")}
    stored_at(tmp_path, keys[emptied]["raw_key"]).write_bytes(b"")
    for document, key, size in ((cut, "raw_key", 100), (read, "parsed_key", 100), (deleted, "raw_key", len(page))):
        file = stored_at(tmp_path, keys[document][key])
        file.write_bytes(file.read_bytes()[:size])
    findings = check.run_check(instance(space)).findings
    assert kinds_and_documents(findings) == sorted(("WRONG_FILE", finding) for finding in (emptied, cut, read, deleted))
    assert {finding.document: finding.detail.partition(" holds ")[2] for finding in findings}[emptied].startswith(
        "0 bytes, not "
    )
    assert check.run_check(instance(space), repair=True).remaining == []
    space.work()
    space.sweep()
    assert check.run_check(instance(space)).findings == []
    status = {row["id"]: row["status"] for row in only(space, "select id, status from documents")}
    assert status == {emptied: "FAILED", cut: "FAILED", intact: "SUCCESS", read: "SUCCESS", deleted: "FAILED"}
    assert not stored_at(tmp_path, keys[emptied]["raw_key"]).exists()
    assert space.search("owl 0 in valley")[0] == "owl 0"


def test_chunks_whose_text_was_changed_are_found_and_repaired(quiet):
    # Text of the same or another length is restored from the parsed file without the model.
    space = Configured(quiet)
    longer, same, unchanged = filled(space, 3)
    contents_before = {
        document: [row["content"] for row in rows_of(space, document)] for document in (longer, same, unchanged)
    }
    only(
        space,
        "update chunks set content = content || ' and Rome' where id = %(id)s",
        id=rows_of(space, longer)[0]["id"],
    )
    only(
        space,
        "update chunks set content = overlay(content placing 'Cat' from 1) where id = %(id)s",
        id=rows_of(space, same)[1]["id"],
    )
    spent = only(space, "select coalesce(sum(tokens), 0) as tokens from token_usage")
    assert kinds_and_documents(check.run_check(instance(space)).findings) == sorted(
        [("WRONG_TEXT", longer), ("WRONG_TEXT", same)]
    )
    assert check.run_check(instance(space), repair=True).remaining == []
    space.work()
    assert {
        document: [row["content"] for row in rows_of(space, document)] for document in contents_before
    } == contents_before
    assert only(space, "select coalesce(sum(tokens), 0) as tokens from token_usage") == spent
    assert check.run_check(instance(space)).findings == []
