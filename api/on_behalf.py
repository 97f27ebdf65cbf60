"""The header X-On-Behalf-Of: for which user a request is made, and what a key says of that."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from api.auth import Caller
from api.oidc.roles import AS_ANOTHER
from retrieval import principal_names
from retrieval.errors import ErrorCode, ServiceError

HEADER = "X-On-Behalf-Of"
_NAME = HEADER.lower().encode()


@dataclass(frozen=True, slots=True)
class Acting:
    """For whom a request is made: the name of the user, None for the application itself. `groups`: those that
    the user's own token lists. `asked`: whether the header said so."""

    user: str | None
    groups: tuple[str, ...] = ()
    asked: bool = False


def principal_of(headers: list[tuple[bytes, bytes]], caller: Caller, invalid: ErrorCode) -> Acting:
    """The user to act for.

    `invalid` for a header that names nobody; FORBIDDEN without one where the key needs it, and for another user than
    the one that the key acts as, unless that is a person whose role allows it.
    """
    own = caller.signed_in.person.groups if caller.signed_in is not None else ()
    sent = [value for name, value in headers if name == _NAME]
    if not sent:
        if caller.principal is None and caller.principal_required:
            message = f"This API key answers on behalf of a user only: send {HEADER}."
            raise ServiceError(ErrorCode.FORBIDDEN, message, field=HEADER, reason="principal_required")
        return Acting(caller.principal, own)
    if len(sent) > 1:
        raise ServiceError(invalid, f"{HEADER} is sent once.", field=HEADER, reason="sent_twice")
    try:
        name = unquote_to_bytes(sent[0]).decode()
    except UnicodeDecodeError as error:
        message = f"{HEADER} holds a user's name in UTF-8, percent-encoded or not."
        raise ServiceError(invalid, message, field=HEADER, reason="not_utf8") from error
    principal = principal_names.user_name(name, invalid, HEADER)
    if caller.principal in {None, principal}:
        return Acting(principal, own, asked=True)
    if caller.signed_in is None:
        raise ServiceError(ErrorCode.FORBIDDEN, "This API key acts as another user.", reason="other_principal")
    if caller.signed_in.role not in AS_ANOTHER:
        message = "Your role lets you ask for yourself only: leave X-On-Behalf-Of out."
        raise ServiceError(ErrorCode.FORBIDDEN, message, reason="other_principal")
    return Acting(principal, asked=True)


def refused(*, signed_in: bool = False) -> ServiceError:
    """Of an operation that looks beyond what one user may see. `signed_in`: to a person with a token."""
    message = f"This is not answered on behalf of a user: leave {HEADER} out, or use a key without a principal."
    if signed_in:
        message = "This looks beyond what one person may see: it needs the role editor or admin, for yourself."
    return ServiceError(ErrorCode.FORBIDDEN, message, reason="on_behalf")
