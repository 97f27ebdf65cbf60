"""Pages with wrong or missing text: reported per document, filterable, and counted by a dry run."""

import io
from random import Random

import pytest
from docx import Document
from pypdfium2 import PdfDocument

from bench.parse import drawn
from tests.e2e.test_client import command

CIPHER = "The letters of its fonts lead to other letters"


@pytest.fixture
def scrambled(tmp_path):
    """PDF of two legible pages with a scrambled one between them."""
    pages = dict(drawn.draw_ciphers(tmp_path, Random(5)))
    wrong = next(path for path, drawing in pages.items() if drawing.name == "cipher-en-shifted")
    good = next(path for path, drawing in drawn.draw_languages(tmp_path, Random(5)) if "en" in path.stem.split("-"))
    whole = tmp_path / "scrambled.pdf"
    with PdfDocument.new() as joined:
        for path in (good, wrong, good):
            joined.import_pages(PdfDocument(path))
        joined.save(whole)
    return whole


def below(quality, name):
    low = {"field": "document.textQuality", "op": "lt", "value": quality}
    return {"all": [low, {"field": "document.name", "op": "eq", "value": name}]}


@pytest.mark.slow
def test_a_page_of_wrong_letters_is_left_out_told_and_found_by_its_quality(service, scrambled, tmp_path):
    namespace_option = ("--namespace", service.namespace)
    preview = command(service, "ingest", scrambled.name, "--dry-run", *namespace_option, folder=tmp_path)
    assert "1 new" in preview
    assert "3 pages, 1 unreadable" in preview
    assert service.documents() == []

    (run,) = service.wait(service.file("scrambled.pdf", scrambled.read_bytes())["ingestJobRunId"])
    assert run["outcome"] == "SUCCEEDED"
    service.wait(service.text("The harbour is calm today.", name="calm")["ingestJobRunId"])
    (document,) = service.documents(where=below(0.8, "scrambled.pdf"))
    properties = document["documentProperties"]
    assert properties["textQuality"] < 0.4
    (page,) = properties["pagesToCheck"]
    assert (page["page"], page["unread"], page["quality"]) == (2, True, properties["textQuality"])
    assert page["reasons"][0].startswith(CIPHER)
    assert "pages (1): 2" in properties["notice"]
    body = {"namespaceId": service.namespace, "filterConfig": {}, "facets": ["document.textQuality"]}
    (facet,) = service.ok(service.client.post("/v1/documents", json=body))["facets"]["document.textQuality"]
    assert facet == {"value": properties["textQuality"], "count": 1}
    hits = service.search("quarterly revenue", filter={"where": below(0.8, "scrambled.pdf")})
    assert {hit["document"]["id"] for hit in hits} == {document["id"]}
    sound = {"field": "document.textQuality", "op": "gte", "value": 0.8}
    assert service.search("quarterly revenue", filter={"where": sound}) == []


def word(*paragraphs):
    file = io.BytesIO()
    document = Document()
    for paragraph in paragraphs:
        document.add_paragraph(paragraph)
    document.save(file)
    return file.getvalue()


SENTENCE = "The harbour authority raised its quarterly revenue by a tenth, and the ferries run on time again. "
SYMBOLS = "".join(chr(0xF000 + ord(letter)) for letter in SENTENCE)
