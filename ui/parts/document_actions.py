"""Actions on documents: access, metadata, another ingestion, deletion."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

import streamlit as st

from ui import session
from ui.client import Api, ApiError, Json
from ui.parts import failures, frame, widgets
from ui.parts.labels import document_label, format_cost, format_count, status_word
from ui.parts.widgets import escape_markdown, format_code


def summarize_access(document: Json) -> str:
    """In one line, for a place that reads Markdown."""
    if document.get("accessStatus") == "UNKNOWN":
        return f":material/lock: Nobody: access unknown. {escape_markdown(document.get('accessReason') or '')}"
    access = document.get("access")
    if access is None:
        return ":material/public: Everyone with a key"
    if access["public"]:
        denied = _named(access["denied"])
        return ":material/public: Every user" + (f" but {denied}" if denied else "")
    denied = f", but not {_named(access['denied'])}" if any(access["denied"].values()) else ""
    return f":material/lock: {_named(access) or 'Nobody but the application itself'}{denied}"


def show_access(person: session.Person, namespace: str, document: Json) -> None:
    """Show the names in a document's access, their origin, and a form to change them."""
    if frame.viewer_name():
        st.markdown(escape_markdown(explain_access(namespace, [document["id"]]).get(document["id"], "")))
        st.caption("Stop seeing as another person to read and change the whole list.")
        return
    st.markdown(summarize_access(document))
    st.caption(_origin(person, namespace, document))
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
    if person.may("documents:write"):
        _form(person, namespace, document)


def _origin(person: session.Person, namespace: str, document: Json) -> str:
    """Return a sentence on who set the access, as far as the API reports it."""
    if document["archive"]:
        inside = f"the document that it is packed into ({format_code(document['archive']['id'])})"
        if document.get("accessInherited"):
            return f"Inherited from {inside}: it follows every change there."
        return f"Its own list: a change of {inside} does not touch it."
    if not document["connection"]:
        return "Set by the request that ingested it, or changed later, here or by the API."
    try:
        path = f"/v1/connections/{document['connection']['id']}"
        connection = person.api.get(path, namespaceId=namespace)["connection"] if person.may("connections:read") else {}
    except ApiError:
        connection = {}
    if connection.get("permissions") == "SOURCE":
        return f"From the sharing at the content service, by the connection “{escape_markdown(connection['name'])}”."
    if connection:
        name = escape_markdown(connection["name"])
        return f"The connection “{name}” does not read the sharing at its service (permissions: IGNORE)."
    return "From the connection's settings, or changed later, here or by the API."


def _form(person: session.Person, namespace: str, document: Json) -> None:
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
        choice: Json | str | None = INHERIT if kind == INHERITED else None
        if kind in KINDS[1:]:
            choice = {
                "users": _list(users),
                "groups": _list(groups),
                "denied": {"users": _list(no_users), "groups": _list(no_groups)},
                "public": kind == "Every user",
            }
        body = {
            "namespaceId": namespace,
            "filterConfig": {"documentIds": [document["id"]]},
            "data": {"access": choice},
        }
        try:
            changed = person.api.patch("/v1/documents", body)
        except ApiError as error:
            frame.show_error(error)
        else:
            st.success(f"Set: {summarize_access(changed['documents'][0])}")


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
    names = [*map(format_code, lists["users"]), *(f"group {format_code(group)}" for group in lists["groups"])]
    suffix = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + suffix


MOST_GROUPS = 200
"""Groups that are looked into for one page."""


