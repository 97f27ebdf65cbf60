"""Export and import of a namespace: equal hits."""

import gzip
import hashlib
import io
import json
import tarfile
from copy import copy
from dataclasses import replace

import pytest

from connectors import registry
from local import admin
from retrieval import ids, settings
from retrieval.access import groups
from retrieval.access.reading import viewed_database
from retrieval.database.database import Database
from retrieval.evaluations import evaluations
from retrieval.jobs import control
from retrieval.maintenance import garbage
from retrieval.maintenance.fsck import check
from retrieval.maintenance.fsck.findings import Instance
from retrieval.maintenance.moving import archive, exporting, frame, importing
from retrieval.maintenance.moving.archive import ArchiveError
from retrieval.namespaces import namespaces
from retrieval.ports import Scope
from retrieval.principals import Access
from retrieval.readiness import files_folder
from retrieval.search import search
from retrieval.search.search import Query
from retrieval.settings import PROJECT_ROOT
from tests import registry_instances
from tests.flows.configured import Configured
from tests.flows.ingestion.test_unpack import packed
from tests.library import viewer_of
from tests.nightly import nightly_except

QUERIES = ("owl 3 in valley", "mice", "who sleeps under water", "valley7x3", "bats and moths")
MODES = ((1.0, 0.0), (0.0, 1.0), (0.5, 0.5))


@pytest.fixture
def home(monkeypatch, tmp_path):
    """Return a function: switch to another home with its file folder."""

    def enter(name):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / files_folder.MARKER_NAME).write_text("a folder in use\n")
        monkeypatch.setenv("RETRIEVAL_FILES_DIRECTORY", str(folder))
        settings.load_settings.cache_clear()
        registry_instances.forget_instances()
        return folder

    yield enter
    settings.load_settings.cache_clear()
    registry_instances.forget_instances()


@pytest.fixture
def two(fresh_database, request):
    """The exporting database and a fresh one."""
    name = f"moving_{abs(hash(request.node.name)) % 10**9}"
    opened = [Database(fresh_database(f"{name}_{end}"), size=4) for end in "ab"]
    yield opened
    for database in opened:
        database.close()


def filled(db, documents=12):
    space = Configured(db)
    for number in range(documents):
        words = "\n\n".join(f"Owl {number} hunts mouse {n} in valley{number}x{n} at night." for n in range(60))
        space.text(words, f"owl {number}", metadata={"number": number})
    space.file("seals.md", b"# Seals\n\nSeals sleep under water.")
    space.work()
    return space


def answers(db, ring, namespace, tenant=""):
    config = namespaces.load_namespace(db, ring, namespace)
    scope = Scope(config.organization_id, namespace, tenant)
    rankings = []
    for query in QUERIES:
        for semantic, keyword in MODES:
            search_query = Query(query, semantic_weight=semantic, keyword_weight=keyword)
            result = search.run_search(
                db,
                scope,
                search_query,
                viewer=None,
                embedder=registry.make_embedder(config),
                vectors=registry.make_vector_store(config, db),
            )
            rankings.append([(h.document_id, h.score, h.start, h.end, h.content) for h in result.hits])
    return rankings


def exported(space, tmp_path):
    file = tmp_path / "namespace.tar"
    done = exporting.export_namespace(
        space.db, space.scope.namespace, lambda: registry.make_file_store(space.config), file
    )
    return file, done


def imported(db, ring, file, organization=None, name="copy"):
    organization = organization or ids.organization_id()
    db.rows("insert into organizations (id, name) values (%(id)s, 'x') on conflict do nothing", {"id": organization})
    with archive.open_archive(file) as opened_archive:
        _, configs = importing.read_configs(opened_archive)
        config = importing.draft_namespace(organization, name, configs, {}, importing.read_language(opened_archive))
        target = frame.ImportTarget(
            db,
            ring,
            config,
            files=lambda: registry.make_file_store(config),
            vectors=lambda size: registry.make_vector_store(replace(config, dimensions=size), db),
            language="english",
        )
        return importing.import_namespace(target, opened_archive)


def checked(db, ring):
    whole = Instance(db, lambda one: admin.build_stores(db, ring, one), "english", registry.make_local_file_store())
    return check.run_check(whole).findings


def visible(db):
    return db.rows("select id from namespaces where deleted_at is null", {})


