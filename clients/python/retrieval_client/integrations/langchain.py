"""A LangChain retriever."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field

from retrieval_client import AsyncRetrievalClient, RetrievalClient
from retrieval_client.integrations.hits import content, identity, metadata, search_options
from retrieval_client.models import SearchResult


class RetrievalServiceRetriever(BaseRetriever):
    """Passages of one namespace, best first.

    k: passages at most. hybrid: by meaning and words; a number is the weight of meaning. options: further arguments of
    `client.search`, such as where, per_document, expand, rerank. async_client: for `ainvoke`; without it the sync
    client is asked in a thread.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    client: RetrievalClient = Field(exclude=True)
    async_client: AsyncRetrievalClient | None = Field(default=None, exclude=True)
    namespace_id: str
    k: int = 5
    hybrid: bool | float = True
    options: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        hits = self.client.search(self.namespace_id, query, **self._asked(kwargs))
        return [_document(hit) for hit in hits]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        if self.async_client is None:
            return await super()._aget_relevant_documents(query, run_manager=run_manager, **kwargs)
        hits = await self.async_client.search(self.namespace_id, query, **self._asked(kwargs))
        return [_document(hit) for hit in hits]

    def _asked(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return search_options(self.hybrid, kwargs.get("k", self.k), self.options)


def _document(hit: SearchResult) -> Document:
    return Document(id=identity(hit), page_content=content(hit), metadata=metadata(hit))