def explain_access(namespace: str, document_ids: Sequence[str]) -> dict[str, str]:
    """Return a sentence for each of the documents, by id; none unless the page is seen as another person."""
    api, user = session.current_person().api, frame.viewer_name()
    if not user or not document_ids:
        return {}
    documents = _list_documents(api, namespace, document_ids)
    archives = sorted({entry["archive"]["id"] for entry in documents if entry["archive"]})
    names = {entry["id"]: entry["name"] for entry in _list_documents(api, namespace, archives)} if archives else {}
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
        """Return how a list names the user: directly, or by groups."""
        if self.user in lists["users"]:
            return self.user
        domain = self.user.rpartition("@")[2] if "@" in self.user else ""
        if f"domain:{domain}" in lists["groups"]:
            return f"the group domain:{domain}"
        chains, visited = [[group] for group in lists["groups"]], set(lists["groups"])
        for chain in chains:  # grows: first the groups that are named, then those that they hold
            members = self._members(chain[-1])
            if self.user in members["users"]:
                return "the group " + ", which holds ".join(chain)
            chains += [[*chain, group] for group in members["groups"] if group not in visited]
            visited |= set(members["groups"])
        return None

    def _members(self, group: str) -> Json:
        if group not in self.members:
            self.members[group] = {"users": [], "groups": []}
            if len(self.members) <= MOST_GROUPS:
                try:
                    answer = self.api.get(f"/v1/groups/{quote(group, safe='')}", namespaceId=self.namespace)
                    self.members[group] = answer["group"]["members"]
                except ApiError:
                    pass  # a group that was never created has no members
        return self.members[group]


NAMES = 8
"""Documents that a preview names."""
DELETED = "Gone from search at once, and from every store soon after, together with the files inside archives."
_TOLD = "documents_told"
_STARTED = "index_again_started"
"""Number of times that documents were indexed again, so that each closes its popover."""


def show_outcome() -> None:
    """Show the result of the last action, once, on the page that follows it."""
    message = st.session_state.pop(_TOLD, None)
    if message:
        kind, text, query_params = message
        (st.success if kind == "done" else st.warning)(text, icon=":material/check:" if kind == "done" else None)
        if query_params:
            st.page_link("views/runs.py", label="Progress", icon=":material/play_circle:", query_params=query_params)


def show_bulk_actions(person: session.Person, namespace: str, config: Json, data: Json, what: str) -> None:
    """Show actions on all documents that match the filter: index again, delete. Each first states its scope.

    data: the page that is shown, with `statsByStatus` of all that match. what: the filter in words.
    """
    if not person.may("documents:write"):
        return
    counts = {entry["status"]: entry["totalCount"] for entry in data["statsByStatus"]}
    total = sum(counts.values())
    names = [document["name"] for document in data["documents"]]
    first = not session.read_parameter("cursor")
    with st.container(border=True):
        st.markdown(f"**Bulk actions** on {format_count(total, 'document')} · {escape_markdown(what)}")
        with st.container(horizontal=True):
            show_index_again(person, namespace, config)
            with st.popover(f"Delete {format_count(total, 'document')}", icon=":material/delete:"):
                _preview(total, names if first else [], counts)
                st.caption(DELETED)
                if st.button("Delete for good", type="primary", key="delete-all"):
                    _delete(person, namespace, config, total)


def show_actions(person: session.Person, namespace: str, document: Json) -> None:
    """Show metadata, indexing again and deletion of one document."""
    if not person.may("documents:write"):
        st.caption("This key may not change documents (scope documents:write).")
        return
    _metadata(person, namespace, document)
    config = {"documentIds": [document["id"]]}
    resync, delete = st.columns(2)
    if resync.button(
        "Index this document again", icon=":material/sync:", width="stretch", key=f"resync-{document['id']}"
    ):
        _resync(person, namespace, config)
    with delete.popover("Delete this document", icon=":material/delete:", width="stretch"):
        st.caption(DELETED)
        if st.button("Delete for good", type="primary", key=f"delete-{document['id']}"):
            _delete(person, namespace, config, 1)


def _preview(total: int, names: Sequence[str], counts: Mapping[str, int]) -> None:
    """Return the number of affected documents, their states, and the newest by name."""
    states = ", ".join(f"{many:,} {status_word(status).lower()}" for status, many in counts.items())
    st.markdown(f"**{format_count(total, 'document')}** ({states})")
    lines = "\n".join(f"- {escape_markdown(document_label(name))}" for name in names[:NAMES])
    remainder = f"\n- and {total - min(len(names), NAMES):,} more" if lines and total > min(len(names), NAMES) else ""
    if lines:
        st.markdown(lines + remainder)


