"""Actions on documents: access, metadata, resync, deletion."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import quote

import streamlit as st

from ui import session
from ui.client import Api, ApiError, Json
from ui.parts import failures, frame, widgets
from ui.parts.labels import document_label, format_cost, format_count
from ui.parts.widgets import escape_markdown, format_code


def summarize_access(document: Json) -> str:
    """Summarize the access in one line of Markdown."""
    if document.get("accessStatus") == "UNKNOWN":
        return f":material/lock: Nobody: access unknown. {escape_markdown(document.get('accessReason') or '')}"
    access = document.get("access")
    if access is None:
        return ":material/public: Everyone with a key"
    if access["public"]:
        denied = _format_names(access["denied"])
        return ":material/public: Every user" + (f" but {denied}" if denied else "")
    denied = f", but not {_format_names(access['denied'])}" if any(access["denied"].values()) else ""
    return f":material/lock: {_format_names(access) or 'Nobody but the application itself'}{denied}"


def label_access(document: Json) -> str:
    """Return who may see a document in a few words."""
    access = document.get("access")
    if access is None or access["public"]:
        unknown = document.get("accessStatus") == "UNKNOWN"
        return "Nobody: access unknown" if unknown else "Everyone" if access is None else "Every user"
    counts = [format_count(len(access[kind]), kind.removesuffix("s")) for kind in ("users", "groups") if access[kind]]
    return ", ".join(counts) or "Nobody"


def show_access(person: session.Person, namespace: str, document: Json) -> None:
    """Show a document's access with its origin, and a form for changes."""
    if frame.viewer_name():
        st.markdown(escape_markdown(explain_access(namespace, [document["id"]]).get(document["id"], "")))
        st.caption("Stop seeing as another person to read and change the whole list.")
        return
    st.markdown(summarize_access(document))
    st.caption(_describe_origin(person, namespace, document))
    access = document.get("access") or {}
    denied = access.get("denied") or {}
    rows = [
        {"Rule": rule, "Kind": kind, "Name": name}
        for rule, lists in (("May see", access), ("Denied", denied))
        for kind, names in (("User", lists.get("users") or ()), ("Group", lists.get("groups") or ()))
        for name in names
    ]
    if rows:
        widgets.show_table(rows)
    if person.may("documents:write"):
        with st.expander("Edit access", icon=":material/edit:"):
            show_access_form(person, namespace, {"documentIds": [document["id"]]}, document)


def _describe_origin(person: session.Person, namespace: str, document: Json) -> str:
    if document["archive"]:
        inside = f"the document that it is packed into ({format_code(document['archive']['id'])})"
        if document.get("accessInherited"):
            return f"Inherited from {inside}: it follows every change there."
        return f"Its own list: a change of {inside} does not touch it."
    if not document["connection"]:
        return "Set by the request that ingested it, or changed later, here or by the API."
    connection: Json = {}
    with suppress(ApiError):
        if person.may("connections:read"):
            path = f"/v1/connections/{document['connection']['id']}"
            connection = person.api.get(path, namespaceId=namespace)["connection"]
    name = escape_markdown(connection.get("name", ""))
    if connection.get("permissions") == "SOURCE":
        return f"From the sharing at the content service, by the connection “{name}”."
    if connection:
        return f"The connection “{name}” does not read the sharing at its service (permissions: IGNORE)."
    return "From the connection's settings, or changed later, here or by the API."


def show_access_form(person: session.Person, namespace: str, config: Json, document: Json) -> None:
    """Show the form of the access of a filter's documents, filled in by `document`."""
    access = document.get("access") or {}
    denied = access.get("denied") or {}
    with st.form(f"access-{document.get('id', 'all')}", border=False):
        kinds = [*ACCESS_KINDS, INHERITED_LABEL] if document.get("archive") else ACCESS_KINDS
        kind = st.radio("Who may see it", kinds, index=_kind_index(document))
        users = st.text_input("Users (comma-separated)", value=", ".join(access.get("users") or ()))
        groups = st.text_input("Groups (comma-separated)", value=", ".join(access.get("groups") or ()))
        no_users = st.text_input("Denied users (comma-separated)", value=", ".join(denied.get("users") or ()))
        no_groups = st.text_input("Denied groups (comma-separated)", value=", ".join(denied.get("groups") or ()))
        if not st.form_submit_button("Set access", icon=":material/save:"):
            return
        choice: Json | str | None = INHERITED_ACCESS if kind == INHERITED_LABEL else None
        if kind in ACCESS_KINDS[1:]:
            choice = {
                "users": _split_names(users),
                "groups": _split_names(groups),
                "denied": {"users": _split_names(no_users), "groups": _split_names(no_groups)},
                "public": kind == "Every user",
            }
        with frame.shown_refusal():
            changed = _patch_documents(person, namespace, config, {"access": choice})["documents"]
            st.success(f"Set for {format_count(len(changed), 'document')}: {summarize_access(changed[0])}")


