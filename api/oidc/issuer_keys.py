"""The issuer's public keys: its discovery document and key set, fetched, kept for a while and fetched again.

Both are at addresses that the operator names, directly or by the issuer's own document. A key that the issuer withdraws
is refused after FRESH_SECONDS at the latest while the issuer answers; where it does not, known keys go on for
KEPT_SECONDS. Nobody waits longer than FETCH_SECONDS.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import jwt
import msgspec
import structlog

log = structlog.get_logger()

ALGORITHMS = ("RS256", "ES256", "EdDSA")
"""Signatures that are accepted: asymmetric ones, of which the issuer alone can make any."""

FRESH_SECONDS = 300.0
"""For so long a key set is believed without asking again."""
KEPT_SECONDS = 24 * 3600.0
"""For so long it is believed while the issuer does not answer."""
PAUSE_SECONDS = 10.0
"""Between two questions to the issuer, whatever tokens come: one of an unknown key is a reason to ask."""
FETCH_SECONDS = 4.0
"""For both documents together."""
DOCUMENT_SECONDS = 3600.0
"""For so long the discovery document is kept."""
LARGEST = 512 * 1024
"""Bytes of either document."""
MOST_KEYS = 100
_MEMBERS: Mapping[str, frozenset[str]] = {
    "RSA": frozenset({"n", "e"}),
    "EC": frozenset({"crv", "x", "y"}),
    "OKP": frozenset({"crv", "x"}),
}
"""Of a key, by its type, what is public: anything else is not read."""


class IssuerAway(Exception):
    """Whether the issuer publishes a key cannot be known now. Its text says why, for the operator's log."""


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """A public key of the issuer with the one algorithm that it verifies."""

    kid: str | None
    algorithm: str
    public: Any = field(repr=False)


