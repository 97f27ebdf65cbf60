"""URL lists from a loopback server to search: successes, failures, refused addresses."""

import socket

import pytest

from retrieval.errors import Retryable
from tests.connectors.parsers.test_parsers import pdf
from tests.flows.crawls.site import PAGE, answer, html, ingest_urls, text_of


def test_pages_and_files_of_a_list_are_found(space, site):
    site.pages = {
        "/tides": PAGE,
        "/moved": answer(status="301 Moved", location="/owls.txt"),
        "/owls.txt": answer(b"Owls hunt mice at night.", content_type="text/plain"),
        "/bats": answer(pdf("Bats hunt moths in the dark."), content_type="application/octet-stream"),
    }
    urls = [f"{site.url}{path}" for path in ("/tides", "/moved", "/bats")]
    run = ingest_urls(space, *urls)
    assert run.status == "COMPLETED"
    assert [entry.error for entry in run.failed] == []
    assert space.search("moon and tide")[0] == urls[0]
    assert space.search("owls and mice")[0] == urls[1]
    assert space.search("bats and moths")[0] == urls[2]
    tides = space.documents()[urls[0]]
    assert tides["document_type"] == "URL"
    properties = {"language": "en", "description": "About the sea", "canonicalUrl": f"{site.url}/tides"}
    assert tides["properties"].items() >= {"mimeType": "text/html", **properties}.items()
    assert space.documents()[urls[2]]["properties"]["mimeType"] == "application/pdf"


def test_what_cannot_be_had_fails_alone_with_its_reason(space, site):
    with socket.create_server(("127.0.0.1", 0)) as closed_server:
        away = f"http://127.0.0.1:{closed_server.getsockname()[1]}/"
    site.pages = {"/tides": PAGE, "/empty": answer(), "/script": "<body><script>x()</script></body>"}
    site.pages["/owls"] = PAGE
    bad = [f"{site.url}/none", f"{site.url}/empty", f"{site.url}/script", "http://10.0.0.1/"]
    run = ingest_urls(space, f"{site.url}/tides", *bad)
    errors = {url: row["error"] for url, row in space.documents().items()}
    assert "404" in errors[bad[0]]
    assert "without a page" in errors[bad[1]]
    assert "scripts" in errors[bad[2]]
    assert "RETRIEVAL_FETCH_ALLOW" in errors[bad[3]]
    assert errors[f"{site.url}/tides"] is None
    assert len(run.completed) == 1
    with pytest.raises(Retryable, match="cannot be reached"):
        ingest_urls(space, away, f"{site.url}/owls")
    assert space.documents()[f"{site.url}/owls"]["status"] != "FAILED"


def test_a_list_is_not_bound_by_robots_but_keeps_its_delay(space, site, monkeypatch):
    rules = b"User-agent: *\nDisallow: /\nCrawl-delay: 7\n"
    site.pages = {"/robots.txt": answer(rules, content_type="text/plain"), "/tides": PAGE, "/owls": PAGE}
    waits = []
    monkeypatch.setattr("connectors.web.builtin.client.time.sleep", waits.append)
    run = ingest_urls(space, f"{site.url}/tides", f"{site.url}/owls")
    assert len(run.completed) == 2
    assert max(waits) == pytest.approx(7, abs=1)
    assert [path for path, _ in site.calls].count("/robots.txt") == 1


def test_an_unchanged_page_is_asked_for_by_its_mark_and_costs_no_more(space, site):
    def page(headers):
        return answer(status="304 Not Modified") if headers.get("if-none-match") == '"1"' else html(PAGE, etag='"1"')

    site.pages = {"/tides": page}
    url = f"{site.url}/tides"
    ingest_urls(space, url)
    document_before = space.documents()[url]
    run = ingest_urls(space, url)
    assert len(run.completed) == 1
    assert site.calls[-1][1]["if-none-match"] == '"1"'
    assert space.documents()[url]["active_generation"] == document_before["active_generation"]
    ingest_urls(space, url, scrapeOptions={"excludeSelectors": [".ad"]})
    assert "sofa" not in text_of(space, url), "the page did not change, but what is to be taken of it did"


def test_each_address_of_a_list_is_a_document_and_one_that_stands_twice_is_one(space, site):
    # Both addresses of the page were requested by name.
    site.pages = {"/tides": PAGE, "/tides?from=mail": PAGE}
    urls = [f"{site.url}/tides", f"{site.url}/tides?from=mail"]
    run = ingest_urls(space, urls[0], urls[1], urls[0])
    assert len(run.completed) == 2
    assert sorted(site.paths()) == ["/tides", "/tides?from=mail"]
    assert set(space.documents()) == set(urls)
    assert len(set(urls).intersection(space.search("moon and tide"))) == 1, "the same text takes two places"
    embedded = space.db.row(
        "select count(*) as texts from embeddings e join partitions p on p.id = e.partition_id"
        " where p.namespace_id = %(id)s",
        {"id": space.scope.namespace},
    )
    assert embedded == {"texts": 1}, "the same text was embedded twice"
