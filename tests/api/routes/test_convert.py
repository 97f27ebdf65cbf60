"""Conversion of files to Markdown without storage."""

from __future__ import annotations

import io
import time
import zipfile

import httpx
import pytest
from PIL import Image, ImageDraw

from connectors import registry
from retrieval.errors import Interrupted, Skippable
from retrieval.ingestion import convert
from retrieval.ports import OcrStrategy, Parsed, RawContent
from tests.api.support import assert_error
from tests.connectors.parsers.test_parsers import pdf


def zip_of(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)
    return file.getvalue()


def convert_file(client, name, content, **fields):
    answer = client.post("/v1/convert/file", files={"file": (name, content)}, data=fields)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["documents"]


def test_a_file_becomes_markdown(org):
    assert convert_file(org.client, "a.md", b"# Owls\n\nThey hunt.\n") == [
        {"filename": "a.md", "markdown": "# Owls\n\nThey hunt.\n"}
    ]
    (page,) = convert_file(org.client, "a.pdf", pdf("Owls hunt at night."), ocrConfig='{"strategy": "STANDARD_OCR"}')
    assert "Owls hunt at night." in page["markdown"]
    (table,) = convert_file(org.client, "a.html", b"<h1>Owls</h1><ul><li>mice</li></ul>", ocrConfig="null")
    assert "# Owls" in table["markdown"]
    counted = org.db.row("select count(*) as jobs from jobs where organization_id = %(id)s", {"id": org.id})
    assert counted["jobs"] == 0


def test_archive_members_are_named_by_their_paths(org):
    inner = zip_of(deep_md=b"# Deep")
    files = convert_file(org.client, "all.zip", zip_of(a_md=b"# A", b_pdf=b"%PDF-1.4 broken", c_zip=inner))
    by_name = {file["filename"]: file for file in files}
    members = {"all.zip/a.md", "all.zip/b.pdf", "all.zip/c.zip", "all.zip/c.zip/deep.md"}
    assert set(by_name) == {"all.zip", *members}
    assert files[0]["filename"] == "all.zip", "an archive comes before its members"
    assert by_name["all.zip/a.md"] == {"filename": "all.zip/a.md", "markdown": "# A"}
    assert by_name["all.zip/c.zip/deep.md"]["markdown"] == "# Deep"
    assert by_name["all.zip/b.pdf"]["markdown"] == ""
    assert by_name["all.zip/b.pdf"]["error"]


@pytest.mark.parametrize(
    ("name", "content"), [("a.pdf", b"%PDF-1.4 broken"), ("a.bin", bytes(range(256)) * 9), ("a.zip", b"PK\3\4 broken")]
)
def test_an_unreadable_file_is_refused_with_the_reason(org, name, content):
    answer = org.client.post("/v1/convert/file", files={"file": (name, content)})
    error = assert_error(answer, 400, "INVALID_INGEST_CONFIG")["error"]
    assert error["details"] == {"reason": "unreadable", "field": "file"}
    assert len(error["message"]) > 20


class Endless:
    """Parser with two nested files in every file."""

    def parse(self, raw, _ocr):
        from retrieval.ports import Member

        return Parsed("text", members=tuple(Member(str(n), raw.path, "", 1) for n in range(2)))


def test_an_archive_with_too_much_content_is_refused(tmp_path):
    raw = RawContent(tmp_path / "raw", "a.zip", "", 1)
    files = convert.convert_file(Endless(), raw, OcrStrategy.BASIC_PARSER, max_characters=1000, max_files=1000)
    assert [file.filename for file in files][:3] == ["a.zip", "a.zip/0", "a.zip/1"]
    assert max(file.filename.count("/") for file in files) == 4
    assert {file.error is None for file in files if file.filename.count("/") == 4} == {False}
    with pytest.raises(Skippable, match="10 characters"):
        convert.convert_file(Endless(), raw, OcrStrategy.BASIC_PARSER, max_characters=10, max_files=1000)
    with pytest.raises(Skippable, match="3 files"):
        convert.convert_file(Endless(), raw, OcrStrategy.BASIC_PARSER, max_characters=1000, max_files=3)


def scan(pages: int) -> bytes:
    """Return a PDF of pictures of text."""
    file = io.BytesIO()
    pictures = [Image.new("L", (1200, 1600), 255) for _ in range(pages)]
    for picture in pictures:
        ImageDraw.Draw(picture).text((100, 200), "Owls hunt at night. " * 3, font_size=40)
    pictures[0].save(file, "PDF", save_all=True, append_images=pictures[1:])
    return file.getvalue()


OCR_FORM = {"ocrConfig": '{"strategy": "STANDARD_OCR"}'}


def test_recognition_stops_when_its_result_is_not_needed(tmp_path):
    (tmp_path / "raw").write_bytes(data := scan(8))
    raw = RawContent(tmp_path / "raw", "scan.pdf", "", len(data))
    deadline = time.monotonic() + 1
    parser = registry.make_stoppable_parser(lambda: time.monotonic() < deadline)
    with pytest.raises(Interrupted):
        parser.parse(raw, OcrStrategy.STANDARD_OCR)
    assert time.monotonic() < deadline + 2


@pytest.mark.slow
def test_the_conversion_stops_when_the_client_disconnects(org):
    with pytest.raises(httpx.TimeoutException):
        org.client.post("/v1/convert/file", files={"file": ("a.pdf", scan(60))}, data=OCR_FORM, timeout=1)
    answer = org.client.post("/v1/convert/file", files={"file": ("b.pdf", scan(1))}, data=OCR_FORM, timeout=30)
    assert "Owls hunt" in answer.json()["data"]["documents"][0]["markdown"]
