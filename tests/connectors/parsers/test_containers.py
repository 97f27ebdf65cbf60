"""Every part of a container becomes a document, a failure or a notice."""

from __future__ import annotations

import random
import re
import zipfile
from io import BytesIO

import pytest

from retrieval.errors import Skippable
from retrieval.ingestion.convert import ConversionResult
from tests.connectors.parsers import containers
from tests.connectors.parsers.containers import File

pytestmark = pytest.mark.service


def missing(words: list[str], documents: list[ConversionResult]) -> list[str]:
    """Return the words missing from all documents, ignoring hyphens and table markup."""
    texts = " ".join(document.markdown for document in documents)
    return [word for word in words if word not in texts]


@pytest.mark.parametrize("container", containers.CONTAINERS, ids=lambda container: container.__name__)
def test_every_file_in_a_container_of_every_kind_is_read(unpack, container):
    words = [f"Canary{leaf.__name__}" for leaf in containers.LEAVES]
    documents = unpack(*container([leaf(word) for leaf, word in zip(containers.LEAVES, words, strict=True)]))
    assert missing(words, documents) == [], documents
    assert [document.error for document in documents if document.error] == []


@pytest.mark.parametrize("seed", range(6))
def test_every_leaf_of_a_random_tree_of_containers_is_read(unpack, seed):
    chance = random.Random(seed)
    words: list[str] = []

    def grown(depth: int) -> File:
        if depth and chance.random() < 0.6:
            return chance.choice(containers.CONTAINERS)([grown(depth - 1) for _ in range(chance.randint(1, 3))])
        words.append(f"Canary{''.join(chance.choices('bcdfghjkmnpqrstvwxz', k=8))}")
        return chance.choice(containers.LEAVES)(words[-1])

    root = chance.choice(containers.CONTAINERS)([grown(1) for _ in range(chance.randint(1, 4))])
    documents = unpack(*root)
    lost = missing(words, documents)
    reported = " ".join(f"{document.filename} {document.error}" for document in documents if document.error)
    unreported = [word for word in lost if word[::-1].lower() not in reported]
    assert not unreported or "levels deep" in reported, documents


def test_texts_embedded_in_an_opendocument_text_are_read(unpack):
    assert missing(["Canaryone", "Canarytwo"], unpack(*containers.open_document(["Canaryone", "Canarytwo"]))) == []


def test_an_invitation_is_a_part_of_its_mail(unpack):
    invitation = containers.part(containers.calendar("Canaryone"), with_name=False, attachment=False)
    (document,) = unpack("mail.eml", containers.mail("alternative", invitation))
    assert containers.NOTE in document.markdown
    assert "Canaryone" in document.markdown
    assert "- Start: 2026-11-25 10:00 UTC" in document.markdown
    assert "BEGIN:" not in document.markdown


def test_a_text_in_both_winmail_and_mail_is_read_once(unpack):
    data = containers.mail("mixed", containers.part(("winmail.dat", containers.tnef([], containers.NOTE))))
    (document,) = unpack("mail.eml", data)
    assert document.markdown.count(containers.NOTE) == 1
    alone = containers.mail("mixed", containers.part(("winmail.dat", containers.tnef([], containers.NOTE))), body="")
    assert containers.NOTE in unpack("mail.eml", alone)[0].markdown


def damaged(data: bytes, name: str) -> bytes:
    """Return the ZIP with a wrong checksum in one entry."""
    with zipfile.ZipFile(BytesIO(data)) as archive:
        entry = archive.getinfo(name)
    sum_of = entry.CRC.to_bytes(4, "little")
    return data.replace(sum_of, bytes(byte ^ 0xFF for byte in sum_of))


def armoured(words: str) -> str:
    return f"-----BEGIN PGP MESSAGE-----\n\n{words}\n=abcd\n-----END PGP MESSAGE-----\n"


