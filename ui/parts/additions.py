"""The addition in progress: the items of one request of a person, how they are sent, and which job runs they became.

The items live in the browser session until the API has accepted them. The page's address keeps the ids of their runs,
so that a lost session shows what reached the service, and how much did not.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

import streamlit as st
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import get_script_run_ctx

from ui import session
from ui.client import Api, ApiError, Json
from ui.parts.labels import format_count

AT_ONCE = 4
"""Requests beside each other: so many files are read into requests at a time."""
LINKED = 100
"""Runs that the page's address names, and that are asked for together."""
_KEPT = "additions"


@dataclass(slots=True)
class Item:
    """One ingestion: a JSON `body`, or a `form` with its `file`. It ends as a `run`, or with an `error`."""

    name: str
    path: str
    body: Json = field(default_factory=dict)
    form: dict[str, str] = field(default_factory=dict)
    file: Any = None
    once: str = field(default_factory=lambda: uuid.uuid4().hex)
    run: str = ""
    error: ApiError | None = None

    @property
    def waits(self) -> bool:
        return not self.run and self.error is None


@dataclass(slots=True)
class Addition:
    namespace: str
    items: list[Item]


def current_addition(namespace: str) -> Addition | None:
    addition = st.session_state.get(_KEPT)
    return addition if isinstance(addition, Addition) and addition.namespace == namespace else None


def start_addition(namespace: str, items: Sequence[Item]) -> Addition:
    """Remember the items; they are sent by `send`."""
    added = Addition(namespace, list(items))
    st.session_state[_KEPT] = added
    link_runs(added)
    return added


def forget_addition() -> None:
    """Forget the addition; its runs continue, and are listed among all runs."""
    added = st.session_state.pop(_KEPT, None)
    if isinstance(added, Addition):
        for item in added.items:
            _let_go(item)
    session.set_parameters(runs=None, of=None)


def replace_run(namespace: str, old: str, new: str) -> None:
    """A run's failed documents are run again as another run, which takes its place."""
    if added := current_addition(namespace):
        for item in added.items:
            item.run = new if item.run == old else item.run
    session.set_parameters(runs=",".join(new if run_id == old else run_id for run_id in linked_runs()))


def goes_on(namespace: str) -> bool:
    """Tell whether the page has an addition to show: its address names one, or some items are not sent yet."""
    added = current_addition(namespace)
    if added and not linked_runs():
        if all(item.run for item in added.items):
            forget_addition()
            return False
        link_runs(added)
    return bool(added or linked_runs())


def linked_runs() -> list[str]:
    return [run_id for run_id in (session.read_parameter("runs") or "").split(",") if run_id][:LINKED]


def send_items(person: session.Person, added: Addition) -> None:
    """Send what waits, a few at a time, with a bar. Each item keeps what became of it, whatever becomes of the page."""
    waiting = [item for item in added.items if item.waits]
    if not waiting:
        return
    whole = len(added.items)
    bar = st.progress(0.0, text=f"Sending {format_count(whole, 'item')} …")
    pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="send")
    try:
        for _ in as_completed([pool.submit(_send, person.api, item) for item in waiting]):
            link_runs(added)
            sent_count = sum(not item.waits for item in added.items)
            bar.progress(sent_count / whole, text=f"{sent_count:,} of {format_count(whole, 'item')} sent")
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    link_runs(added)
    bar.empty()
    for item in added.items:
        if item.run:
            _let_go(item)


def send_dry(person: session.Person, items: Sequence[Item]) -> None:
    """Ask what the items would do; each gets the run that finds it out, or an error. Files stay with their items."""
    with st.spinner("Sending for the preview …"), ThreadPoolExecutor(AT_ONCE, thread_name_prefix="send") as pool:
        list(pool.map(lambda item: _send(person.api, item, dry=True), items))


def _send(api: Api, item: Item, *, dry: bool = False) -> None:
    try:
        if item.file is None:
            body = {**item.body, "dryRun": True} if dry else item.body
            answer = api.post(item.path, body, once=item.once)
        else:
            item.file.seek(0)
            form = {**item.form, "dryRun": "true"} if dry else item.form
            kind = item.file.type or "application/octet-stream"
            answer = api.upload(item.path, form, item.file.name, item.file, kind, item.once).data
        item.run = answer["ingestJobRunId"]
    except ApiError as error:
        item.error = error


def _let_go(item: Item) -> None:
    """Drop the file of an accepted or discarded item from the app's memory."""
    if item.file is not None and (context := get_script_run_ctx(suppress_warning=True)):
        file_manager = context.uploaded_file_mgr
        if isinstance(file_manager, MemoryUploadedFileManager):
            file_manager.remove_file(context.session_id, item.file.file_id)
    item.file = None


def link_runs(added: Addition) -> None:
    runs = [item.run for item in added.items if item.run]
    session.set_parameters(runs=",".join(runs[:LINKED]), of=str(len(added.items)))
