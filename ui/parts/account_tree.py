"""Tree of an account at a content service: folders open level by level, entries can be chosen or excluded."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import api_schema, document_actions, frame
from ui.parts.labels import format_count, format_size
from ui.parts.widgets import escape_markdown

ALL_CONTENT, CHOSEN_CONTENT = "Everything", "Chosen folders and files"
MAX_INDENT_LEVELS = 8
_ROOT_FOLDER = ""
_MEDIA_TYPE_PATTERN = re.compile(r"(application|audio|font|image|message|model|text|video)/[\w!#$&^.+*-]+")


@dataclass(slots=True)
class Level:
    """Listed entries of a folder."""

    entries: list[Json] = field(default_factory=list)
    cursor: str | None = None

    def summarize(self) -> str:
        folders = sum(entry["kind"] == "FOLDER" for entry in self.entries)
        parts = [format_count(folders, "folder")] if folders else []
        parts += [format_count(len(self.entries) - folders, "file")] if len(self.entries) > folders else []
        return ("empty" if not parts else ", ".join(parts)) + (" and more" if self.cursor else "")


@dataclass(slots=True)
class Tree:
    """Tree of a connection: levels by folder id, included and excluded entries by id."""

    levels: dict[str, Level] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)
    include: dict[str, None] = field(default_factory=dict)
    exclude: dict[str, None] = field(default_factory=dict)
    mode: str = CHOSEN_CONTENT
    # Paths and types of `include` and `exclude`, separated by line breaks.
    lines: dict[str, str] = field(default_factory=dict)
    # Entries of the newest ingestion without a form as a line.
    unwritten_entries: dict[str, list[Json]] = field(default_factory=dict)
    # Of the newest ingestion; empty without a list.
    access: Json = field(default_factory=dict)
    listing_error: ApiError | None = None

    def is_taken(self, entry: str, *, above: bool) -> bool:
        """Check if an entry is included; `above` for its folder."""
        return entry not in self.exclude and (above or entry in self.include)

    def toggle(self, entry: str, *, above: bool) -> None:
        if self.is_taken(entry, above=above):
            self.include.pop(entry, None)
            if above:
                self.exclude[entry] = None
        elif entry in self.exclude:
            del self.exclude[entry]
        else:
            self.include[entry] = None

    def config(self) -> dict[str, list[Json]]:
        chosen = {"include": self.include if self.mode == CHOSEN_CONTENT else None, "exclude": self.exclude}
        return {
            name: entries
            for name, ids in chosen.items()
            if ids is not None
            and (entries := [*({"id": entry} for entry in ids), *self.unwritten_entries.get(name, ())])
        }


def show_tree(person: session.Person, namespace: str, connection: str, kind: str) -> dict[str, Any] | None:
    """Show the tree with fields for paths and types; return the selection, None if the account cannot be listed."""
    # None and `unchosen` keep a failure from selecting the whole account.
    tree = st.session_state.setdefault(f"tree-{connection}", Tree())
    if not tree.levels:
        _load_level(person, namespace, connection, tree, _ROOT_FOLDER)
    if not tree.levels:
        _show_listing_error(tree)
        st.button("Try again", icon=":material/replay:")
        return None
    # Fields are forgotten when another page is opened; the tree is not.
    st.session_state.setdefault(f"content-{connection}", tree.mode)
    tree.mode = st.radio("Content", [ALL_CONTENT, CHOSEN_CONTENT], key=f"content-{connection}", horizontal=True)

    @frame.live_fragment()
    def show_browser() -> None:
        with st.container(border=True, height=420):
            _show_level(person, namespace, connection, tree, _ROOT_FOLDER, 0, above=tree.mode == ALL_CONTENT)
        _show_listing_error(tree)
        lines = st.session_state.get(f"include-{connection}", tree.lines.get("include"))
        st.caption(_summarize_tree(tree, typed=bool(str(lines or "").strip())))

    show_browser()
    config: dict[str, Any] = {**tree.config()}
    service = api_schema.known_services().get(kind)
    with st.expander("By path or type", icon=":material/rule:"):
        about = service.path_help if service else ""
        for name, column in zip(("include", "exclude"), st.columns(2), strict=True):
            key = f"{name}-{connection}"
            st.session_state.setdefault(key, tree.lines.get(name, ""))
            label = f"{name.capitalize()}, one a line"
            tree.lines[name] = column.text_area(label, key=key, help=about, height=100) or ""
            if entries := [_parse_line(line.strip()) for line in tree.lines[name].splitlines() if line.strip()]:
                config[name] = [*config.get(name, []), *entries]
    if tree.access:
        config |= tree.access
        st.caption(f"New documents get the last access list: {document_actions.summarize_access(tree.access)}")
    return {**config, **({"unchosen": True} if tree.mode == CHOSEN_CONTENT and "include" not in config else {})}


def _parse_line(line: str) -> Json:
    return {"mimeType": line} if _MEDIA_TYPE_PATTERN.fullmatch(line) else {"path": line}


def _format_line(entry: Json) -> str:
    """Return an entry as a line of the field; "" if impossible."""
    text = entry.get("mimeType") or entry.get("path") or ""
    return text if text == text.strip() and _parse_line(text) == entry else ""


def _summarize_tree(tree: Tree, *, typed: bool) -> str:
    excluded = f", {len(tree.exclude):,} left out" if tree.exclude else ""
    if tree.mode == ALL_CONTENT:
        included = "What Include names by path or type" if typed else "Everything in the account"
        return f"{included}{excluded}. The preview counts the documents."
    if not tree.include:
        return "Nothing is chosen in the tree." if typed else "Nothing is chosen yet."
    return f"{len(tree.include):,} chosen{excluded}. The preview counts the documents."


def _show_listing_error(tree: Tree) -> None:
    if tree.listing_error is not None:
        frame.show_error(tree.listing_error)


def _load_level(person: session.Person, namespace: str, connection: str, tree: Tree, folder: str) -> None:
    tree.listing_error = None
    level = tree.levels.get(folder)
    body = {"namespaceId": namespace, "parentId": folder or None, "cursor": level.cursor if level else None}
    try:
        with st.spinner("Listing …"):
            path = f"/v1/connections/{connection}/browse"
            data = person.api.post(path, {name: value for name, value in body.items() if value})
        if not folder and not level:
            details = person.api.get(f"/v1/connections/{connection}", namespaceId=namespace)
            _restore_choice(tree, details.get("chosen") or {}, has_documents=any(details["documents"].values()))
    except ApiError as error:
        tree.listing_error = error
        return
    level = level or Level()
    level.entries += data["items"]
    level.cursor = data["nextCursor"]
    tree.levels[folder] = level


def _restore_choice(tree: Tree, chosen: Json, *, has_documents: bool) -> None:
    """Start with the choice of the newest ingestion, or with nothing before the first."""
    include, exclude = chosen.get("include") or [], chosen.get("exclude") or []
    tree.mode = ALL_CONTENT if has_documents and not include else CHOSEN_CONTENT
    tree.access = {"access": chosen["access"]} if "access" in chosen else {}
    tree.include, tree.exclude = (
        dict.fromkeys(entry["id"] for entry in entries if "id" in entry) for entries in (include, exclude)
    )
    for name, entries in (("include", include), ("exclude", exclude)):
        by_path = [entry for entry in entries if "id" not in entry]
        tree.lines[name] = "\n".join(filter(None, map(_format_line, by_path)))
        tree.unwritten_entries[name] = [entry for entry in by_path if not _format_line(entry)]


def _show_level(
    person: session.Person, namespace: str, connection: str, tree: Tree, folder: str, depth: int, *, above: bool
) -> None:
    level = tree.levels[folder]
    for entry in level.entries:
        entry_id, key = entry["id"], f"{connection}-{entry['id']}"
        barred = folder != _ROOT_FOLDER and not above and _is_excluded(tree, folder)
        is_taken = tree.is_taken(entry_id, above=above) and not barred
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            for _ in range(min(depth, MAX_INDENT_LEVELS)):
                st.space("medium")
            checkbox_key = (
                f"take-{tree.mode}-{above}-{barred}-{key}"  # a click on what was there before counts for nothing
            )
            st.session_state[checkbox_key] = is_taken
            toggle, label = partial(tree.toggle, entry_id, above=above), f"Take {escape_markdown(entry['name'])}"
            options: Json = {"label_visibility": "collapsed", "width": "content"}
            st.checkbox(label, key=checkbox_key, disabled=barred, on_change=toggle, **options)
            inner = tree.levels.get(entry_id)
            if entry["hasChildren"]:
                _show_folder(person, namespace, connection, tree, entry)
                st.caption(inner.summarize() if inner else "", width="content")
            else:
                st.markdown(f":material/draft: {escape_markdown(entry['name'])}", width="content")
                st.caption(format_size(entry["size"]) if entry["size"] is not None else "", width="content")
        if entry_id in tree.opened and inner:
            _show_level(person, namespace, connection, tree, entry_id, depth + 1, above=is_taken)
    if level.cursor:
        load = partial(_load_level, person, namespace, connection, tree, folder)
        label = f"More than these {len(level.entries):,}" if level.entries else "More"
        st.button(label, key=f"more-{connection}-{folder}", icon=":material/expand_more:", on_click=load)


def _is_excluded(tree: Tree, folder: str) -> bool:
    """Check if a folder lies within an excluded one."""
    # `exclude` wins over `include`.
    parents = {entry["id"]: above for above, level in tree.levels.items() for entry in level.entries}
    while folder != _ROOT_FOLDER:
        if folder in tree.exclude:
            return True
        folder = parents.get(folder, _ROOT_FOLDER)
    return False


def _show_folder(person: session.Person, namespace: str, connection: str, tree: Tree, entry: Json) -> None:
    entry_id = entry["id"]

    def toggle_folder() -> None:
        if entry_id in tree.opened:
            tree.opened.discard(entry_id)
            return
        if entry_id not in tree.levels:
            _load_level(person, namespace, connection, tree, entry_id)
        if entry_id in tree.levels:
            tree.opened.add(entry_id)

    icon = ":material/folder_open:" if entry_id in tree.opened else ":material/folder:"
    st.button(
        escape_markdown(entry["name"]),
        icon=icon,
        type="tertiary",
        key=f"open-{connection}-{entry_id}",
        on_click=toggle_folder,
    )
