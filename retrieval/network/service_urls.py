"""Check URLs of requests: endpoints, sign-in pages, pages to return to after an authorization."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from retrieval.errors import ErrorCode, ServiceError
from retrieval.network.urls import MAX_CHARACTERS

# Printable ASCII without quotes, angle brackets, backslashes and backticks.
_PLAIN_PATTERN = re.compile(r"[!#-&(-;=?-\[\]^_a-z{|}~]+")

_HOST_PATTERN = re.compile(
    r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*)(?::\d{1,5})?"
)


def require_url(text: str, schemes: Collection[str] = ("https",)) -> SplitResult:
    """Parse a complete, unambiguous URL. Raises ValueError with the problem."""
    # Messages follow the field's name and never repeat the URL.
    if len(text) > MAX_CHARACTERS or not _PLAIN_PATTERN.fullmatch(text) or "#" in text:
        raise ValueError(
            f"must be a whole URL of at most {MAX_CHARACTERS} printable ASCII characters, without quotes and fragment"
        )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError("is not a valid URL: its host or port cannot be read") from error
    if "@" in parts.netloc:
        raise ValueError("must not hold a user name or password")
    if parts.scheme not in schemes:
        raise ValueError("must begin with " + " or ".join(f"{scheme}://" for scheme in schemes))
    if port == 0 or not _HOST_PATTERN.fullmatch(parts.netloc.lower()):
        raise ValueError("must name a host, an international one in its ASCII form")
    return parts


def require_service(text: str) -> None:
    """Check a service URL over http or https; https without a scheme."""
    parts = require_url(text if "://" in text else f"https://{text}", ("https", "http"))
    if "?" in text or parts.query:
        raise ValueError("must not hold a query")


CLIENT_REDIRECT_FIELD = "clientRedirectUrl"
_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


def require_client_redirect(url: str, hosts: Sequence[str] = ()) -> None:
    """Raise INVALID_REQUEST unless `url` is https or local http, and of an allowed host if any are configured."""
    try:
        parts = require_url(url, ("https", "http"))
    except ValueError as error:
        raise _redirect_error(str(error)) from error
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    if parts.scheme != "https" and host not in _LOCAL_HOSTS:
        raise _redirect_error("must begin with https://, or http:// on localhost")
    if hosts and host not in {allowed.lower() for allowed in hosts}:
        raise _redirect_error("names a host that this service does not redirect to; its operator keeps the list")


def add_outcome(url: str, connection_id: str, status: str) -> str:
    """Return the client's redirect URL with `connectionId` and `status` set."""
    parts = urlsplit(url)
    own_parameters = {"connectionId": connection_id, "status": status}
    parameters = [
        (name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in own_parameters
    ]
    return urlunsplit(parts._replace(query=urlencode([*parameters, *own_parameters.items()])))


def _redirect_error(problem: str) -> ServiceError:
    field = CLIENT_REDIRECT_FIELD
    return ServiceError(ErrorCode.INVALID_REQUEST, f"{field} {problem}.", field=field, reason="not_allowed")
