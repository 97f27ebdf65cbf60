"""Add content from any source, with a preview and progress."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import account_tree, added, additions, frame, url_state, widgets
from ui.parts.additions import Item, Part
from ui.parts.api_schema import known_services
from ui.parts.labels import format_count, offered_sources, source_title
from ui.parts.search_request import parse_object
from ui.parts.widgets import escape_markdown

PARSING_STRATEGIES = {"Text only": "BASIC_PARSER", "OCR": "STANDARD_OCR"}
PARSING_HELP = "OCR reads scans and pictures too. It takes seconds a page."
MAX_DROPPED_FILES = 500
FOLDER_KEY = "add_folder"
# Counts started additions; a new number empties the fields.
ROUND_KEY = "add_round"


class InvalidFormError(Exception):
    """Input that cannot be sent, with the reason."""


@dataclass(frozen=True, slots=True)
class Options:
    metadata: str
    chunks: Json

    def parse_metadata(self) -> Json:
        """Return the metadata; InvalidFormError if it is no JSON object."""
        metadata = parse_object(self.metadata)
        if metadata is None:
            raise InvalidFormError('The metadata is no JSON object. One is, for example, {"team": "docs"}.')
        return {"metadata": metadata} if metadata else {}


def clear_fields() -> None:
    st.session_state[ROUND_KEY] = st.session_state.get(ROUND_KEY, 0) + 1


def show_options() -> Options:
    with st.expander("Metadata and chunks", icon=":material/tune:"):
        metadata = st.text_input("Metadata (JSON object)", placeholder='{"team": "docs"}')
        left_column, right_column = st.columns(2)
        size = left_column.number_input("Chunk size (tokens)", 1, 8191, 1000)
        overlap = right_column.number_input("Chunk overlap (tokens)", 0, 8190, 200)
    return Options(metadata, {"chunkSize": int(size), "chunkOverlap": int(overlap)})


def show_fields(kind: str) -> dict[str, Any]:
    mark = f"{kind}-{st.session_state.get(ROUND_KEY, 0)}"
    match kind:
        case "TEXT":
            name = st.text_input("Name", help="The same name again replaces the document.", key=f"name-{mark}")
            return {"name": name, "text": st.text_area("Text", height=160, key=f"text-{mark}")}
        case "LOCAL_FILE":
            is_folder = bool(st.session_state.get(FOLDER_KEY))
            files = st.file_uploader(
                "Drop a folder here, or choose one" if is_folder else "Drop files here, or choose them",
                accept_multiple_files="directory" if is_folder else True,
                help="PDF, Office, HTML, mail, images, archives and text. One that fails does not hold up the others.",
                key=f"files-{mark}-{is_folder}",
            )
            parsing = st.radio("Parsing", list(PARSING_STRATEGIES), horizontal=True, help=PARSING_HELP)
            return {"files": files, "parsing": PARSING_STRATEGIES[parsing or "Text only"]}
        case "URLS_LIST":
            return {"urls": st.text_area("URLs, one a line", height=120, key=f"urls-{mark}")}
        case "SITEMAP":
            url = st.text_input("Sitemap URL", placeholder="https://docs.example.com/sitemap.xml", key=f"url-{mark}")
            return {"url": url, **_show_paths(), "maxLinks": int(st.number_input("Maximum pages", 1, 10_000, 1000))}
        case _:
            url = st.text_input("Start URL", placeholder="https://docs.example.com", key=f"url-{mark}")
            left_column, right_column = st.columns(2)
            depth = left_column.slider("Maximum depth (links)", 1, 5, 3)
            links = right_column.number_input("Maximum pages", 1, 10_000, 100)
            use_sitemap = st.checkbox("Also ingest pages of the sitemaps that robots.txt names", value=True)
            limits = {"maxDepth": depth, "maxLinks": int(links), "useSitemap": use_sitemap}
            return {"url": url, **_show_paths(), **limits}


def _show_paths() -> Json:
    left_column, right_column = st.columns(2)
    include = left_column.text_input("Include paths (comma-separated)", placeholder="/docs, /blog")
    exclude = right_column.text_input("Exclude paths (comma-separated)")
    split = {"includePaths": include, "excludePaths": exclude}
    return {name: [part.strip() for part in typed.split(",") if part.strip()] for name, typed in split.items() if typed}


def make_items(namespace: str, kind: str, typed: dict[str, Any], chosen: Options) -> list[Item]:
    path, extra = f"/v1/ingest/{offered_sources()[kind].path}", chosen.parse_metadata()
    if kind == "LOCAL_FILE":
        return _make_file_items(namespace, path, typed, chosen, extra)
    config, name = {key: value for key, value in typed.items() if value not in ("", None)}, source_title(kind)
    if kind == "TEXT":
        if not typed["text"].strip():
            raise InvalidFormError("Type a text first.")
        name = typed["name"] or name
    elif kind == "URLS_LIST":
        config = {"urls": [line.strip() for line in typed["urls"].splitlines() if line.strip()]}
        if not config["urls"]:
            raise InvalidFormError("Type at least one URL.")
        name = format_count(len(config["urls"]), "URL")
    elif "url" in typed:
        if not typed["url"].strip():
            raise InvalidFormError("Type the URL first.")
        name = typed["url"]
    request = {"source": kind, "config": config | extra, "chunkConfig": chosen.chunks}
    return [Item(name, path, body={"namespaceId": namespace, "ingestConfig": request})]


def _make_file_items(namespace: str, path: str, typed: dict[str, Any], chosen: Options, extra: Json) -> list[Item]:
    files = typed["files"] or []
    if not files:
        raise InvalidFormError("Choose a file first, or drop some.")
    if len(files) > MAX_DROPPED_FILES:
        raise InvalidFormError(f"{len(files):,} files are too many for one drop; it takes {MAX_DROPPED_FILES:,}.")
    for name, number in Counter(file.name for file in files).items():
        if number > 1:
            raise InvalidFormError(
                f"{number} files are called {name}: one would replace the other. Rename one, or choose their folder"
                " as a whole."
            )
    if len(files) > 1:
        return [_joint_item(namespace, files, typed, chosen, extra)]
    form = {"namespaceId": namespace, "source": "FILE", "chunkConfig": json.dumps(chosen.chunks)}
    form |= {"ocrConfig": json.dumps({"strategy": typed["parsing"]})}
    form |= {"metadata": json.dumps(extra["metadata"])} if extra else {}
    (file,) = files
    # Within a folder a file's name is its path: two of one name in different folders are two documents.
    form |= {"externalId": file.name} if "/" in file.name else {}
    return [Item(file.name, path, form=form, file=file)]


def _joint_item(namespace: str, files: list[Any], typed: dict[str, Any], chosen: Options, extra: Json) -> Item:
    """Make one ingestion of several files, named after their folder."""
    folders = {file.name.partition("/")[0] if "/" in file.name else "" for file in files}
    folder = folders.pop() if len(folders) == 1 else ""
    config = {"ocrConfig": {"strategy": typed["parsing"]}, **({"name": folder} if folder else {}), **extra}
    request = {"source": "FILE", "config": config, "chunkConfig": chosen.chunks}
    return Item(
        folder or format_count(len(files), "file"),
        "/v1/ingest/files",
        body={"namespaceId": namespace, "ingestConfig": request},
        parts=[Part(file.name, file.name, file) for file in files],
    )


def choose_connection(person: session.Person, namespace: str, kind: str) -> dict[str, Any] | None:
    """Show the choice of a connection and of content; None without an active connection."""
    connections: list[Json] = []
    if person.may("connections:read"):
        query = {"namespaceId": namespace, "connector": kind, "pageSize": 100}
        connections = person.api.get("/v1/connections", **query)["connections"]
    active = {account["id"]: account["name"] for account in connections if account["status"] == "ACTIVE"}
    if not active:
        widgets.show_empty(
            f"No active {source_title(kind)} connection.",
            "Connect an account first; a person allows the access in the browser.",
            go=("connections", f"Connect {source_title(kind)}"),
            connect=kind,
        )
        return None
    choice: Json = {"default": next(iter(active)), "options": active}
    chosen = url_state.bind_field(
        st.selectbox, "connection", "Connection", prefix="add_from", writes_default=True, **choice
    )
    selection = account_tree.show_tree(person, namespace, chosen, kind)
    return None if selection is None else {"connectionId": chosen, **selection}


def main() -> None:
    person = session.current_person()
    namespace = frame.show_head(person, "Add content")
    if not person.may("ingest:write"):
        st.info("This key may not add content (scope ingest:write).", icon=":material/lock:")
        return
    if additions.has_addition(namespace):
        with st.container(horizontal=True):
            st.button("Add more", icon=":material/add:", on_click=additions.forget_addition)
            widgets.link_page("runs", "All runs")
        added.show_added(person, namespace)
        return
    kind = _choose_source()
    if kind in known_services():
        _from_connection(person, namespace, kind)
    else:
        _from_fields(person, namespace, kind)
    added.show_previews(person, namespace, kind)


def _choose_source() -> str:
    names = sorted(offered_sources(), key=lambda name: name != "LOCAL_FILE")
    titles = {name: "Files" if name == "LOCAL_FILE" else source_title(name) for name in names}
    previous = session.read_parameter("source") or names[0]
    choice: Json = {"default": names[0], "options": titles, "required": True}
    chosen = url_state.bind_field(st.pills, "source", "Source", prefix="add", reset_parameter="connection", **choice)
    if chosen != previous:
        added.forget_previews()
    return str(chosen)


def _from_fields(person: session.Person, namespace: str, kind: str) -> None:
    if kind == "LOCAL_FILE":
        st.toggle("Choose a whole folder", key=FOLDER_KEY)
    with st.form("add", border=False):
        typed = show_fields(kind)
        chosen = show_options()
        start, preview = _show_buttons()
    if start or preview:
        _submit_items(person, namespace, kind, typed, chosen, dry=preview)


def _from_connection(person: session.Person, namespace: str, kind: str) -> None:
    typed = choose_connection(person, namespace, kind)
    if typed is None:
        return
    with st.form("add", border=False):
        chosen = show_options()
        start, preview = _show_buttons()
    if not (start or preview):
        return
    if typed.pop("unchosen", False):
        st.error("Choose at least one folder or file, or take everything.", icon=":material/error:")
        return
    _submit_items(person, namespace, kind, typed, chosen, dry=preview)


def _show_buttons() -> tuple[bool, bool]:
    with st.container(horizontal=True):
        start = st.form_submit_button("Start", type="primary", icon=":material/play_arrow:")
        preview = st.form_submit_button(
            "Preview", icon=":material/visibility:", help="What would be created, updated, removed, and its cost."
        )
    return start, preview


def _submit_items(
    person: session.Person, namespace: str, kind: str, typed: dict[str, Any], chosen: Options, *, dry: bool
) -> None:
    try:
        items = make_items(namespace, kind, typed, chosen)
    except InvalidFormError as error:
        st.error(escape_markdown(str(error)), icon=":material/error:")
        return
    if dry:
        added.ask_preview(person, namespace, kind, items)
        return
    added.forget_previews()
    additions.start_addition(namespace, items)
    clear_fields()
    st.rerun()


main()
