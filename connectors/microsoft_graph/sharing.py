"""Whom Microsoft shows a file: GET …/items/{id}/permissions (learn.microsoft.com/graph/api/driveitem-list-permissions),
which names what is inherited too.

A permission names whom it was granted to (`grantedToV2`, `grantedToIdentitiesV2`), or is a link of a scope: anonymous,
organization, users, existingAccess. Groups go by their address, else by `microsoft:` and their id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from connectors.http.paging import Cursors
from connectors.microsoft_graph.client import Graph
from connectors.microsoft_graph.items import Drive
from retrieval.errors import Retryable, Skippable
from retrieval.ports import SourceAccess, TokenSource

CLOSED: Final = "Microsoft does not tell the connected account who may see this file."
ORGANIZATION: Final = "microsoft:organization"
"""The group of a link that everybody of the organization may use."""


def access(graph: Graph, tokens: TokenSource, drive: Drive, item_id: str) -> SourceAccess:
    """Of one item. Skippable where the account may not ask."""
    users, groups, public = list[str](), list[str](), False
    told = _permissions(graph, tokens, f"{drive.at(item_id)}/permissions")
    for one in filter(_counts, told):
        link = one.get("link")
        scope = link.get("scope") if isinstance(link, Mapping) and not one.get("hasPassword") else None
        public = public or scope == "anonymous"
        groups += [ORGANIZATION] if scope == "organization" else []
        for identity in _identities(one):
            user, group = _name(identity.get("user"), ""), _name(identity.get("group"), "microsoft:")
            user = user or _name(identity.get("siteUser"), "")
            group = group or _name(identity.get("siteGroup"), "microsoft:site:")
            users += [user] if user else []
            groups += [group] if group and not user else []
    return SourceAccess(tuple(users), tuple(groups), public=public)


def _counts(one: Mapping[str, Any]) -> bool:
    """Not one that gives nothing or has ended. The first moment of all means that it does not end."""
    ends = one.get("expirationDateTime")
    try:
        end = datetime.fromisoformat(str(ends)) if ends else datetime.min.replace(tzinfo=UTC)
        has_ended = end.year > 1 and end <= datetime.now(UTC)
    except (ValueError, TypeError):
        return False
    return one.get("roles") != [] and not has_ended


def _permissions(graph: Graph, tokens: TokenSource, path: str) -> Iterator[Mapping[str, Any]]:
    cursors = Cursors(f"{graph.title}'s listing of permissions")
    while True:
        answer = graph.get(tokens, path)
        if answer.status != 200:
            raise Skippable(CLOSED)
        found = answer.body.get("value")
        if not isinstance(found, list):
            raise Retryable(f"{graph.title}'s listing broke off: its answer holds no permissions.")
        yield from (one for one in found if isinstance(one, dict))
        link = answer.body.get("@odata.nextLink")
        if not link:
            return
        path = graph.path(link)
        cursors.follow(path, brought=bool(found))


def _identities(one: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    held = one.get("grantedToIdentitiesV2") or one.get("grantedToIdentities") or ()
    single = one.get("grantedToV2") or one.get("grantedTo")
    yield from (each for each in (single, *held) if isinstance(each, Mapping))


def _name(identity: Any, prefix: str) -> str:
    """An address; for groups without one `prefix` and the id. A person without an address is nobody here."""
    if not isinstance(identity, Mapping):
        return ""
    address = identity.get("email") or identity.get("userPrincipalName")
    if isinstance(address, str) and address:
        return address
    its = identity.get("id")
    return f"{prefix}{its}" if prefix and isinstance(its, str) else ""