class IssuerKeys:
    """The keys of one issuer, for one event loop."""

    def __init__(
        self,
        issuer: str,
        discovery_url: str | None = None,
        ca_bundle: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._discovery_url = discovery_url or issuer.rstrip("/") + "/.well-known/openid-configuration"
        self._ca_bundle = ca_bundle
        self._clock = clock
        self._client: httpx.AsyncClient | None = None
        self._asking: asyncio.Task[None] | None = None
        self._keys: tuple[IssuerKey, ...] = ()
        self._read_at = self._asked_at = self._document_at = -float("inf")
        self._jwks_uri = ""
        self._failed = False

    async def find(self, kid: str | None, algorithm: str) -> IssuerKey | None:
        """The key of this id, or without one the only key of this algorithm; None if the issuer publishes none.

        IssuerAway if that cannot be known.
        """
        await self._stay_fresh()
        found = self._pick(kid, algorithm)
        if found is None and self._may_ask():
            await self._ask()
            found = self._pick(kid, algorithm)
        if found is None and self._failed:
            raise IssuerAway
        return found

    async def close(self) -> None:
        """End what is under way."""
        if self._asking is not None:
            self._asking.cancel()
        if self._client is not None:
            await self._client.aclose()

    def _pick(self, kid: str | None, algorithm: str) -> IssuerKey | None:
        fitting = [key for key in self._keys if key.algorithm == algorithm and kid in {None, key.kid}]
        return fitting[0] if len(fitting) == 1 else None

    async def _stay_fresh(self) -> None:
        age = self._clock() - self._read_at
        if age > KEPT_SECONDS:
            self._keys = ()
        if age <= FRESH_SECONDS or not self._may_ask():
            return
        if self._failed and self._keys:
            self._start()  # nobody waits for an issuer that was away a moment ago
        else:
            await self._ask()

    def _may_ask(self) -> bool:
        under_way = self._asking is not None and not self._asking.done()
        return under_way or self._clock() - self._asked_at >= PAUSE_SECONDS

    async def _ask(self) -> None:
        """Wait for the question under way, or for a new one; whatever comes of it."""
        await asyncio.shield(self._start())

    def _start(self) -> asyncio.Task[None]:
        if self._asking is None or self._asking.done():
            self._asked_at = self._clock()
            self._asking = asyncio.create_task(self._fetch())
        return self._asking

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                if self._clock() - self._document_at > DOCUMENT_SECONDS or self._failed:
                    self._jwks_uri = _keys_address(self._issuer, await self._get(self._discovery_url))
                    self._document_at = self._clock()
                self._keys = _keys(await self._get(self._jwks_uri))
        except (IssuerAway, httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            self._failed = True
            log.warning("oidc.issuer_away", issuer=self._issuer, reason=str(error) or type(error).__name__)
        else:
            self._failed, self._read_at = False, self._clock()

    async def _get(self, url: str) -> Any:
        """What stands there as JSON. The size is bounded before anything is unpacked or read."""
        if self._client is None:
            self._client = await asyncio.to_thread(_client, self._ca_bundle)
        content = bytearray()
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with self._client.stream("GET", url, headers=headers) as response:
            if response.status_code != 200:
                raise IssuerAway(f"{urlsplit(url).path} answers {response.status_code}")
            async for piece in response.aiter_raw():
                content += piece
                if len(content) > LARGEST:
                    raise IssuerAway(f"{urlsplit(url).path} is larger than {LARGEST} bytes")
        try:
            return msgspec.json.decode(bytes(content))
        except (msgspec.DecodeError, RecursionError) as error:
            raise IssuerAway(f"{urlsplit(url).path} is not JSON") from error


def _client(ca_bundle: Path | None) -> httpx.AsyncClient:
    """Nothing of the surroundings counts: neither proxies nor cookies; redirects are not followed."""
    trusted = ssl.create_default_context(cafile=ca_bundle) if ca_bundle else httpx.create_ssl_context(trust_env=False)
    return httpx.AsyncClient(verify=trusted, timeout=FETCH_SECONDS, trust_env=False, follow_redirects=False)


def _keys_address(issuer: str, document: Any) -> str:
    """`jwks_uri` of the discovery document, which must be this issuer's (OpenID Connect Discovery 1.0, 4.3)."""
    told = document if isinstance(document, dict) else {}
    if told.get("issuer") != issuer:
        raise IssuerAway("the discovery document is of another issuer than RETRIEVAL_OIDC_ISSUER")
    address = told.get("jwks_uri")
    allowed = {"https", urlsplit(issuer).scheme}
    if not isinstance(address, str) or urlsplit(address).scheme not in allowed or not urlsplit(address).hostname:
        raise IssuerAway("the discovery document names no https jwks_uri")
    return address


def _keys(document: Any) -> tuple[IssuerKey, ...]:
    """The usable keys of a key set (RFC 7517). IssuerAway if it is none, or an unreasonable one."""
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise IssuerAway("the key set holds no list of keys")
    if len(listed) > MOST_KEYS:
        raise IssuerAway(f"the key set holds more than {MOST_KEYS} keys")
    found = (_key(one) for one in listed if isinstance(one, dict))
    return tuple(key for key in found if key is not None)


def _key(told: dict[str, Any]) -> IssuerKey | None:
    """None for a key that signs nothing which is accepted here, or is too weak."""
    members = _MEMBERS.get(str(told.get("kty")))
    kid, operations = told.get("kid"), told.get("key_ops", ["verify"])
    if members is None or not isinstance(kid, str | None) or told.get("use", "sig") != "sig":
        return None
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    try:
        read = jwt.PyJWK({"kty": told["kty"], **{name: told[name] for name in members}})
    except (jwt.PyJWTError, KeyError, TypeError, ValueError, OverflowError):
        return None
    if read.algorithm_name not in ALGORITHMS or told.get("alg", read.algorithm_name) != read.algorithm_name:
        return None
    if told["kty"] == "RSA" and not 2048 <= read.key.key_size <= 8192:
        return None
    return IssuerKey(kid, read.algorithm_name, read.key)
