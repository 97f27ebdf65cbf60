"""An account of a content service as a tree: folders open level by level, each entry can be taken or left out."""

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

ALL, SOME = "Everything", "Chosen folders and files"
DEEPEST = 8
"""Levels that are indented; what lies deeper stands below each other."""
DRAWN = 200
"""Entries of one folder that are drawn at once: each click draws all of them anew."""
STEP = DRAWN // 2
"""Entries further on, or back, with a click."""
_TOP = ""
_TYPE = re.compile(r"(application|audio|font|image|message|model|text|video)/[\w!#$&^.+*-]+")


@dataclass(slots=True)
class Level:
    """Entries of a folder that were listed so far; `first`: the index of the first entry that is drawn."""

    entries: list[Json] = field(default_factory=list)
    cursor: str | None = None
    first: int = 0

    @property
    def drawn(self) -> list[Json]:
        return self.entries[self.first : self.first + DRAWN]

    def go(self, entries: int) -> None:
        """So many further on, or back; at either end as far as there are any."""
        self.first = max(0, min(self.first + entries, len(self.entries) - 1))

    def summarize(self) -> str:
        folders = sum(entry["kind"] == "FOLDER" for entry in self.entries)
        parts = [format_count(folders, "folder")] if folders else []
        parts += [format_count(len(self.entries) - folders, "file")] if len(self.entries) > folders else []
        return ("empty" if not parts else ", ".join(parts)) + (" and more" if self.cursor else "")


@dataclass(slots=True)
class Tree:
    """Tree of one connection: levels by the id of their folder, and the included and excluded entries by id."""

    levels: dict[str, Level] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)
    include: dict[str, None] = field(default_factory=dict)
    exclude: dict[str, None] = field(default_factory=dict)
    mode: str = ALL
    lines: dict[str, str] = field(default_factory=dict)
    """Paths and types of `include` and `exclude`, one a line."""
    unsaid: dict[str, list[Json]] = field(default_factory=dict)
    """Entries of the newest ingestion that no line says."""
    access: Json = field(default_factory=dict)
    """Return the `access` of the newest ingestion; empty if it named no list."""
    trouble: ApiError | None = None
    """Why the account could not be listed just now."""

    def takes(self, entry: str, *, above: bool) -> bool:
        """Tell whether an entry is taken; `above`: whether its folder is."""
        return entry not in self.exclude and (above or entry in self.include)

    def toggle(self, entry: str, *, above: bool) -> None:
        if self.takes(entry, above=above):
            self.include.pop(entry, None)
            if above:
                self.exclude[entry] = None
        elif entry in self.exclude:
            del self.exclude[entry]
        else:
            self.include[entry] = None

    def config(self) -> dict[str, list[Json]]:
        chosen = {"include": self.include if self.mode == SOME else None, "exclude": self.exclude}
        return {
            name: entries
            for name, ids in chosen.items()
            if ids is not None and (entries := [*({"id": entry} for entry in ids), *self.unsaid.get(name, ())])
        }


def show_tree(person: session.Person, namespace: str, connection: str, kind: str) -> dict[str, Any] | None:
    """Show the tree and fields for paths and types. Return `include`, `exclude`, the `access` of the newest ingestion,
    and `unchosen` if nothing is chosen yet. Return None if the account cannot be listed, so that a failure never
    selects all of it."""
    tree = st.session_state.setdefault(f"tree-{connection}", Tree())
    if not tree.levels:
        _load(person, namespace, connection, tree, _TOP)
    if not tree.levels:
        _show_trouble(tree)
        st.button("Try again", icon=":material/replay:")
        return None
    # Fields are forgotten when another page is opened; the tree is not.
    st.session_state.setdefault(f"content-{connection}", tree.mode)
    tree.mode = st.radio("Content", [ALL, SOME], key=f"content-{connection}", horizontal=True)

    @frame.live_fragment()
    def browse() -> None:
        with st.container(border=True, height=420):
            _level(person, namespace, connection, tree, _TOP, 0, above=tree.mode == ALL)
        _show_trouble(tree)
        lines = st.session_state.get(f"include-{connection}", tree.lines.get("include"))
        st.caption(_summary(tree, typed=bool(str(lines or "").strip())))

    browse()
    config: dict[str, Any] = {**tree.config()}
    service = api_schema.known_services().get(kind)
    with st.expander("By path or type", icon=":material/rule:"):
        about = service.choice.path if service and service.choice else ""
        for name, column in zip(("include", "exclude"), st.columns(2), strict=True):
            key = f"{name}-{connection}"
            st.session_state.setdefault(key, tree.lines.get(name, ""))
            label = f"{name.capitalize()}, one a line"
            tree.lines[name] = column.text_area(label, key=key, help=about, height=100) or ""
            if entries := [_named(line.strip()) for line in tree.lines[name].splitlines() if line.strip()]:
                config[name] = [*config.get(name, []), *entries]
    if tree.access:
        config |= tree.access
        st.caption(f"New documents get the last access list: {document_actions.summarize_access(tree.access)}")
    return {**config, **({"unchosen": True} if tree.mode == SOME and "include" not in config else {})}


def _named(line: str) -> Json:
    return {"mimeType": line} if _TYPE.fullmatch(line) else {"path": line}


def _line(entry: Json) -> str:
    """Return the text of an entry in the field; "" if it cannot be written as a line."""
    text = entry.get("mimeType") or entry.get("path") or ""
    return text if text == text.strip() and _named(text) == entry else ""


