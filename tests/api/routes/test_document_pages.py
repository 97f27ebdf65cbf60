"""Images of document pages: access, shading of chunks, and isolation of slow drawings."""

from __future__ import annotations

import io
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from reportlab.pdfgen.canvas import Canvas

from retrieval.ports import Scope
from tests.api.routes.test_files import upload
from tests.api.support import assert_error
from tests.connectors.parsers.test_page_renderer import opened, shaded
from tests.library import Library

LINE = "The harbour seal dives for thirty minutes."


def pdf(pages=2, size=(600, 800), circles=0):
    out = io.BytesIO()
    sheet = Canvas(out, pagesize=size)
    for page in range(pages):
        sheet.drawString(72, 700 - 300 * page, LINE)
        for number in range(circles):
            sheet.circle(300, 300, 1 + number % 290, stroke=1, fill=1)
        sheet.showPage()
    sheet.save()
    return out.getvalue()


def put(org, space, content):
    # As stored by the pipeline: a chunk per page, the same words on each page.
    document = upload(org, space, "seals.pdf", content, "application/pdf")
    text = f"{LINE}\n\n{LINE}\n\n"
    parsed = upload(org, space, "parsed.md", text.encode(), "text/markdown")
    library = Library(org.db, Scope(org.id, space, ""), None)
    library.put([LINE, LINE], document_id=document)
    org.db.rows(
        "update documents set parsed_key = (select raw_key from documents where id = %(parsed)s) where id = %(id)s",
        {"id": document, "parsed": parsed},
    )
    second = len(LINE) + 2
    org.db.rows(
        'update chunks set page = index + 1, start = index * %(second)s, "end" = index * %(second)s + length(content)'
        " where document_id = %(id)s",
        {"id": document, "second": second},
    )
    org.db.rows(
        "update run_documents set generation = 1, pages = %(pages)s where document_id = %(id)s",
        {"id": document, "pages": [0, second]},
    )
    return document


def ask(org, space, document, page, **query):
    return org.client.get(f"/v1/documents/{document}/pages/{page}", params={"namespaceId": space, **query})


def test_a_page_is_drawn_with_the_chunk_of_that_place_shaded(org, space):
    document = put(org, space, pdf())
    for page in (1, 2):
        answer = ask(org, space, document, page, chunk=page - 1)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "image/png"
        rows = shaded(opened(answer.content))
        assert abs(min(rows) - (100 + 300 * (page - 1)) * 1.6) < 25
        assert not shaded(opened(ask(org, space, document, page, chunk=2 - page).content)), "the other page's chunk"
    assert not shaded(opened(ask(org, space, document, 1).content))
    listing = org.client.get(f"/v1/documents/{document}/chunks", params={"namespaceId": space}).json()["data"]
    assert [chunk["page"] for chunk in listing["chunks"]] == [1, 2]


@pytest.mark.parametrize("page", ["0", "3", "-1", "1.5", "x", "9" * 30, "%00", "\uff11"])
def test_a_page_that_is_not_there_is_404(org, space, page):
    assert_error(ask(org, space, put(org, space, pdf()), page), 404, "NOT_FOUND")


def test_what_is_no_pdf_is_not_drawn(org, space):
    text = upload(org, space, "a.txt", b"Only text.", "text/plain")
    assert assert_error(ask(org, space, text, 1), 404, "NOT_FOUND")["error"]["details"]["reason"] == "not_drawable"
    broken = upload(org, space, "a.pdf", b"%PDF-1.7 broken", "application/pdf")
    assert assert_error(ask(org, space, broken, 1), 404, "NOT_FOUND")["error"]["details"]["reason"] == "not_drawable"


def test_a_flood_of_pages_keeps_nobody_else_waiting(org, organization, space):
    # Requests beyond the queue get 503; other routes and other organizations continue.
    slow, stranger = put(org, space, pdf(1, circles=400)), organization()
    theirs = stranger.namespace()
    document = put(stranger, theirs, pdf())
    ask(stranger, theirs, document, 1)
    with ThreadPoolExecutor(8) as flood:
        answers = [flood.submit(ask, org, space, slow, 1) for _ in range(8)]
        time.sleep(0.2)
        quick = []
        while not all(answer.done() for answer in answers) and len(quick) < 20:
            started = time.monotonic()
            body = {"namespaceId": theirs, "filterConfig": {}}
            assert stranger.client.post("/v1/documents", json=body).status_code == 200
            quick.append(time.monotonic() - started)
        mine = ask(stranger, theirs, document, 1)
    got: list[httpx.Response] = [answer.result() for answer in answers]
    refused = [answer for answer in got if answer.status_code == 503]
    assert refused, "eight at once are more than wait"
    assert all(answer.headers["Retry-After"] == "2" for answer in refused)
    assert {answer.status_code for answer in got} <= {200, 404, 503}
    assert mine.status_code == 200
    assert sorted(quick)[len(quick) // 2] < 1
