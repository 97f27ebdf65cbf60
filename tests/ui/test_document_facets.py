"""Facets at the side of the Documents page: counts, kinds, and their place in the address."""

from __future__ import annotations

import base64
import json

import pytest

from retrieval.ports import Scope
from tests.library import Library
from tests.ui.conftest import visible_content
from tests.ui.test_addresses import address
from ui.parts import document_kinds

FILES = (
    ("report.pdf", "application/pdf", "en", 0.6, [{"page": 3, "reasons": ["Faint."], "quality": 0.4, "unread": False}]),
    ("letter.pdf", "application/pdf", "de", 0.97, []),
    ("page", "text/html", "en", None, []),
)


@pytest.fixture
def files(org) -> str:
    """A namespace with two PDFs and a web page."""
    namespace = org.namespace()
    library = Library(org.db, Scope(org.id, namespace, ""), None)
    for name, media_type, language, quality, pages in FILES:
        properties = {"mimeType": media_type, "language": language, "textQuality": quality, "pagesToCheck": pages}
        document = library.put([f"Text of {name}."], name=name)
        org.db.rows(
            "update documents set properties = %(properties)s::jsonb where id = %(id)s",
            {"properties": json.dumps(properties), "id": document},
        )
    return namespace


def test_facets_count_and_narrow_and_stand_in_the_address(app, org, files):
    view = app(org.api_key, "documents", namespace=files)
    assert not view.exception
    assert view.pills(key="find_kind").options == ["PDF (2)", "Web page (1)"]
    assert view.pills(key="find_language").options == ["en (2)", "de (1)"]
    view.pills(key="find_kind").set_value(["pdf"]).run()
    view.pills(key="find_language").set_value(["en"]).run()
    assert not view.exception
    assert "1 document:" in visible_content(view)
    assert "report.pdf" in visible_content(view)
    assert address(view) == {"namespace": files, "kind": "pdf", "language": "en"}
    linked = app(org.api_key, "documents", **address(view))
    assert "1 document:" in visible_content(linked)
    assert linked.pills(key="find_kind").value == ["pdf"]
    next(button for button in linked.button if button.label == "Clear filters").click().run()
    assert "3 documents:" in visible_content(linked)
    assert address(linked) == {"namespace": files}


@pytest.mark.parametrize(
    "filters", [{"kind": "slides"}, {"source": "SITEMAP"}, {"language": "fi"}, {"status": "FAILED"}]
)
def test_a_link_whose_value_no_document_has_shows_none(app, org, files, filters):
    view = app(org.api_key, "documents", namespace=files, **filters)
    assert not view.exception
    assert "No document matches" in visible_content(view)
    assert address(view) == {"namespace": files, **filters}


def test_rows_show_kind_and_quality(app, org, files):
    (table,) = app(org.api_key, "documents", namespace=files).dataframe
    rows = {row["Name"]: row for row in table.value.to_dict("records")}
    assert rows["report.pdf"]["Quality"] == "60% · 1 to check"
    assert (rows["letter.pdf"]["Quality"], rows["page"]["Quality"]) == ("97%", "")
    icon = base64.b64decode(rows["report.pdf"]["Kind"].partition(",")[2]).decode()
    assert 'aria-label="PDF"' in icon


@pytest.mark.parametrize(
    ("media_type", "kind"),
    [
        ("application/pdf", "pdf"),
        ("text/html", "web"),
        ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "table"),
        ("application/vnd.ms-excel", "table"),
        ("text/csv", "table"),
        ("application/vnd.oasis.opendocument.text", "word"),
        ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "slides"),
        ("message/rfc822", "mail"),
        ("application/zip", "archive"),
        ("application/json", "data"),
        ("text/markdown", "text"),
        (None, "text"),
        ("application/x-unheard-of", "other"),
    ],
)
def test_a_media_type_has_a_kind(media_type, kind):
    assert document_kinds.find_kind(media_type) == kind
