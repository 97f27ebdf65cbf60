"""A Haystack component."""

from __future__ import annotations

from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.utils import Secret

from retrieval_client import RetrievalClient
from retrieval_client.integrations.hits import content, identity, metadata, search_options


@component
class RetrievalServiceRetriever:
    """Documents of one namespace, best first; the key stays out of a pipeline that is saved."""

    def __init__(
        self,
        url: str,
        namespace_id: str,
        api_key: Secret = Secret.from_env_var("RETRIEVAL_API_KEY"),  # noqa: B008 - names a variable, reads nothing
        *,
        top_k: int = 5,
        hybrid: bool | float = True,
        tenant: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.url = url
        self.namespace_id = namespace_id
        self.api_key = api_key
        self.top_k = top_k
        self.hybrid = hybrid
        self.tenant = tenant
        self.options = options or {}
        self._client: RetrievalClient | None = None

    def warm_up(self) -> None:
        """Open the client; LangChain's and LlamaIndex's retrievers are given one."""
        if self._client is None:
            self._client = RetrievalClient(self.url, self.api_key.resolve_value() or "", tenant=self.tenant)

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, top_k: int | None = None, where: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """Search; `where` is a condition of the API."""
        self.warm_up()
        assert self._client is not None  # noqa: S101 - for the type checker
        asked = search_options(self.hybrid, top_k or self.top_k, self.options)
        asked |= {"where": where} if where is not None else {}
        hits = self._client.search(self.namespace_id, query, **asked)
        return {
            "documents": [
                Document(id=identity(hit), content=content(hit), meta=metadata(hit), score=hit.score) for hit in hits
            ]
        }

    def to_dict(self) -> dict[str, Any]:
        """For a pipeline that is saved."""
        return default_to_dict(
            self,
            url=self.url,
            namespace_id=self.namespace_id,
            api_key=self.api_key.to_dict(),
            top_k=self.top_k,
            hybrid=self.hybrid,
            tenant=self.tenant,
            options=self.options,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RetrievalServiceRetriever:
        """From a pipeline that was saved."""
        data["init_parameters"]["api_key"] = Secret.from_dict(data["init_parameters"]["api_key"])
        made: RetrievalServiceRetriever = default_from_dict(cls, data)
        return made
