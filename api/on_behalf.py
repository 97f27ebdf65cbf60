"""The header X-On-Behalf-Of: for which user a request is made, and what a key says of that (D69)."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from api.auth import Caller
from retrieval import principals
from retrieval.errors import ErrorCode, ServiceError

HEADER = "X-On-Behalf-Of"
_NAME = HEADER.lower().encode()


def principal_of(headers: list[tuple[bytes, bytes]], caller: Caller, invalid: ErrorCode) -> str | None:
    """The normal name of the user to act for, None for the application itself.

    `invalid` for a header that names nobody; FORBIDDEN without one where the key needs it, and for another user than
    the one that the key acts as.
    """
    sent = [value for name, value in headers if name == _NAME]
    if not sent:
        if caller.principal is None and caller.principal_required:
            message = f"This API key answers on behalf of a user only: send {HEADER}."
            raise ServiceError(ErrorCode.FORBIDDEN, message, field=HEADER, reason="principal_required")
        return caller.principal
    if len(sent) > 1:
        raise ServiceError(invalid, f"{HEADER} is sent once.", field=HEADER, reason="sent_twice")
    try:
        name = unquote_to_bytes(sent[0]).decode()
    except UnicodeDecodeError as error:
        message = f"{HEADER} holds a user's name in UTF-8, percent-encoded or not."
        raise ServiceError(invalid, message, field=HEADER, reason="not_utf8") from error
    principal = principals.checked(name, invalid, HEADER)
    if caller.principal not in {None, principal}:
        raise ServiceError(ErrorCode.FORBIDDEN, "This API key acts as another user.", reason="other_principal")
    return principal


def refused() -> ServiceError:
    """Of an operation that looks beyond what one user may see."""
    message = f"This is not answered on behalf of a user: leave {HEADER} out, or use a key without a principal."
    return ServiceError(ErrorCode.FORBIDDEN, message, reason="on_behalf")
