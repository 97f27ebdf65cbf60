"""Where a browser may be sent after an authorization (D45): no open redirect, no script, no look-alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from retrieval.errors import ErrorCode, ServiceError

FIELD = "clientRedirectUrl"
LENGTH = 2048
_LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})
_PLAIN = re.compile(r"[!-~]+")
_ADDRESS = re.compile(
    r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*)(?::\d{1,5})?"
)


def check(url: str, hosts: Sequence[str] = ()) -> None:
    """INVALID_REQUEST unless `url` is https, or http on this machine. `hosts`: those allowed; any if there are none."""
    if len(url) > LENGTH or not _PLAIN.fullmatch(url) or "\\" in url or "#" in url:
        raise _refused(f"must be an absolute URL of printable ASCII, at most {LENGTH} characters, without a fragment")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _refused("is not a valid URL") from error
    if "@" in parts.netloc:
        raise _refused("must not hold a user name or password")
    address = _ADDRESS.fullmatch(parts.netloc.lower())
    if address is None or port == 0:
        raise _refused("must name a host, an international one in its ASCII form")
    host = address["host"]
    if parts.scheme != "https" and not (parts.scheme == "http" and host in _LOCAL):
        raise _refused("must begin with https://, or http:// on localhost")
    if hosts and host not in {allowed.lower() for allowed in hosts}:
        raise _refused("names a host that this service does not redirect to; its operator keeps the list")


def target(url: str, connection_id: str, status: str) -> str:
    """`url` with the two parameters that the browser brings along, and no others of these names."""
    parts = urlsplit(url)
    ours = {"connectionId": connection_id, "status": status}
    kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in ours]
    return urlunsplit(parts._replace(query=urlencode([*kept, *ours.items()])))


def _refused(why: str) -> ServiceError:
    return ServiceError(ErrorCode.INVALID_REQUEST, f"{FIELD} {why}.", field=FIELD, reason="not_allowed")
