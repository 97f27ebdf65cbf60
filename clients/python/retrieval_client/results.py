"""What a search answers."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from retrieval_client.models import SearchData, SearchResult


class SearchResults(list[SearchResult]):
    """The results of a search, best first. `data` holds what else was answered, such as `data.timings`."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.data = SearchData(raw)
        super().__init__(self.data.results)

    @property
    def results(self) -> list[SearchResult]:
        """The results, as the API names them."""
        return self

    def to_file_search_call(self, *queries: str) -> dict[str, Any]:
        """Return the results as a `file_search_call`, an output item of OpenAI's Responses API.

        queries: what was searched for.
        """
        results = [
            {
                "file_id": file_id(hit.document.id, hit.document.external_id),
                "filename": hit.document.name,
                "score": hit.score,
                "text": hit.content,
                "attributes": {
                    key: value
                    for key, value in dict(hit.metadata).items()
                    if key not in {"id", "source", "type"} and isinstance(value, str | int | float)
                },
            }
            for hit in self
        ]
        call = {"type": "file_search_call", "id": f"fs_{uuid.uuid4().hex}", "status": "completed"}
        return {**call, "queries": list(queries), "results": results}


def file_id(document_id: str, external_id: str) -> str:
    """Return the id under which OpenAI's clients know a document: that of its upload, else its own."""
    return external_id if external_id.startswith("file-") else document_id
