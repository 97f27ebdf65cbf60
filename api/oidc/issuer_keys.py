"""Public keys of the issuer, found by discovery and cached while the issuer is away."""
# A withdrawn key is refused after FRESH_SECONDS while the issuer answers; during an outage keys stay for KEPT_SECONDS.

from __future__ import annotations

import asyncio
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import jwt
import msgspec
import structlog

from retrieval.network.transport import VendorTransport

log = structlog.get_logger()

# Asymmetric signatures only: the issuer has the private key.
SIGNATURE_ALGORITHMS = ("RS256", "ES256", "EdDSA")
KEYS_FRESH_SECONDS = 300.0
KEYS_STALE_SECONDS = 24 * 3600.0
# Minimum time between requests to the issuer.
REQUEST_PAUSE_SECONDS = 10.0
# Longest wait of a token for the issuer.
KEY_FETCH_SECONDS = 4.0
MAX_DOCUMENT_BYTES = 512 * 1024


class IssuerAway(Exception):
    """Issuer not reachable, keys unknown; the log has the reason."""


class IssuerKeys(jwt.PyJWKClient):
    """Keys of an issuer, fetched in a single thread."""

    def __init__(self, issuer: str, discovery_url: str | None = None, ca_bundle: Path | None = None) -> None:
        super().__init__(
            discovery_url or issuer.rstrip("/") + "/.well-known/openid-configuration",
            lifespan=KEYS_FRESH_SECONDS,
            cooldown_duration=REQUEST_PAUSE_SECONDS,
        )
        self._issuer = issuer
        self._ca_bundle = ca_bundle
        self._thread = ThreadPoolExecutor(1, "issuer-keys")
        self._last: jwt.PyJWKSet | None = None
        self._last_at = self._failed_at = -float("inf")

    async def find_key(self, kid: str, algorithm: str) -> jwt.PyJWK | None:
        """Return the key of this id and algorithm, None if not published; raise IssuerAway if unknown."""
        cached = self.jwk_set_cache.get() if self.jwk_set_cache else None
        key = _find_signing_key(cached, kid)
        if key is None:
            loop = asyncio.get_running_loop()
            try:
                async with asyncio.timeout(KEY_FETCH_SECONDS):
                    key = await loop.run_in_executor(self._thread, self.get_signing_key, kid)
            except TimeoutError:
                key = _find_signing_key(self._usable_set(), kid)
                if key is None:
                    raise IssuerAway from None
            except jwt.PyJWKClientError as error:
                if self._is_away():
                    raise IssuerAway from error
        return key if key is not None and key.algorithm_name == algorithm else None

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def fetch_data(self) -> Any:
        """Return the issuer's key set, during an outage the last one."""
        if time.monotonic() - self._failed_at >= REQUEST_PAUSE_SECONDS:
            try:
                with _make_client(self._ca_bundle) as client:
                    address = _find_keys_url(self._issuer, _fetch_json(client, self.uri))
                    self._last = jwt.PyJWKSet.from_dict(_fetch_json(client, address))
            except (jwt.PyJWTError, httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, TypeError) as error:
                self._failed_at = time.monotonic()
                log.warning("oidc.issuer_away", issuer=self._issuer, reason=str(error) or type(error).__name__)
            else:
                self._last_at, self._failed_at = time.monotonic(), -float("inf")
        keys = self._usable_set()
        if keys is None:
            raise jwt.PyJWKClientConnectionError("The issuer does not answer.")
        return keys

    def _usable_set(self) -> jwt.PyJWKSet | None:
        return self._last if time.monotonic() - self._last_at <= KEYS_STALE_SECONDS else None

    def _is_away(self) -> bool:
        return self._failed_at > self._last_at


def _fetch_json(client: httpx.Client, url: str) -> dict[str, Any]:
    """Fetch a JSON object of bounded size, without redirects and compression."""
    content = bytearray()
    deadline = time.monotonic() + KEY_FETCH_SECONDS
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code != 200:
            raise ValueError(f"{urlsplit(url).path} answers {response.status_code}")
        for piece in response.iter_raw():
            content += piece
            if len(content) > MAX_DOCUMENT_BYTES or time.monotonic() > deadline:
                raise ValueError(f"{urlsplit(url).path} is too large or too slow")
    try:
        document = msgspec.json.decode(bytes(content))
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"{urlsplit(url).path} is not JSON") from error
    if not isinstance(document, dict):
        raise TypeError(f"{urlsplit(url).path} is not a JSON object")
    return document


def _find_signing_key(keys: jwt.PyJWKSet | None, kid: str) -> jwt.PyJWK | None:
    signing = [key for key in keys or () if key.public_key_use in {"sig", None}]
    return jwt.PyJWKClient.match_kid(signing, kid)


def _make_client(ca_bundle: Path | None) -> httpx.Client:
    """Return a client without proxies of the environment, cookies and redirects."""
    trusted = ssl.create_default_context(cafile=ca_bundle) if ca_bundle else httpx.create_ssl_context(trust_env=False)
    transport = VendorTransport(trusted)
    return httpx.Client(transport=transport, timeout=KEY_FETCH_SECONDS, trust_env=False, follow_redirects=False)


def _find_keys_url(issuer: str, document: dict[str, Any]) -> str:
    """Return `jwks_uri` of the issuer's discovery document (OpenID Connect Discovery 1.0, 4.3)."""
    if document.get("issuer") != issuer:
        raise ValueError("the discovery document is of another issuer than RETRIEVAL_OIDC_ISSUER")
    address = document.get("jwks_uri")
    allowed = {"https", urlsplit(issuer).scheme}
    if not isinstance(address, str) or urlsplit(address).scheme not in allowed or not urlsplit(address).hostname:
        raise ValueError("the discovery document names no https jwks_uri")
    return address
