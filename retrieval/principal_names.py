"""Names of users and groups: compared byte for byte, but e-mail addresses in lower case and NFC.

A name that Unicode NFKC would change looks like another name, or is the same name written otherwise: it is refused.
"""

from __future__ import annotations

import re
import unicodedata

from retrieval.errors import ErrorCode, ServiceError

BYTES = 256
"""Bytes that a name may take in UTF-8."""
_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")


def user_name(name: str, code: ErrorCode, where: str) -> str:
    """A user's name as it is compared; ServiceError `code` for one that cannot be used. `where`: the field's path."""
    _check(name, code, where)
    if not _ADDRESS.fullmatch(name):
        return _exact(name, code, where)
    composed = unicodedata.normalize("NFC", name)
    if name not in {composed, unicodedata.normalize("NFD", name)}:
        raise _ambiguous(code, where)
    return _exact(unicodedata.normalize("NFC", _exact(composed, code, where).lower()), code, where)


def group_name(name: str, code: ErrorCode, where: str) -> str:
    """A group's id, unchanged. It has an address (`/v1/groups/{id}`), in which programs resolve `.` and `..`."""
    _check(name, code, where)
    if name in {".", ".."}:
        message = f"{where} holds a group's name of one or two dots, which no address can hold. Use another name."
        raise ServiceError(code, message, field=where, reason="dots")
    return _exact(name, code, where)


def _check(name: str, code: ErrorCode, where: str) -> None:
    storable = "\0" not in name and not any("\ud800" <= character <= "\udfff" for character in name)
    if not storable or not name.strip():
        raise ServiceError(code, f"{where} holds a name that is empty or cannot be stored.", field=where)
    if len(name.encode()) > BYTES:
        message = f"{where} holds a name of more than {BYTES} bytes."
        raise ServiceError(code, message, field=where, reason="too_long")


def _exact(name: str, code: ErrorCode, where: str) -> str:
    if unicodedata.normalize("NFKC", name) != name:
        raise _ambiguous(code, where)
    return name


def _ambiguous(code: ErrorCode, where: str) -> ServiceError:
    message = (
        f"{where} holds a name with characters that Unicode NFKC would change, such as full-width or circled letters."
        " Write it with the plain characters."
    )
    return ServiceError(code, message, field=where, reason="not_normalized")
