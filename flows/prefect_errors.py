"""Errors of Prefect's client, and names of states and pauses set by this service."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import httpx
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

# Prefect is unreachable or a deployment is not registered yet.
SERVER_ERRORS: Final = (httpx.HTTPError, ObjectNotFound, OSError)

NO_ANSWER_ERRORS: Final = (httpx.HTTPError,)

# Names of states in Prefect. Interrupted: the worker was stopped.
INTERRUPTED_STATE: Final = "Interrupted"

# The run lost the database or Prefect.
AWAY_STATE: Final = "Away"

# The worker does not execute the run.
REFUSED_STATE: Final = "Refused"

# Another flow run holds the batch.
SUPERSEDED_STATE: Final = "Superseded"

# Some documents of the flow run or task run failed.
PARTIAL_STATE: Final = "CompletedWithFailures"

# The task run ended early: its documents wait for a vendor or for disk space.
WAITING_STATE: Final = "Waiting"

# The service resumes pauses with this prefix only; other pauses are a person's.
PAUSE_KEY_PREFIX: Final = "retrieval-"


def login_hint(error: PrefectHTTPStatusError) -> str | None:
    """Return advice for a 401 or 403; None for other statuses."""
    if error.response.status_code not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return None
    server = error.request.url.copy_with(path="/api", query=None)
    return (
        f"Prefect at {server} refuses the login ({error.response.status_code}): set PREFECT_API_AUTH_STRING or "
        "PREFECT_API_KEY to a login with the right to create work pools and deployments."
    )


def failure_reason(error: BaseException) -> str:
    """Return the login advice or the error's type name."""
    hint = login_hint(error) if isinstance(error, PrefectHTTPStatusError) else None
    return hint or type(error).__name__


def affects_all_calls(error: Exception) -> bool:
    """Check if every other call to Prefect would fail too: no connection or no login."""
    # A refusal or a late response concerns one request only.
    if isinstance(error, PrefectHTTPStatusError):
        return login_hint(error) is not None
    is_timeout = isinstance(error, httpx.TimeoutException | TimeoutError)
    return isinstance(error, httpx.TransportError | OSError) and not is_timeout
