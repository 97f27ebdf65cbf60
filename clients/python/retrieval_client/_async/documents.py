"""Documents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from retrieval_client import models
from retrieval_client._async.operations import AsyncOperations
from retrieval_client.wire import body_of

Facets = dict[str, list[models.FacetCount]]


class Documents:
    """What was ingested. Methods that take `filters` take these: document_ids, external_ids, types, sources, statuses,
    connection_ids (lists), metadata (an object) and where (a condition); all that are given must hold."""

    def __init__(self, api: AsyncOperations) -> None:
        self._api = api

    async def list(self, namespace_id: str, *, page_size: int = 100, **filters: Any) -> AsyncIterator[models.Document]:
        """Documents that match, newest first; pages are fetched as they are needed."""
        cursor: str | None = None
        while True:
            pagination = body_of(page_size=page_size, cursor=cursor)
            body = body_of(namespace_id=namespace_id, filter_config=filter_config(**filters), pagination=pagination)
            page = await self._api.fetch_documents(body)  # type: ignore[arg-type]
            for document in page.documents or ():
                yield document
            cursor = page.next_cursor
            if cursor is None:
                return

    async def facets(self, namespace_id: str, fields: Sequence[str], **filters: Any) -> Facets:
        """How many documents have each value of the fields, such as metadata.topic or document.language."""
        body = body_of(
            namespace_id=namespace_id,
            filter_config=filter_config(**filters),
            facets=[*fields],
            pagination={"pageSize": 1},
        )
        return (await self._api.fetch_documents(body)).facets or {}  # type: ignore[arg-type]

    async def chunks(self, namespace_id: str, document_id: str) -> AsyncIterator[models.Chunk]:
        """The chunks of a document in their order."""
        cursor: str | None = None
        while True:
            page = await self._api.list_chunks(document_id, namespace_id=namespace_id, cursor=cursor)
            for chunk in page.chunks:
                yield chunk
            cursor = page.next_cursor
            if cursor is None:
                return

    async def update(self, namespace_id: str, data: Mapping[str, Any], **filters: Any) -> models.UpdatedDocumentsData:
        """Change documents that match, such as {"metadata": {"reviewed": True}}; nothing is embedded again."""
        body = body_of(namespace_id=namespace_id, filter_config=filter_config(**filters), data=dict(data))
        return await self._api.update_documents(body)  # type: ignore[arg-type]

    async def delete(self, namespace_id: str, **filters: Any) -> models.DocumentsDeletedAnswer:
        """Delete documents that match; without a filter nothing is sent and ValueError is raised."""
        if not any(value is not None for value in filters.values()):
            raise ValueError("delete needs a filter, such as document_ids=[…]")
        body = body_of(namespace_id=namespace_id, filter_config=filter_config(**filters))
        return await self._api.delete_documents(body)  # type: ignore[arg-type]


def filter_config(
    *,
    document_ids: Sequence[str] | None = None,
    external_ids: Sequence[str] | None = None,
    types: Sequence[str] | None = None,
    sources: Sequence[str] | None = None,
    statuses: Sequence[str] | None = None,
    connection_ids: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    where: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """`filterConfig` of a request. ValueError: an empty list, which the service reads as no restriction."""
    lists = {
        "documentIds": document_ids,
        "documentExternalIds": external_ids,
        "documentTypes": types,
        "documentIngestionSources": sources,
        "documentIngestionStatuses": statuses,
        "documentConnectionIds": connection_ids,
    }
    for name, value in lists.items():
        if value is not None and not value:
            raise ValueError(f"{name} is empty: the service reads that as no restriction; leave it out to mean that")
    given = {name: list(value) for name, value in lists.items() if value is not None}
    return given | body_of(metadata=metadata, where=where)