def reported() -> dict[str, tuple[File, str, str]]:
    """Containers with an unreadable part: the file, the end of the part's name, words of the reason."""
    text = containers.text("Canaryone")
    locked = containers.part(("smime.p7m", containers.encrypted(b"secret")))
    pgp = containers.mail("mixed", containers.part(("letter.asc", armoured("hQEMA7").encode())))
    within = containers.mail("mixed", body=f"{containers.NOTE}\n{armoured('hQEMA7')}")
    elsewhere = b'Content-Type: message/external-body; access-type=URL; name="far.pdf"\r\n\r\nContent-Type: x/y\r\n\r\n'
    outside = containers.mail("mixed").replace(b"\n--==", b"\n--==", 1)
    boundary = re.search(rb'boundary="([^"]+)"', outside)[1]
    outside = outside.replace(b"--" + boundary + b"--", b"--" + boundary + b"\n" + elsewhere + b"--" + boundary + b"--")
    zipped = bytearray(containers.zipped([text, ("odd.txt", b"odd")])[1])
    at = zipped.rindex(b"PK\x01\x02")
    zipped[at + 10] = zipped[zipped.rindex(b"PK\x03\x04") + 8] = 99
    book = containers.book([("c1.xhtml", containers.chapter("Canaryone")), ("c2.xhtml", containers.chapter("Lost"))])
    cut_off = containers.tnef([text, ("second.txt", b"x" * 500)])[:-300]
    return {
        "S/MIME within a mail": (("m.eml", containers.mail("mixed", locked)), "smime.p7m", "encrypted (S/MIME)"),
        "PGP within a mail": (("m.eml", pgp), "letter.asc", "encrypted (PGP)"),
        "PGP within the text": (("m.eml", within), "encrypted text.asc", "encrypted (PGP)"),
        "a reference": (("m.eml", outside), "far.pdf", "only a reference"),
        "a compression": (("a.zip", bytes(zipped)), "odd.txt", "cannot be read"),
        "a chapter's checksum": (("b.epub", damaged(book, "EPUB/c2.xhtml")), "c2.xhtml", "damaged"),
        "a missing chapter": (
            ("b.epub", containers.book([("c1.xhtml", containers.chapter("Hello"))], extra_names=("c9.xhtml",))),
            "c9.xhtml",
            "does not hold it",
        ),
        "a broken winmail.dat": (
            ("m.eml", containers.mail("mixed", containers.part(("winmail.dat", cut_off)))),
            "winmail.dat",
            "could not be read",
        ),
        "an empty OLE object": (
            (
                "d.docx",
                containers.office(
                    containers.docx("x"),
                    "word/document.xml",
                    [("oleObject1.bin", containers.outlook.compound({"X": b"1"}))],
                ),
            ),
            "oleObject1",
            "not read",
        ),
    }


@pytest.mark.parametrize("case", reported(), ids=str)
def test_a_part_that_cannot_be_read_is_reported_by_its_name_with_the_reason(unpack, case):
    file, name, reason = reported()[case]
    documents = unpack(*file)
    errors = {document.filename: document.error for document in documents if document.error}
    assert [error for path, error in errors.items() if path.endswith(name) and reason in error], documents
    assert documents[0].error is None, "the rest of the file is read"
    assert "hQEMA7" not in documents[0].markdown


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (("m.eml", containers.smime("enveloped-data", containers.encrypted(b"secret"))), "encrypted (S/MIME)"),
        (("secret.pdf.p7m", containers.encrypted(b"secret")), "encrypted (S/MIME)"),
        (("letter.asc", armoured("hQEMA7").encode()), "encrypted (PGP)"),
    ],
    ids=["mail", "file", "PGP"],
)
def test_a_file_that_is_encrypted_whole_fails_with_the_reason(unpack, file, reason):
    with pytest.raises(Skippable) as error:
        unpack(*file)
    assert reason in str(error.value)


def test_a_small_picture_within_the_text_is_named_in_the_notice_and_a_large_attached_one_is_a_file(read):
    logo = containers.part(("logo.png", b"\x89PNG\r\n\x1a\n" + bytes(900)), attachment=False, cid=True)
    scan = containers.part(("scan.png", b"\x89PNG\r\n\x1a\n" + bytes(20_000)))
    parsed = read("m.eml", containers.mail("related", logo, scan))
    assert parsed.properties["notice"] == "Not read: pictures within the text (1): logo.png."
    assert [member.path for member in parsed.members] == ["scan.png"]
