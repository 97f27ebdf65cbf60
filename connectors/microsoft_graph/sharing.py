"""Access lists of Microsoft Graph's drive items."""

# GET …/items/{id}/permissions includes inherited ones (learn.microsoft.com/graph/api/driveitem-list-permissions).
# A permission has grantees (`grantedToV2`, `grantedToIdentitiesV2`), or is a link with a scope: anonymous,
# organization, users, existingAccess. A group is named by address, else by `microsoft:` and id. Ids of site groups are
# unique per site: the drive's id is part of the name. A `siteUser` may be a group: the claim in `loginName` decides.

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from connectors.http.responses import Cursors
from connectors.microsoft_graph.client import Graph, refusal
from connectors.microsoft_graph.items import Drive
from retrieval.errors import Skippable
from retrieval.ports import SourceAccess, TokenSource

ACCESS_CLOSED_MESSAGE: Final = "Microsoft does not show the connected account who may see this file."
ACCESS_UNREADABLE_MESSAGE: Final = "Microsoft's answer does not contain who may see this file."
# Group of a link for the whole organization.
ORGANIZATION_GROUP: Final = "microsoft:organization"
_SHAREPOINT_LEVELS: Final = (
    *("full control", "design", "edit", "contribute", "read", "view only", "approve", "manage hierarchy"),
    *("restricted read", "restricted view", "owner", "member", "visitor"),
)
# Roles with read access, SharePoint's levels included; `sp.limited access` and unknown roles have none.
_READER_ROLES: Final = frozenset({"read", "write", "owner", "review", *(f"sp.{level}" for level in _SHAREPOINT_LEVELS)})
# Types of links with read access; `createOnly` permits only uploads.
_READER_LINKS: Final = frozenset({"view", "edit", "embed", "review", "blocksdownload"})
# Prefixes of claims, before a person's sign-in name and a group's id.
_PERSON_PREFIX: Final = "i:0#.f|membership|"
_GROUP_PREFIXES: Final = ("c:0o.c|federateddirectoryclaimprovider|", "c:0t.c|tenant|")
# Suffix of a claim of a group's owners.
_OWNERS_SUFFIX: Final = "_o"


def read_access(graph: Graph, tokens: TokenSource, drive: Drive, item_id: str) -> SourceAccess:
    """Return the access list of an item. Skippable for an unreadable list."""
    users, groups, public = list[str](), list[str](), False
    permissions = _iter_permissions(graph, tokens, f"{drive.item_path(item_id)}/permissions")
    for permission in filter(_grants_reading, permissions):
        link = permission.get("link")
        scope = link.get("scope") if isinstance(link, Mapping) and not permission.get("hasPassword") else None
        public = public or scope == "anonymous"
        groups += [ORGANIZATION_GROUP] if scope == "organization" else []
        for identity in _iter_identities(permission):
            user = _user(identity)
            group = "" if user else _group(identity) or _site_group(identity, drive)
            users += [user] if user else []
            groups += [group] if group else []
    return SourceAccess(tuple(users), tuple(groups), public=public)


def _grants_reading(permission: Mapping[str, Any]) -> bool:
    expiration, roles, link = (permission.get(name) for name in ("expirationDateTime", "roles", "link"))
    try:
        end = datetime.fromisoformat(str(expiration)) if expiration else datetime.min.replace(tzinfo=UTC)
        # Year 1 means no expiration.
        has_ended = end.year > 1 and end <= datetime.now(UTC)
    except (ValueError, TypeError):
        return False
    is_reader = isinstance(roles, list) and any(str(role).lower() in _READER_ROLES for role in roles)
    is_readable = link is None or (isinstance(link, Mapping) and str(link.get("type")).lower() in _READER_LINKS)
    return is_reader and is_readable and not has_ended


def _iter_permissions(graph: Graph, tokens: TokenSource, path: str) -> Iterator[Mapping[str, Any]]:
    cursors = Cursors(f"{graph.title}'s listing of permissions")
    while True:
        answer = graph.get(tokens, path)
        if answer.status != 200:
            raise refusal(answer.status, ACCESS_CLOSED_MESSAGE)
        values, link = answer.body.get("value"), answer.body.get("@odata.nextLink")
        if not isinstance(values, list) or not isinstance(link, str | None):
            raise Skippable(ACCESS_UNREADABLE_MESSAGE)
        yield from (permission for permission in values if isinstance(permission, dict))
        if not link:
            return
        path = graph.path(link)
        cursors.follow(path, brought=bool(values))


def _iter_identities(permission: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    identities = permission.get("grantedToIdentitiesV2") or permission.get("grantedToIdentities")
    single = permission.get("grantedToV2") or permission.get("grantedTo")
    several = identities if isinstance(identities, list) else []
    yield from (identity for identity in (single, *several) if isinstance(identity, Mapping))


def _user(identity: Mapping[str, Any]) -> str:
    """Return the address of a person; "" for a group, or without an address."""
    claim = _claim(identity)
    if address := _address(identity.get("user")):
        return address
    if claim.startswith("c:") or identity.get("group") is not None:
        return ""
    name = claim.removeprefix(_PERSON_PREFIX)
    sign_in_name = name if claim != name and "@" in name and "#" not in name else ""
    return _address(identity.get("siteUser")) or sign_in_name


def _group(identity: Mapping[str, Any]) -> str:
    """Return the address or id of a group, another name for only the owners; "" for no group, or everybody."""
    group, claim = identity.get("group"), _claim(identity)
    claimed_id = next((claim.removeprefix(prefix) for prefix in _GROUP_PREFIXES if claim.startswith(prefix)), "")
    if claim.startswith("c:") and not claimed_id:
        return ""
    if claimed_id.endswith(_OWNERS_SUFFIX):
        return f"microsoft:owners:{claimed_id.removesuffix(_OWNERS_SUFFIX)}"
    group_id = _text(group, "id") or claimed_id
    address = _address(group) or (_address(identity.get("siteUser")) if group_id else "")
    return address.lower() or (f"microsoft:{group_id.lower()}" if group_id else "")


def _site_group(identity: Mapping[str, Any], drive: Drive) -> str:
    # Without the drive's id the name would not be unique: ids of groups repeat in other sites.
    group_id = _text(identity.get("siteGroup"), "id")
    return f"microsoft:site:{drive.id}:{group_id}" if group_id and drive.id else ""


def _claim(identity: Mapping[str, Any]) -> str:
    return _text(identity.get("siteUser"), "loginName").lower()


def _address(person: Any) -> str:
    return _text(person, "email") or _text(person, "userPrincipalName")


def _text(holder: Any, name: str) -> str:
    value = holder.get(name) if isinstance(holder, Mapping) else None
    return value if isinstance(value, str) else ""