def test_an_import_into_a_fresh_home_answers_as_before_and_embeds_nothing(two, home, tmp_path, monkeypatch):
    home("old")
    space = filled(two[0])
    answers_before = answers(two[0], space.ring, space.scope.namespace)
    assert sum(map(bool, answers_before)) >= 12
    file, done = exported(space, tmp_path)
    assert (done.documents, done.files, done.left_out, done.missing) == (13, 14, 0, 0)
    home("new")
    with monkeypatch.context() as patch:
        patch.setattr(registry, "make_embedder", lambda _: pytest.fail("something is embedded"))
        target = imported(two[1], space.ring, file)
    assert not target.renamed
    assert answers(two[1], space.ring, target.namespace) == answers_before
    assert checked(two[1], space.ring) == []
    assert [row["id"] for row in visible(two[1])] == [target.namespace]
    old, new = (
        db.rows("select id, external_id, name, metadata, created_at, status from documents order by id", {})
        for db in two
    )
    assert new == old


def judged(space):
    """Evaluation of a question by document id, with an ended and an open run."""
    document = space.db.row("select id from documents where name = 'owl 3'", {})["id"]
    relevant = [{"documentId": document, "grade": 2}, {"externalId": "owl-9"}]
    question = {"query": "owl 3", "relevant": relevant, "filter": {"documentIds": [document]}}
    evaluation = space.call(
        evaluations.create_evaluation(space.db, space.scope, "questions", [question, {**question, "query": "b"}])
    )
    for run, ended in (("evr_1", "now()"), ("evr_2", "null")):
        space.db.rows(
            "insert into evaluation_runs (id, evaluation_id, status, settings, result, finished_at) values"
            f" (%(run)s, %(evaluation)s, 'COMPLETED', '[]', '{{\"questions\": []}}', {ended})",
            {"run": run, "evaluation": evaluation.id},
        )
    return document


def read_evaluations(db, namespace):
    """Evaluations of the namespace."""
    return db.rows(
        "select e.id, e.name, q.query, q.relevant, q.filter, (select array_agg(r.id) from evaluation_runs r"
        " where r.evaluation_id = e.id) as runs from evaluations e join partitions p on p.id = e.partition_id"
        " join evaluation_questions q on q.evaluation_id = e.id where p.namespace_id = %(id)s order by q.number",
        {"id": namespace},
    )


def test_evaluations_travel_with_what_they_say_of_documents(two, home, tmp_path):
    home("old")
    space = filled(two[0], 4)
    document = judged(space)
    evaluations_before = read_evaluations(two[0], space.scope.namespace)
    file, _ = exported(space, tmp_path)
    beside = imported(two[0], space.ring, file)
    original_id = two[0].row(
        "select d.id from documents d join partitions p on p.id = d.partition_id"
        " where p.namespace_id = %(id)s and d.name = 'owl 3'",
        {"id": beside.namespace},
    )["id"]
    evaluations = read_evaluations(two[0], beside.namespace)
    assert [evaluation["query"] for evaluation in evaluations] == ["owl 3", "b"]
    assert {evaluations[0]["id"], *evaluations[0]["runs"]}.isdisjoint({evaluations_before[0]["id"], "evr_1", "evr_2"})
    assert evaluations[0]["relevant"] == [{"documentId": original_id, "grade": 2}, {"externalId": "owl-9"}]
    assert evaluations[0]["filter"] == {"documentIds": [original_id]}
    assert original_id != document
    home("new")
    fresh = imported(two[1], space.ring, file)
    assert read_evaluations(two[1], fresh.namespace) == [
        {**evaluation, "runs": ["evr_1"]} for evaluation in evaluations_before
    ]


def test_beside_the_original_documents_get_new_ids(two, home, tmp_path):
    home("old")
    space = filled(two[0])
    answers_before = answers(two[0], space.ring, space.scope.namespace)
    file, _ = exported(space, tmp_path)
    target = imported(two[0], space.ring, file, space.scope.organization)
    assert target.renamed
    answers_after = answers(two[0], space.ring, target.namespace)
    assert [[hit[1:] for hit in hits] for hits in answers_after] == [
        [hit[1:] for hit in hits] for hits in answers_before
    ]
    assert not {hit[0] for hits in answers_after for hit in hits} & {hit[0] for hits in answers_before for hit in hits}
    assert answers(two[0], space.ring, space.scope.namespace) == answers_before
    assert checked(two[0], space.ring) == []


STEPS = ["_read_jobs", "_read_files", "_read_chunks", "_read_embeddings", "_show_namespace"]


