"""HTTP clients for vendors: what holds for all of them, whatever their SDK sends with.

Nothing of the surroundings counts: no proxy variables, .netrc, certificate variables or cookies. Redirects are not
followed, and addresses, which may be signed, are not logged. A vendor's own endpoint is what RETRIEVAL_ENDPOINTS names;
RETRIEVAL_EGRESS_PROXY takes precedence over all of them.
"""

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
from retrieval.network import bounded_answers, fetch_guard
from retrieval.network.fetch_guard import BlockedAddress, Guard
from retrieval.settings import load_settings

if TYPE_CHECKING:
    import httpx
    import requests

    from retrieval.setting_values import Endpoint
    from retrieval.settings import Settings

CONNECTIONS = 16


def base_url(endpoint: Endpoint | None, default: str) -> str:
    """The address of a vendor's API without a slash at its end: the operator's, else the vendor's own."""
    return ((endpoint and endpoint.base_url) or default).rstrip("/")


def trusted_certificates(endpoint: Endpoint | None, name: str) -> ssl.SSLContext:
    """The certificates that are believed at `name`'s endpoint. Fatal if those named for it cannot be read."""
    bundle = bundle_of(endpoint, name)
    return _trusted() if bundle is None else ssl.create_default_context(cafile=bundle)


def bundle_of(endpoint: Endpoint | None, name: str) -> Path | None:
    """Certificate bundle for SDKs that take a file; None: the default."""
    bundle = endpoint.ca_bundle if endpoint else None
    if bundle is not None:
        try:
            ssl.create_default_context(cafile=bundle)
        except OSError as error:
            raise Fatal(f"The ca_bundle that RETRIEVAL_ENDPOINTS names for {name} cannot be read.") from error
    return bundle


def quiet_loggers(*loggers: str) -> None:
    """Only warnings of these libraries, and of httpx."""
    for name in ("httpx", "httpcore", *loggers):
        logging.getLogger(name).setLevel(logging.WARNING)


def httpx_client(verify: ssl.SSLContext, *, seconds: float, most: int | None = None, **more: Any) -> httpx.Client:
    """Safe to share between threads. `seconds`: without a byte; `more`: of httpx.Client, such as headers.

    most: bytes of an answer, which is read whole and whose body may take `seconds` too (`bounded_answers`).
    """
    import httpx

    quiet_loggers()
    if most is not None:
        more["transport"] = bounded_answers.bounded_transport()(verify, max_bytes=most)
    elif "transport" not in more:
        from retrieval.network.transport import VendorTransport

        more["transport"] = VendorTransport(verify)
    return httpx.Client(
        verify=verify, timeout=seconds, trust_env=False, follow_redirects=False, cookies=no_cookies(), **more
    )


def vendor_client(
    settings: Settings, vendor: str, default: str, key: str, *, seconds: float, most: int
) -> tuple[str, httpx.Client]:
    """The base URL of a vendor's API, the operator's or its own, and a client that sends this key as a bearer token."""
    endpoint = settings.endpoints.get(vendor)
    headers = {"Authorization": f"Bearer {key}", "Accept": "application/json"}
    client = httpx_client(trusted_certificates(endpoint, vendor), seconds=seconds, most=most, headers=headers)
    return base_url(endpoint, default), client


def requests_session(endpoint: Endpoint | None, name: str) -> requests.Session:
    """Safe to share between threads."""
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
    """A jar that keeps nothing."""
    return CookieJar(policy=DefaultCookiePolicy(allowed_domains=[]))


@lru_cache(maxsize=1)
def _trusted() -> ssl.SSLContext:
    """Made once: it costs a tenth of a second."""
    import httpx

    return httpx.create_ssl_context(trust_env=False)


def require_private_without_tls(guard: Guard, url: str, *, title: str, field: str) -> None:
    """Raise Fatal naming `field` where content, and a key, would be readable on the public internet.

    TransientError where the host name cannot be resolved. `title`: the server in words, such as "reranker".
    """
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