ACCESS_KINDS = ["Everyone with a key", "Every user", "Only these"]
INHERITED_LABEL, INHERITED_ACCESS = "As the document that it is packed into", "inherit"


def _kind_index(document: Json) -> int:
    if document.get("accessInherited"):
        return len(ACCESS_KINDS)
    access = document.get("access")
    return 0 if access is None else 1 if access["public"] else 2


def _split_names(typed: str) -> list[str]:
    return [part.strip() for part in typed.split(",") if part.strip()]


def _format_names(lists: Json) -> str:
    names = [*map(format_code, lists["users"]), *(f"group {format_code(group)}" for group in lists["groups"])]
    suffix = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + suffix


# For one page.
MAX_READ_GROUPS = 200


def explain_access(namespace: str, document_ids: Sequence[str]) -> dict[str, str]:
    """Explain the access of each document by id; empty unless viewed as another person."""
    api, user = session.current_person().api, frame.viewer_name()
    if not user or not document_ids:
        return {}
    documents = _list_documents(api, namespace, document_ids)
    archives = sorted({entry["archive"]["id"] for entry in documents if entry["archive"]})
    names = {entry["id"]: entry["name"] for entry in _list_documents(api, namespace, archives)} if archives else {}
    compared = unicodedata.normalize("NFC", user).lower() if "@" in user else user  # as the API compares names
    reasons = _AccessExplainer(api, namespace, compared, names)
    return {document["id"]: reasons.explain_document(document) for document in documents}


def _list_documents(api: Api, namespace: str, document_ids: Sequence[str]) -> list[Json]:
    config = {"documentIds": list(document_ids)}
    return list(api.list_documents(namespace, config, size=len(document_ids))["documents"])


@dataclass(slots=True)
class _AccessExplainer:
    api: Api
    namespace: str
    user: str
    archives: dict[str, str]
    members: dict[str, Json] = field(default_factory=dict)

    def explain_document(self, document: Json) -> str:
        if document.get("accessStatus") == "UNKNOWN":
            return "Not seen: its content service does not report its permissions."
        access = document.get("access")
        if access is None:
            return "Seen: it has no list, so that everyone with a key sees it."
        source = "its own list"
        if document.get("accessInherited"):
            source = f"the list inherited from {self.archives.get(document['archive']['id'], 'its archive')}"
        if denied := self._name_in(access["denied"]):
            return f"Not seen: {source} denies {denied}."
        if name := self._name_in(access):
            return f"Seen: {source} names {name}."
        return (
            f"Seen: {source} is for every user." if access["public"] else f"Not seen: {source} does not name this user."
        )

    def _name_in(self, lists: Json) -> str | None:
        """Return how a list names the user: directly or by groups."""
        if self.user in lists["users"]:
            return self.user
        domain = self.user.rpartition("@")[2] if "@" in self.user else ""
        if f"domain:{domain}" in lists["groups"]:
            return f"the group domain:{domain}"
        chains, visited = [[group] for group in lists["groups"]], set(lists["groups"])
        for chain in chains:  # grows: first the groups that are named, then those that they hold
            members = self._read_members(chain[-1])
            if self.user in members["users"]:
                return "the group " + ", which holds ".join(chain)
            chains += [[*chain, group] for group in members["groups"] if group not in visited]
            visited |= set(members["groups"])
        return None

    def _read_members(self, group: str) -> Json:
        if group not in self.members:
            self.members[group] = {"users": [], "groups": []}
            with suppress(ApiError):  # a group that was never created has no members
                if len(self.members) <= MAX_READ_GROUPS:
                    answer = self.api.get(f"/v1/groups/{quote(group, safe='')}", namespaceId=self.namespace)
                    self.members[group] = answer["group"]["members"]
        return self.members[group]


MAX_PREVIEW_NAMES = 8
"""Documents that a preview names."""
# The number changes the popover's key, which closes it.
_RESYNC_COUNT_KEY = "index_again_started"


def show_actions(person: session.Person, namespace: str, document: Json) -> None:
    """Show metadata, resync and deletion of a document."""
    if not person.may("documents:write"):
        st.caption("This key may not change documents (scope documents:write).")
        return
    config = {"documentIds": [document["id"]]}
    show_metadata_form(person, namespace, config, list(document["metadata"]))
    left_column, right_column = st.columns(2)
    key = f"resync-{document['id']}"
    if left_column.button("Index this document again", icon=":material/sync:", width="stretch", key=key):
        start_resync(person, namespace, config)
    with right_column.popover("Delete this document", icon=":material/delete:", width="stretch"):
        offer_deletion(person, namespace, config, 1, f"delete-{document['id']}")