def _delete(person: session.Person, namespace: str, config: Json, expected: int) -> None:
    try:
        answer = person.api.delete("/v1/documents", {"namespaceId": namespace, "filterConfig": config})
    except ApiError as error:
        _refused(error, "Some may be deleted by now: look at the list again.")
        return
    session.set_parameters(document=None, chunk=None, cursor=None)
    matched = f" {format_count(expected, 'document')} matched when the page was shown." if expected > 1 else ""
    rerun_with(escape_markdown(f"{answer.message}.{matched}"))


def show_index_again(person: session.Person, namespace: str, config: Json) -> None:
    """Show the button that ingests all documents that match again, once its cost was shown and confirmed."""
    if not person.may("documents:write"):
        return
    key = f"index-again-{st.session_state.get(_STARTED, 0)}"
    popover = st.popover("Index again", icon=":material/sync:", key=key, on_change="rerun")
    if not popover.open:
        return
    with popover:
        queued = 1
        if not st.session_state.get("index-again"):  # the confirmation needs no second estimate
            try:
                body = {"namespaceId": namespace, "filterConfig": config, "dryRun": True}
                estimate = person.api.post("/v1/documents/resync", body)
            except ApiError as error:
                frame.show_error(error)
                return
            _show_estimate(estimate)
            queued = estimate["itemsQueued"]
        if st.button("Confirm", type="primary", key="index-again", disabled=not queued):
            _resync(person, namespace, config)


def _show_estimate(estimate: Json) -> None:
    """Show the number of documents, what embedding them costs, and why others are left out."""
    report = estimate["report"]
    chunks, tokens = format_count(report["chunks"], "chunk"), format_count(report["tokens"], "token")
    st.markdown(failures.summarize_resync(estimate, "to index again"))
    st.markdown(f"{chunks} · {tokens} · {format_cost([report])}")
    st.caption("The cost if all of it has changed: unchanged content is not embedded again. Search goes on meanwhile.")
    if report["documentsWithoutChunks"]:
        st.caption(f"Without {format_count(report['documentsWithoutChunks'], 'document')} that have no text so far.")


def _resync(person: session.Person, namespace: str, config: Json) -> None:
    try:
        response = widgets.post_once(person, "/v1/documents/resync", {"namespaceId": namespace, "filterConfig": config})
    except ApiError as error:
        _refused(error, "Some may be queued by now: look at the list again.")
        return
    st.session_state[_STARTED] = st.session_state.get(_STARTED, 0) + 1
    runs = response["ingestJobRunIds"]
    query_params = {"namespace": namespace, **({"run": runs[0]} if len(runs) == 1 else {})}
    kind = "partly" if response["itemsSkipped"] else "done"
    rerun_with(failures.summarize_resync(response), kind=kind, query_params=query_params if runs else None)


def rerun_with(text: str, *, kind: str = "done", query_params: Json | None = None) -> None:
    """Show the page anew, with the result of an action on it once. `query_params`: of the runs that it started."""
    st.session_state[_TOLD] = (kind, text, query_params)
    st.rerun()


def _refused(error: ApiError, late: str) -> None:
    frame.show_error(error)
    if error.code == "TIMEOUT":
        st.caption(late)


def _metadata(person: session.Person, namespace: str, document: Json) -> None:
    with st.form("metadata"):
        typed = st.text_area("Metadata to set (JSON object; keys that are not named stay)", value="{}", height=120)
        if st.form_submit_button("Set metadata", icon=":material/save:"):
            try:
                body = {
                    "namespaceId": namespace,
                    "filterConfig": {"documentIds": [document["id"]]},
                    "data": {"metadata": json.loads(typed)},
                }
                changed = person.api.patch("/v1/documents", body)
            except ValueError:
                st.error('That is not JSON. It is an object, such as {"team": "docs"}.')
            except ApiError as error:
                frame.show_error(error)
            else:
                done = changed["itemsUpdated"]
                rerun_with("Metadata set. Nothing was embedded again." if done else "There was nothing to change.")
