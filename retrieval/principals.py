"""Access control lists and viewers: users and groups by name.

A document has an `Access`; a trigger stores it also as `allowed` and `denied`. A `Viewer` is a user with all the groups
that contain it. Denial wins.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

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


NAMES = 1_000
"""Names that one document may have, all four lists together."""
EVERYONE = "*"
"""The principal of all users, which the list of a public document names."""
OPEN = "@"
"""What a document without a list is listed with: everyone with a key sees it."""


def user_principal(name: str) -> str:
    """A user's principal, of the name as it is compared."""
    return f"u:{name}"


def group_principal(name: str) -> str:
    """A group's principal, of its id."""
    return f"g:{name}"


@dataclass(frozen=True, slots=True)
class Access:
    """Access control list of a document. `public` allows everyone not denied; an empty list allows no user."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    denied_users: tuple[str, ...] = ()
    denied_groups: tuple[str, ...] = ()
    public: bool = False

    @classmethod
    def of(
        cls,
        users: Sequence[str] = (),
        groups: Sequence[str] = (),
        denied_users: Sequence[str] = (),
        denied_groups: Sequence[str] = (),
        *,
        public: bool = False,
        code: ErrorCode = ErrorCode.INVALID_REQUEST,
        where: str = "access",
    ) -> Access:
        """Parse a list as it was sent; ServiceError `code` names the part that is wrong. `where`: the object's path."""

        def names(sent: Sequence[str], key: str) -> tuple[str, ...]:
            check = group_name if key.endswith("groups") else user_name
            return tuple(dict.fromkeys(check(name, code, f"{where}.{key}") for name in sent))

        if sum(map(len, (users, groups, denied_users, denied_groups))) > NAMES:
            message = f"{where} names more than {NAMES:,} users and groups."
            raise ServiceError(code, message, field=where, reason="out_of_bounds")
        return cls(
            names(users, "users"),
            names(groups, "groups"),
            names(denied_users, "denied.users"),
            names(denied_groups, "denied.groups"),
            public,
        )

    def dump(self) -> dict[str, Any]:
        """Serialize as `documents.access` stores it, in the contract's words."""
        return {
            "users": list(self.users),
            "groups": list(self.groups),
            "denied": {"users": list(self.denied_users), "groups": list(self.denied_groups)},
            "public": self.public,
        }

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> Access:
        """Load what `dump` made."""
        denied = stored.get("denied") or {}
        return cls(
            tuple(stored.get("users") or ()),
            tuple(stored.get("groups") or ()),
            tuple(denied.get("users") or ()),
            tuple(denied.get("groups") or ()),
            bool(stored.get("public")),
        )


def stored_access(access: Access | None) -> str | None:
    """The value of `documents.access`; None for a document that is open."""
    return None if access is None else json.dumps(access.dump())


@dataclass(frozen=True)
class Viewer:
    """A user of one scope with all groups that hold it there, directly or by others, as principals.

    `partition`: the number of the scope; None for one that has no documents.
    """

    user: str
    principals: tuple[str, ...]
    partition: int | None = None

    @cached_property
    def names(self) -> str:
        """Names in the lists of documents that the user may see, as a JSON object."""
        return json.dumps(dict.fromkeys((*self.principals, EVERYONE, OPEN), 1))

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """Settings that the policies of the database read; without a partition they show nothing."""
        return {"app.partition": "" if self.partition is None else str(self.partition), "app.names": self.names}

    def sees(self, access: Access | None) -> bool:
        """The rule on a document in memory; None is an open one."""
        if access is None:
            return True
        mine = set(self.principals)
        denied = {*map(user_principal, access.denied_users), *map(group_principal, access.denied_groups)}
        allowed = {*map(user_principal, access.users), *map(group_principal, access.groups)}
        return not mine & denied and (access.public or bool(mine & allowed))
