"""Cross-origin requests (CORS) by browsers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from litestar.config.cors import CORSConfig
from litestar.types import HTTPScope

# `/mcp` has its own rules for origins (`api.mcp_hosts`).
CORS_PATH_PREFIX: Final = "/v1/"
EXPOSED_HEADERS: Final = (
    "Content-Disposition",
    "Retry-After",
    "WWW-Authenticate",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    "X-Request-Id",
)
# Browsers cache a preflight for this time.
PREFLIGHT_SECONDS: Final = 600


class CrossOrigin:
    """Response headers for requests of allowed origins."""

    # Keys travel in Authorization, so credentials are not allowed.

    def __init__(self, origins: Sequence[str]) -> None:
        self._config = CORSConfig(
            allow_origins=list(origins),
            allow_methods=["DELETE", "GET", "PATCH", "POST", "PUT"],
            expose_headers=list(EXPOSED_HEADERS),
            max_age=PREFLIGHT_SECONDS,
        )

    def answer_headers(self, scope: HTTPScope) -> dict[str, str]:
        """Return the headers of a response; none outside `/v1`."""
        if not scope["path"].startswith(CORS_PATH_PREFIX):
            return {}
        # The answer differs by origin for caches, even without one.
        vary = {} if self._config.is_allow_all_origins else {"Vary": "Origin"}
        origin = _find_header(scope, b"origin")
        if not self._is_allowed(origin):
            return vary
        return {**self._config.simple_headers, **self._allow_header(origin), **vary}

    def preflight_headers(self, scope: HTTPScope) -> dict[str, str] | None:
        """Return the headers for a preflight of an allowed origin; None for other requests."""
        origin = _find_header(scope, b"origin")
        if (
            scope["method"] != "OPTIONS"
            or not _find_header(scope, b"access-control-request-method")
            or not scope["path"].startswith(CORS_PATH_PREFIX)
            or not self._is_allowed(origin)
        ):
            return None
        headers = {**self._config.preflight_headers, **self._allow_header(origin)}
        if requested := _find_header(scope, b"access-control-request-headers"):
            # `*` does not cover Authorization.
            headers["Access-Control-Allow-Headers"] = requested
        return headers

    def _is_allowed(self, origin: str) -> bool:
        return bool(origin) and self._config.is_origin_allowed(origin)

    def _allow_header(self, origin: str) -> dict[str, str]:
        return {"Access-Control-Allow-Origin": "*" if self._config.is_allow_all_origins else origin}


def _find_header(scope: HTTPScope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")
