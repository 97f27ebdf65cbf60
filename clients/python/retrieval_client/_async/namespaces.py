"""Namespaces."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from retrieval_client import models
from retrieval_client._async.operations import AsyncOperations
from retrieval_client.wire import body_of

EMBEDDED: dict[str, Any] = {
    "file_storage_config": {"type": "LOCAL"},
    "vector_storage_config": {"provider": "PGVECTOR"},
    "embedding_model_config": {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"},
}
"""What needs no account: files and vectors at the service, and a model of its own."""


class Namespaces:
    """Isolated places for content, each with its storage and its model."""

    def __init__(self, api: AsyncOperations) -> None:
        self._api = api

    async def create(self, name: str, **config: Any) -> models.Namespace:
        """A new namespace. config: fields of the API, such as embedding_model_config; `EMBEDDED` stands for those of
        storage and model that are not given."""
        return (await self._api.create_namespace(body_of(name=name, **(EMBEDDED | config)))).namespace  # type: ignore[arg-type]

    async def get(self, namespace_id: str) -> models.Namespace:
        """One namespace."""
        return (await self._api.get_namespace(namespace_id)).namespace

    async def list(self) -> AsyncIterator[models.Namespace]:
        """All namespaces that the key may see, newest first."""
        cursor: str | None = None
        while True:
            page = await self._api.list_namespaces(cursor=cursor, page_size=100)
            for namespace in page.namespaces:
                yield namespace
            cursor = page.next_cursor
            if cursor is None:
                return

    async def update(self, namespace_id: str, **config: Any) -> models.Namespace:
        """Change fields of a namespace."""
        return (await self._api.update_namespace(namespace_id, body_of(**config))).namespace  # type: ignore[arg-type]

    async def delete(self, namespace_id: str) -> models.NamespaceDeletedAnswer:
        """Delete a namespace and all that it holds; `deletion_id` names the receipt."""
        return await self._api.delete_namespace(namespace_id)
