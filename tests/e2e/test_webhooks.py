"""Webhooks and tools for language models through the real processes."""

from __future__ import annotations

import asyncio
import os
import time

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from tests.e2e.conftest import COMMAND
from tests.standins.webhook_receiver import receiving

WORDS = {"semanticWeight": 0.5, "keywordWeight": 0.5}


@pytest.mark.slow
def test_an_endpoint_is_told_of_an_ingestion_within_seconds(service):
    with receiving() as receiver:
        body = {"url": receiver.url, "events": ["*"], "namespaceId": service.namespace}
        webhook = service.ok(service.client.post("/v1/webhooks", json=body))
        receiver.secret = webhook["secret"]
        path = f"/v1/webhooks/{webhook['webhook']['id']}"
        service.client.post(f"{path}/test")
        receiver.wait(1)
        run = service.text("The harbour seal dives for thirty minutes.", name="seals")["ingestJobRunId"]
        events = receiver.wait(7)
        assert [event.type for event in events] == [
            "WEBHOOK_TEST",
            "INGEST_JOB_RUN_QUEUED",
            "DOCUMENTS_QUEUED_FOR_INGESTION",
            "INGEST_JOB_RUN_PROCESSING",
            "DOCUMENTS_PROCESSING",
            "DOCUMENTS_READY",
            "INGEST_JOB_RUN_COMPLETED",
        ]
        assert {event.data["ingestJobRunId"] for event in events[1:]} == {run}
        assert receiver.forged == []
        assert _delivered(service, path) == {"DELIVERED"}
        assert service.client.delete(path).status_code == 200


def _delivered(service, path):
    """Wait until no delivery is pending; return the statuses."""
    for _ in range(100):
        deliveries = service.ok(service.client.get(f"{path}/deliveries"))["deliveries"]
        statuses = {delivery["status"] for delivery in deliveries}
        if "PENDING" not in statuses:
            break
        time.sleep(0.1)
    return statuses


@pytest.mark.slow
def test_a_language_model_asks_over_stdin_and_stdout(service):
    service.wait(service.text("Owls hunt at night and sleep by day.", name="owls")["ingestJobRunId"])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RETRIEVAL_")}
    server = StdioServerParameters(
        command=str(COMMAND), args=["mcp"], env={**environment, "RETRIEVAL_HOME": str(service.home)}
    )

    async def ask():
        async with Client(server) as client:
            tools = await client.list_tools()
            arguments = {"namespaceId": service.namespace, "query": "when do owls hunt", "hybridConfig": WORDS}
            response = await client.call_tool("search", arguments)
            hit = response.structured_content["results"][0]
            read = await client.call_tool(
                "read_document",
                {"namespaceId": service.namespace, "documentId": hit["document"]["id"], **span(hit["chunk"])},
            )
            return {tool.name for tool in tools.tools}, hit, read

    names, hit, read = asyncio.run(ask())
    assert {"search", "read_document", "ingest_text"} <= names
    assert hit["document"]["name"] == "owls"
    assert read.structured_content["content"] == "Owls hunt at night and sleep by day."


def span(chunk):
    return {"start": chunk["start"], "end": chunk["end"]}
