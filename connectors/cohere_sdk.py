"""Cohere's SDK for the embedder and the reranker, at the operator's endpoint or at Cohere's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from connectors.http import sessions

if TYPE_CHECKING:
    import httpx

    from retrieval.settings import Settings

COHERE_PROVIDER: Final = "COHERE"
COHERE_TITLE: Final = "Cohere"
BASE_URL: Final = "https://api.cohere.com"


def base_url(settings: Settings) -> str:
    """The operator's endpoint, or Cohere's own."""
    return sessions.base_url(settings.endpoints.get(COHERE_PROVIDER), BASE_URL)


def open_client(api_key: str, settings: Settings, *, seconds: float, max_bytes: int) -> tuple[Any, httpx.Client]:
    """Return a client of the v2 API, and its HTTP client for the caller to close. `max_bytes`: of an answer."""
    import cohere

    sessions.quiet_loggers("cohere")
    endpoint = settings.endpoints.get(COHERE_PROVIDER)
    web = sessions.httpx_client(
        sessions.trusted_certificates(endpoint, COHERE_PROVIDER), seconds=seconds, max_bytes=max_bytes
    )
    client = cohere.ClientV2(
        api_key=api_key,
        base_url=base_url(settings),
        httpx_client=web,
        log_warning_experimental_features=False,
    )
    return client, web
