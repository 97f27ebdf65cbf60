"""Ingestion of web pages over HTTP: requests are checked and recorded, without fetching."""

from __future__ import annotations

import pytest

PAGE = "https://example.org/page"
SOURCES = {"urls": "URLS_LIST", "sitemap": "SITEMAP", "website": "WEBSITE"}
CHUNKS = {"chunkSize": 120, "chunkOverlap": 30}


@pytest.fixture
def space(org):
    return org.namespace(webScraperConfig={"provider": "BUILTIN"})


def body(space, kind, config, **beside):
    start = {"urls": [PAGE]} if kind == "urls" else {"url": PAGE}
    return {"namespaceId": space, "ingestConfig": {"source": SOURCES[kind], "config": start | config, **beside}}


def post(org, space, kind, config, **beside):
    return org.client.post(f"/v1/ingest/{kind}", json=body(space, kind, config, **beside))


def recorded(org, answer):
    run = answer.json()["data"]["ingestJobRunId"]
    return org.db.row(
        "select j.source, j.config, r.to_discover from jobs j join job_runs r on r.job_id = j.id where r.id = %(run)s",
        {"run": run},
    )


def test_a_list_of_urls_answers_its_documents_in_order(org, space):
    urls = [f"https://example.org/{name}" for name in ("z", "a", "m")]
    answer = post(org, space, "urls", {"urls": [*urls, urls[0], urls[1] + "#part"], "metadata": {"k": 1}})
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    assert [(entry["status"], entry["error"]) for entry in data["documents"]] == [("QUEUED", None)] * 3
    listing = org.client.post("/v1/documents", json={"namespaceId": space, "filterConfig": {}}).json()["data"]
    by_id = {entry["id"]: entry for entry in listing["documents"]}
    assert [by_id[entry["id"]]["externalId"] for entry in data["documents"]] == urls
    assert {(entry["documentType"], entry["ingestionSource"]) for entry in by_id.values()} == {("URL", "URLS_LIST")}
    assert all(entry["metadata"] == {"k": 1} for entry in by_id.values())
    run = org.client.get(f"/v1/ingest-job-runs/{data['ingestJobRunId']}", params={"namespaceId": space}).json()["data"]
    expected = [document | {"name": url} for document, url in zip(data["documents"], urls, strict=True)]
    assert run["documents"]["queued"] == expected
    assert recorded(org, answer)["to_discover"] is False
    repeated = post(org, space, "urls", {"urls": [urls[2]]}).json()["data"]["documents"]
    assert [entry["id"] for entry in repeated] == [data["documents"][2]["id"]]


@pytest.mark.parametrize(
    ("kind", "defaults"),
    [("sitemap", {"maxLinks": 1000}), ("website", {"maxLinks": 100, "maxDepth": 3, "useSitemap": True})],
)
def test_what_was_not_sent_takes_the_defaults(org, space, kind, defaults):
    nothing = dict.fromkeys(["maxLinks", "includePaths", "excludePaths", "scrapeOptions", "metadata", "chunkConfig"])
    for config in ({}, nothing | ({"maxDepth": None} if kind == "website" else {})):
        answer = post(org, space, kind, config)
        assert answer.status_code == 200, answer.text
        assert answer.json()["data"]["documents"] == []
        job = recorded(org, answer)
        assert (job["source"], job["to_discover"]) == (SOURCES[kind], True)
        assert job["config"]["request"] == {"url": PAGE, **defaults}
        assert (job["config"]["chunkSize"], job["config"]["chunkOverlap"]) == (1000, 200)


def test_what_was_sent_is_what_the_flow_gets(org, space):
    config = {
        "maxDepth": 5,
        "useSitemap": False,
        "maxLinks": 10_000,
        "includePaths": ["/a"],
        "excludePaths": [],
        "scrapeOptions": {"includeSelectors": ["main"], "excludeSelectors": []},
    }
    answer = post(org, space, "website", config | {"metadata": {"k": 1}, "chunkConfig": CHUNKS, "unknown": 1})
    assert answer.status_code == 200, answer.text
    job = recorded(org, answer)["config"]
    assert job["request"] == config | {"url": PAGE}
    assert job["metadata"] == {"k": 1}
    assert (job["chunkSize"], job["chunkOverlap"]) == (120, 30)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_chunk_config_beside_the_config_wins(org, space, kind):
    answer = post(org, space, kind, {"chunkConfig": {"chunkSize": 50, "chunkOverlap": 5}}, chunkConfig=CHUNKS)
    assert recorded(org, answer)["config"]["chunkSize"] == 120
    answer = post(org, space, kind, {"chunkConfig": CHUNKS}, chunkConfig=None)
    assert recorded(org, answer)["config"]["chunkSize"] == 120


BAD_URLS = [
    "",
    "example.org",
    "//example.org",
    "ftp://example.org",
    "javascript:alert(1)",
    "http://",
    "http://example.org:0/",
    "http://user:secret@example.org/",
    "http://example.org\\@other.org/",
    "http://example.org/\n",
    "https://example.org/" + "a" * 2048,
    5,
]

BAD_SCRAPE_OPTIONS = [
    [],
    {"excludeSelectors": ["p["]},
    {"excludeSelectors": ["a"] * 51},
    {"excludeSelectors": ["a" * 201]},
]


def test_bad_requests_are_refused_and_leave_nothing(org, space):
    cases = [("urls", {"urls": [PAGE, url]}, "INVALID_INGEST_CONFIG") for url in BAD_URLS]
    cases += [("urls", {"urls": urls}, "INVALID_INGEST_CONFIG") for urls in ([], None, PAGE, {}, [PAGE] * 1001)]
    cases += [(kind, {"url": url}, "INVALID_INGEST_CONFIG") for url in BAD_URLS for kind in ("sitemap", "website")]
    cases += [("website", {"scrapeOptions": options}, "INVALID_SCRAPE_OPTIONS") for options in BAD_SCRAPE_OPTIONS]
    cases += [
        ("sitemap", config, "INVALID_INGEST_CONFIG") for config in ({"maxLinks": "5"}, {"excludePaths": ["/a"] * 101})
    ]
    for kind, config, code in cases:
        answer = post(org, space, kind, config)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, code), (kind, config)
        field = answer.json()["error"]["details"]["field"]
        assert field.startswith("ingestConfig.config."), (kind, config, field)
    assert org.db.rows("select id from jobs where organization_id = %(id)s", {"id": org.id}) == []


def test_a_message_never_repeats_the_url(org, space):
    answer = post(org, space, "urls", {"urls": ["http://user:hunter2@example.org/"]})
    assert "hunter2" not in answer.text
