"""HTTP clients for vendors, without proxy variables, .netrc, certificate variables, cookies or redirects."""
# Addresses may be signed and are not logged. RETRIEVAL_EGRESS_PROXY precedes RETRIEVAL_ENDPOINTS.

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from functools import lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.http.retries import TransientError
from retrieval.errors import Fatal
from retrieval.network import fetch_guard
from retrieval.network.fetch_guard import BlockedAddress, Guard
from retrieval.settings import load_settings

if TYPE_CHECKING:
    import httpx
    import requests

    from retrieval.setting_values import Endpoint
    from retrieval.settings import Settings

MAX_CONNECTIONS = 16


def base_url(endpoint: Endpoint | None, default: str) -> str:
    """Return the base URL without a final slash; the operator's precedes `default`."""
    return ((endpoint and endpoint.base_url) or default).rstrip("/")


def trusted_certificates(endpoint: Endpoint | None, name: str) -> ssl.SSLContext:
    """Return the trusted certificates of an endpoint. Fatal for an unreadable bundle."""
    bundle = bundle_of(endpoint, name)
    return _trusted() if bundle is None else ssl.create_default_context(cafile=bundle)


def bundle_of(endpoint: Endpoint | None, name: str) -> Path | None:
    """Return the certificate bundle as a file, or None for the default. Fatal for an unreadable bundle."""
    bundle = endpoint.ca_bundle if endpoint else None
    if bundle is not None:
        try:
            ssl.create_default_context(cafile=bundle)
        except OSError as error:
            raise Fatal(f"The ca_bundle that RETRIEVAL_ENDPOINTS names for {name} cannot be read.") from error
    return bundle


def quiet_loggers(*loggers: str) -> None:
    """Log only warnings of httpx and of these libraries."""
    for name in ("httpx", "httpcore", *loggers):
        logging.getLogger(name).setLevel(logging.WARNING)


def httpx_client(verify: ssl.SSLContext, *, seconds: float, max_bytes: int | None = None, **more: Any) -> httpx.Client:
    """Build a thread-safe client; `seconds` limits silence, `max_bytes` the bytes of an answer, `more` is httpx's."""
    # With `max_bytes`, an answer is read whole, and `seconds` limits the body too (`bounded_answers`).
    import httpx

    quiet_loggers()
    if max_bytes is not None or "transport" not in more:
        from retrieval.network.transport import BoundedTransport, VendorTransport

        more["transport"] = (
            VendorTransport(verify) if max_bytes is None else BoundedTransport(verify, max_bytes=max_bytes)
        )
    return httpx.Client(
        verify=verify, timeout=seconds, trust_env=False, follow_redirects=False, cookies=no_cookies(), **more
    )


def vendor_client(
    settings: Settings, vendor: str, default: str, key: str, *, seconds: float, max_bytes: int
) -> tuple[str, httpx.Client]:
    """Return the base URL of a vendor's API, and a client with the key as a bearer token."""
    endpoint = settings.endpoints.get(vendor)
    headers = {"Authorization": f"Bearer {key}", "Accept": "application/json"}
    client = httpx_client(trusted_certificates(endpoint, vendor), seconds=seconds, max_bytes=max_bytes, headers=headers)
    return base_url(endpoint, default), client


def requests_session(endpoint: Endpoint | None, name: str) -> requests.Session:
    """Build a thread-safe session."""
    import requests

    class Direct(requests.Session):
        def resolve_redirects(self, *_given: Any, **_named: Any) -> Iterator[requests.Response]:
            return iter(())

    bundle = bundle_of(endpoint, name)
    session = Direct()
    session.trust_env = False
    if proxy := fetch_guard.find_route(load_settings(), endpoint.base_url if endpoint else None):
        session.proxies = {"https": proxy.url, "http": proxy.url}
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    session.verify = str(bundle) if bundle else True
    return session


def no_cookies() -> CookieJar:
    return CookieJar(policy=DefaultCookiePolicy(allowed_domains=[]))


@lru_cache(maxsize=1)
def _trusted() -> ssl.SSLContext:
    # Cached: takes a tenth of a second.
    import httpx

    return httpx.create_ssl_context(trust_env=False)


def require_private_without_tls(guard: Guard, url: str, *, title: str, field: str) -> None:
    """Raise Fatal for a blocked address or one without TLS outside RETRIEVAL_FETCH_ALLOW, TransientError for an
    unresolvable host."""
    if url.startswith("https://"):
        return
    try:
        resolved = guard.resolve(*fetch_guard.parse_host_port(url))
    except BlockedAddress as error:
        raise Fatal(str(error), field=field) from error
    except OSError as error:
        raise TransientError(f"The host name of the {title} cannot be resolved.") from error
    addresses = [ip_address(socket_address[0]) for _, socket_address in resolved]
    if not all(any(address in network for network in guard.allowed) for address in addresses):
        words = f"Without https only a {title} in a range that RETRIEVAL_FETCH_ALLOW names can be used."
        raise Fatal(words, field=field)
