"""Addition in progress: items, requests and job runs.

Items stay in the browser session until the API accepts them. The page's address keeps the run ids, for lost sessions.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import streamlit as st
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import get_script_run_ctx

from ui import session
from ui.client import Api, ApiError, Json
from ui.parts.labels import format_count

# Bounds the files in memory.
MAX_PARALLEL_REQUESTS = 4
# Run ids in the page's address, also the size of one request.
MAX_LINKED_RUNS = 100
UPLOAD_PATH = "/v1/ingest/uploads"
_ADDITION_KEY = "additions"


@dataclass(slots=True)
class Part:
    """One file of an item; ends with an `upload` or an `error`."""

    name: str
    external_id: str
    file: Any
    once: str = field(default_factory=lambda: uuid.uuid4().hex)
    upload: str = ""
    error: ApiError | None = None


@dataclass(slots=True)
class Item:
    """One ingestion as JSON `body` with file `parts`, or as `form` with `file`; ends with a `run` or an `error`."""

    name: str
    path: str
    body: Json = field(default_factory=dict)
    form: dict[str, str] = field(default_factory=dict)
    file: Any = None
    parts: list[Part] = field(default_factory=list)
    once: str = field(default_factory=lambda: uuid.uuid4().hex)
    run: str = ""
    error: ApiError | None = None

    @property
    def is_waiting(self) -> bool:
        return not self.run and self.error is None

    @property
    def size(self) -> int:
        """Return the number of files, 1 for other content."""
        return len(self.parts) or 1

    def forget_files(self) -> None:
        self.file = None
        for part in self.parts:
            part.file = None

    @property
    def accepted(self) -> int:
        """Return the number of accepted files, 1 for other content."""
        return (sum(bool(part.upload) for part in self.parts) if self.parts else 1) if self.run else 0


@dataclass(slots=True)
class Addition:
    namespace: str
    items: list[Item]


def current_addition(namespace: str) -> Addition | None:
    addition = st.session_state.get(_ADDITION_KEY)
    return addition if isinstance(addition, Addition) and addition.namespace == namespace else None


def start_addition(namespace: str, items: Sequence[Item]) -> Addition:
    """Store the items for `send_items`."""
    added = Addition(namespace, list(items))
    st.session_state[_ADDITION_KEY] = added
    link_runs(added)
    return added


def forget_addition() -> None:
    """Forget the addition; the runs continue."""
    added = st.session_state.pop(_ADDITION_KEY, None)
    if isinstance(added, Addition):
        for item in added.items:
            _drop_files(item)
    session.set_parameters(runs=None, retries=None, of=None, sent=None)


def follow_retries(runs: Sequence[str]) -> None:
    """Follow retries too; the former runs stay, with their other failures."""
    session.set_parameters(retries=",".join(dict.fromkeys([*linked_runs("retries"), *runs])))


def has_addition(namespace: str) -> bool:
    """Check for an addition in the session or the page's address."""
    added = current_addition(namespace)
    if added and not linked_runs():
        if all(item.run and item.accepted == item.size for item in added.items):
            forget_addition()
            return False
        link_runs(added)
    return bool(added or linked_runs() or session.read_parameter("of"))


def linked_runs(name: str = "runs") -> list[str]:
    return [run_id for run_id in (session.read_parameter(name) or "").split(",") if run_id][:MAX_LINKED_RUNS]


def send_items(person: session.Person, added: Addition) -> None:
    """Send waiting items in parallel, with a progress bar; each item records its result."""
    waiting = [item for item in added.items if item.is_waiting]
    if not waiting:
        return
    whole = sum(item.size for item in added.items)
    bar = st.progress(0.0, text=f"Sending {format_count(whole, 'item')} …")
    pool = ThreadPoolExecutor(MAX_PARALLEL_REQUESTS, thread_name_prefix="send")
    uploads = [partial(_upload_part, person.api, item, part) for item in waiting for part in _unsent_parts(item)]
    try:
        for tasks in (uploads, [partial(_send_item, person.api, item) for item in waiting]):
            for _ in as_completed([pool.submit(task) for task in tasks]):
                link_runs(added)
                count = sum(_sent_count(item) for item in added.items)
                bar.progress(count / whole, text=f"{count:,} of {format_count(whole, 'item')} sent")
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    link_runs(added)
    bar.empty()
    for item in added.items:
        if item.run:
            _drop_files(item)


