"""What is packed into archives and mails becomes documents of its own; what is dangerous is refused in words."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import zipfile
from email.message import EmailMessage

import pytest

from flows import steps
from retrieval import batches, runs
from retrieval.pipeline import items, outcomes, unpack
from retrieval.runs import Ingestion, Upload
from tests.flows.configured import STEPS, Configured


@pytest.fixture
def house(db):
    db.rows("update job_runs set finished_at = now() where finished_at is null")
    db.rows("update batches set finished_at = now() where finished_at is null")
    return Configured(db)


def packed(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return file.getvalue()


def ingest(house, name, data, **ingestion):
    """Take one file and all that is packed into it through the steps; name to (status, error) of each entry."""
    key = f"{house.scope.namespace}/_/upload/{os.urandom(8).hex()}"
    config = steps.namespaces.load(house.db, house.ring, house.scope.namespace)
    steps.registry.file_store(config).put(key, [data])

    async def accept():
        accepted = await runs.accept_file(
            house.db,
            house.scope,
            upload=Upload(key, -1),
            name=name,
            media_type="",
            size=len(data),
            sha256=hashlib.sha256(data).digest(),
            ingestion=Ingestion(**ingestion),
        )
        await house.db.async_close()
        return accepted

    asyncio.run(accept())
    return work(house)


def work(house):
    db = house.db
    batches.form(db, size=64, batches=8)
    (batch,) = batches.undispatched(db)
    batches.dispatched(db, batch, "run")
    lease = batches.claim(db, batch.id, batch.attempt, seconds=60)
    while windows := items.windows(db, lease, documents=64, size=1 << 24):
        for window in windows:
            for step in STEPS:
                step(steps.Work(db, house.ring, lease, window))
        outcomes.settle(db, lease)
    batches.finish(db, lease)
    return {row.name: (row.status, row.stage, row.error) for row in outcomes.table(db, lease)}


def rows(house):
    return {
        row["external_id"]: row
        for row in house.db.rows(
            """
            select d.external_id, d.name, d.metadata, d.properties, d.status, d.active_generation from documents d
            join partitions p on p.id = d.partition_id where p.namespace_id = %(namespace)s and d.deleted_at is null
            """,
            {"namespace": house.scope.namespace},
        )
    }


TIDES = b"The tide tables are printed in March."


@pytest.mark.decision("D20")
def test_each_member_is_a_document_with_its_path_and_the_archive_lists_them(house):
    data = packed([("docs/tides.txt", TIDES), ("docs/crew.md", b"# Crew\n\nThe crew is six."), ("__MACOSX/x", b"junk")])
    ended = ingest(house, "boat.zip", data, metadata={"team": "north"})
    assert {name: status for name, (status, _, _) in ended.items()} == dict.fromkeys(
        ("boat.zip", "tides.txt", "crew.md"), "SUCCESS"
    )
    found = rows(house)
    assert set(found) == {"boat.zip", "boat.zip/docs/tides.txt", "boat.zip/docs/crew.md"}
    member = found["boat.zip/docs/tides.txt"]
    assert member["metadata"] == {"team": "north", "archivePath": "docs/tides.txt"}
    assert member["properties"]["archivePath"] == "docs/tides.txt"
    assert found["boat.zip"]["metadata"] == {"team": "north"}


@pytest.mark.decision("D20")
def test_an_unchanged_member_of_a_changed_archive_is_not_done_again(house):
    ingest(house, "boat.zip", packed([("a.txt", TIDES), ("b.txt", b"It is blue.")]))
    before = rows(house)
    ended = ingest(house, "boat.zip", packed([("a.txt", TIDES), ("b.txt", b"It is red now.")]))
    assert {name: stage for name, (_, stage, _) in ended.items()} == {
        "boat.zip": "upserted",
        "a.txt": "unchanged",
        "b.txt": "upserted",
    }
    after = rows(house)
    assert after["boat.zip/a.txt"]["active_generation"] == before["boat.zip/a.txt"]["active_generation"]
    assert after["boat.zip/b.txt"]["active_generation"] > before["boat.zip/b.txt"]["active_generation"]


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
    assert set(rows(house)) == {
        "minutes.eml",
        "minutes.eml/Gezeiten für März.txt",
        "minutes.eml/Older letter.eml",
    }


def test_members_of_members_are_read_up_to_a_depth(house):
    data = packed([("leaf.txt", TIDES)])
    for level in range(unpack.DEPTH):
        data = packed([(f"level{level}.zip", data)])
    ended = ingest(house, "top.zip", data)
    failed = {name: error for name, (status, _, error) in ended.items() if status == "FAILED"}
    assert list(failed) == ["level0.zip"]
    assert "levels deep" in failed["level0.zip"]


@pytest.mark.decision("H24")
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
    assert set(rows(house)) == {"tricks.zip", "tricks.zip/ok.txt"}


def test_an_unknown_kind_in_an_archive_fails_alone_naming_the_kinds(house):
    ended = ingest(house, "mixed.zip", packed([("song.mp3", b"ID3\x03\0" + bytes(range(256)) * 4), ("a.txt", TIDES)]))
    assert ended["a.txt"][0] == "SUCCESS"
    assert ended["song.mp3"][0] == "FAILED"
    assert "PDF, DOCX" in ended["song.mp3"][2]


def test_a_bomb_is_refused_whole(house):
    data = packed([(f"{number}.txt", bytes(40 << 20)) for number in range(14)])
    assert len(data) < 1 << 20
    ended = ingest(house, "bomb.zip", data)
    assert list(ended) == ["bomb.zip"]
    assert "unfolds to more than 512 MB" in ended["bomb.zip"][2]
