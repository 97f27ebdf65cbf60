"""The client: one connection to one service, with what people do most by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx

from retrieval_client._async.documents import Documents
from retrieval_client._async.ingest import Ingest
from retrieval_client._async.namespaces import Namespaces
from retrieval_client._async.operations import AsyncOperations
from retrieval_client._async.runs import Runs
from retrieval_client._async.transport import AsyncTransport
from retrieval_client.models import WhyData
from retrieval_client.requests import Retries
from retrieval_client.results import SearchResults
from retrieval_client.wire import body_of, headers_of


class AsyncRetrievalClient:
    """Talks to one service with one API key.

    base_url: where the API answers, such as https://retrieval.example.com. tenant: sent as X-Tenant-ID.
    on_behalf_of: a user, sent as X-On-Behalf-Of: only what that user may see is shown. timeout: seconds for an answer.
    http: a client of httpx to use instead of an own one, such as one with a proxy; its base URL and headers are set.

    Requests that the service refuses for now (429, 503) or does not answer are sent again as `retries` says, after the
    time that it asks for; writes carry an Idempotency-Key, so that none acts twice.
    Every other operation of the API is a method of `api`. RetrievalError: what the service refuses, with its code.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        tenant: str | None = None,
        *,
        on_behalf_of: str | None = None,
        timeout: float = 60.0,
        retries: Retries | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._http = http or httpx.AsyncClient(timeout=timeout)
        self._http.base_url = base_url.rstrip("/")
        self._http.headers.update(headers_of(api_key, tenant, on_behalf_of))
        self.api = AsyncOperations(AsyncTransport(self._http, retries or Retries()))
        self.namespaces = Namespaces(self.api)
        self.runs = Runs(self.api)
        self.ingest = Ingest(self.api, self.runs)
        self.documents = Documents(self.api)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._http.base_url)!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def search(
        self,
        namespace_id: str | Sequence[str],
        query: str,
        *,
        top_k: int | None = None,
        hybrid: bool | float = False,
        score_threshold: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        where: Mapping[str, Any] | None = None,
        filter: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> SearchResults:
        """What is found, best first.

        namespace_id: one, or up to ten with the same model. hybrid: also by words; True weighs both halves alike, a
        number from 0 to 1 is the weight of the semantic half. metadata and where: parts of `filter`, which may be given
        whole instead. options: every other field of the API, such as per_document=1, rerank=True, explain=True,
        expand={"unit": "SECTION"}, recency={"halfLifeDays": 30, "weight": 0.2}.
        """
        body = body_of(
            query=query,
            **_spaces(namespace_id),
            top_k=top_k,
            score_threshold=score_threshold,
            filter=_filter(filter, metadata, where),
            **options,
        )
        if hybrid is False:
            return SearchResults((await self.api.semantic_search(body)).raw)  # type: ignore[arg-type]
        semantic = 0.5 if hybrid is True else hybrid
        body.setdefault("hybridConfig", {"semanticWeight": semantic, "keywordWeight": round(1 - semantic, 10)})
        return SearchResults((await self.api.hybrid_search(body)).raw)  # type: ignore[arg-type]

    async def why(self, namespace_id: str, query: str, document_id: str, **options: Any) -> WhyData:
        """Why a document is found for a query, or is not: its ranks and scores, and what hides it."""
        body = body_of(namespace_id=namespace_id, query=query, document_id=document_id, **options)
        return await self.api.why_search(body)  # type: ignore[arg-type]


def _spaces(namespace_id: str | Sequence[str]) -> dict[str, Any]:
    return {"namespace_id": namespace_id} if isinstance(namespace_id, str) else {"namespace_ids": list(namespace_id)}


def _filter(
    whole: Mapping[str, Any] | None, metadata: Mapping[str, Any] | None, where: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    parts = {name: value for name, value in (("metadata", metadata), ("where", where)) if value is not None}
    return dict(whole or {}) | parts or None
