"""The versions of a document: what became of it in each job run, newest first."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import widgets
from ui.parts.labels import ago, number, size, title

PAGE = 20


def show(who: session.Person, namespace: str, document: Json) -> None:
    """A table whose rows lead to their run."""
    data = who.api.get(f"/v1/documents/{document['id']}/history", namespaceId=namespace, pageSize=PAGE)
    entries = data["history"]
    if not entries:
        widgets.show_empty("No job run holds this document any more.", "Its content stays as it is.")
        return
    run = widgets.clicked_row(
        [_row(entry) for entry in entries],
        f"history-{document['id']}",
        [entry["ingestJobRun"]["id"] for entry in entries],
        Status=widgets.status_column(),
        Chunks=st.column_config.TextColumn(alignment="right"),
    )
    more = f" The newest {len(entries)} are shown." if data["hasNextPage"] else ""
    st.caption("Search shows one version, whole. Click a row to open its run." + more)
    if run is not None and who.may("ingest:read"):
        place = {"namespace": namespace, "run": run}
        st.switch_page("views/runs.py", query_params=place)


def _row(entry: Json) -> Json:
    return {
        "Version": _version(entry),
        "Status": [entry["status"]],
        "When": ago(entry["createdAt"]),
        "By": title(entry["source"]),
        "Chunks": number(entry["chunks"]),
        "Size": size(entry["fileSize"]) if entry["fileSize"] is not None else "",
        "Error": entry["error"] or "",
    }


def _version(entry: Json) -> str:
    if entry["active"]:
        return "in search now"
    if entry["unchanged"]:
        return "unchanged"
    return "replaced since" if entry["status"] == "SUCCESS" else ""
