"""Who may see a document, and who says so."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import access_reasons, frame, see_as
from ui.parts.text import code, plain


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
        st.markdown(plain(access_reasons.explain(namespace, [document["id"]]).get(document["id"], "")))
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
