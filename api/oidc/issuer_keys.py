"""The issuer's public keys by `jwt.PyJWKClient`, found by the discovery document and kept while the issuer is away.

Both documents are at addresses that the operator names, directly or by the issuer's own document. A key that the issuer
withdraws is refused after FRESH_SECONDS at the latest while the issuer answers; otherwise keys stay for KEPT_SECONDS.
"""

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

ALGORITHMS = ("RS256", "ES256", "EdDSA")
"""Signatures that are accepted: asymmetric ones, of which the issuer alone can make any."""

FRESH_SECONDS = 300.0
"""For so long a key set is used without asking again."""
KEPT_SECONDS = 24 * 3600.0
"""For so long it is used while the issuer does not answer."""
PAUSE_SECONDS = 10.0
"""Between requests to the issuer, whatever tokens come in."""
FETCH_SECONDS = 4.0
"""A token waits no longer than this for the issuer."""
LARGEST = 512 * 1024
"""Bytes of either document."""


class IssuerAway(Exception):
    """The issuer cannot be reached, so its keys are unknown. The log holds the reason."""


class IssuerKeys(jwt.PyJWKClient):
    """The keys of one issuer. One thread fetches them."""

    def __init__(self, issuer: str, discovery_url: str | None = None, ca_bundle: Path | None = None) -> None:
        super().__init__(
            discovery_url or issuer.rstrip("/") + "/.well-known/openid-configuration",
            lifespan=FRESH_SECONDS,
            cooldown_duration=PAUSE_SECONDS,
        )
        self._issuer = issuer
        self._ca_bundle = ca_bundle
        self._thread = ThreadPoolExecutor(1, "issuer-keys")
        self._last: jwt.PyJWKSet | None = None
        self._last_at = self._failed_at = -float("inf")

    async def find(self, kid: str, algorithm: str) -> jwt.PyJWK | None:
        """The key of this id, if it is for this algorithm; None if the issuer publishes none.

        IssuerAway if that cannot be known.
        """
        cached = self.jwk_set_cache.get() if self.jwk_set_cache else None
        key = _pick(cached, kid)
        if key is None:
            loop = asyncio.get_running_loop()
            try:
                async with asyncio.timeout(FETCH_SECONDS):
                    key = await loop.run_in_executor(self._thread, self.get_signing_key, kid)
            except TimeoutError:
                key = _pick(self._usable_set(), kid)
                if key is None:
                    raise IssuerAway from None
            except jwt.PyJWKClientError as error:
                if self._is_away():
                    raise IssuerAway from error
        return key if key is not None and key.algorithm_name == algorithm else None

    async def close(self) -> None:
        """Start no further request."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def fetch_data(self) -> Any:
        """The issuer's key set; while the issuer does not answer, the last one that it answered."""
        if time.monotonic() - self._failed_at >= PAUSE_SECONDS:
            try:
                with _client(self._ca_bundle) as client:
                    address = _keys_address(self._issuer, _get(client, self.uri))
                    self._last = jwt.PyJWKSet.from_dict(_get(client, address))
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
        return self._last if time.monotonic() - self._last_at <= KEPT_SECONDS else None

    def _is_away(self) -> bool:
        return self._failed_at > self._last_at


def _get(client: httpx.Client, url: str) -> dict[str, Any]:
    """The JSON document at this address, of bounded size, neither compressed nor redirected."""
    content = bytearray()
    deadline = time.monotonic() + FETCH_SECONDS
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code != 200:
            raise ValueError(f"{urlsplit(url).path} answers {response.status_code}")
        for piece in response.iter_raw():
            content += piece
            if len(content) > LARGEST or time.monotonic() > deadline:
                raise ValueError(f"{urlsplit(url).path} is too large or too slow")
    try:
        document = msgspec.json.decode(bytes(content))
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"{urlsplit(url).path} is not JSON") from error
    if not isinstance(document, dict):
        raise TypeError(f"{urlsplit(url).path} is not a JSON object")
    return document


def _pick(keys: jwt.PyJWKSet | None, kid: str) -> jwt.PyJWK | None:
    signing = [key for key in keys or () if key.public_key_use in {"sig", None}]
    return jwt.PyJWKClient.match_kid(signing, kid)


def _client(ca_bundle: Path | None) -> httpx.Client:
    """A client that uses neither proxies of the environment nor cookies, and follows no redirects."""
    trusted = ssl.create_default_context(cafile=ca_bundle) if ca_bundle else httpx.create_ssl_context(trust_env=False)
    transport = VendorTransport(trusted)
    return httpx.Client(transport=transport, timeout=FETCH_SECONDS, trust_env=False, follow_redirects=False)


def _keys_address(issuer: str, document: dict[str, Any]) -> str:
    """`jwks_uri` of the discovery document, which must be this issuer's (OpenID Connect Discovery 1.0, 4.3)."""
    if document.get("issuer") != issuer:
        raise ValueError("the discovery document is of another issuer than RETRIEVAL_OIDC_ISSUER")
    address = document.get("jwks_uri")
    allowed = {"https", urlsplit(issuer).scheme}
    if not isinstance(address, str) or urlsplit(address).scheme not in allowed or not urlsplit(address).hostname:
        raise ValueError("the discovery document names no https jwks_uri")
    return address
