"""Check redirect targets after an authorization."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from retrieval.errors import ErrorCode, ServiceError
from retrieval.network import service_urls

FIELD_NAME = "clientRedirectUrl"
_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


def check_redirect(url: str, hosts: Sequence[str] = ()) -> None:
    """Raise INVALID_REQUEST unless `url` is https or local http, and of an allowed host if any are configured."""
    try:
        parts = service_urls.require_url(url, ("https", "http"))
    except ValueError as error:
        raise _refused(str(error)) from error
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    if parts.scheme != "https" and host not in _LOCAL_HOSTS:
        raise _refused("must begin with https://, or http:// on localhost")
    if hosts and host not in {allowed.lower() for allowed in hosts}:
        raise _refused("names a host that this service does not redirect to; its operator keeps the list")


def redirect_target(url: str, connection_id: str, status: str) -> str:
    """Return the URL with `connectionId` and `status` set."""
    parts = urlsplit(url)
    own_parameters = {"connectionId": connection_id, "status": status}
    parameters = [
        (name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in own_parameters
    ]
    return urlunsplit(parts._replace(query=urlencode([*parameters, *own_parameters.items()])))


def _refused(why: str) -> ServiceError:
    return ServiceError(ErrorCode.INVALID_REQUEST, f"{FIELD_NAME} {why}.", field=FIELD_NAME, reason="not_allowed")