def show_scope(documents: list[Json], total: int) -> None:
    lines = [f"- {escape_markdown(document_label(document['name']))}" for document in documents[:MAX_PREVIEW_NAMES]]
    remainder = [f"- and {total - len(lines):,} more"] if total > len(lines) else []
    st.markdown("\n".join(lines + remainder))


def offer_deletion(
    person: session.Person, namespace: str, config: Json, expected: int, key: str, *, is_sure: bool = True
) -> None:
    st.caption("Gone from search at once, and from every store soon after, together with the files inside archives.")
    with st.container(key=f"danger-{key}"):
        is_pressed = st.button("Delete for good", type="primary", key=key, disabled=not is_sure)
    if not is_pressed:
        return
    with frame.shown_refusal(partial(_show_refusal, "Some may be deleted by now: look at the list again.")):
        answer = person.api.delete("/v1/documents", {"namespaceId": namespace, "filterConfig": config})
        matched = f" {format_count(expected, 'document')} matched when the page was shown." if expected > 1 else ""
        frame.keep_outcome(escape_markdown(f"{answer.message}.{matched}"))
        session.go_to(document=None, chunk=None, cursor=None)


def show_index_again(person: session.Person, namespace: str, config: Json) -> None:
    """Show the resync of a filter's documents, with its estimated cost."""
    if not person.may("documents:write"):
        return
    key = f"index-again-{st.session_state.get(_RESYNC_COUNT_KEY, 0)}"
    popover = st.popover("Index again", icon=":material/sync:", key=key, on_change="rerun")
    if not popover.open:
        return
    with popover:
        queued = 1
        if not st.session_state.get("index-again"):  # the confirmation needs no second estimate
            queued = 0
            with frame.shown_refusal():
                body = {"namespaceId": namespace, "filterConfig": config, "dryRun": True}
                estimate = person.api.post("/v1/documents/resync", body)
                _show_estimate(estimate)
                queued = estimate["itemsQueued"]
        if st.button("Confirm", type="primary", key="index-again", disabled=not queued):
            start_resync(person, namespace, config)


def _show_estimate(estimate: Json) -> None:
    report = estimate["report"]
    chunks, tokens = format_count(report["chunks"], "chunk"), format_count(report["tokens"], "token")
    st.markdown(failures.summarize_resync(estimate, "to index again"))
    st.markdown(f"{chunks} · {tokens} · {format_cost([report])}")
    st.caption("The cost if all of it has changed: unchanged content is not embedded again. Search continues.")
    if report["documentsWithoutChunks"]:
        st.caption(f"Without {format_count(report['documentsWithoutChunks'], 'document')} that have no text so far.")


def start_resync(person: session.Person, namespace: str, config: Json) -> None:
    with frame.shown_refusal(partial(_show_refusal, "Some may be queued by now: look at the list again.")):
        body = {"namespaceId": namespace, "filterConfig": config}
        response = widgets.post_once(person, "/v1/documents/resync", body)
        st.session_state[_RESYNC_COUNT_KEY] = st.session_state.get(_RESYNC_COUNT_KEY, 0) + 1
        text, is_partial = failures.summarize_resync(response), bool(response["itemsSkipped"])
        frame.keep_outcome(text, response["ingestJobRunIds"], is_partial=is_partial)
        st.rerun()


def _show_refusal(advice: str, error: ApiError) -> None:
    """Show a refusal; `advice` after a timeout."""
    frame.show_error(error)
    if error.code == "TIMEOUT":
        st.caption(advice)


METADATA_OPERATORS = {"$set": "Set", "$append": "Add to the list", "$remove": "Remove from the list"}


def show_metadata_form(person: session.Person, namespace: str, config: Json, keys: Sequence[str]) -> None:
    """Show the form of one metadata key of a filter's documents; `keys` are offered."""
    with st.form("metadata", border=False):
        key = st.text_input("Key", placeholder=", ".join(keys) or "team", max_chars=200).strip()
        operator = st.selectbox("Change", list(METADATA_OPERATORS), format_func=METADATA_OPERATORS.__getitem__)
        value = st.text_input("Value", help="A number, true or false is stored as such; quote it to store text.")
        if not st.form_submit_button("Change metadata", icon=":material/save:"):
            return
        if not key:
            st.error("Type a key.")
            return
        with frame.shown_refusal():
            change = {"$metadata": {operator: {key: _read_value(value)}}}
            changed = _patch_documents(person, namespace, config, change)["itemsUpdated"]
            text = f"{format_count(changed, 'document')} changed. Nothing was embedded again."
            frame.keep_outcome(text if changed else "There was nothing to change.")
            st.rerun()


def _read_value(text: str) -> Any:
    """Read a number, boolean or quoted text; other text as it is."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str | int | float) else text


def _patch_documents(person: session.Person, namespace: str, config: Json, data: Json) -> Json:
    return person.api.patch("/v1/documents", {"namespaceId": namespace, "filterConfig": config, "data": data})
