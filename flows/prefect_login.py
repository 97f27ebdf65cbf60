"""The error message where Prefect refuses the login."""

from __future__ import annotations

from prefect.exceptions import PrefectHTTPStatusError


def sentence(error: PrefectHTTPStatusError) -> str | None:
    """Advice for a 401 or 403; None for other answers."""
    if error.response.status_code not in (401, 403):
        return None
    server = error.request.url.copy_with(path="/api", query=None)
    return (
        f"Prefect at {server} refuses us ({error.response.status_code}): set PREFECT_API_AUTH_STRING or "
        "PREFECT_API_KEY to what this server asks for, with the right to make work pools and deployments."
    )


def reason(error: BaseException) -> str:
    """Why Prefect or the database cannot be used, in short; a refusal in the sentence."""
    hint = sentence(error) if isinstance(error, PrefectHTTPStatusError) else None
    return hint or type(error).__name__
