"""Who may see a document, who says so, and why a user who is seen as sees it or does not."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

import streamlit as st

from ui import session
from ui.client import Api, ApiError, Json
from ui.parts import frame, see_as
from ui.parts.widgets import code, plain


def summary(document: Json) -> str:
    """In one line, for a place that reads Markdown."""
    if document.get("accessStatus") == "UNKNOWN":
        return f":material/lock: Nobody: access unknown. {plain(document.get('accessReason') or '')}"
    access = document.get("access")
    if access is None:
        return ":material/public: Everyone with a key"
    if access["public"]:
        denied = _named(access["denied"])
        return ":material/public: Every user" + (f" but {denied}" if denied else "")
    denied = f", but not {_named(access['denied'])}" if any(access["denied"].values()) else ""
    return f":material/lock: {_named(access) or 'Nobody but the application itself'}{denied}"


def show(who: session.Person, namespace: str, document: Json) -> None:
    """The names, where they come from, and a form to change them."""
    if see_as.name():
        st.markdown(plain(explain(namespace, [document["id"]]).get(document["id"], "")))
        st.caption("Stop seeing as another person to read and change the whole list.")
        return
    st.markdown(summary(document))
    st.caption(_origin(who, namespace, document))
    access = document.get("access") or {}
    denied = access.get("denied") or {}
    rows = [
        {"Rule": rule, "Kind": kind, "Name": name}
        for rule, lists in (("May see", access), ("Denied", denied))
        for kind, names in (("User", lists.get("users") or ()), ("Group", lists.get("groups") or ()))
        for name in names
    ]
    if rows:
        st.dataframe(rows, hide_index=True, width="stretch")
    if who.may("documents:write"):
        _form(who, namespace, document)


def _origin(who: session.Person, namespace: str, document: Json) -> str:
    """Who said so, as far as the API tells."""
    if document["archive"]:
        inside = f"the document that it is packed into ({code(document['archive']['id'])})"
        if document.get("accessInherited"):
            return f"Inherited from {inside}: it follows every change there."
        return f"Its own list: a change of {inside} does not touch it."
    if not document["connection"]:
        return "Set by the request that ingested it, or changed here or by PATCH /v1/documents."
    try:
        path = f"/v1/connections/{document['connection']['id']}"
        found = who.api.get(path, namespaceId=namespace)["connection"] if who.may("connections:read") else {}
    except ApiError:
        found = {}
    if found.get("permissions") == "SOURCE":
        return f"From the sharing at the content service, by the connection “{plain(found['name'])}”."
    if found:
        return (
            f"The connection “{plain(found['name'])}” does not read the sharing at its service (permissions: IGNORE)."
        )
    return "From the connection's settings, or changed here or by PATCH /v1/documents."


def _form(who: session.Person, namespace: str, document: Json) -> None:
    access = document.get("access") or {}
    denied = access.get("denied") or {}
    with st.expander("Edit access", icon=":material/edit:"), st.form(f"access-{document['id']}"):
        kinds = [*KINDS, INHERITED] if document["archive"] else KINDS
        kind = st.radio("Who may see it", kinds, index=_kind(document))
        users = st.text_input("Users (comma-separated)", value=", ".join(access.get("users") or ()))
        groups = st.text_input("Groups (comma-separated)", value=", ".join(access.get("groups") or ()))
        no_users = st.text_input("Denied users (comma-separated)", value=", ".join(denied.get("users") or ()))
        no_groups = st.text_input("Denied groups (comma-separated)", value=", ".join(denied.get("groups") or ()))
        if not st.form_submit_button("Set access", icon=":material/save:"):
            return
        sent: Json | str | None = INHERIT if kind == INHERITED else None
        if kind in KINDS[1:]:
            sent = {
                "users": _list(users),
                "groups": _list(groups),
                "denied": {"users": _list(no_users), "groups": _list(no_groups)},
                "public": kind == "Every user",
            }
        body = {
            "namespaceId": namespace,
            "filterConfig": {"documentIds": [document["id"]]},
            "data": {"access": sent},
        }
        try:
            changed = who.api.patch("/v1/documents", body)
        except ApiError as error:
            frame.show(error)
        else:
            st.success(f"Set: {summary(changed['documents'][0])}")


KINDS = ["Everyone with a key", "Every user", "Only these"]
INHERITED, INHERIT = "As the document that it is packed into", "inherit"


def _kind(document: Json) -> int:
    if document.get("accessInherited"):
        return len(KINDS)
    access = document.get("access")
    return 0 if access is None else 1 if access["public"] else 2


def _list(typed: str) -> list[str]:
    return [part.strip() for part in typed.split(",") if part.strip()]


def _named(lists: Json) -> str:
    """Users and groups, some of them by name."""
    names = [*map(code, lists["users"]), *(f"group {code(one)}" for one in lists["groups"])]
    more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


MOST_GROUPS = 200
"""Groups that are looked into for one page."""


def explain(namespace: str, document_ids: Sequence[str]) -> dict[str, str]:
    """Return a sentence for each of the documents, by id; none where nobody is seen as another person."""
    api, user = session.person().api, see_as.name()
    if not user or not document_ids:
        return {}
    documents = _list_documents(api, namespace, document_ids)
    archives = sorted({one["archive"]["id"] for one in documents if one["archive"]})
    names = {one["id"]: one["name"] for one in _list_documents(api, namespace, archives)} if archives else {}
    reasons = _Reasons(api, namespace, _compared(user), names)
    return {document["id"]: reasons.explain(document) for document in documents}


def _list_documents(api: Api, namespace: str, document_ids: Sequence[str]) -> list[Json]:
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
