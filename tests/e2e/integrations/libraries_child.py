"""Runs in an environment of its own that has the libraries: what each says of its retriever, on a running service.

RETRIEVAL_API_URL, RETRIEVAL_API_KEY, RETRIEVAL_NAMESPACE: where some texts on pumps lie.
"""

import os

import pytest
from haystack import Pipeline
from langchain_tests.integration_tests import RetrieversIntegrationTests

from retrieval_client import AsyncRetrievalClient, RetrievalClient
from retrieval_client.integrations import haystack, langchain, llama_index

URL, KEY, NAMESPACE = (os.environ[f"RETRIEVAL_{name}"] for name in ("API_URL", "API_KEY", "NAMESPACE"))
QUERY = "How often is the pump oiled?"


@pytest.fixture
def client():
    with RetrievalClient(URL, KEY) as opened:
        yield opened


class TestLangChain(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self):
        return langchain.RetrievalServiceRetriever

    @property
    def retriever_constructor_params(self):
        return {
            "client": RetrievalClient(URL, KEY),
            "async_client": AsyncRetrievalClient(URL, KEY),
            "namespace_id": NAMESPACE,
        }

    @property
    def retriever_query_example(self):
        return QUERY


def test_langchain_documents_carry_their_place(client):
    retriever = langchain.RetrievalServiceRetriever(client=client, namespace_id=NAMESPACE, k=1)
    [found] = retriever.invoke(QUERY)
    assert "eighty hours" in found.page_content
    assert found.metadata["part"] == "pump"
    assert found.metadata["score"] > 0
    assert found.id == f"{found.metadata['document_id']}:{found.metadata['index']}"
    assert KEY not in repr(retriever) + retriever.model_dump_json()


def test_llama_index_nodes(client):
    retriever = llama_index.RetrievalServiceRetriever(client, NAMESPACE, top_k=2)
    found = retriever.retrieve(QUERY)
    assert len(found) == 2
    assert "eighty hours" in found[0].node.get_content()
    assert found[0].score >= found[1].score


@pytest.mark.asyncio
async def test_llama_index_asynchronously(client):
    async with AsyncRetrievalClient(URL, KEY) as opened:
        retriever = llama_index.RetrievalServiceRetriever(client, NAMESPACE, top_k=1, async_client=opened)
        assert "eighty hours" in (await retriever.aretrieve(QUERY))[0].node.get_content()


def test_haystack_pipeline_is_saved_without_its_key():
    pipeline = Pipeline()
    pipeline.add_component("retriever", haystack.RetrievalServiceRetriever(URL, NAMESPACE, top_k=3))
    saved = pipeline.dumps()
    assert KEY not in saved
    again = Pipeline.loads(saved, allowed_modules=["retrieval_client.integrations.haystack"])
    condition = {"field": "metadata.part", "op": "eq", "value": "pump"}
    found = again.run({"retriever": {"query": QUERY, "where": condition}})["retriever"]["documents"]
    assert [one.meta["part"] for one in found] == ["pump"]
    assert "eighty hours" in found[0].content
