"""Status and code of bad input for each operation; an operation without rows fails."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.api.description import DOCUMENT
from tests.api.support import EMBEDDED, assert_error

SPACE = "<namespace>"
NO_RUN, NO_DOC, NO_CONNECTION = "ijr_0", "doc_0", "conn_0"
FILTER = {"documentIds": [NO_DOC]}
# True for a document without any field: restricts nothing.
NEARLY_ALL = {"field": "metadata.a", "op": "ne", "value": 1}
WHERE = {"namespaceId": SPACE, "filterConfig": FILTER}
NAMESPACE, INGEST, SEARCH = "INVALID_NAMESPACE_CONFIG", "INVALID_INGEST_CONFIG", "INVALID_SEARCH_REQUEST"
FILTERS, REQUEST, HYBRID = "INVALID_FILTER_CONFIG", "INVALID_REQUEST", "INVALID_HYBRID_CONFIG"
CHUNKS, SCRAPING = "INVALID_CHUNK_CONFIG", "INVALID_SCRAPE_OPTIONS"

# Request arguments (`path` replaces the template), status and code.
Row = tuple[dict[str, Any], int, str]


def body(value: Any, status: int, code: str) -> Row:
    return {"json": value}, status, code


def ingest(source: str, config: Any, **beside: Any) -> dict[str, Any]:
    return {"namespaceId": SPACE, "ingestConfig": {"source": source, "config": config, **beside}}


def unreadable(code: str) -> list[Row]:
    """Return rows for bodies refused by every JSON operation."""
    json = {"Content-Type": "application/json"}
    return [
        ({"content": b"{", "headers": json}, 400, code),
        ({"content": b"[]", "headers": json}, 400, code),
        ({"content": b"{}", "headers": {"Content-Type": "text/plain"}}, 415, "UNSUPPORTED_MEDIA_TYPE"),
    ]


def undecodable(code: str) -> list[Row]:
    """Return rows for bodies refused by the decoder of all operations."""
    json = {"Content-Type": "application/json"}
    contents = (b"", b"\xff", b'{"a": "\\u0000"}', b"[" * 99)
    return [
        *(({"content": content, "headers": json}, 400, code) for content in contents),
        ({"content": b"{}", "headers": {**json, "Content-Encoding": "gzip"}}, 415, "UNSUPPORTED_MEDIA_TYPE"),
    ]


def connector(source: str) -> list[Row]:
    good = {"connectionId": NO_CONNECTION}
    return [
        *unreadable(INGEST),
        body(ingest(source, good), 404, "CONNECTION_NOT_FOUND"),
        body({**ingest(source, good), "namespaceId": ""}, 404, "NAMESPACE_NOT_FOUND"),
        body({"ingestConfig": ingest(source, good)["ingestConfig"]}, 400, INGEST),
        body(ingest("TEXT", good), 400, INGEST),
        body(ingest(source, {}), 400, INGEST),
        body(ingest(source, {**good, "metadata": [1]}), 400, INGEST),
        body(ingest(source, good, chunkConfig={"chunkSize": 0, "chunkOverlap": 0}), 400, CHUNKS),
        *(
            body(ingest(source, {**good, "include": bad}), 400, INGEST)
            for bad in ("a", [{}], [{"id": "a", "path": "b"}], [{"path": "a**"}], [{"id": "a"}] * 201)
        ),
    ]


def web(source: str, good: dict[str, Any]) -> list[Row]:
    return [
        *unreadable(INGEST),
        body(ingest(source, {}), 400, INGEST),
        body(ingest("TEXT", good), 400, INGEST),
        body(ingest(source, {**good, "scrapeOptions": {"includeSelectors": 5}}), 400, SCRAPING),
        body(ingest(source, good, chunkConfig={"chunkSize": 9000, "chunkOverlap": 0}), 400, CHUNKS),
        body({**ingest(source, good), "namespaceId": "ns_0"}, 404, "NAMESPACE_NOT_FOUND"),
        body(ingest(source, good), 400, "WEB_SCRAPER_CONFIG_NOT_SET"),
    ]


def paged(code: str, **always: str) -> list[Row]:
    return [
        ({"params": always}, 400, code),
        ({"params": {**always, "namespaceId": ""}}, 404, "NAMESPACE_NOT_FOUND"),
        ({"params": {**always, "namespaceId": "ns_0"}}, 404, "NAMESPACE_NOT_FOUND"),
        *(
            ({"params": {**always, "namespaceId": SPACE, **bad}}, 400, code)
            for bad in ({"pageSize": "0"}, {"pageSize": "101"}, {"pageSize": "x"}, {"cursor": "x"})
        ),
    ]


def shaped() -> list[Row]:
    """Return rows for bad result shapes of a search."""
    wrong: list[dict[str, Any]] = [
        {"perDocument": 101},
        {"expand": {"unit": "WORD"}},
        {"expand": {"unit": "PAGE", "maxTokens": 8001}},
        {"recency": {"halfLifeDays": 0, "weight": 0.5}},
        {"rerank": True},
        {"rerank": {"candidates": 201}},
        {"rerank": {"budgetMs": 49}},
        {"rerankConfig": {"provider": "COHERE"}},
    ]
    return [body({"namespaceId": SPACE, "query": "a", **bad}, 400, SEARCH) for bad in wrong]


def search() -> list[Row]:
    good = {"namespaceId": SPACE, "query": "a"}
    wrong = [
        {"query": " "},
        {"query": "x" * 8193},
        {"query": 5},
        {"topK": 0},
        {"topK": 101},
        {"topK": 1.5},
        {"scoreThreshold": 1.1},
        {"filter": {"metadata": {"a": {"b": 1}}}},
        {"filter": {"documents": {"documentTypes": ["PAGE"]}}},
        {"filter": {"where": {"field": "metadata.a", "op": "like", "value": "b"}}},
        {"searchType": "KEYWORD"},
    ]
    return [
        *unreadable(SEARCH),
        *(body({**good, **bad}, 400, SEARCH) for bad in wrong),
        body({"namespaceId": SPACE}, 400, SEARCH),
        body({"query": "a"}, 400, SEARCH),
        body({**good, "namespaceId": ""}, 404, "NAMESPACE_NOT_FOUND"),
        body({**good, "namespaceId": "ns_0"}, 404, "NAMESPACE_NOT_FOUND"),
    ]


def filtered() -> list[Row]:
    """Return rows for bad document filters."""
    wrong = [
        {"documentIds": "x"},
        {"documentTypes": ["PAGE"]},
        {"documentIngestionStatuses": ["DONE"]},
        {"metadata": {"a": {"b": 1}}},
        {"where": {"any": []}},
        {"where": {"field": "document.createdAt", "op": "gt", "value": "soon"}},
    ]
    return [
        *unreadable(FILTERS),
        *(body({**WHERE, "filterConfig": bad}, 400, FILTERS) for bad in [*wrong, None]),
        body(IN_SPACE, 400, FILTERS),
        body({"filterConfig": FILTER}, 400, FILTERS),
        body({**WHERE, "namespaceId": ""}, 404, "NAMESPACE_NOT_FOUND"),
    ]


def changing(**always: Any) -> list[Row]:
    return [
        *unreadable(FILTERS),
        body({**WHERE, **always, "filterConfig": {"documentIds": "x"}}, 400, FILTERS),
        body({**always, "namespaceId": SPACE}, 400, FILTERS),
        body({**WHERE, **always, "filterConfig": {}}, 400, FILTERS),
        body({**WHERE, **always, "filterConfig": {"where": NEARLY_ALL}}, 400, FILTERS),
        body({**WHERE, **always}, 404, "DOCUMENTS_NOT_FOUND"),
    ]


def of_namespace(good: dict[str, Any]) -> list[Row]:
    wrong: list[dict[str, Any]] = [
        {"name": ""},
        {"name": "x" * 201},
        {"name": 5},
        {"fileStorageConfig": {"type": "S3_COMPATIBLE", "bucket": "b"}},
        {"fileStorageConfig": None},
        {"vectorStorageConfig": {"provider": "PINECONE", "apiKey": "k"}},
        {"embeddingModelConfig": {"provider": "LOCAL", "model": "no-such-model"}},
        {"embeddingModelConfig": {"provider": "OPENAI", "model": "text-embedding-3-small"}},
        {"webScraperConfig": {"provider": "PINECONE", "apiKey": "k"}},
        {"webScraperConfig": {"provider": "FIRECRAWL"}},
        {"notionConfig": {"clientId": "c"}},
        {"notionConfig": {"clientId": "c", "clientSecret": "s", "authorizationUrl": "http://a.example"}},
        {"googleDriveConfig": {"clientId": "c", "clientSecret": "s"}},
        *(
            {f"{name}Config": {"clientId": "c", "clientSecret": "s", "tenantId": tenant}}
            for name in ("onedrive", "sharepoint")
            for tenant in ("", "common/../x", "a?b")
        ),
        {"boxConfig": {"clientId": "", "clientSecret": "s"}},
        {"boxConfig": {"clientId": "c", "clientSecret": "••••1234"}},
    ]
    return [*unreadable(NAMESPACE), *(body({**good, **bad}, 400, NAMESPACE) for bad in wrong)]


def of_connection(good: dict[str, Any]) -> list[Row]:
    wrong: list[dict[str, Any]] = [
        {"name": ""},
        {"clientRedirectUrl": "http://app.example.com"},
    ]
    return [*unreadable(REQUEST), *(body({**good, **bad}, 400, REQUEST) for bad in wrong)]


UNKNOWN: Row = ({}, 404, "NAMESPACE_NOT_FOUND")
WRONG_KEY: Row = ({"headers": {"Authorization": "Bearer wrong"}}, 401, "UNAUTHORIZED")
IN_SPACE = {"namespaceId": SPACE}


def wrong_quotas() -> list[Row]:
    numbers = (-1, 0.5, True, 2**70)
    return [*unreadable(REQUEST), *(body({"quotas": {"documents": bad}}, 400, REQUEST) for bad in numbers)]


WORDS = {"name": "words", "semanticWeight": 0, "keywordWeight": 1}
EVALUATION = {**IN_SPACE, "name": "set", "questions": [{"query": "a", "relevant": [{"externalId": "e"}]}]}
PAGE = {"url": "https://example.org/"}
SCIM = "{method} /v1/namespaces/{{namespace_id}}/scim/v2/{{resource_type}}{tail}"
PUSHED = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": "ada"}
PATCH_OP = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
CONNECTION = {**IN_SPACE, "name": "a", "connector": "BOX"}
WEIGHTS = {"semanticWeight": 0.5, "keywordWeight": 0.5}

HOOK = {"url": "https://1.1.1.1/hook", "events": ["*"]}
NO_HOOK = "WEBHOOK_NOT_FOUND"
ROWS: dict[str, list[Row]] = {
    "POST /v1/namespaces": [
        *of_namespace({"name": "a", **EMBEDDED}),
        *(
            body({k: v for k, v in {"name": "a", **EMBEDDED}.items() if k != missing}, 400, NAMESPACE)
            for missing in EMBEDDED
        ),
        body(EMBEDDED, 400, NAMESPACE),
    ],
    "POST /v1/namespaces/test": [
        *unreadable(NAMESPACE),
        *(
            body(bad, 400, NAMESPACE)
            for bad in (
                {"vectorStorageConfig": {"provider": "PINECONE", "apiKey": "k"}},
                {"embeddingModelConfig": {"provider": "LOCAL", "model": "no-such-model"}},
                {"webScraperConfig": {"provider": "FIRECRAWL"}},
                {"boxConfig": {"clientId": "c", "clientSecret": "••••1234"}},
            )
        ),
        body({"namespaceId": "ns_0"}, 404, "NAMESPACE_NOT_FOUND"),
    ],
    "GET /v1/namespaces": [WRONG_KEY],
    "GET /v1/namespaces/{namespace_id}": [UNKNOWN],
    "PATCH /v1/namespaces/{namespace_id}": [
        *(({**request, "path": f"/v1/namespaces/{SPACE}"}, *outcome) for request, *outcome in of_namespace({})),
        body({}, 404, "NAMESPACE_NOT_FOUND"),
    ],
    "DELETE /v1/namespaces/{namespace_id}": [UNKNOWN],
    "POST /v1/ingest/text": [
        *unreadable(INGEST),
        body(ingest("TEXT", {}), 400, INGEST),
        body(ingest("TEXT", {"text": ""}), 400, INGEST),
        body(ingest("TEXT", {"text": "a", "metadata": []}), 400, INGEST),
        body(ingest("TEXT", {"text": "a", "metadata": {str(n): n for n in range(51)}}), 400, INGEST),
        body(ingest("TEXT", {"text": "a", "metadata": {"k": "v" * 3000}}), 400, INGEST),
        body(ingest("URLS_LIST", {"text": "a"}), 400, INGEST),
        body(ingest("TEXT", {"text": "a"}, chunkConfig={"chunkSize": 10}), 400, CHUNKS),
        body(ingest("TEXT", {"text": "a"}, chunkConfig={"chunkSize": 10, "chunkOverlap": 10}), 400, CHUNKS),
        body(ingest("TEXT", {"text": "a"}, chunkConfig={"chunkSize": 8192, "chunkOverlap": 0}), 400, CHUNKS),
        body(ingest("TEXT", {"text": "a"}, chunkConfig={"chunkSize": 10, "chunkOverlap": -1}), 400, CHUNKS),
        body(IN_SPACE, 400, INGEST),
        body({**ingest("TEXT", {"text": "a"}), "namespaceId": ""}, 404, "NAMESPACE_NOT_FOUND"),
        body(ingest("TEXT", {"text": "a" * 600_000}), 413, "PAYLOAD_TOO_LARGE"),
    ],
    "POST /v1/ingest/file": [
        body({}, 415, "UNSUPPORTED_MEDIA_TYPE"),
        ({"data": IN_SPACE, "files": {"other": ("a.txt", b"a")}}, 400, INGEST),
        ({"files": {"file": ("a.txt", b"a")}}, 400, INGEST),
        ({"data": {"namespaceId": ""}, "files": {"file": ("a.txt", b"a")}}, 404, "NAMESPACE_NOT_FOUND"),
        ({"data": IN_SPACE, "files": {"file": ("a.txt", b"a" * 3_200_000)}}, 413, "PAYLOAD_TOO_LARGE"),
    ],
    "POST /v1/ingest/uploads": [
        body({}, 415, "UNSUPPORTED_MEDIA_TYPE"),
        ({"data": IN_SPACE, "files": {"other": ("a.txt", b"a")}}, 400, INGEST),
        ({"data": IN_SPACE, "files": {"file": ("a.txt", b"")}}, 400, INGEST),
        ({"data": {**IN_SPACE, "externalId": "a"}, "files": {"file": ("a.txt", b"a")}}, 400, INGEST),
        ({"files": {"file": ("a.txt", b"a")}}, 400, INGEST),
        ({"data": {"namespaceId": ""}, "files": {"file": ("a.txt", b"a")}}, 404, "NAMESPACE_NOT_FOUND"),
        ({"data": IN_SPACE, "files": {"file": ("a.txt", b"a" * 3_200_000)}}, 413, "PAYLOAD_TOO_LARGE"),
    ],
    "POST /v1/ingest/files": [
        *(
            body(ingest("FILE", config), 400, INGEST)
            for config in (
                {},
                {"files": []},
                {"files": [{"uploadId": "up_unknown"}]},
                {"files": [{"uploadId": "../up_1"}]},
                {"files": [{"uploadId": "up_1"}] * 501},
                {"files": [{"uploadId": "up_1"}], "ocrConfig": {"strategy": "MAGIC"}},
            )
        ),
        body(ingest("TEXT", {"files": [{"uploadId": "up_1"}]}), 400, INGEST),
        body(ingest("FILE", {"files": [{"uploadId": "up_1"}]}, chunkConfig={"chunkSize": 10}), 400, CHUNKS),
    ],
    "POST /v1/convert/file": [
        body({}, 415, "UNSUPPORTED_MEDIA_TYPE"),
        ({"files": {"other": ("a.txt", b"a")}}, 400, INGEST),
        ({"files": {"file": ("a.txt", b"")}}, 400, INGEST),
        ({"files": {"file": ("a.pdf", b"%PDF-1.4")}}, 400, INGEST),
        ({"data": {"ocrConfig": '{"strategy": "MAGIC"}'}, "files": {"file": ("a.txt", b"a")}}, 400, INGEST),
        ({"files": {"file": ("a.txt", b"a" * 3_200_000)}}, 413, "PAYLOAD_TOO_LARGE"),
    ],
    "POST /v1/ingest/urls": [
        *web("URLS_LIST", {"urls": [PAGE["url"]]}),
        *(body(ingest("URLS_LIST", {"urls": bad}), 400, INGEST) for bad in ([], "x", ["ftp://a"], [5], None)),
    ],
    "POST /v1/ingest/sitemap": [
        *web("SITEMAP", PAGE),
        *(
            body(ingest("SITEMAP", {**PAGE, **bad}), 400, INGEST)
            for bad in ({"maxLinks": 0}, {"maxLinks": 10_001}, {"url": "a"}, {"includePaths": "/a"})
        ),
    ],
    "POST /v1/ingest/website": [
        *web("WEBSITE", PAGE),
        *(
            body(ingest("WEBSITE", {**PAGE, **bad}), 400, INGEST)
            for bad in ({"maxDepth": 0}, {"maxDepth": 6}, {"maxDepth": "3"}, {"maxLinks": 0}, {"excludePaths": [5]})
        ),
    ],
    "POST /v1/ingest/notion": connector("NOTION"),
    "POST /v1/ingest/google-drive": connector("GOOGLE_DRIVE"),
    "POST /v1/ingest/dropbox": connector("DROPBOX"),
    "POST /v1/ingest/onedrive": connector("ONEDRIVE"),
    "POST /v1/ingest/sharepoint": connector("SHAREPOINT"),
    "POST /v1/ingest/box": connector("BOX"),
    "POST /v1/ingest/outlook-mail": connector("OUTLOOK_MAIL"),
    "POST /v1/ingest/gmail": connector("GMAIL"),
    "POST /v1/ingest/source": connector("OBJECTS"),
    "GET /v1/ingest-job-runs": [*paged(REQUEST), ({"params": {**IN_SPACE, "status": "DONE"}}, 400, REQUEST)],
    "GET /v1/ingest-job-runs/{ingest_job_run_id}": [
        ({}, 400, REQUEST),
        ({"params": {"namespaceId": ""}}, 404, "NAMESPACE_NOT_FOUND"),
        ({"params": {"namespaceId": "\0"}}, 400, REQUEST),
        ({"params": IN_SPACE}, 404, "INGEST_JOB_RUN_NOT_FOUND"),
    ],
    "POST /v1/ingest-job-runs/{ingest_job_run_id}/cancel": [
        *unreadable(REQUEST),
        body({}, 400, REQUEST),
        body({"namespaceId": 5}, 400, REQUEST),
        body({"namespaceId": ""}, 404, "NAMESPACE_NOT_FOUND"),
        body(IN_SPACE, 404, "INGEST_JOB_RUN_NOT_FOUND"),
    ],
    "POST /v1/ingest-job-runs/{ingest_job_run_id}/retry": [
        *unreadable(REQUEST),
        body({}, 400, REQUEST),
        body({"namespaceId": ""}, 404, "NAMESPACE_NOT_FOUND"),
        body(IN_SPACE, 404, "INGEST_JOB_RUN_NOT_FOUND"),
    ],
    "POST /v1/search": [
        *undecodable(SEARCH),
        *search(),
        *shaped(),
        body({**IN_SPACE, "query": "a", "searchType": "HYBRID"}, 400, SEARCH),
    ],
    "POST /v1/search/why": [
        *unreadable(SEARCH),
        body({**IN_SPACE, "query": "a"}, 400, SEARCH),
        body({**IN_SPACE, "query": "a", "documentId": NO_DOC, "externalId": "b"}, 400, SEARCH),
        body({**IN_SPACE, "query": "a", "documentId": 5}, 400, SEARCH),
        body({**IN_SPACE, "query": "a", "documentId": NO_DOC}, 404, "DOCUMENTS_NOT_FOUND"),
        body({**IN_SPACE, "query": "a", "documentId": NO_DOC, "hybridConfig": {}}, 400, HYBRID),
    ],
    "POST /v1/compat/dify/retrieval": [
        *unreadable(SEARCH),
        body({"query": "a"}, 400, SEARCH),
        body({"knowledge_id": SPACE}, 400, SEARCH),
        body({"knowledge_id": "ns_0", "query": "a"}, 404, "NAMESPACE_NOT_FOUND"),
        *(
            body({"knowledge_id": SPACE, "query": "a", **bad}, 400, SEARCH)
            for bad in (
                {"query": " "},
                {"retrieval_setting": {"top_k": 0}},
                {"metadata_condition": {"conditions": [{"name": ["a"], "comparison_operator": "like", "value": 1}]}},
            )
        ),
    ],
    "POST /v1/vector_stores/{namespace_id}/search": [
        *unreadable(SEARCH),
        body({"query": "a"}, 404, "NAMESPACE_NOT_FOUND"),
        *(
            body({"query": "a", **bad}, 400, SEARCH)
            for bad in (
                {"query": " "},
                {"max_num_results": 51},
                {"filters": {"type": "like", "key": "a", "value": 1}},
                {"ranking_options": {"hybrid_search": {"embedding_weight": 0, "text_weight": 0}}},
            )
        ),
    ],
    "POST /v1/search/batch": [
        *unreadable(SEARCH),
        *(body({**IN_SPACE, "queries": wrong}, 400, SEARCH) for wrong in ([], [{"query": "a"}] * 65)),
        body(IN_SPACE, 400, SEARCH),
        body({"queries": [{"query": "a"}]}, 400, SEARCH),
        body({"namespaceId": "ns_0", "queries": [{"query": "a"}]}, 404, "NAMESPACE_NOT_FOUND"),
        body({"namespaceIds": [SPACE, "ns_0"], "queries": [{"query": "a"}]}, 404, "NAMESPACE_NOT_FOUND"),
    ],
    "POST /v1/search/hybrid": [
        *unreadable(SEARCH),
        body({**IN_SPACE, "query": "a", "hybridConfig": WEIGHTS, "searchType": "SEMANTIC"}, 400, SEARCH),
        *(
            body({**IN_SPACE, "query": "a", **bad}, 400, HYBRID)
            for bad in (
                {},
                {"hybridConfig": {"semanticWeight": 1}},
                {"hybridConfig": {"semanticWeight": 0.5, "keywordWeight": 0.6}},
                {"hybridConfig": {"semanticWeight": 1.5, "keywordWeight": -0.5}},
            )
        ),
    ],
    "POST /v1/documents": [
        *filtered(),
        *(
            body({**IN_SPACE, "filterConfig": {}, **bad}, 400, FILTERS)
            for bad in (
                {"pagination": {"pageSize": 0}},
                {"pagination": {"pageSize": 101}},
                {"pagination": {"cursor": "x"}},
                {"includeConfig": {"statsBySource": "yes"}},
                {"facets": ["document.id"]},
                {"facets": ["metadata.a"] * 11},
            )
        ),
    ],
    "PATCH /v1/documents": [
        *changing(data={"metadata": {"a": 1}}),
        body(WHERE, 400, FILTERS),
        *(
            body({**WHERE, "data": bad}, 400, FILTERS)
            for bad in (
                {},
                {"metadata": 5},
                {"$metadata": {"$set": 5}},
            )
        ),
    ],
    "DELETE /v1/documents": changing(),
    "POST /v1/documents/delete": changing(),
    "POST /v1/documents/resync": [
        *changing(),
        *(body({**WHERE, field: "yes"}, 400, FILTERS) for field in ("confirmDeletions", "dryRun")),
    ],
    "GET /v1/documents/{document_id}/chunks": [
        *paged(FILTERS),
        ({"params": IN_SPACE}, 404, "DOCUMENTS_NOT_FOUND"),
    ],
    "GET /v1/documents/{document_id}/pages/{page}": [
        ({}, 400, FILTERS),
        ({"params": {**IN_SPACE, "chunk": "-1"}}, 400, FILTERS),
        ({"params": IN_SPACE}, 404, "DOCUMENTS_NOT_FOUND"),
    ],
    "GET /v1/documents/{document_id}/history": [
        *paged(FILTERS),
        ({"params": IN_SPACE}, 404, "DOCUMENTS_NOT_FOUND"),
    ],
    "POST /v1/connections": [
        *of_connection(CONNECTION),
        *(
            body({k: v for k, v in CONNECTION.items() if k != missing}, 400, REQUEST)
            for missing in ("namespaceId", "name", "connector")
        ),
        body({**CONNECTION, "connector": "FTP"}, 400, REQUEST),
        body({**CONNECTION, "namespaceId": ""}, 404, "NAMESPACE_NOT_FOUND"),
        body(CONNECTION, 400, REQUEST),
    ],
    "GET /v1/connections": [
        ({}, 400, REQUEST),
        ({"params": {"namespaceId": ""}}, 404, "NAMESPACE_NOT_FOUND"),
        ({"params": {**IN_SPACE, "connector": "FTP"}}, 400, REQUEST),
        ({"params": {**IN_SPACE, "connector": "box"}}, 400, REQUEST),
    ],
    "GET /v1/connections/{connection_id}": [
        ({}, 404, "CONNECTION_NOT_FOUND"),
        ({"params": {"namespaceId": "ns_0"}}, 404, "CONNECTION_NOT_FOUND"),
        ({"params": {"namespaceId": "\0"}}, 400, REQUEST),
    ],
    "PATCH /v1/connections/{connection_id}": [
        *of_connection(IN_SPACE),
        body({}, 400, REQUEST),
        body(IN_SPACE, 404, "CONNECTION_NOT_FOUND"),
    ],
    "POST /v1/connections/{connection_id}/browse": [
        *unreadable(REQUEST),
        body({}, 400, REQUEST),
        body({"namespaceId": ""}, 404, "NAMESPACE_NOT_FOUND"),
        body({**IN_SPACE, "parentId": ""}, 400, REQUEST),
        body(IN_SPACE, 404, "CONNECTION_NOT_FOUND"),
    ],
    "POST /v1/connections/{connection_id}/revoke": [
        *unreadable(REQUEST),
        body({}, 400, REQUEST),
        body(IN_SPACE, 404, "CONNECTION_NOT_FOUND"),
    ],
    "POST /v1/connections/{connection_id}/push": [
        *unreadable(REQUEST),
        body({}, 400, REQUEST),
        body({**IN_SPACE, "secret": "short"}, 400, REQUEST),
        body(IN_SPACE, 404, "CONNECTION_NOT_FOUND"),
    ],
    "DELETE /v1/connections/{connection_id}/push": [
        ({}, 400, REQUEST),
        ({"params": IN_SPACE}, 404, "CONNECTION_NOT_FOUND"),
    ],
    "POST /v1/push/{push_id}": [
        ({}, 404, "NOT_FOUND"),
        ({"content": b"\xff{", "headers": {"X-Hub-Signature-256": b"sha256=\xff"}}, 404, "NOT_FOUND"),
        ({"path": "/v1/push/%00", "content": b"{}"}, 404, "NOT_FOUND"),
        ({"content": b"x" * 1_048_577}, 413, "PAYLOAD_TOO_LARGE"),
    ],
    "GET /v1/push/{push_id}": [
        ({}, 404, "NOT_FOUND"),
        ({"params": {"challenge": "\0"}}, 404, "NOT_FOUND"),
        ({"path": "/v1/push/%00"}, 404, "NOT_FOUND"),
    ],
    "GET /v1/audit": [
        WRONG_KEY,
        ({"params": {"cursor": "x"}}, 400, REQUEST),
        ({"params": {"outcome": "LOST"}}, 400, REQUEST),
        ({"params": {"from": "2026-11-02", "to": "2026-11-01"}}, 400, REQUEST),
    ],
    "GET /v1/queue": [WRONG_KEY],
    "GET /v1/deletions/{deletion_id}": [({}, 404, "NOT_FOUND"), WRONG_KEY],
    "POST /v1/deletions/verify": [
        *unreadable(REQUEST),
        body({"deletion": 5}, 400, REQUEST),
        body({}, 400, REQUEST),
    ],
    "POST /v1/evaluations": [
        *unreadable(REQUEST),
        *(
            body({**EVALUATION, **bad}, 400, REQUEST)
            for bad in (
                {"name": ""},
                {"questions": []},
                {"questions": [{"query": " ", "relevant": [{"externalId": "a"}]}]},
                {"questions": [{"query": "a", "relevant": [{"externalId": "a", "documentId": "b"}]}]},
                {"questions": [{"query": "a", "relevant": [{"externalId": "a", "start": 5, "end": 5}]}]},
            )
        ),
        body({**EVALUATION, "namespaceId": ""}, 404, "NAMESPACE_NOT_FOUND"),
    ],
    "GET /v1/evaluations": [
        ({}, 400, REQUEST),
        ({"params": {"namespaceId": ""}}, 404, "NAMESPACE_NOT_FOUND"),
        ({"params": {**IN_SPACE, "pageSize": "0"}}, 400, REQUEST),
    ],
    "GET /v1/evaluations/{evaluation_id}": [({}, 400, REQUEST), ({"params": IN_SPACE}, 404, "NOT_FOUND")],
    "PATCH /v1/evaluations/{evaluation_id}": [
        *unreadable(REQUEST),
        body({**IN_SPACE, "name": ""}, 400, REQUEST),
        body({**IN_SPACE, "add": [{"query": "a"}]}, 400, REQUEST),
        *(
            body({**IN_SPACE, "judge": [{"query": "a", **bad}]}, 400, REQUEST)
            for bad in (
                {"externalId": "a", "documentId": "b"},
                {"externalId": "a", "grade": 5},
                {"externalId": "a", "filter": {"where": {"all": []}}},
            )
        ),
        body(IN_SPACE, 404, "NOT_FOUND"),
    ],
    "DELETE /v1/evaluations/{evaluation_id}": [({}, 400, REQUEST), ({"params": IN_SPACE}, 404, "NOT_FOUND")],
    "POST /v1/evaluations/{evaluation_id}/runs": [
        *unreadable(REQUEST),
        *(
            body({**IN_SPACE, "settings": bad}, 400, REQUEST)
            for bad in (
                [],
                [WORDS, WORDS],
                [{**WORDS, "topK": 101}],
            )
        ),
        body({**IN_SPACE, "settings": [WORDS]}, 404, "NOT_FOUND"),
    ],
    "GET /v1/evaluations/{evaluation_id}/questions": [
        ({}, 400, REQUEST),
        ({"params": {**IN_SPACE, "pageSize": "0"}}, 400, REQUEST),
        ({"params": IN_SPACE}, 404, "NOT_FOUND"),
    ],
    "GET /v1/evaluations/{evaluation_id}/runs": [({}, 400, REQUEST), ({"params": IN_SPACE}, 404, "NOT_FOUND")],
    "GET /v1/evaluations/{evaluation_id}/runs/{run_id}": [
        ({}, 400, REQUEST),
        ({"params": {**IN_SPACE, "questionLimit": "1001"}}, 400, REQUEST),
        ({"params": IN_SPACE}, 404, "NOT_FOUND"),
    ],
    "PUT /v1/groups/{group_id}": [
        *unreadable(REQUEST),
        *(
            body({**IN_SPACE, "members": bad}, 400, REQUEST)
            for bad in ({"users": [""]}, {"groups": ["a" * 257]}, {"users": ["\x00"]})
        ),
        body({"namespaceId": "", "members": {}}, 404, "NAMESPACE_NOT_FOUND"),
    ],
    "POST /v1/documents/{document_id}/hidden-passages": [
        *unreadable(REQUEST),
        *(body({**IN_SPACE, "reason": "old", **bad}, 400, REQUEST) for bad in ({"reason": ""}, {"chunkIndex": -1})),
        body({**IN_SPACE, "reason": "old"}, 404, "DOCUMENTS_NOT_FOUND"),
    ],
    "GET /v1/hidden-passages": [({}, 400, REQUEST), ({"params": {**IN_SPACE, "pageSize": "0"}}, 400, REQUEST)],
    "DELETE /v1/documents/{document_id}/hidden-passages/{passage_id}": [
        ({}, 400, REQUEST),
        ({"params": IN_SPACE}, 404, "DOCUMENTS_NOT_FOUND"),
    ],
    "POST /v1/schedules": [
        *unreadable(REQUEST),
        body({**IN_SPACE, "ingestJobRunId": NO_RUN, "cron": "soon and often"}, 400, REQUEST),
        body({**IN_SPACE, "ingestJobRunId": NO_RUN, "intervalMinutes": 0}, 400, REQUEST),
        body({**IN_SPACE, "ingestJobRunId": NO_RUN, "intervalMinutes": 5}, 404, "INGEST_JOB_RUN_NOT_FOUND"),
    ],
    "GET /v1/schedules": [({"params": {"pageSize": "0"}}, 400, REQUEST)],
    "GET /v1/schedules/{schedule_id}": [({}, 400, REQUEST), ({"params": IN_SPACE}, 404, "NOT_FOUND")],
    "PATCH /v1/schedules/{schedule_id}": [*unreadable(REQUEST), body({**IN_SPACE, "paused": True}, 404, "NOT_FOUND")],
    "DELETE /v1/schedules/{schedule_id}": [({}, 400, REQUEST), ({"params": IN_SPACE}, 404, "NOT_FOUND")],
    "GET /v1/groups/{group_id}": [({}, 400, REQUEST), ({"params": IN_SPACE}, 404, "NOT_FOUND")],
    "DELETE /v1/groups/{group_id}": [({"params": IN_SPACE}, 404, "NOT_FOUND")],
    SCIM.format(method="GET", tail=""): [
        ({"params": {"count": "many"}}, 400, REQUEST),
        ({"params": {"filter": 'userName co "a"'}}, 400, REQUEST),
        ({}, 404, "NAMESPACE_NOT_FOUND"),
    ],
    SCIM.format(method="POST", tail=""): [
        *unreadable(REQUEST),
        *(body({**PUSHED, **bad}, 400, REQUEST) for bad in ({"schemas": "x"}, {"userName": 1}, {"userName": "\x00"})),
        body(PUSHED, 404, "NAMESPACE_NOT_FOUND"),
    ],
    SCIM.format(method="GET", tail="/{resource_id}"): [({}, 404, "NOT_FOUND")],
    SCIM.format(method="PUT", tail="/{resource_id}"): [*unreadable(REQUEST), body(PUSHED, 404, "NOT_FOUND")],
    SCIM.format(method="PATCH", tail="/{resource_id}"): [
        *unreadable(REQUEST),
        body({"schemas": [], "Operations": []}, 400, REQUEST),
        body({"schemas": [PATCH_OP], "Operations": [{"op": "swap", "value": 1}]}, 400, REQUEST),
        body({"schemas": [PATCH_OP], "Operations": [{"op": "replace", "value": {}}]}, 404, "NOT_FOUND"),
    ],
    SCIM.format(method="DELETE", tail="/{resource_id}"): [({}, 404, "NOT_FOUND")],
    "GET /v1/oauth/callback/{connector}": [
        ({}, 400, REQUEST),
        ({"params": {"state": "x", "code": "y"}}, 400, REQUEST),
        ({"path": "/v1/oauth/callback/ftp", "params": {"state": "x"}}, 400, REQUEST),
    ],
    "GET /v1/files/{document_id}/{kind}": [
        ({}, 404, "NOT_FOUND"),
        ({"params": {"expires": "x", "signature": "y"}}, 404, "NOT_FOUND"),
        ({"params": {"expires": "9" * 30, "signature": "y"}}, 404, "NOT_FOUND"),
    ],
    "GET /v1/keys": [WRONG_KEY],
    "POST /v1/keys": [
        *unreadable(REQUEST),
        *(
            body(bad, 400, REQUEST)
            for bad in (
                {"name": ""},
                {"name": "a", "scopes": ["all"]},
                {"name": "a", "tenantId": "a b"},
                {"name": "a", "principal": ""},
            )
        ),
        body({"name": "a", "namespaceId": "ns_0"}, 404, "NAMESPACE_NOT_FOUND"),
    ],
    "DELETE /v1/keys/{key_id}": [({}, 404, "NOT_FOUND")],
    "GET /v1/tenants": [WRONG_KEY],
    "POST /v1/tenants": [
        *unreadable(REQUEST),
        *(body({"id": bad}, 400, REQUEST) for bad in ("", "a b", "x" * 65)),
        body({}, 400, REQUEST),
    ],
    "DELETE /v1/tenants/{tenant_id}": [({}, 404, "NOT_FOUND")],
    "PATCH /v1/tenants/{tenant_id}": [*wrong_quotas(), body({"quotas": {"documents": 5}}, 404, "NOT_FOUND")],
    "GET /v1/organization": [WRONG_KEY],
    "PATCH /v1/organization": wrong_quotas(),
    "GET /v1/usage": [
        WRONG_KEY,
        *(({"params": bad}, 400, REQUEST) for bad in ({"from": "x"}, {"to": "2026-13-01"}, {"by": "week"})),
        ({"params": {"from": "9990-01-01", "to": "9999-12-31"}}, 400, REQUEST),
    ],
    "GET /metrics": [WRONG_KEY],
    "GET /v1/keys/current": [WRONG_KEY],
    "POST /v1/webhooks": [
        *unreadable(REQUEST),
        *(
            body({**HOOK, **bad}, 400, REQUEST)
            for bad in (
                {"events": []},
                {"description": "x" * 501},
            )
        ),
        body({**HOOK, "namespaceId": "ns_0"}, 404, "NAMESPACE_NOT_FOUND"),
        body({**HOOK, "namespaceId": ""}, 404, "NAMESPACE_NOT_FOUND"),
    ],
    "GET /v1/webhooks": [WRONG_KEY, ({"params": {"pageSize": "0"}}, 400, REQUEST)],
    "GET /v1/webhooks/{webhook_id}": [({}, 404, NO_HOOK)],
    "PATCH /v1/webhooks/{webhook_id}": [
        *unreadable(REQUEST),
        body({"status": "GONE"}, 400, REQUEST),
        body({}, 404, NO_HOOK),
    ],
    "DELETE /v1/webhooks/{webhook_id}": [({}, 404, NO_HOOK)],
    "POST /v1/webhooks/{webhook_id}/rotate": [
        *unreadable(REQUEST),
        body({"overlapHours": -1}, 400, REQUEST),
        body({}, 404, NO_HOOK),
    ],
    "POST /v1/webhooks/{webhook_id}/test": [({}, 404, NO_HOOK)],
    "GET /v1/webhooks/{webhook_id}/deliveries": [
        ({"params": {"status": "LOST"}}, 400, REQUEST),
        ({}, 404, NO_HOOK),
    ],
    "POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver": [({}, 404, NO_HOOK)],
    "GET /v1/weak-searches": [
        ({}, 400, REQUEST),
        ({"params": {"namespaceId": "ns_0"}}, 404, "NAMESPACE_NOT_FOUND"),
    ],
    "GET /v1/problems": [({"params": {"namespaceId": "ns_0"}}, 404, "NAMESPACE_NOT_FOUND")],
    "GET /v1/activity": [
        ({}, 400, REQUEST),
        ({"params": {"namespaceId": ""}}, 404, "NAMESPACE_NOT_FOUND"),
        ({"params": {"namespaceId": "ns_0"}}, 404, "NAMESPACE_NOT_FOUND"),
    ],
}


def of_store(path: str, *codes: str, **ways: list[Row]) -> dict[str, list[Row]]:
    """Return rows for a missing store, missing objects in a store, and `rows`."""
    missing: list[Row] = [({}, 404, "NAMESPACE_NOT_FOUND")]
    missing += [({"path": path.replace("{namespace_id}", SPACE).format(**IDS)}, 404, code) for code in codes]
    return {f"{method.upper()} {path}": [*missing, *rows] for method, rows in ways.items()}


def adding(**good: Any) -> list[Row]:
    wrong = [{"attributes": {"a": []}}, {"attributes": {str(n): n for n in range(17)}}, {"chunking_strategy": 5}]
    return [
        *unreadable(REQUEST),
        body({}, 400, REQUEST),
        *(body({**good, **bad}, 400, REQUEST) for bad in wrong),
        body(good, 404, "NAMESPACE_NOT_FOUND"),
    ]


_LISTING: list[Row] = [
    ({"params": bad}, 400, REQUEST)
    for bad in ({"limit": "0"}, {"limit": "101"}, {"order": "up"}, {"after": "x", "before": "x"})
]
_STORE, _LISTED = "/v1/vector_stores/{namespace_id}", [({"params": {"filter": "done"}}, 400, REQUEST), *_LISTING[:3]]
_NO_DOC, _NO_RUN = "DOCUMENTS_NOT_FOUND", "INGEST_JOB_RUN_NOT_FOUND"
_FORM = {"files": {"file": ("a.txt", b"a")}}

NO_INPUT = {"GET /health", "GET /ready", "GET /v1/models"}
OPERATIONS = {f"{method.upper()} {path}" for path, methods in DOCUMENT["paths"].items() for method in methods}
IDS = {
    "resource_type": "Users",
    "resource_id": "dir_0",
    "group_id": "staff",
    "namespace_id": "ns_0",
    "ingest_job_run_id": NO_RUN,
    "document_id": NO_DOC,
    "page": "1",
    "connection_id": NO_CONNECTION,
    "deletion_id": "del_0",
    "evaluation_id": "eval_0",
    "run_id": "evr_0",
    "key_id": "key_0",
    "webhook_id": "wh_0",
    "delivery_id": "whd_0",
    "passage_id": "hide_0",
    "schedule_id": "sch_0",
    "tenant_id": "nobody",
    "connector": "box",
    "push_id": "none",
    "file_id": "file-0",
    "model": "gpt-9",
    "kind": "raw",
}


ROWS |= {
    "GET /v1/vector_stores": [*_LISTING, ({"params": {"after": "ns_0"}}, 400, REQUEST)],
    "POST /v1/vector_stores": [
        *unreadable(REQUEST),
        body({"name": "x" * 201}, 400, REQUEST),
        body({"file_ids": "a"}, 400, REQUEST),
        body({"file_ids": ["file-0"]}, 404, "NOT_FOUND"),
    ],
    **of_store(_STORE, get=[], delete=[]),
    f"POST {_STORE}": [*unreadable(REQUEST), body({"name": 5}, 400, REQUEST), body({}, 404, "NAMESPACE_NOT_FOUND")],
    **of_store(_STORE + "/files", get=_LISTED),
    f"POST {_STORE}/files": adding(file_id="file-0"),
    **of_store(_STORE + "/files/{document_id}", _NO_DOC, get=[], delete=[]),
    f"POST {_STORE}/files/{{document_id}}": [
        *unreadable(REQUEST),
        body({"attributes": [1]}, 400, REQUEST),
        body({"attributes": {}}, 404, "NAMESPACE_NOT_FOUND"),
    ],
    **of_store(_STORE + "/files/{document_id}/content", _NO_DOC, get=[]),
    f"POST {_STORE}/file_batches": [
        *adding(file_ids=["file-0"]),
        body({"file_ids": ["a"], "files": [{"file_id": "a"}]}, 400, REQUEST),
    ],
    **of_store(_STORE + "/file_batches/{ingest_job_run_id}", _NO_RUN, get=[]),
    **of_store(_STORE + "/file_batches/{ingest_job_run_id}/files", _NO_RUN, get=_LISTED),
    **of_store(_STORE + "/file_batches/{ingest_job_run_id}/cancel", _NO_RUN, post=[]),
    "POST /v1/files": [
        body({}, 415, "UNSUPPORTED_MEDIA_TYPE"),
        ({"files": {"other": ("a.txt", b"a")}}, 400, INGEST),
        ({"files": {"file": ("a.txt", b"")}}, 400, INGEST),
        ({**_FORM, "data": {"purpose": "magic"}}, 400, INGEST),
        ({**_FORM, "data": {"expires_after[seconds]": "60"}}, 400, INGEST),
        ({"files": {"file": ("a.txt", b"a" * 3_200_000)}}, 413, "PAYLOAD_TOO_LARGE"),
    ],
    "GET /v1/files": [
        ({"params": bad}, 400, REQUEST)
        for bad in ({"limit": "0"}, {"limit": "10001"}, {"order": "up"}, {"after": "file-0"})
    ],
    "GET /v1/models/{model}": [({}, 404, "NOT_FOUND")],
    "GET /v1/files/{file_id}": [({}, 404, "NOT_FOUND")],
    "GET /v1/files/{file_id}/content": [({}, 404, "NOT_FOUND")],
    "DELETE /v1/files/{file_id}": [({}, 404, "NOT_FOUND")],
}


def test_every_operation_has_rows():
    assert set(ROWS) | NO_INPUT == OPERATIONS
    assert all(ROWS.values())


def test_every_status_of_a_row_is_documented():
    for operation, rows in ROWS.items():
        method, path = operation.split(" ")
        documented = DOCUMENT["paths"][path][method.lower()]["responses"]
        for _, status, code in rows:
            examples = documented[str(status)]["content"]["application/json"]["examples"]
            assert code in examples, f"{operation} does not document {status} {code}"


def filled(value: Any, space: str) -> Any:
    """Replace SPACE in `value` with the id of the real namespace."""
    if isinstance(value, dict):
        return {key: filled(inner, space) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, space) for inner in value]
    return value.replace(SPACE, space) if isinstance(value, str) else value


@pytest.mark.parametrize("operation", sorted(ROWS))
def test_bad_input_is_refused_with_its_code(org, operation):
    space = org.namespace()
    method, path = operation.split(" ")
    for request, status, code in ROWS[operation]:
        arguments = filled(copy.deepcopy(request), space)
        answer = org.client.request(method, arguments.pop("path", path.format(**IDS)), **arguments)
        brief = {key: value if len(str(value)) < 500 else "…" for key, value in request.items()}
        assert (answer.status_code, answer.json().get("error", {}).get("code")) == (status, code), brief
        assert_error(answer, status, code)
    assert org.client.get(f"/v1/namespaces/{space}").json()["data"]["namespace"]["name"] == "space"
    listing = org.client.post("/v1/documents", json={"namespaceId": space, "filterConfig": {}}).json()["data"]
    assert listing["documents"] == []
    assert len(org.client.get("/v1/namespaces").json()["data"]["namespaces"]) == 1
