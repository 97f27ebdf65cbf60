"""Retrievers of each library on a running service; runs in an environment with the libraries.

RETRIEVAL_API_URL, RETRIEVAL_API_KEY and RETRIEVAL_NAMESPACE name the service.
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
    [document] = retriever.invoke(QUERY)
    assert "eighty hours" in document.page_content
    assert document.metadata["part"] == "pump"
    assert document.metadata["score"] > 0
    assert document.id == f"{document.metadata['document_id']}:{document.metadata['index']}"
    assert KEY not in repr(retriever) + retriever.model_dump_json()


def test_llama_index_nodes(client):
    retriever = llama_index.RetrievalServiceRetriever(client, NAMESPACE, top_k=2)
    nodes = retriever.retrieve(QUERY)
    assert len(nodes) == 2
    assert "eighty hours" in nodes[0].node.get_content()
    assert nodes[0].score >= nodes[1].score


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
    loaded = Pipeline.loads(saved, allowed_modules=["retrieval_client.integrations.haystack"])
    condition = {"field": "metadata.part", "op": "eq", "value": "pump"}
    documents = loaded.run({"retriever": {"query": QUERY, "where": condition}})["retriever"]["documents"]
    assert [document.meta["part"] for document in documents] == ["pump"]
    assert "eighty hours" in documents[0].content