@pytest.mark.parametrize("step", nightly_except(STEPS, "_read_files", "_show_namespace"))
def test_an_import_that_ends_in_the_middle_leaves_nothing(two, home, tmp_path, monkeypatch, step):
    home("old")
    space = filled(two[0], 2)
    file, _ = exported(space, tmp_path)
    folder = home("new")
    real = getattr(importing._NamespaceImport, step)

    def killed(self, *args):
        if step != "_show_namespace":
            real(self, *args)
        raise KeyboardInterrupt

    monkeypatch.setattr(importing._NamespaceImport, step, killed)
    monkeypatch.setattr(importing._NamespaceImport, "abort", lambda _: None)  # as after a SIGKILL
    with pytest.raises(KeyboardInterrupt):
        imported(two[1], space.ring, file)
    db = two[1]
    assert visible(db) == []
    assert checked(db, space.ring) == []
    assert db.rows("select 1 from sweeps where due_at > now() + interval '10 minutes'", {})
    db.rows("update sweeps set due_at = now()", {})
    garbage.collect_garbage(db, lambda path: admin.build_stores(db, space.ring, path))
    for table in ("partitions", "documents", "chunks", "embeddings", "vectors", "postings", "jobs", "sweeps"):
        assert db.rows(f"select 1 from {table} limit 1", {}) == [], table
    assert [path.name for path in folder.iterdir()] == [files_folder.MARKER_NAME]


def changed(file, target, change):
    """Archive after `change(members)`, with a valid manifest unless removed."""
    with tarfile.open(file) as tar:
        members = {info.name: tar.extractfile(info).read() for info in tar}
    change(members)
    with tarfile.open(target, "w") as tar:
        for name, body in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return target


def resealed(members):
    manifest = json.loads(members.pop("manifest.json"))
    manifest["members"] = {name: hashlib.sha256(body).hexdigest() for name, body in members.items()}
    members["manifest.json"] = json.dumps(manifest).encode()


def of_rows(members, table, change):
    rows = [json.loads(line) for line in members[f"{table}.jsonl"].splitlines()]
    for row in rows:
        change(row)
    members[f"{table}.jsonl"] = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    resealed(members)


BAD = {
    "a changed member": (lambda m: m.update({"chunks.jsonl": m["chunks.jsonl"] + b"\n"}), "SHA-256"),
    "a member outside": (lambda m: (m.update({"../evil": b"x"}), resealed(m)), "refused"),
    "a file outside": (lambda m: (m.update({"files/_/../../evil": b"x"}), resealed(m)), "refused"),
    "no manifest": (lambda m: m.pop("manifest.json"), "no manifest"),
    "a member less": (lambda m: m.pop("jobs.jsonl"), "differ"),
    "another version": (
        lambda m: m.update({"manifest.json": json.dumps({**json.loads(m["manifest.json"]), "version": 99}).encode()}),
        "version 99",
    ),
    "depth": (lambda m: (m.update({"namespace.json": b"[" * 10**6}), resealed(m)), "no JSON"),
    "another's partition": (lambda m: of_rows(m, "documents", lambda r: r.update(partition_id=10**6)), "damaged"),
    "another's tenant": (lambda m: of_rows(m, "partitions", lambda r: r.update(tenant="../x")), "tenant"),
    "a wrong type": (lambda m: of_rows(m, "chunks", lambda r: r.update(start="x")), "damaged"),
    "a strange id": (lambda m: of_rows(m, "documents", lambda r: r.update(id="doc_#1#")), "damaged"),
    "a lying vector": (lambda m: (m.update({"embeddings.bin": b"\xff" * 64}), resealed(m)), "damaged"),
}


