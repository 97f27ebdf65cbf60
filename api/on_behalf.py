"""The header X-On-Behalf-Of: the user that a request acts for, checked against the key or the person's role."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from api.auth import Caller
from retrieval import principals
from retrieval.errors import ErrorCode, ServiceError

HEADER = "X-On-Behalf-Of"
_NAME = HEADER.lower().encode()


@dataclass(frozen=True, slots=True)
class Acting:
    """The user that a request acts for, None for the application itself, and the groups from the user's token."""

    user: str | None
    groups: tuple[str, ...] = ()


def principal_of(headers: list[tuple[bytes, bytes]], caller: Caller, invalid: ErrorCode) -> Acting:
    """Return the user to act for: the header's, else the key's principal, else the person whose role is `viewer`.

    Raises `invalid` for a header without a valid name. Raises FORBIDDEN without the header where the key needs it, for
    a user other than the key's principal, and for a person who is not admin and names another user.
    """
    person = None if caller.signed_in is None else caller.signed_in.person
    groups = () if person is None or caller.principal is None else person.groups
    values = [value for name, value in headers if name == _NAME]
    if not values:
        if caller.principal is None and caller.principal_required:
            message = f"This API key answers on behalf of a user only: send {HEADER}."
            raise ServiceError(ErrorCode.FORBIDDEN, message, field=HEADER, reason="principal_required")
        return Acting(caller.principal, groups)
    if len(values) > 1:
        raise ServiceError(invalid, f"{HEADER} is sent once.", field=HEADER, reason="sent_twice")
    try:
        name = unquote_to_bytes(values[0]).decode()
    except UnicodeDecodeError as error:
        message = f"{HEADER} holds a user's name in UTF-8, percent-encoded or not."
        raise ServiceError(invalid, message, field=HEADER, reason="not_utf8") from error
    principal = principals.user_name(name, invalid, HEADER)
    if person is not None:
        if principal == person.principal:
            return Acting(principal, person.groups)
        if not caller.is_admin:
            message = "Your role lets you ask for yourself only: leave X-On-Behalf-Of out."
            raise ServiceError(ErrorCode.FORBIDDEN, message, reason="other_principal")
    elif caller.principal not in {None, principal}:
        raise ServiceError(ErrorCode.FORBIDDEN, "This API key acts as another user.", reason="other_principal")
    return Acting(principal)


def is_asked(headers: list[tuple[bytes, bytes]], caller: Caller) -> bool:
    """Tell whether a request is made on behalf of a user, or has to be."""
    return caller.principal is not None or caller.principal_required or any(name == _NAME for name, _ in headers)


def refused_operation(caller: Caller) -> ServiceError:
    """The refusal of an operation that does more than read what one user may see."""
    message = f"Requests on behalf of a user only read: leave {HEADER} out, or use a key without a principal."
    if caller.signed_in is not None:
        message = "Requests on behalf of a user only read: this needs the role editor or admin."
        message += f" Leave {HEADER} out." if caller.principal is None else ""
    return ServiceError(ErrorCode.FORBIDDEN, message, reason="on_behalf")
