"""Archive and mail members become documents; dangerous ones are refused with a reason."""

from __future__ import annotations

import io
import zipfile
from email.message import EmailMessage

import pytest

from flows import steps
from retrieval import settings
from retrieval.filters import DocumentFilter
from retrieval.ingestion import unpack
from retrieval.ingestion.queries import results, run_documents
from retrieval.jobs import resync
from retrieval.jobs.queries import batches
from tests.flows.configured import Configured


@pytest.fixture
def house(db):
    return Configured(db)


def packed(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return file.getvalue()


def ingest(house, name, data, **ingestion):
    """Ingest one file with its members; return status, stage and error by name."""
    house.file(name, data, **ingestion)
    return work(house)


def leased(house):
    return Configured.lease(house)


def work(house):
    lease = leased(house)
    Configured.take(house, lease)
    return {row.name: (row.status, row.stage, row.error) for row in results.list_outcomes(house.db, lease)}


TIDES = b"The tide tables are printed in March."


def test_each_member_is_a_document_with_its_path_and_the_archive_lists_them(house):
    data = packed([("docs/tides.txt", TIDES), ("docs/crew.md", b"# Crew\n\nThe crew is six."), ("__MACOSX/x", b"junk")])
    ended = ingest(house, "boat.zip", data, metadata={"team": "north"})
    assert {name: status for name, (status, _, _) in ended.items()} == dict.fromkeys(
        ("boat.zip", "tides.txt", "crew.md"), "SUCCESS"
    )
    documents_by_id = house.documents()
    assert set(documents_by_id) == {"boat.zip", "boat.zip/docs/tides.txt", "boat.zip/docs/crew.md"}
    member = documents_by_id["boat.zip/docs/tides.txt"]
    assert member["metadata"] == {"team": "north", "archivePath": "docs/tides.txt"}
    assert member["properties"]["archivePath"] == "docs/tides.txt"
    assert documents_by_id["boat.zip"]["metadata"] == {"team": "north"}


def test_attachments_of_a_mail_are_documents_beside_it(house):
    inner = EmailMessage()
    inner["Subject"] = "Older letter"
    inner.set_content("The older letter speaks of ropes.")
    mail = EmailMessage()
    mail["Subject"], mail["From"] = "Minutes", "a@example.org"
    mail.set_content("Please read the minutes.")
    mail.add_alternative("<p>Please read the minutes.</p>", subtype="html")
    mail.add_attachment(TIDES, maintype="text", subtype="plain", filename="Gezeiten für März.txt")
    mail.add_attachment(inner)
    ended = ingest(house, "minutes.eml", mail.as_bytes())
    assert {status for status, _, _ in ended.values()} == {"SUCCESS"}, ended
    assert set(house.documents()) == {
        "minutes.eml",
        "minutes.eml/Gezeiten für März.txt",
        "minutes.eml/Older letter.eml",
    }


def test_members_of_members_are_read_up_to_a_depth(house):
    data = packed([("leaf.txt", TIDES)])
    for level in range(unpack.MAX_ARCHIVE_DEPTH):
        data = packed([(f"level{level}.zip", data)])
    ended = ingest(house, "top.zip", data)
    failed = {name: error for name, (status, _, error) in ended.items() if status == "FAILED"}
    assert list(failed) == ["level0.zip"]
    assert "levels deep" in failed["level0.zip"]


@pytest.fixture
def bounds(monkeypatch):
    """Limits of one archive, set by an operator."""

    def change(**chosen):
        for name, value in chosen.items():
            monkeypatch.setenv(f"RETRIEVAL_{name.upper()}", str(value))
        settings.load_settings.cache_clear()

    return change


def nested(count, size=1):
    """An archive of `count` archives of two files each."""
    inner = [
        packed([(f"{number}-{n}.txt", f"{number} {n} ".encode() + bytes(65 for _ in range(size))) for n in range(2)])
        for number in range(count)
    ]
    return packed([(f"part{number}.zip", data) for number, data in enumerate(inner)])


def test_what_one_archive_becomes_with_those_within_it_is_bounded_by_number(house, bounds):
    bounds(archive_all_members=8)
    ended = ingest(house, "house.zip", nested(4))
    failed = {name: error for name, (status, _, error) in ended.items() if status == "FAILED"}
    assert len(ended) == 1 + 4 + 4, "four archives, and what two of them hold"
    assert len(failed) == 2
    assert set(failed) <= {f"part{number}.zip" for number in range(4)}
    for error in failed.values():
        assert "becomes more than 8 documents" in error
        assert "RETRIEVAL_ARCHIVE_ALL_MEMBERS" in error
    assert {status for status, *_ in ingest(house, "other.zip", nested(2)).values()} == {"SUCCESS"}, "each by itself"


@pytest.mark.slow
def test_what_one_archive_becomes_with_those_within_it_is_bounded_in_bytes(house, bounds):
    bounds(archive_all_bytes=5 << 20)
    ended = ingest(house, "house.zip", nested(4, 1 << 20))
    failed = {name: error for name, (status, _, error) in ended.items() if status == "FAILED"}
    assert len(failed) == 2
    for error in failed.values():
        assert "becomes more than 5 MB" in error
        assert "RETRIEVAL_ARCHIVE_ALL_BYTES" in error
    remaining = house.db.rows(
        "select k.raw_key from run_documents k join job_runs r on r.id = k.job_run_id join partitions p"
        " on p.id = r.partition_id where p.namespace_id = %(n)s and k.raw_key like '%%members%%'",
        {"n": house.scope.namespace},
    )
    assert len(remaining) == 4 + 4


def test_path_tricks_and_links_are_refused_in_words_and_their_neighbours_go_on(house):
    link = zipfile.ZipInfo("link.txt")
    link.external_attr = 0o120777 << 16
    data = packed(
        [
            ("../../etc/passwd", b"root"),
            ("C:\\x.txt", b"x"),
            ("/abs.txt", b"x"),
            (link, b"/etc/passwd"),
            ("ok.txt", TIDES),
        ]
    )
    ended = ingest(house, "tricks.zip", data)
    assert {name for name, (status, _, _) in ended.items() if status == "SUCCESS"} == {"tricks.zip", "ok.txt"}
    errors = {name: error for name, (status, _, error) in ended.items() if status == "FAILED"}
    assert set(errors) == {
        "tricks.zip/etc/passwd",
        "tricks.zip/C:/x.txt",
        "tricks.zip/abs.txt",
        "tricks.zip/link.txt",
    }
    assert "not followed" in errors.pop("tricks.zip/link.txt")
    assert all("leads out of the archive" in error for error in errors.values())
    assert set(house.documents()) == {"tricks.zip", "tricks.zip/ok.txt"}


def test_a_damaged_and_a_locked_member_fail_alone(house):
    data = bytearray(packed([("a.txt", TIDES), ("b.txt", TIDES * 9), ("c.txt", b"The hull is blue.")]))
    at = data.index(b"b.txt")
    data[at + 7 : at + 12] = b"?????"
    locked = data.rindex(b"PK\x01\x02")
    data[data.index(b"c.txt") - 24] |= 1
    data[locked + 8] |= 1
    ended = ingest(house, "boat.zip", bytes(data))
    assert {name for name, (status, _, _) in ended.items() if status == "SUCCESS"} == {"boat.zip", "a.txt"}
    assert "damaged in the file" in ended["boat.zip/b.txt"][2]
    assert "password" in ended["boat.zip/c.txt"][2]


def test_a_member_that_a_new_version_lacks_leaves_search_with_that_version(house):
    inner = packed([("deep.txt", b"The deep text speaks of whales.")])
    ingest(house, "boat.zip", packed([("a.txt", TIDES), ("b.txt", b"The hull is blue."), ("in.zip", inner)]))
    assert {"a.txt", "b.txt", "deep.txt"} <= set(house.search("whales hull tide tables"))
    ended = ingest(house, "boat.zip", packed([("a.txt", TIDES), ("c.txt", b"The mast is high.")]))
    assert set(ended) == {"boat.zip", "a.txt", "c.txt"}
    assert set(house.documents()) == {"boat.zip", "boat.zip/a.txt", "boat.zip/c.txt"}
    assert set(house.search("whales hull tide tables mast")) == {"boat.zip", "a.txt", "c.txt"}
    house.sweep()
    assert house.db.rows(
        "select c.id from chunks c left join documents d on d.id = c.document_id join partitions p"
        " on p.id = c.partition_id where d.id is null and p.namespace_id = %(namespace)s",
        {"namespace": house.scope.namespace},
    ) == []  # fmt: skip


def test_a_version_that_cannot_be_read_takes_nothing_away(house):
    ingest(house, "boat.zip", packed([("a.txt", TIDES)]))
    ended = ingest(house, "boat.zip", packed([("a.txt", TIDES), ("b.txt", b"The hull.")])[:-30])
    assert ended["boat.zip"][0] == "FAILED"
    assert set(house.documents()) == {"boat.zip", "boat.zip/a.txt"}
    assert "a.txt" in house.search("tide tables")


def ids_of(house):
    return {name: row["id"] for name, row in house.documents().items()}


def test_deleting_an_archive_deletes_what_was_packed_into_it_and_says_so(house):
    inner = packed([("deep.txt", b"The deep text speaks of whales.")])
    ingest(house, "boat.zip", packed([("a.txt", TIDES), ("in.zip", inner)]))
    ingest(house, "other.txt", b"The other text is no member of anything.")
    assert house.delete(ids_of(house)["boat.zip"]) == 4
    assert set(house.documents()) == {"other.txt"}
    assert house.search("whales tide tables") == ["other.txt"]


def test_an_archive_that_is_deleted_while_it_is_unpacked_leaves_no_member(house):
    house.file("boat.zip", packed([("a.txt", TIDES)]))
    lease = house.lease()
    for window in run_documents.list_windows(house.db, lease, documents=64, size=1 << 24):
        archive_work = steps.Work(house.db, house.ring, lease, window)
        steps.fetch(archive_work)
        house.delete(ids_of(house)["boat.zip"])
        steps.parse(archive_work)
    batches.finish_batch(house.db, lease)
    assert house.documents() == {}
    unused = house.db.rows(
        "select s.file_key from sweeps s join partitions p on p.id = s.partition_id"
        " where p.namespace_id = %(namespace)s and s.file_key like '%%/members/%%'",
        {"namespace": house.scope.namespace},
    )
    assert len(unused) == 1


def resynced(house, *external_ids):
    document_ids = ids_of(house)
    document_filter = DocumentFilter(document_ids=tuple(document_ids[name] for name in external_ids))
    response = house.call(resync.start_resync(house.db, house.scope, document_filter))
    names = {value: key for key, value in document_ids.items()}
    return {names[document.id]: (document.status, document.error) for document in response.documents}


def test_a_resync_of_an_archive_takes_its_members_along_and_does_nothing_twice(house):
    ingest(house, "boat.zip", packed([("a.txt", TIDES), ("b.txt", b"The hull is blue.")]))
    house.db.rows("update documents set fingerprint = null where id = %(id)s",
                  {"id": ids_of(house)["boat.zip/b.txt"]})  # fmt: skip
    statuses = resynced(house, "boat.zip", "boat.zip/a.txt")
    assert {status for status, _ in statuses.values()} == {"QUEUED_FOR_RESYNC"}
    ended = work(house)
    assert {name: stage for name, (_, stage, _) in ended.items()} == {
        "boat.zip": "upserted",
        "a.txt": "unchanged",
        "b.txt": "upserted",
    }
    assert {row["status"] for row in house.documents().values()} == {"SUCCESS"}


def test_a_deleted_member_comes_back_only_with_another_version_of_its_archive(house):
    name = "boat.zip"
    inner = packed([("deep.txt", b"The deep text."), ("hold.txt", b"The hold is dry.")])
    files = [("a.txt", TIDES), ("b.txt", b"The hull is blue."), ("in.zip", inner), ("out.zip", packed([("c", TIDES)]))]
    ingest(house, name, packed(files))
    deleted = {f"{name}/a.txt", f"{name}/in.zip/deep.txt", f"{name}/out.zip"}
    house.delete(*(ids_of(house)[member] for member in deleted))
    expected = {name, f"{name}/b.txt", f"{name}/in.zip", f"{name}/in.zip/hold.txt"}
    for _ in range(2):
        resynced(house, name)
        assert {status for status, _, _ in work(house).values()} == {"SUCCESS"}
        house.sweep()
        assert set(house.documents()) == expected
    ingest(house, name, packed([*files, ("new.txt", b"The mast is new.")]))
    assert set(house.documents()) == {name, f"{name}/a.txt", f"{name}/b.txt", f"{name}/new.txt", f"{name}/in.zip",
                                f"{name}/in.zip/hold.txt", f"{name}/out.zip", f"{name}/out.zip/c"}  # fmt: skip
    ingest(house, name, packed(files))
    assert f"{name}/a.txt" in house.documents(), "a version that has changed, though it is one that there was"
