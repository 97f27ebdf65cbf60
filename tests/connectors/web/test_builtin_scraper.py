"""The builtin scraper derives kind, version and freshness from an answer."""

import pytest

from connectors.http import html
from connectors.web.builtin import scraper
from connectors.web.builtin.client import Fetched
from retrieval.ports import ScrapeOptions

URL = "https://docs.example.org/a"
OPTIONS = ScrapeOptions(("main",), ())


def fetched(status=200, size=5, **headers):
    return Fetched(URL, status, {name.replace("_", "-"): value for name, value in headers.items()}, size)


@pytest.mark.parametrize(
    ("data", "declared_type", "kind"),
    [
        (b"<!DOCTYPE html><p>x", "text/html; charset=utf-8", "text/html; charset=utf-8"),
        (b"%PDF-1.7 x", "application/pdf", "application/pdf"),
        (b"%PDF-1.7 x", "text/html", "application/pdf"),
        (b"%PDF-1.7 x", "", "application/pdf"),
        (b"PK\x03\x04 docx", "application/octet-stream", ""),
        (b"  <!-- note -->\n<html><p>x", "", "text/html"),
        (b"\xef\xbb\xbf<!doctype HTML>", "application/octet-stream", "text/html"),
        (b"<p>x</p>", "text/plain", "text/plain"),
        (b"just words", "", ""),
        (b"{}", "application/json", "application/json"),
    ],
)
def test_the_kind_is_what_the_site_says_unless_the_bytes_say_otherwise(data, declared_type, kind, tmp_path):
    path = tmp_path / "raw"
    path.write_bytes(data)
    assert scraper.detect_media_type(path, declared_type) == kind
    raw = scraper.make_content(fetched(content_type=declared_type), URL, OPTIONS, path)
    assert raw.page == (OPTIONS if html.is_html(kind) else None)
    assert (raw.name, raw.media_type) == (URL, kind)
