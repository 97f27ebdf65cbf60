"""Cohere's SDK as its embedder and its reranker share it: at the operator's endpoint or at Cohere's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from connectors.http import sessions

if TYPE_CHECKING:
    import httpx

    from retrieval.settings import Settings

PROVIDER: Final = "COHERE"
TITLE: Final = "Cohere"
BASE_URL: Final = "https://api.cohere.com"


def opened(api_key: str, settings: Settings, *, seconds: float, most: int) -> tuple[Any, httpx.Client]:
    """A client of its v2 API, and what it sends with, for the caller to close. `most`: bytes of an answer."""
    import cohere

    sessions.quiet("cohere")
    endpoint = settings.endpoints.get(PROVIDER)
    web = sessions.httpx_client(sessions.trust(endpoint, PROVIDER), seconds=seconds, most=most)
    client = cohere.ClientV2(
        api_key=api_key,
        base_url=sessions.base_url(endpoint, BASE_URL),
        httpx_client=web,
        log_warning_experimental_features=False,
    )
    return client, web