def test_what_is_no_export_is_refused_with_a_sentence(two, home, tmp_path):
    home("old")
    space = filled(two[0], 2)
    file, _ = exported(space, tmp_path)
    home("new")
    for name, (change, words) in BAD.items():
        hostile = changed(file, tmp_path / "hostile.tar", change)
        with pytest.raises(ArchiveError) as caught:
            imported(two[1], space.ring, hostile)
        assert words in str(caught.value), (name, str(caught.value))
        assert visible(two[1]) == []
    assert not (tmp_path.parent / "evil").exists()
    (tmp_path / "cut.tar").write_bytes(file.read_bytes()[:-50_000])
    (tmp_path / "noise.tar").write_bytes(b"x" * 5000)
    with tarfile.open(tmp_path / "link.tar", "w") as tar:
        link = tarfile.TarInfo("namespace.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    for bad in ("cut", "noise", "link", "nothing"):
        with pytest.raises(ArchiveError):
            imported(two[1], space.ring, tmp_path / f"{bad}.tar")


def test_tenants_connections_and_a_file_that_is_gone(two, home, tmp_path):
    """Tenants stay separate, connections lose tokens, a missing file is skipped."""
    folder = home("old")
    space = filled(two[0], 2)
    scope = space.scope
    space.scope = Scope(scope.organization, scope.namespace, "alice")
    space.text("Bats hunt moths.", "bats")
    space.work()
    space.scope = scope
    number = two[0].row("select id from partitions where tenant = ''", {})["id"]
    two[0].rows(
        "insert into connections (id, partition_id, name, connector, status, credentials, cursor)"
        " values ('conn_1', %(p)s, 'box', 'BOX', 'ACTIVE', %(c)s, '{\"at\": 1}')",
        {"p": number, "c": b"canary-token"},
    )
    two[0].rows(
        "insert into connection_documents (document_id, connection_id)"
        " select id, 'conn_1' from documents where name = 'owl 0'",
        {},
    )
    next(folder.glob("*/_/doc_*/*/raw")).unlink()
    file, done = exported(space, tmp_path)
    assert done.missing == 1
    assert b"canary-token" not in file.read_bytes()
    assert b"canary-token".hex().encode() not in file.read_bytes()
    home("new")
    target = imported(two[1], space.ring, file)
    assert answers(two[1], space.ring, target.namespace, "alice") == answers_in(home, "new", two[1], space, target)
    row = two[1].row("select * from connections", {})
    assert (row["id"], row["status"], row["credentials"], row["cursor"]) == ("conn_1", "FAILED", None, None)
    assert "authorize" in row["status_reason"]
    assert two[1].rows("select 1 from connection_documents h join documents d on d.id = h.document_id", {})
    assert [row["id"] for row in two[1].rows("select id from tenants", {})] == ["alice"]
    assert checked(two[1], space.ring) == []


def test_what_is_replaced_and_deleted_during_an_export_is_in_it_whole(two, home, tmp_path):
    # Garbage collection waits for the end of the export.
    folder = home("old")
    space = filled(two[0], 3)
    page = b"<html><body><p>Seals sleep under water.</p></body></html>"
    read = space.file("page.html", page, "text/html").document_id
    space.work()
    answers_before = answers(two[0], space.ring, space.scope.namespace)
    files_before = {path.relative_to(folder) for path in folder.rglob("raw")}

    def files():
        return Meanwhile(registry.make_file_store(space.config), change)

    def change():
        space.text("Bats hunt moths.", "owl 0")
        space.file("page.html", page.replace(b"Seals", b"Bears"), "text/html")
        space.work()
        assert space.delete(space_ids["owl 1"]) == 1
        space.sweep()

    space_ids = {row["name"]: row["id"] for row in two[0].rows("select id, name from documents", {})}
    assert space_ids["page.html"] == read
    file = tmp_path / "namespace.tar"
    done = exporting.export_namespace(two[0], space.scope.namespace, files, file)
    assert (done.documents, done.missing) == (5, 0)
    assert files_before <= {path.relative_to(folder) for path in folder.rglob("raw")}
    space.sweep()
    assert not files_before <= {path.relative_to(folder) for path in folder.rglob("raw")}
    assert checked(two[0], space.ring) == []
    home("new")
    target = imported(two[1], space.ring, file)
    assert answers(two[1], space.ring, target.namespace) == answers_before
    assert two[1].rows("select 1 from documents where raw_key is null or parsed_key is null", {}) == []
    assert checked(two[1], space.ring) == []


class Meanwhile:
    """File store with a hook before the first read."""

    def __init__(self, store, change):
        self._store, self._change = store, change

    def open(self, key):
        change, self._change = self._change, lambda: None
        change()
        return self._store.open(key)


def answers_in(home, name, db, space, target):
    home(name)
    hits = answers(db, space.ring, target.namespace, "alice")
    assert {hit[4] for ranking in hits for hit in ranking} == {"Bats hunt moths."}
    return hits


def seen_by(db, scope, user):
    viewer = viewer_of(db, scope, user)
    rows = viewed_database(db, viewer).rows(
        "select d.name from documents d join partitions p on p.id = d.partition_id and p.namespace_id = %(space)s"
        " where d.deleted_at is null",
        {"space": scope.namespace},
    )
    return {row["name"] for row in rows}


def test_whom_documents_are_for_and_groups_travel_along(two, home, tmp_path):
    home("old")
    space = Configured(two[0])
    for name, access in {
        "open": None,
        "ada": Access(users=("ada",)),
        "staff": Access(groups=("staff",), denied_users=("bob",)),
        "public": Access(public=True, denied_groups=("board",)),
        "nobody": Access(),
    }.items():
        space.text(f"The text {name}.", name, access=access)
    space.work()
    accepted = space.text("The text ada.", "ada", access=Access(users=("ada", "bob")))
    control.cancel_run(two[0], space.scope, accepted.job_run_id)
    space.call(groups.put_group(two[0], space.scope, "staff", ["bob"], ["board"]))
    space.call(groups.put_group(two[0], space.scope, "board", ["cyd"], ["staff"]))
    users = ("ada", "bob", "cyd", "eve")
    visible_before = {user: seen_by(two[0], space.scope, user) for user in users}
    assert visible_before == {
        "ada": {"open", "ada", "public"},
        "bob": {"open"},
        "cyd": {"open", "staff"},
        "eve": {"open", "public"},
    }
    file, _ = exported(space, tmp_path)
    home("new")
    target = imported(two[1], space.ring, file)
    (row,) = two[1].rows("select organization_id from namespaces where id = %(id)s", {"id": target.namespace})
    target_scope = Scope(row["organization_id"], target.namespace)
    assert {user: seen_by(two[1], target_scope, user) for user in users} == visible_before
    assert checked(two[1], space.ring) == []


@pytest.mark.parametrize("times", [1, 2])
def test_what_is_packed_into_a_file_shows_its_old_version_to_nobody_else_after_an_import(times, two, home, tmp_path):
    home("old")
    space = Configured(two[0])
    stays = [("two.txt", b"Two stays."), ("inner.zip", packed([("deep.txt", b"Deep stays.")]))]
    broken = packed([("one.txt", b"\x7fELF\x00\x01\x02" * 50), *stays])
    space.file("a.zip", packed([("one.txt", b"Not for Bob."), *stays]), access=Access(users=("ada",)))
    space.work()
    for _ in range(times):  # the second time as it is, which unpacks nothing
        space.file("a.zip", broken)
        space.work()
    file, _ = exported(space, tmp_path)
    home("new")
    target = imported(two[1], space.ring, file)
    (row,) = two[1].rows("select organization_id from namespaces where id = %(id)s", {"id": target.namespace})
    moved = copy(space)
    moved.db, moved.scope = two[1], Scope(row["organization_id"], target.namespace)
    moved.file("a.zip", broken, access=Access(users=("ada", "bob")))
    moved.work()
    everything = {"a.zip", "two.txt", "inner.zip", "deep.txt", "one.txt"}
    assert seen_by(two[1], moved.scope, "ada") == everything
    assert seen_by(two[1], moved.scope, "bob") == everything - {"one.txt"}
    moved.file("a.zip", packed([("one.txt", b"For Bob."), *stays]))
    moved.work()
    assert seen_by(two[1], moved.scope, "bob") == everything


def export_of_0_1_0(build, tmp_path):
    """Exports by builds of 0.1.0: first format, first access lists, last."""
    file = tmp_path / f"{build}.tar"
    file.write_bytes(gzip.decompress((PROJECT_ROOT / "tests/fixtures/exports" / f"{build}.tar.gz").read_bytes()))
    return file


def moved_in(db, ring, file):
    """Scope of the imported namespace."""
    target = imported(db, ring, file)
    (row,) = db.rows("select organization_id from namespaces where id = %(id)s", {"id": target.namespace})
    return Scope(row["organization_id"], target.namespace)


@pytest.mark.parametrize("build", ["first", "first_access", "last"])
def test_exports_of_0_1_0_are_imported(build, two, home, tmp_path):
    home("new")
    ring = Configured(two[0]).ring
    scope = moved_in(two[1], ring, export_of_0_1_0(build, tmp_path))
    hidden = {"owls", "a.zip", "one.txt", "two.txt"} if build != "first" else set()
    everything = {"seals", "owls"} if build == "first" else {"seals", "birds.pdf", *hidden}
    assert seen_by(two[1], scope, "ada") == everything
    assert seen_by(two[1], scope, "bob") == everything - hidden, "lists of versions that had not ended stay behind"
    assert any(answers(two[1], ring, scope.namespace))
    assert checked(two[1], ring) == []
    rows = two[1].rows(
        "select d.name, d.inherits_access, c.page from documents d left join chunks c on c.document_id = d.id"
        " where d.partition_id in (select id from partitions where namespace_id = %(id)s)",
        {"id": scope.namespace},
    )
    assert {row["name"] for row in rows if row["inherits_access"]} == everything & {"one.txt", "two.txt"}
    assert {row["page"] for row in rows if row["name"] == "birds.pdf"} == ({1} if "birds.pdf" in everything else set())
