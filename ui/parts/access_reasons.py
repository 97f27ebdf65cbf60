"""Why a user may, or may not, see documents, for an administrator who sees as that user."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from ui import session
from ui.client import Api, ApiError, Json
from ui.parts import see_as

MOST_GROUPS = 200
"""Groups that are looked into for one page."""


def explain(namespace: str, document_ids: Sequence[str]) -> dict[str, str]:
    """Return a sentence for each of the documents, by id; none where nobody is seen as another person."""
    api, user = session.person().api, see_as.name()
    if not user or not document_ids:
        return {}
    documents = _list(api, namespace, document_ids)
    archives = sorted({one["archive"]["id"] for one in documents if one["archive"]})
    names = {one["id"]: one["name"] for one in _list(api, namespace, archives)} if archives else {}
    reasons = _Reasons(api, namespace, _compared(user), names)
    return {document["id"]: reasons.explain(document) for document in documents}


def _list(api: Api, namespace: str, document_ids: Sequence[str]) -> list[Json]:
    body = {"namespaceId": namespace, "filterConfig": {"documentIds": list(document_ids)}}
    documents: list[Json] = api.post("/v1/documents", body)["documents"]
    return documents


def _compared(user: str) -> str:
    """A name as the API compares it."""
    return unicodedata.normalize("NFC", user).lower() if "@" in user else user


@dataclass(slots=True)
class _Reasons:
    api: Api
    namespace: str
    user: str
    archives: dict[str, str]
    members: dict[str, Json] = field(default_factory=dict)

    def explain(self, document: Json) -> str:
        if document.get("accessStatus") == "UNKNOWN":
            return "Hidden: its content service does not tell whom it is for."
        access = document.get("access")
        if access is None:
            return "Seen: it has no list, so that everyone with a key sees it."
        source = "its own list"
        if document.get("accessInherited"):
            source = f"the list inherited from {self.archives.get(document['archive']['id'], 'its archive')}"
        if denied := self._name_in(access["denied"]):
            return f"Hidden: {source} denies {denied}."
        if named := self._name_in(access):
            return f"Seen: {source} names {named}."
        return f"Seen: {source} is for every user." if access["public"] else f"Hidden: {source} names no such user."

    def _name_in(self, lists: Json) -> str | None:
        """How a list names the user: directly, or by which groups."""
        if self.user in lists["users"]:
            return self.user
        domain = self.user.rpartition("@")[2] if "@" in self.user else ""
        if f"domain:{domain}" in lists["groups"]:
            return f"the group domain:{domain}"
        chains, seen = [[group] for group in lists["groups"]], set(lists["groups"])
        for chain in chains:  # grows: first the groups that are named, then those that they hold
            members = self._members(chain[-1])
            if self.user in members["users"]:
                return "the group " + ", which holds ".join(chain)
            chains += [[*chain, group] for group in members["groups"] if group not in seen]
            seen |= set(members["groups"])
        return None

    def _members(self, group: str) -> Json:
        if group not in self.members:
            self.members[group] = {"users": [], "groups": []}
            if len(self.members) <= MOST_GROUPS:
                try:
                    answer = self.api.get(f"/v1/groups/{quote(group, safe='')}", namespaceId=self.namespace)
                    self.members[group] = answer["group"]["members"]
                except ApiError:
                    pass  # a group that was never made holds nobody
        return self.members[group]
