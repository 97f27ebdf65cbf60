"""Find documents by part of a name or address, by site, and by unknown access."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from retrieval import text_filter
from retrieval.documents import documents
from retrieval.errors import ErrorCode
from retrieval.filters import DocumentFilter
from tests.loops import run_coroutine

ERROR_CODE = ErrorCode.INVALID_FILTER_CONFIG


@dataclass
class Named:
    """Searchable fields of a document."""

    name: str
    external_id: str
    document_type: str


def awaited(db, function, *args, viewer=None):
    return run_coroutine(db, function(db, *args, viewer=viewer))


def list_documents(db, scope, viewer=None, **filters):
    page = awaited(db, documents.list_page, scope, DocumentFilter(**filters), viewer=viewer)
    return {item.name for item in page.items}


def find_by_text(library, text):
    return list_documents(library.db, library.scope, words=text_filter.parse_words(text, ERROR_CODE, path="text"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("harbour", {"The Harbour Seal.pdf"}),
        ("ARBO", {"The Harbour Seal.pdf"}),
        ("seal the", {"The Harbour Seal.pdf"}),
        ("seal tides", set()),
        ("docs.example.org/guide", {"Guide"}),
        ("guide 100%", {"Guide"}),
        ("100_", set()),
        ("résumé", {"Re\u0301sume\u0301 'A' \\ B:*.txt"}),
        ("RÉSUMÉ", {"Re\u0301sume\u0301 'A' \\ B:*.txt"}),
        ("'a' \\ b:*", {"Re\u0301sume\u0301 'A' \\ B:*.txt"}),
        ("合同", {"供货合同.docx"}),
        ("合", {"供货合同.docx"}),
        ("x", {"Re\u0301sume\u0301 'A' \\ B:*.txt", "供货合同.docx", "Guide", "last"}),
        ("st", {"last"}),
        ("last|x", set()),
        ("", {"The Harbour Seal.pdf", "Guide", "Re\u0301sume\u0301 'A' \\ B:*.txt", "供货合同.docx", "last"}),
    ],
)
def test_a_piece_of_the_name_or_the_address_finds_a_document(library, text, names):
    documents_given = (
        ("The Harbour Seal.pdf", "seal-1", "FILE"),
        ("Guide", "https://docs.example.org/guide?a=100%", "URL"),
        ("Re\u0301sume\u0301 'A' \\ B:*.txt", "q", "FILE"),
        ("供货合同.docx", "d", "FILE"),
        ("last", "x", "TEXT"),
    )
    for name, external_id, kind in documents_given:
        library.put(name=name, external_id=external_id, document_type=kind)
    assert find_by_text(library, text) == names
    search_words = text_filter.parse_words(text, ERROR_CODE, path="text")
    assert {
        name
        for name, external_id, kind in documents_given
        if text_filter.has_all_words(Named(name, external_id, kind), search_words)
    } == names


@pytest.mark.parametrize(
    "name",
    [
        "\ufdfa" * 1000,
        "".join(map(chr, range(0x4E00, 0x4E00 + 3000))),
        "".join(map(chr, range(0x3300, 0x33FF))) * 4,
        "'" * 300 + "\\" * 300 + ":*&|!()<->" * 20,
        "\U0001f600\u200d\u0301 \u2028 \x7f",
        "¨ ﬁ Σίσυφος İ ß",
    ],
)
def test_any_name_can_be_kept_and_found(library, name):
    library.put(name=name, external_id=name[:100] + "x" * 1000, document_type="FILE")
    assert find_by_text(library, name[:200]) == {name}
    assert find_by_text(library, "zzqq") == set()


@pytest.mark.parametrize(
    ("address", "site"),
    [
        ("https://Docs.Example.org/a?b=c://d", "docs.example.org"),
        ("HTTP://docs.example.org", "docs.example.org"),
        ("https://docs.example.org?a=b@c", "docs.example.org"),
        ("https://docs.example.org#a/b", "docs.example.org"),
        ("https://user:word@docs.example.org:8443/", "docs.example.org:8443"),
        ("https://[::1]:80/", "[::1]:80"),
        ("ftp://docs.example.org/", None),
        ("https:/docs.example.org/", None),
        ("docs.example.org", None),
        ("https:///", None),
        ("", None),
    ],
)
def test_the_site_of_an_address_is_its_host(db, library, address, site):
    """Python, SQL and the index agree."""
    library.put(name="page", external_id=address, document_type="URL")
    assert text_filter.page_site(Named("page", address, "URL")) == site
    assert awaited(db, documents.count_sites, library.scope, DocumentFilter()) == ({site: 1} if site else {})
    if site:
        assert list_documents(db, library.scope, sites=(site,)) == {"page"}
