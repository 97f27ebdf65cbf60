"""One form per kind of ingestion; what the API answers leads to the run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import frame
from ui.parts.labels import sources, title

OCR = {"Text layer only": "BASIC_PARSER", "Recognise scans and pictures": "STANDARD_OCR"}


def show(who: session.Person, namespace: str) -> None:
    """The choice of kind, and its form."""
    kind = st.selectbox("From", list(sources()), format_func=title, key="ingest_kind")
    with st.form("ingest", border=False):
        wanted = _fields(who, namespace, kind)
        metadata = st.text_input("Metadata (JSON object)", placeholder='{"team": "docs"}')
        with st.expander("Chunks"):
            left, right = st.columns(2)
            chunk_size = left.number_input("Size in tokens", 1, 8191, 1000)
            overlap = right.number_input("Overlap in tokens", 0, 8190, 200)
        if st.form_submit_button("Ingest", type="primary", icon=":material/upload:"):
            chunks = {"chunkSize": int(chunk_size), "chunkOverlap": int(overlap)}
            _send(who, namespace, wanted, metadata, chunks)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a form asks for: the config of its kind, or a file and how to read it."""

    kind: str
    config: Json
    file: Any = None
    ocr: str = ""


def _fields(who: session.Person, namespace: str, kind: str) -> Wanted:
    """The fields of a kind."""
    match kind:
        case "TEXT":
            name = st.text_input("Name", help="The same name again replaces the document.")
            text = st.text_area("Text", height=160)
            return Wanted(kind, {"text": text, **({"name": name} if name else {})})
        case "LOCAL_FILE":
            file = st.file_uploader("File", help="PDF, Office, HTML, mail, images, archives and text.")
            ocr = st.radio("Reading", list(OCR), horizontal=True)
            return Wanted(kind, {}, file, OCR[ocr or "Text layer only"])
        case "URLS_LIST":
            typed = st.text_area("URLs, one a line", height=120)
            return Wanted(kind, {"urls": [line.strip() for line in typed.splitlines() if line.strip()]})
        case "SITEMAP":
            url = st.text_input("Address of the sitemap", placeholder="https://docs.example.com/sitemap.xml")
            paths, links = _paths(), st.number_input("Pages at most", 1, 10_000, 1000)
            return Wanted(kind, {"url": url, **paths, "maxLinks": int(links)})
        case "WEBSITE":
            url = st.text_input("Start page", placeholder="https://docs.example.com")
            left, right = st.columns(2)
            depth = left.slider("Links deep", 1, 5, 3)
            links = right.number_input("Pages at most", 1, 10_000, 100)
            return Wanted(kind, {"url": url, **_paths(), "maxDepth": depth, "maxLinks": int(links)})
        case _:
            return Wanted(kind, {"connectionId": _connection(who, namespace, kind)})


def _paths() -> Json:
    left, right = st.columns(2)
    take = left.text_input("Only addresses that contain (commas between)")
    leave = right.text_input("No addresses that contain")
    split = {"includePaths": take, "excludePaths": leave}
    return {name: [part.strip() for part in typed.split(",") if part.strip()] for name, typed in split.items() if typed}


def _connection(who: session.Person, namespace: str, kind: str) -> str:
    found: list[Json] = []
    if who.may("connections:read"):
        found = who.api.get("/v1/connections", namespaceId=namespace, connector=kind, pageSize=100)["connections"]
    active = {one["id"]: one["name"] for one in found if one["status"] == "ACTIVE"}
    if not active:
        st.caption(f"There is no active {title(kind)} connection in this namespace: make one under Connections.")
        return ""
    return str(st.selectbox("Connection", list(active), format_func=lambda one: active[one]))


def _send(who: session.Person, namespace: str, wanted: Wanted, metadata: str, chunks: Json) -> None:
    try:
        extra = json.loads(metadata) if metadata.strip() else None
    except ValueError:
        st.error('The metadata is not JSON. It is an object, such as {"team": "docs"}.')
        return
    try:
        if wanted.kind == "LOCAL_FILE":
            file = wanted.file
            if file is None:
                st.error("Choose a file first.")
                return
            form = {"namespaceId": namespace, "source": "FILE", "chunkConfig": json.dumps(chunks)}
            form |= {"ocrConfig": json.dumps({"strategy": wanted.ocr})}
            form |= {"metadata": json.dumps(extra)} if extra is not None else {}
            data = who.api.upload(
                f"/v1/ingest/{sources()[wanted.kind].path}", form, file.name, file.getvalue(), file.type or ""
            ).data
        else:
            config = wanted.config | ({"metadata": extra} if extra is not None else {})
            request = {"source": wanted.kind, "config": config, "chunkConfig": chunks}
            data = who.api.post(
                f"/v1/ingest/{sources()[wanted.kind].path}", {"namespaceId": namespace, "ingestConfig": request}
            )
    except ApiError as error:
        frame.show(error)
        return
    session.remember(run=data["ingestJobRunId"], start=None, cursor=None, status=None)
    st.rerun()
