"""OpenTelemetry spans of searches and MCP messages, with generative AI names and without text."""

import pytest

from retrieval import tracing
from retrieval.accounts import api_keys
from retrieval.accounts.queries import organizations
from tests.api.support import EMBEDDED, client_of, serve
from tests.standins import otlp_receiver

TRACE = "0af7651916cd43dd8448eb211c80319c"
MCP_TRACE = "1af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def receiver(monkeypatch):
    with otlp_receiver.running() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        tracing.end_tracing()
        yield running
        tracing.end_tracing()


def test_a_search_is_traced_by_the_names_of_generative_ai(receiver, api_settings, api_database, api_db, ring):
    owner = organizations.create_organization(api_db, "traced")
    key = api_keys.create_key(api_db, ring, owner.id, "traced")
    model = {"provider": "LOCAL", "model": "wordllama-l2-supercat-256"}
    with serve(api_settings, api_database, ring) as base, client_of(base, key.api_key) as client:
        body = {"name": "traced", **EMBEDDED, "embeddingModelConfig": model}
        space = client.post("/v1/namespaces", json=body).json()["data"]["namespace"]["id"]
        answer = client.post(
            "/v1/search",
            json={"namespaceId": space, "query": "canary words", "topK": 7},
            headers={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"},
        )
        assert answer.status_code == 200, answer.text
        arguments = {"namespaceId": space, "query": "canary words"}
        call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "search", "arguments": arguments}}
        headers = {
            "traceparent": f"00-{MCP_TRACE}-b7ad6b7169203332-01",
            "Accept": "application/json, text/event-stream",
        }
        answer = client.post("/mcp", json=call, headers=headers)
        assert answer.status_code == 200, answer.text
    tracing.end_tracing()
    spans = receiver.of(TRACE)
    search = spans["retrieval"]
    assert search.parent == spans["POST /v1/search"].id
    names = {name: value for name, value in search.about.items() if name.startswith("gen_ai.")}
    assert names == {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.provider.name": "retrieval",
        "gen_ai.data_source.id": space,
        "gen_ai.request.model": model["model"],
        "gen_ai.retrieval.top_k": 7,
    }
    spans = receiver.of(MCP_TRACE)
    tool = spans["tools/call search"]
    assert tool.parent == spans["POST /mcp"].id
    assert spans["retrieval"].parent == tool.id
    names = ("mcp.method.name", "gen_ai.operation.name", "gen_ai.tool.name", "jsonrpc.request.id")
    assert [tool.about[name] for name in names] == ["tools/call", "execute_tool", "search", "5"]
    assert tool.about["mcp.protocol.version"]
    assert "canary" not in str(receiver.spans)
