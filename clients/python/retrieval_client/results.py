"""What a search answers."""

from __future__ import annotations

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
