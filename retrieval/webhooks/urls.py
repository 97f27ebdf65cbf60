"""Which addresses an endpoint may have."""

from __future__ import annotations

from retrieval.errors import ErrorCode, Retryable, ServiceError
from retrieval.network import service_urls
from retrieval.network.fetch_guard import Blocked, Guard, host_and_port


def require(guard: Guard, url: str) -> None:
    """INVALID_REQUEST unless it is https to an address that the guard lets through, or http to an allowed range.

    Looks its host up, so it blocks. A name that cannot be looked up now is let in: it is checked when dialled.
    """
    try:
        service_urls.require(url, ("https", "http"))
    except ValueError as error:
        raise _refused(f"url {error}.") from error
    try:
        check(guard, url)
    except Blocked as error:
        raise _refused(str(error)) from error
    except Retryable:
        return


def check(guard: Guard, url: str) -> None:
    """Blocked, with the reason, if it may not be dialled; Retryable if its host cannot be looked up now."""
    guard.check_url(url)
    host, port = host_and_port(url)
    if url.lower().startswith("http://") and not guard.allows_plainly(host, port):
        raise Blocked("The address must begin with https://; http:// is for ranges that RETRIEVAL_FETCH_ALLOW names.")


def _refused(message: str) -> ServiceError:
    return ServiceError(ErrorCode.INVALID_REQUEST, message, field="url", reason="not_allowed")
