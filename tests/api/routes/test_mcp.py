"""MCP tools at /mcp, used by the official client over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import httpx2
import pytest
from mcp import MCPError
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from retrieval.ports import Scope
from tests.api.support import assert_error
from tests.library import Library

READING = {"search", "read_document", "list_documents", "get_job_run", "list_namespaces"}
WRITING = {"ingest_text", "ingest_urls", "delete_documents"}
KEYWORDS_ONLY = {"semanticWeight": 0, "keywordWeight": 1}


@asynccontextmanager
async def connected(org, api_key=None, mode="auto", **headers):
    all_headers = {"Authorization": f"Bearer {api_key or org.api_key}", **headers}
    async with httpx2.AsyncClient(headers=all_headers, trust_env=False, timeout=30) as http:
        transport = streamable_http_client(f"{org.base}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


def ask(org, name, arguments, api_key=None, mode="auto", **headers):
    """Return the result of a tool call."""

    async def call():
        async with connected(org, api_key, mode, **headers) as client:
            return await client.call_tool(name, arguments)

    return asyncio.run(call())


def list_tools(org, api_key=None, **headers):
    async def call():
        async with connected(org, api_key, **headers) as client:
            return (await client.list_tools()).tools

    return asyncio.run(call())


def rpc(client, method, params=None, **headers):
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    version = {"MCP-Protocol-Version": "2025-11-25"}
    return client.post(
        "/mcp", json=body, headers={"Accept": "application/json, text/event-stream", **version, **headers}
    )


def modern(client, method, params=None, **headers):
    """Send a request of the revision without a handshake."""
    about = {"protocolVersion": "2026-07-28", "clientCapabilities": {}}
    meta = {f"io.modelcontextprotocol/{name}": value for name, value in about.items()}
    routed = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    return rpc(client, method, {**(params or {}), "_meta": meta}, **{**routed, **headers})


@pytest.fixture
def filled(org):
    """Namespace with a searchable document, and the document id."""
    space = org.namespace()
    library = Library(org.db, Scope(org.id, space, ""), None)
    document = library.put(["The harbour seal dives for thirty minutes."], name="seals")
    return space, document


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_searches_and_gets_spans_and_links(org, filled, mode):
    space, document = filled
    arguments = {"namespaceId": space, "query": "harbour seal", "hybridConfig": KEYWORDS_ONLY, "topK": 3}
    result = ask(org, "search", arguments, mode=mode)
    assert not result.is_error
    (hit,) = result.structured_content["results"]
    over_http = org.client.post("/v1/search/hybrid", json=arguments).json()["data"]["results"]
    assert [{name: value for name, value in hit.items() if name != "url"}] == over_http
    assert hit["chunk"] == {"index": 0, "start": 0, "end": 42, "page": None}
    assert (hit["document"]["id"], 0 < hit["score"] <= 1) == (document, True)
    assert hit["url"].startswith(org.base) or "/v1/files/" in hit["url"]
    assert "harbour seal" in result.content[0].text
    assert document in result.content[0].text


def test_a_key_sees_the_tools_that_it_may_use(org, filled):
    space, document = filled
    everything = list_tools(org)
    assert {tool.name for tool in everything} == READING | WRITING
    for tool in everything:
        assert len(tool.description) > 40
        assert tool.annotations.read_only_hint is (tool.name in READING)
        assert all(parameter.get("description") for parameter in tool.input_schema["properties"].values()), tool.name
    limited_key = org.client.post("/v1/keys", json={"name": "m", "scopes": ["search"], "namespaceId": space}).json()[
        "data"
    ]
    assert {tool.name for tool in list_tools(org, limited_key["apiKey"])} == {"search"}
    result = ask(org, "search", {"query": "seal", "hybridConfig": KEYWORDS_ONLY}, limited_key["apiKey"])
    assert result.structured_content["results"][0]["document"]["id"] == document
    bearer = {"Authorization": f"Bearer {limited_key['apiKey']}"}
    refused = rpc(org.client, "tools/call", {"name": "delete_documents", "arguments": {}}, **bearer).json()
    assert refused["error"]["code"] == -32602


def test_texts_come_in_are_listed_followed_and_deleted(org):
    space = org.namespace(webScraperConfig={"provider": "BUILTIN"})
    arguments = {"namespaceId": space, "text": "Owls hunt at night.", "name": "owls", "metadata": {"topic": "birds"}}
    accepted = ask(org, "ingest_text", arguments).structured_content
    run = ask(org, "get_job_run", {"namespaceId": space, "ingestJobRunId": accepted["ingestJobRunId"]})
    assert run.structured_content["jobRun"]["status"] == "QUEUED"
    listing = ask(org, "list_documents", {"namespaceId": space, "filterConfig": {"metadata": {"topic": "birds"}}})
    (document,) = listing.structured_content["documents"]
    assert (document["name"], listing.structured_content["hasNextPage"]) == ("owls", False)
    spaces = ask(org, "list_namespaces", {}).structured_content["namespaces"]
    assert spaces == [{"id": space, "identifier": space, "name": "space"}]
    unread = ask(org, "read_document", {"namespaceId": space, "documentId": document["id"]})
    assert unread.is_error
    assert ask(org, "delete_documents", {"namespaceId": space, "documentIds": []}).is_error
    deletion = ask(org, "delete_documents", {"namespaceId": space, "documentIds": [document["id"]]})
    assert deletion.structured_content["deletionId"].startswith("del_")
    assert ask(org, "list_documents", {"namespaceId": space}).structured_content["documents"] == []
    pages = ask(org, "ingest_urls", {"namespaceId": space, "urls": ["https://example.com/a"]}).structured_content
    assert pages["ingestJobRunId"].startswith("ijr_")
    written = [entry["route"] for entry in org.client.get("/v1/audit").json()["data"]["entries"]]
    assert written[:3] == ["/v1/ingest/urls", "/v1/documents", "/v1/ingest/text"]


def test_a_document_is_read_around_a_span(org, api_settings):
    from connectors import registry
    from retrieval.namespaces import namespaces

    space = org.namespace()
    library = Library(org.db, Scope(org.id, space, ""), None)
    text = "".join(f"Sentence number {number:05}. " for number in range(3000))
    document = library.put(["Sentence"], name="long")
    files = registry.make_file_store(namespaces.load_namespace(org.db, org.ring, space))
    files.put(f"{org.id}/{space}/{document}/parsed.md", [text.encode()])
    org.db.rows(
        "update documents set parsed_key = %(key)s where id = %(id)s",
        {"key": f"{org.id}/{space}/{document}/parsed.md", "id": document},
    )

    def read(**arguments):
        return ask(org, "read_document", {"namespaceId": space, "documentId": document, **arguments}).structured_content

    part = read(start=1000, end=1025)
    assert (part["start"], part["end"], part["length"]) == (500, 1525, len(text))
    assert part["content"] == text[500:1525]
    assert read(start=1000, end=1025, around=0)["content"] == text[1000:1025]
    whole, start = "", 0
    while start is not None:
        page = read(start=start, around=0)
        whole += page["content"]
        start = page["nextStart"]
    assert whole == text
    with httpx.Client(trust_env=False) as anonymous:
        link = page["url"].partition("/v1/")[2]
        assert anonymous.get(f"{org.base}/v1/{link}").text == text
    assert read(start=10**9)["content"] == ""


def test_foreign_documents_get_the_answer_of_unknown_documents(org, organization, filled):
    space, document = filled
    stranger = organization()
    own_space = stranger.namespace()
    for arguments in (
        {"namespaceId": space, "documentId": document},
        {"namespaceId": own_space, "documentId": document},
    ):
        foreign = ask(stranger, "read_document", arguments)
        never = ask(stranger, "read_document", {**arguments, "documentId": "doc_0"})
        assert foreign.is_error
        assert foreign.content[0].text == never.content[0].text
    foreign = ask(stranger, "search", {"namespaceId": space, "query": "seal", "hybridConfig": KEYWORDS_ONLY})
    assert foreign.content[0].text.startswith("NAMESPACE_NOT_FOUND: ")
    org.text(space, tenant="alice")
    search_arguments = {"namespaceId": space, "query": "seal", "hybridConfig": KEYWORDS_ONLY}
    alices = ask(org, "search", search_arguments, **{"X-Tenant-ID": "alice"})
    assert alices.structured_content["results"] == []
    unknown = ask(org, "list_documents", {"namespaceId": space}, **{"X-Tenant-ID": "nobody"})
    assert unknown.content[0].text.startswith("invalid_tenant_id: ")


def test_without_a_key_it_is_401_and_the_rate_is_that_of_the_organization(org, organization, base):
    with httpx.Client(base_url=base, trust_env=False) as anonymous:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            refused = rpc(anonymous, "tools/list", **headers)
            assert_error(refused, 401, "UNAUTHORIZED")
            assert refused.headers["www-authenticate"].startswith("Bearer")
    hasty = organization(requests_per_minute=3)
    answers = [rpc(hasty.client, "ping").status_code for _ in range(5)]
    assert answers == [200, 200, 200, 429, 429]


def test_every_revision_is_spoken_at_one_address(org):
    client = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    for requested, agreed in (("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25")):
        answer = rpc(org.client, "initialize", {"protocolVersion": requested, **client}).json()["result"]
        assert (answer["protocolVersion"], answer["serverInfo"]["name"]) == (agreed, "retrieval")
        assert "list_namespaces" in answer["instructions"]
    discovered = modern(org.client, "server/discover")
    assert (discovered.status_code, discovered.headers.get("mcp-session-id")) == (200, None)
    assert discovered.json()["result"]["supportedVersions"] == ["2026-07-28"]
    listing = modern(org.client, "tools/list").json()["result"]
    assert (listing["resultType"], listing["cacheScope"], listing["ttlMs"] > 0) == ("complete", "private", True)
    assert {tool["name"] for tool in listing["tools"]} == READING | WRITING
    refusals = {
        ("tools/eat", ()): (404, -32601),
        ("tools/list", (("Mcp-Method", "ping"),)): (400, -32020),
        ("tools/list", (("MCP-Protocol-Version", "2027-01-01"),)): (400, -32020),
    }
    for (method, headers), (status, code) in refusals.items():
        refused = modern(org.client, method, **dict(headers))
        assert (refused.status_code, refused.json()["error"]["code"]) == (status, code), (method, headers)


def test_wrong_arguments_are_told_in_words(org, filled):
    space, _ = filled
    for name, arguments, words in (
        ("search", {"namespaceId": space}, "INVALID_SEARCH_REQUEST: query is required"),
        ("search", {"namespaceId": space, "query": "a", "topK": 0}, "(argument: topK)"),
        (
            "search",
            {"namespaceId": space, "query": "a", "hybridConfig": {"semanticWeight": 1}},
            "INVALID_HYBRID_CONFIG",
        ),
        ("get_job_run", {"namespaceId": space, "ingestJobRunId": "../../x"}, "letters, digits"),
        ("get_job_run", {"namespaceId": space, "ingestJobRunId": "ijr_0"}, "INGEST_JOB_RUN_NOT_FOUND"),
        ("read_document", {"namespaceId": space, "documentId": "d", "start": -1}, "start must be"),
        ("read_document", {"namespaceId": space, "documentId": "d", "end": 1, "around": 10**9}, "around may be 20,000"),
        ("list_documents", {"namespaceId": space, "cursor": "x"}, "(argument: cursor)"),
        ("delete_documents", {"namespaceId": space, "documentIds": ["doc_0"]}, "DOCUMENTS_NOT_FOUND"),
    ):
        result = rpc(org.client, "tools/call", {"name": name, "arguments": arguments}).json()["result"]
        assert result["isError"], (name, arguments)
        assert words in result["content"][0]["text"], result


def test_arguments_sent_as_strings_are_converted_by_the_schema(org, filled):
    space, document = filled
    search = {"namespaceId": space, "query": "harbour seal", "hybridConfig": KEYWORDS_ONLY}
    expected = ask(org, "search", {**search, "topK": 3}).structured_content["results"]
    for arguments in (
        {"topK": "3"},
        {"hybridConfig": json.dumps(KEYWORDS_ONLY)},
        {"hybridConfig": {"semanticWeight": "0", "keywordWeight": " 1.0 "}},
        {"namespaceId": None, "namespaceIds": json.dumps([space])},
        {"filter": json.dumps({"documents": {"documentIds": [document]}})},
        {"rerank": "False", "recency": json.dumps({"halfLifeDays": 9, "weight": 0})},
    ):
        answer = ask(org, "search", {**search, **arguments})
        assert not answer.is_error, (arguments, answer.content[0].text)
        assert [hit["document"]["id"] for hit in answer.structured_content["results"]] == [document], arguments
    assert expected[0]["document"]["id"] == document
    listing = {"namespaceId": space, "pageSize": "1", "filterConfig": json.dumps({"documentTypes": ["FILE"]})}
    assert not ask(org, "list_documents", listing).is_error
    deleted = ask(org, "delete_documents", {"namespaceId": space, "documentIds": json.dumps([document])})
    assert deleted.structured_content["deletionId"].startswith("del_")


def test_text_that_looks_like_json_stays_text(org):
    space = org.namespace()
    arguments = {"namespaceId": space, "text": '{"a": 5}', "name": "5", "metadata": '{"year": "2026", "list": "[1]"}'}
    assert not ask(org, "ingest_text", arguments).is_error
    (document,) = ask(org, "list_documents", {"namespaceId": space}).structured_content["documents"]
    assert (document["name"], document["metadata"]) == ("5", {"year": "2026", "list": "[1]"})


def over_stdio(url, key, steps, mode="auto", *options):
    """Run `steps`, a coroutine function of a client, against `retrieval mcp`; return the result."""
    command = [str(Path(sys.executable).parent / "retrieval"), "mcp", "--url", url, "--key", key, *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RETRIEVAL_")}
    server = StdioServerParameters(command=command[0], args=command[1:], env=environment)

    async def call():
        async with Client(server, mode=mode) as client:
            return await steps(client)

    return asyncio.run(call())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_command_passes_tools_on_in_every_revision(org, filled, mode):
    space, document = filled
    org.namespace(name="another")

    async def steps(client):
        names = {tool.name for tool in (await client.list_tools()).tools}
        arguments = {"namespaceId": space, "query": "harbour seal", "hybridConfig": KEYWORDS_ONLY}
        result, wrong = await client.call_tool("search", arguments), await client.call_tool("search", {"query": "a"})
        return client.protocol_version, client.instructions, names, result, wrong

    version, instructions, names, result, wrong = over_stdio(org.base, org.api_key, steps, mode)
    assert (version > "2026") is (mode == "auto")
    assert "list_namespaces" in instructions
    assert names == READING | WRITING
    assert result.structured_content["results"][0]["document"]["id"] == document
    assert (wrong.is_error, "namespaceId is required" in wrong.content[0].text) == (True, True)


def test_the_only_namespace_needs_no_name(org, filled):
    arguments = {"query": "harbour seal", "hybridConfig": KEYWORDS_ONLY}
    assert ask(org, "search", arguments).structured_content["results"][0]["document"]["id"] == filled[1]
    org.namespace(name="another")
    assert "namespaceId is required" in ask(org, "search", arguments).content[0].text


def test_the_command_says_what_keeps_it_from_the_server(org):
    async def steps(client):
        with pytest.raises(MCPError) as refusal:
            await client.list_tools()
        return refusal.value.message

    assert "API key" in over_stdio(org.base, "rtr_wrong", steps)
    message = over_stdio("http://127.0.0.1:9", "rtr_wrong", steps)
    assert message.startswith("http://127.0.0.1:9 does not answer")
    assert "--url" in message
