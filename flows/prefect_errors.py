"""Errors of Prefect's client, and names of states and pauses that this service sets."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import httpx
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

AWAY: Final = (httpx.HTTPError, ObjectNotFound, OSError)
"""Errors of a server that is unreachable or does not know a deployment yet."""

SILENT: Final = (httpx.HTTPError,)
"""Errors of a flow run whose Prefect server does not answer."""

INTERRUPTED: Final = "Interrupted"
"""State name of a run whose worker was stopped."""

GONE: Final = "Away"
"""State name of a run that lost the database or Prefect."""

REFUSED: Final = "Refused"
"""State name of a run that the worker does not execute."""

SUPERSEDED: Final = "Superseded"
"""State name of a run whose batch another flow run holds."""

WITH_FAILURES: Final = "CompletedWithFailures"
"""State name of a flow run or task run some of whose documents failed."""

WAITING: Final = "Waiting"
"""State name of a task run that ended since its documents wait for a vendor or for disk space."""

PAUSE_KEY: Final = "retrieval-"
"""Prefix of the keys of pauses that this service sets and resumes; other pauses are a person's."""


def login_hint(error: PrefectHTTPStatusError) -> str | None:
    """Return advice for a 401 or 403; None for other statuses."""
    if error.response.status_code not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return None
    server = error.request.url.copy_with(path="/api", query=None)
    return (
        f"Prefect at {server} refuses us ({error.response.status_code}): set PREFECT_API_AUTH_STRING or "
        "PREFECT_API_KEY to what this server asks for, with the right to make work pools and deployments."
    )


def failure_reason(error: BaseException) -> str:
    """Return the login advice or the error's type name."""
    hint = login_hint(error) if isinstance(error, PrefectHTTPStatusError) else None
    return hint or type(error).__name__


def affects_all_calls(error: Exception) -> bool:
    """Report whether every other call to Prefect would fail too: no connection or no login."""
    # A refusal or a late response concerns one request only.
    if isinstance(error, PrefectHTTPStatusError):
        return login_hint(error) is not None
    late = isinstance(error, httpx.TimeoutException | TimeoutError)
    return isinstance(error, httpx.TransportError | OSError) and not late
