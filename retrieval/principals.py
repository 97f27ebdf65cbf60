"""Access lists and viewers: users and groups by name. Denial wins.

A trigger copies the `Access` of a document to `allowed` and `denied`. A `Viewer` is a user with all its groups.
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

# UTF-8 length of a name.
MAX_NAME_BYTES = 256
_EMAIL_PATTERN = re.compile(r"[^@\s]+@[^@\s]+")


def normalize_user_name(name: str, code: ErrorCode, path: str) -> str:
    """Normalize a user name for comparison. Raises ServiceError `code` for unusable names."""
    _require_storable(name, code, path)
    if not _EMAIL_PATTERN.fullmatch(name):
        return _require_normalized(name, code, path)
    composed = unicodedata.normalize("NFC", name)
    if name not in {composed, unicodedata.normalize("NFD", name)}:
        raise _normalization_error(code, path)
    return _require_normalized(
        unicodedata.normalize("NFC", _require_normalized(composed, code, path).lower()), code, path
    )


def require_group_name(name: str, code: ErrorCode, path: str) -> str:
    """Return a valid group id unchanged. Raises ServiceError `code`."""
    _require_storable(name, code, path)
    # The id is part of `/v1/groups/{id}`, and programs resolve dots in paths.
    if name in {".", ".."}:
        message = f"{path} holds a group's name of one or two dots, which no address can hold. Use another name."
        raise ServiceError(code, message, field=path, reason="dots")
    return _require_normalized(name, code, path)


def _require_storable(name: str, code: ErrorCode, path: str) -> None:
    storable = "\0" not in name and not any("\ud800" <= character <= "\udfff" for character in name)
    if not storable or not name.strip():
        raise ServiceError(code, f"{path} holds a name that is empty or cannot be stored.", field=path)
    if len(name.encode()) > MAX_NAME_BYTES:
        message = f"{path} holds a name of more than {MAX_NAME_BYTES} bytes."
        raise ServiceError(code, message, field=path, reason="too_long")


def _require_normalized(name: str, code: ErrorCode, path: str) -> str:
    if unicodedata.normalize("NFKC", name) != name:
        raise _normalization_error(code, path)
    return name


def _normalization_error(code: ErrorCode, path: str) -> ServiceError:
    message = (
        f"{path} holds a name with characters that Unicode NFKC would change, such as full-width or circled letters."
        " Write it with the plain characters."
    )
    return ServiceError(code, message, field=path, reason="not_normalized")


# All four lists of a document together.
MAX_ACCESS_NAMES = 1_000
# Principal of all users, for public documents.
EVERYONE_PRINCIPAL = "*"
# Principal of documents without a list: visible to every API key.
OPEN_PRINCIPAL = "@"


def user_principal(name: str) -> str:
    """Return the principal of a normalized user name."""
    return f"u:{name}"


def group_principal(name: str) -> str:
    """Return the principal of a group id."""
    return f"g:{name}"


@dataclass(frozen=True, slots=True)
class Access:
    """Access list of a document. `public` allows everyone not denied; an empty list allows no user."""

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
        path: str = "access",
    ) -> Access:
        """Parse a list of a request. Raises ServiceError `code` with the path of the error below `path`."""

        def names(sent: Sequence[str], key: str) -> tuple[str, ...]:
            check = require_group_name if key.endswith("groups") else normalize_user_name
            return tuple(dict.fromkeys(check(name, code, f"{path}.{key}") for name in sent))

        if sum(map(len, (users, groups, denied_users, denied_groups))) > MAX_ACCESS_NAMES:
            message = f"{path} names more than {MAX_ACCESS_NAMES:,} users and groups."
            raise ServiceError(code, message, field=path, reason="out_of_bounds")
        return cls(
            names(users, "users"),
            names(groups, "groups"),
            names(denied_users, "denied.users"),
            names(denied_groups, "denied.groups"),
            public,
        )

    def dump(self) -> dict[str, Any]:
        """Serialize for `documents.access`, with contract names."""
        return {
            "users": list(self.users),
            "groups": list(self.groups),
            "denied": {"users": list(self.denied_users), "groups": list(self.denied_groups)},
            "public": self.public,
        }

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> Access:
        """Load the output of `dump`."""
        denied = stored.get("denied") or {}
        return cls(
            tuple(stored.get("users") or ()),
            tuple(stored.get("groups") or ()),
            tuple(denied.get("users") or ()),
            tuple(denied.get("groups") or ()),
            bool(stored.get("public")),
        )


def stored_access(access: Access | None) -> str | None:
    """Return the value of `documents.access`; None for open documents."""
    return None if access is None else json.dumps(access.dump())


@dataclass(frozen=True)
class Viewer:
    """User of one scope with its direct and nested groups, as principals. `partition` None: scope without documents."""

    user: str
    principals: tuple[str, ...]
    partition: int | None = None

    @cached_property
    def names(self) -> str:
        """Return the matching names of access lists as a JSON object."""
        return json.dumps(dict.fromkeys((*self.principals, EVERYONE_PRINCIPAL, OPEN_PRINCIPAL), 1))

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """Return the settings for database policies; without a partition nothing is visible."""
        return {"app.partition": "" if self.partition is None else str(self.partition), "app.names": self.names}

    def sees(self, access: Access | None) -> bool:
        """Apply the access rule in memory; None is an open document."""
        if access is None:
            return True
        principals = set(self.principals)
        denied = {*map(user_principal, access.denied_users), *map(group_principal, access.denied_groups)}
        allowed = {*map(user_principal, access.users), *map(group_principal, access.groups)}
        return not principals & denied and (access.public or bool(principals & allowed))
