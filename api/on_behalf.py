"""X-On-Behalf-Of: the user to act for."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from api.auth import Caller
from retrieval import principals
from retrieval.errors import ErrorCode, ServiceError

ON_BEHALF_HEADER = "X-On-Behalf-Of"
_HEADER_NAME = ON_BEHALF_HEADER.lower().encode()


@dataclass(frozen=True, slots=True)
class ActingUser:
    """User to act for, None for the application, with the groups of their token."""

    user: str | None
    groups: tuple[str, ...] = ()


def choose_principal(headers: list[tuple[bytes, bytes]], caller: Caller, invalid: ErrorCode) -> ActingUser:
    """Return the user to act for; raise `invalid` for a malformed header, FORBIDDEN for a missing or disallowed
    user."""
    # Order: the header, the key's principal, the person with the role `viewer`.
    person = None if caller.signed_in is None else caller.signed_in.person
    groups = () if person is None or caller.principal is None else person.groups
    values = [value for name, value in headers if name == _HEADER_NAME]
    if not values:
        if caller.principal is None and caller.principal_required:
            message = f"This API key answers on behalf of a user only: send {ON_BEHALF_HEADER}."
            raise ServiceError(ErrorCode.FORBIDDEN, message, field=ON_BEHALF_HEADER, reason="principal_required")
        return ActingUser(caller.principal, groups)
    if len(values) > 1:
        raise ServiceError(invalid, f"{ON_BEHALF_HEADER} is sent once.", field=ON_BEHALF_HEADER, reason="sent_twice")
    try:
        name = unquote_to_bytes(values[0]).decode()
    except UnicodeDecodeError as error:
        message = f"{ON_BEHALF_HEADER} holds a user's name in UTF-8, percent-encoded or not."
        raise ServiceError(invalid, message, field=ON_BEHALF_HEADER, reason="not_utf8") from error
    principal = principals.normalize_user_name(name, invalid, ON_BEHALF_HEADER)
    if person is not None:
        if principal == person.principal:
            return ActingUser(principal, person.groups)
        if not caller.is_admin:
            message = "Your role lets you ask for yourself only: leave X-On-Behalf-Of out."
            raise ServiceError(ErrorCode.FORBIDDEN, message, reason="other_principal")
    elif caller.principal not in {None, principal}:
        raise ServiceError(ErrorCode.FORBIDDEN, "This API key acts as another user.", reason="other_principal")
    return ActingUser(principal)


def needs_principal(headers: list[tuple[bytes, bytes]], caller: Caller) -> bool:
    """Return whether a request is made, or must be made, on behalf of a user."""
    return caller.principal is not None or caller.principal_required or any(name == _HEADER_NAME for name, _ in headers)


def refused_operation_error(caller: Caller) -> ServiceError:
    """Return the refusal of an operation that does more than read."""
    message = f"Requests on behalf of a user only read: leave {ON_BEHALF_HEADER} out, or use a key without a principal."
    if caller.signed_in is not None:
        message = "Requests on behalf of a user only read: this needs the role editor or admin."
        message += f" Leave {ON_BEHALF_HEADER} out." if caller.principal is None else ""
    return ServiceError(ErrorCode.FORBIDDEN, message, reason="on_behalf")
