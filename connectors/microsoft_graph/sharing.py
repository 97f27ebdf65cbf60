"""Permissions of a file: GET …/items/{id}/permissions (learn.microsoft.com/graph/api/driveitem-list-permissions),
inherited ones included.

A permission names its grantees (`grantedToV2`, `grantedToIdentitiesV2`), or is a link of a scope: anonymous,
organization, users, existingAccess. Groups have their address as name, else `microsoft:` and their id; a site's own
groups have numbers that begin anew in each site, and are prefixed by the drive, too. A `siteUser` may be a group: its
`loginName` is a claim that shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from connectors.http.responses import Cursors
from connectors.microsoft_graph.client import Graph, refusal
from connectors.microsoft_graph.items import Drive
from retrieval.errors import Skippable
from retrieval.ports import SourceAccess, TokenSource

CLOSED: Final = "Microsoft does not tell the connected account who may see this file."
UNREADABLE: Final = "Microsoft's answer does not tell who may see this file."
ORGANIZATION: Final = "microsoft:organization"
"""The group of a link that everybody of the organization may use."""
_LEVELS: Final = (
    *("full control", "design", "edit", "contribute", "read", "view only", "approve", "manage hierarchy"),
    *("restricted read", "restricted view", "owner", "member", "visitor"),
)
_SEES: Final = frozenset({"read", "write", "owner", "review", *(f"sp.{level}" for level in _LEVELS)})
"""Roles that show a file, SharePoint's own levels among them; `sp.limited access` does not, nor does one that is not
known here."""
_OPENS: Final = frozenset({"view", "edit", "embed", "review", "blocksdownload"})
"""Kinds of links that show a file; `createOnly` lets people put files into a folder."""
_PERSON: Final = "i:0#.f|membership|"
_GROUPS: Final = ("c:0o.c|federateddirectoryclaimprovider|", "c:0t.c|tenant|")
"""Beginnings of claims, before a person's sign-in name and a group's id."""
_OWNERS: Final = "_o"
"""The end of a claim that is held by a group's owners alone."""


def read_access(graph: Graph, tokens: TokenSource, drive: Drive, item_id: str) -> SourceAccess:
    """Access list of an item. Skippable where the account may not read it, or the answer has none."""
    users, groups, public = list[str](), list[str](), False
    permissions = _permissions(graph, tokens, f"{drive.at(item_id)}/permissions")
    for permission in filter(_counts, permissions):
        link = permission.get("link")
        scope = link.get("scope") if isinstance(link, Mapping) and not permission.get("hasPassword") else None
        public = public or scope == "anonymous"
        groups += [ORGANIZATION] if scope == "organization" else []
        for identity in _identities(permission):
            user = _user(identity)
            group = "" if user else _group(identity) or _site_group(identity, drive)
            users += [user] if user else []
            groups += [group] if group else []
    return SourceAccess(tuple(users), tuple(groups), public=public)


def _counts(one: Mapping[str, Any]) -> bool:
    """Not one that shows nothing or has ended. The first moment of all means that it does not end."""
    ends, roles, link = one.get("expirationDateTime"), one.get("roles"), one.get("link")
    try:
        end = datetime.fromisoformat(str(ends)) if ends else datetime.min.replace(tzinfo=UTC)
        has_ended = end.year > 1 and end <= datetime.now(UTC)
    except (ValueError, TypeError):
        return False
    sees = isinstance(roles, list) and any(str(role).lower() in _SEES for role in roles)
    opens = link is None or (isinstance(link, Mapping) and str(link.get("type")).lower() in _OPENS)
    return sees and opens and not has_ended


def _permissions(graph: Graph, tokens: TokenSource, path: str) -> Iterator[Mapping[str, Any]]:
    cursors = Cursors(f"{graph.title}'s listing of permissions")
    while True:
        answer = graph.get(tokens, path)
        if answer.status != 200:
            raise refusal(answer.status, CLOSED)
        values, link = answer.body.get("value"), answer.body.get("@odata.nextLink")
        if not isinstance(values, list) or not isinstance(link, str | None):
            raise Skippable(UNREADABLE)
        yield from (permission for permission in values if isinstance(permission, dict))
        if not link:
            return
        path = graph.path(link)
        cursors.follow(path, brought=bool(values))


def _identities(one: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    identities = one.get("grantedToIdentitiesV2") or one.get("grantedToIdentities")
    single = one.get("grantedToV2") or one.get("grantedTo")
    several = identities if isinstance(identities, list) else []
    yield from (identity for identity in (single, *several) if isinstance(identity, Mapping))


def _user(identity: Mapping[str, Any]) -> str:
    """Address of a person; a person without an address is ignored. "" for a group."""
    claim = _claim(identity)
    if address := _address(identity.get("user")):
        return address
    if claim.startswith("c:") or identity.get("group") is not None:
        return ""
    name = claim.removeprefix(_PERSON)
    signs_in = name if claim != name and "@" in name and "#" not in name else ""
    return _address(identity.get("siteUser")) or signs_in


def _group(identity: Mapping[str, Any]) -> str:
    """By its address, else by its id; its owners alone by another name. "" for none, and for claims of everybody."""
    group, claim = identity.get("group"), _claim(identity)
    claimed = next((claim.removeprefix(prefix) for prefix in _GROUPS if claim.startswith(prefix)), "")
    if claim.startswith("c:") and not claimed:
        return ""
    if claimed.endswith(_OWNERS):
        return f"microsoft:owners:{claimed.removesuffix(_OWNERS)}"
    its = _text(group, "id") or claimed
    address = _address(group) or (_address(identity.get("siteUser")) if its else "")
    return address.lower() or (f"microsoft:{its.lower()}" if its else "")


def _site_group(identity: Mapping[str, Any], drive: Drive) -> str:
    """ "" where the drive is not known: another site has a group of the same number."""
    its = _text(identity.get("siteGroup"), "id")
    return f"microsoft:site:{drive.id}:{its}" if its and drive.id else ""


def _claim(identity: Mapping[str, Any]) -> str:
    return _text(identity.get("siteUser"), "loginName").lower()


def _address(one: Any) -> str:
    return _text(one, "email") or _text(one, "userPrincipalName")


def _text(holder: Any, name: str) -> str:
    value = holder.get(name) if isinstance(holder, Mapping) else None
    return value if isinstance(value, str) else ""
