"""Servers at addresses that users name: where they may lie without TLS."""

from __future__ import annotations

from ipaddress import ip_address

from connectors.http.retries import Passing
from retrieval.errors import Fatal
from retrieval.network import fetch_guard
from retrieval.network.fetch_guard import Blocked, Guard


def require_private_without_tls(guard: Guard, url: str, *, title: str, field: str) -> None:
    """Raise Fatal naming `field` where content, and a key, would be readable on the public internet.

    Passing where the host name cannot be resolved. `title`: the server in words, such as "reranker".
    """
    if url.startswith("https://"):
        return
    try:
        resolved = guard.resolve(*fetch_guard.host_and_port(url))
    except Blocked as error:
        raise Fatal(str(error), field=field) from error
    except OSError as error:
        raise Passing(f"The host name of the {title} cannot be resolved.") from error
    addresses = [ip_address(where[0]) for _, where in resolved]
    if not all(any(address in network for network in guard.allowed) for address in addresses):
        words = f"Without https only a {title} in a range that RETRIEVAL_FETCH_ALLOW names can be used."
        raise Fatal(words, field=field)