def send_again(added: Addition) -> None:
    """Send refused items once more; refused files become a separate item."""
    for item in list(added.items):
        refused = [part for part in item.parts if part.error]
        for part in refused:
            part.error = None
        # The same Idempotency-Key names the same files: the item may have been accepted although its answer was lost.
        if refused and len(refused) < len(item.parts):
            item.parts = [part for part in item.parts if part not in refused]
            added.items.append(Item(item.name, item.path, body=item.body, parts=refused))
        item.error = None


def _unsent_parts(item: Item) -> list[Part]:
    return [part for part in item.parts if not part.upload and part.error is None]


def _sent_count(item: Item) -> int:
    return item.size - len(_unsent_parts(item)) if item.parts else int(not item.is_waiting)


def send_dry(person: session.Person, items: Sequence[Item]) -> None:
    """Request a dry run of each item."""
    with (
        st.spinner("Sending for the preview …"),
        ThreadPoolExecutor(MAX_PARALLEL_REQUESTS, thread_name_prefix="send") as pool,
    ):
        uploads = [(item, part) for item in items for part in _unsent_parts(item)]
        list(pool.map(lambda pair: _upload_part(person.api, *pair), uploads))
        list(pool.map(lambda item: _send_item(person.api, item, dry=True), items))


def _upload_part(api: Api, item: Item, part: Part) -> None:
    try:
        part.file.seek(0)
        kind = part.file.type or "application/octet-stream"
        form = {"namespaceId": item.body["namespaceId"]}
        part.upload = api.upload(UPLOAD_PATH, form, part.file.name, part.file, kind, part.once).data["uploadId"]
    except ApiError as error:
        part.error = error


def _add_files(item: Item) -> Json:
    """Return the item's body with the uploaded files."""
    request = item.body["ingestConfig"]
    files = [{"uploadId": part.upload, "externalId": part.external_id} for part in item.parts if part.upload]
    return {**item.body, "ingestConfig": {**request, "config": {**request["config"], "files": files}}}


def _send_item(api: Api, item: Item, *, dry: bool = False) -> None:
    if item.parts and not any(part.upload for part in item.parts):
        item.error = item.parts[0].error
        return
    try:
        if item.file is None:
            body = _add_files(item) if item.parts else item.body
            body = {**body, "dryRun": True} if dry else body
            answer = api.post(item.path, body, once=item.once)
        else:
            item.file.seek(0)
            form = {**item.form, "dryRun": "true"} if dry else item.form
            kind = item.file.type or "application/octet-stream"
            answer = api.upload(item.path, form, item.file.name, item.file, kind, item.once).data
        item.run = answer["ingestJobRunId"]
    except ApiError as error:
        item.error = error


def _drop_files(item: Item) -> None:
    """Release the memory of accepted or discarded files; refused files stay."""
    holders: list[Item | Part] = [item, *(part for part in item.parts if not part.error)]
    context = get_script_run_ctx(suppress_warning=True)
    for holder in holders:
        if holder.file is not None and context:
            file_manager = context.uploaded_file_mgr
            if isinstance(file_manager, MemoryUploadedFileManager):
                file_manager.remove_file(context.session_id, holder.file.file_id)
        holder.file = None


def link_runs(added: Addition) -> None:
    runs = [item.run for item in added.items if item.run]
    whole, accepted = (sum(item.size for item in added.items), sum(item.accepted for item in added.items))
    session.set_parameters(runs=",".join(runs[:MAX_LINKED_RUNS]), of=str(whole), sent=str(accepted))
