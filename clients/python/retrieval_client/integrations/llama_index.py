"""A LlamaIndex retriever."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from retrieval_client import AsyncRetrievalClient, RetrievalClient
from retrieval_client.integrations.hits import content, identity, metadata, search_options
from retrieval_client.models import SearchResult


class RetrievalServiceRetriever(BaseRetriever):
    """Nodes of one namespace, best first; the arguments are those of the LangChain retriever, with `top_k` for `k`."""

    def __init__(
        self,
        client: RetrievalClient,
        namespace_id: str,
        *,
        top_k: int = 5,
        hybrid: bool | float = True,
        async_client: AsyncRetrievalClient | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._client = client
        self._async_client = async_client
        self._namespace_id = namespace_id
        self._asked = search_options(hybrid, top_k, options or {})

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self._client.search(self._namespace_id, query_bundle.query_str, **self._asked)
        return [_node(hit) for hit in hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self._async_client is None:
            return await super()._aretrieve(query_bundle)
        hits = await self._async_client.search(self._namespace_id, query_bundle.query_str, **self._asked)
        return [_node(hit) for hit in hits]


def _node(hit: SearchResult) -> NodeWithScore:
    return NodeWithScore(node=TextNode(id_=identity(hit), text=content(hit), metadata=metadata(hit)), score=hit.score)