def _summary(tree: Tree, *, typed: bool) -> str:
    """`typed`: whether paths or types to include are named beside the tree."""
    excluded = f", {len(tree.exclude):,} left out" if tree.exclude else ""
    if tree.mode == ALL:
        included = "What Include names by path or type" if typed else "Everything in the account"
        return f"{included}{excluded}. The preview counts the documents."
    if not tree.include:
        return "Nothing is chosen in the tree." if typed else "Nothing is chosen yet."
    return f"{len(tree.include):,} chosen{excluded}. The preview counts the documents."


def _show_trouble(tree: Tree) -> None:
    if tree.trouble is not None:
        frame.show_error(tree.trouble)


def _load(person: session.Person, namespace: str, connection: str, tree: Tree, folder: str) -> None:
    tree.trouble = None
    level = tree.levels.get(folder)
    body = {"namespaceId": namespace, "parentId": folder or None, "cursor": level.cursor if level else None}
    try:
        with st.spinner("Listing …"):
            path = f"/v1/connections/{connection}/browse"
            data = person.api.post(path, {name: value for name, value in body.items() if value})
        if not folder and not level:
            chosen = person.api.get(f"/v1/connections/{connection}", namespaceId=namespace).get("chosen")
            _as_before(tree, chosen or {})
    except ApiError as error:
        tree.trouble = error
        return
    level = level or Level()
    level.entries += data["items"]
    level.cursor = data["nextCursor"]
    tree.levels[folder] = level


def _as_before(tree: Tree, chosen: Json) -> None:
    """Begin with what the newest ingestion took: who starts without looking changes nothing."""
    include, exclude = chosen.get("include") or [], chosen.get("exclude") or []
    tree.mode = SOME if include else ALL
    tree.access = {"access": chosen["access"]} if "access" in chosen else {}
    tree.include, tree.exclude = (
        dict.fromkeys(entry["id"] for entry in entries if "id" in entry) for entries in (include, exclude)
    )
    for name, entries in (("include", include), ("exclude", exclude)):
        by_path = [entry for entry in entries if "id" not in entry]
        tree.lines[name] = "\n".join(filter(None, map(_line, by_path)))
        tree.unsaid[name] = [entry for entry in by_path if not _line(entry)]


def _level(
    person: session.Person, namespace: str, connection: str, tree: Tree, folder: str, depth: int, *, above: bool
) -> None:
    level = tree.levels[folder]
    for entry in level.drawn:
        entry_id, key = entry["id"], f"{connection}-{entry['id']}"
        barred = folder != _TOP and not above and _lies_in_left_out(tree, folder)
        is_taken = tree.takes(entry_id, above=above) and not barred
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            for _ in range(min(depth, DEEPEST)):
                st.space("medium")
            box = f"take-{tree.mode}-{above}-{barred}-{key}"  # a click on what was there before counts for nothing
            st.session_state[box] = is_taken
            toggle, label = partial(tree.toggle, entry_id, above=above), f"Take {escape_markdown(entry['name'])}"
            look: Json = {"label_visibility": "collapsed", "width": "content"}
            st.checkbox(label, key=box, disabled=barred, on_change=toggle, **look)
            inner = tree.levels.get(entry_id)
            if entry["hasChildren"]:
                _folder(person, namespace, connection, tree, entry)
                st.caption(inner.summarize() if inner else "", width="content")
            else:
                st.markdown(f":material/draft: {escape_markdown(entry['name'])}", width="content")
                st.caption(format_size(entry["size"]) if entry["size"] is not None else "", width="content")
        if entry_id in tree.opened and inner:
            _level(person, namespace, connection, tree, entry_id, depth + 1, above=is_taken)
    _ends(person, namespace, connection, tree, folder)


def _ends(person: session.Person, namespace: str, connection: str, tree: Tree, folder: str) -> None:
    level = tree.levels[folder]
    goes_on = level.cursor is not None or level.first + DRAWN < len(level.entries)
    if not level.first and not goes_on:
        return

    def more() -> None:
        if level.cursor and level.first + DRAWN >= len(level.entries):
            _load(person, namespace, connection, tree, folder)
        if level.first + DRAWN < len(level.entries):
            level.go(STEP)

    with st.container(horizontal=True, vertical_alignment="center"):
        if level.first:
            key = f"earlier-{connection}-{folder}"
            st.button("Earlier", key=key, icon=":material/expand_less:", on_click=partial(level.go, -STEP))
        if goes_on:
            st.button("More", key=f"more-{connection}-{folder}", icon=":material/expand_more:", on_click=more)
        last = level.first + len(level.drawn)
        total = f"{len(level.entries):,}" + (" and more" if level.cursor else "")
        if level.entries:  # a service may send an empty page before others
            st.caption(f"{level.first + 1:,} to {last:,} of {total}", width="content")


def _lies_in_left_out(tree: Tree, folder: str) -> bool:
    """`exclude` wins over `include`: nothing within what is left out can be taken."""
    holds = {entry["id"]: above for above, level in tree.levels.items() for entry in level.entries}
    while folder != _TOP:
        if folder in tree.exclude:
            return True
        folder = holds.get(folder, _TOP)
    return False


def _folder(person: session.Person, namespace: str, connection: str, tree: Tree, entry: Json) -> None:
    entry_id = entry["id"]

    def turn() -> None:
        if entry_id in tree.opened:
            tree.opened.discard(entry_id)
            return
        if entry_id not in tree.levels:
            _load(person, namespace, connection, tree, entry_id)
        if entry_id in tree.levels:
            tree.opened.add(entry_id)

    icon = ":material/folder_open:" if entry_id in tree.opened else ":material/folder:"
    st.button(
        escape_markdown(entry["name"]), icon=icon, type="tertiary", key=f"open-{connection}-{entry_id}", on_click=turn
    )
