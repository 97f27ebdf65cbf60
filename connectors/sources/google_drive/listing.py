"""Resumable listing of Google Drive.

everything ──▶ tokens of all change logs ──▶ files of the account and of each drive ──▶ foreign folders   (whole)

afterwards ──▶ changes of each log ──▶ changed folders ──▶ files of new drives ──▶ foreign folders
"""

# A folder shared by link is in no listing and no change log of the account (corpora "user": files created by, opened
# by, or shared directly with the user), so such folders are listed each time. A shared drive without permission to list
# is only counted; the listing is then not whole, so that its documents stay. Tokens are read first: the next listing
# reports changes during this one. An invalid token or drive, and a week, start a full listing.

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import structlog

from connectors.sources.google_drive import api, files
from connectors.sources.google_drive.client import Answer, Drive
from connectors.sources.google_drive.files import Folders, parent_id
from retrieval.errors import Retryable, Skippable
from retrieval.ports import Page, SourceItem

# Folders whose parent and name are stored between listings.
MAX_FOLDER_MARKS: Final = 200
# Foreign folders per listing.
MAX_FOREIGN_FOLDERS: Final = 1000


@dataclass(frozen=True, slots=True)
class Step:
    """Part of a listing.

    `change_log`: id of a shared drive, "" for the account. Kinds: "files": all files; "changes": changes since the
    log's token; "folder": contents of a changed folder; "trash": contents of a trashed folder; "shared": contents of a
    foreign folder.
    """

    kind: str
    change_log: str
    folder: str = ""


@dataclass(slots=True)
class DriveCursor:
    """Position of a listing, stored as JSON.

    `tokens`: position in each change log. `steps`: remaining steps, the first one continues at `page`. `day`: last
    full listing in days since 1970. `folders`: mark of each changed folder. `shared`: foreign folders outside of the
    account's listing and change log.
    """

    tokens: dict[str, str]
    steps: list[Step]
    day: int
    whole: bool = False
    page: str | None = None
    folders: dict[str, str] = field(default_factory=dict)
    shared: list[str] = field(default_factory=list)

    @classmethod
    def parse(cls, cursor: str | None) -> DriveCursor | None:
        """Parse a cursor; None for a missing or invalid one."""
        try:
            fields: dict[str, Any] = json.loads(cursor or "null")
            return cls(**{**fields, "steps": [Step(*step) for step in fields["steps"]]})
        except (ValueError, TypeError, LookupError):
            return None

    def __str__(self) -> str:
        fields = {**asdict(self), "steps": [(step.kind, step.change_log, step.folder) for step in self.steps]}
        return json.dumps(fields, separators=(",", ":"))

    def list_every_time(self, folder_id: str) -> None:
        """List this folder with each listing from now on."""
        if folder_id not in self.shared and len(self.shared) < MAX_FOREIGN_FOLDERS:
            self.shared.append(folder_id)

    def update_mark(self, folder_id: str, mark: str) -> bool:
        """Return True for a changed mark."""
        # Many changes of a folder are visits by people.
        if self.folders.pop(folder_id, None) == mark:
            self.folders[folder_id] = mark
            return False
        self.folders[folder_id] = mark
        for oldest in list(self.folders)[:-MAX_FOLDER_MARKS]:
            del self.folders[oldest]
        return True


FILES_QUERY: Final = f"trashed = false and mimeType != '{files.FOLDER_TYPE}'"
OWN_FILES_QUERY: Final = f"{FILES_QUERY} and 'me' in owners"
# Age of the last full listing, in days, after which everything is listed again.
FULL_LISTING_DAYS: Final = 7
# Consecutive empty pages before a listing counts as endless.
MAX_EMPTY_PAGES: Final = 1000

logger = structlog.get_logger()


@dataclass(slots=True)
class ListedPage:
    """Page of Google's listing. `next`: token of the next page."""

    next: str | None
    items: list[SourceItem] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    def add_deleted(self, file_id: str) -> None:
        self.items.append(SourceItem(file_id, "", deleted=True))


@dataclass(frozen=True, slots=True)
class DrivePart:
    """Part of an organization: the shared drive `change_log`, or for "" the files that an account owns."""

    change_log: str
    name: str = ""

    def holds(self, file: Mapping[str, Any]) -> bool:
        """Check for a file of this part, by its `driveId` and `ownedByMe`."""
        return file.get("driveId") == self.change_log if self.change_log else file.get("ownedByMe") is True


class DriveListing:
    """Listing of everything visible to the account, or of a `part`. Not thread-safe."""

    def __init__(self, drive: Drive, part: DrivePart | None = None) -> None:
        self._drive = drive
        self._part = part
        self._shared_drives: dict[str, str] = {}
        self._folders = Folders(drive, self._shared_drives)
        self._shortcut_targets: dict[str, Answer | None] = {}
        self._listed_ids: set[str] = set()
        self._skipped: Counter[str] = Counter()
        self._foreign_count = 0
        self._seen_pages: set[tuple[Step, str | None]] = set()
        self._empty_count = 0
        self._steps = {
            "files": self._list_files,
            "changes": self._list_changes,
            "folder": self._list_folder,
            "trash": self._list_folder,
            "shared": self._list_foreign_folder,
        }

    def pages(self, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """Implement `Connector.iter_changes`; a rejected token starts a full listing, once."""
        try:
            yield from self._pages(self._start(DriveCursor.parse(cursor)))
        except api.CursorExpired:
            logger.info("drive.full_listing", reason="a page token is no longer accepted")
            try:
                yield from self._pages(self._start_full())
            except api.CursorExpired as error:
                raise Retryable("Google Drive rejects the page token that it issued.") from error

    def _pages(self, state: DriveCursor) -> Iterator[Page[SourceItem]]:
        while state.steps:
            step = state.steps[0]
            self._check_progress(step, state.page)
            page = self._run_step(state, step)
            state.page = page.next
            state.steps = state.steps if page.next else state.steps[1:]
            self._empty_count = 0 if page.items or page.skipped or page.next is None else self._empty_count + 1
            done = not state.steps
            skipped, self._skipped = page.skipped + self._skipped, Counter()
            yield Page(page.items, str(state), done, skipped, whole=done and state.whole)

    def _run_step(self, state: DriveCursor, step: Step) -> ListedPage:
        """Return the page of a step; only a count for a part without permission to list."""
        try:
            return self._steps[step.kind](state, step)
        except api.Forbidden:
            logger.warning("drive.skipped", drive=step.change_log, step=step.kind)
            state.whole = False
            if step.kind == "files":
                state.tokens.pop(step.change_log, None)  # tried again by the next listing
            barred = files.SKIPPED_DRIVE if step.change_log and not step.folder else files.SKIPPED_FOLDER
            return ListedPage(None, skipped=Counter({barred: 1}))

    def _check_progress(self, step: Step, page: str | None) -> None:
        """Raise Retryable if the listing repeats itself, or yields nothing without end."""
        if (step, page) in self._seen_pages or self._empty_count > MAX_EMPTY_PAGES:
            raise api.endless_listing()
        self._seen_pages.add((step, page))

    def _start(self, state: DriveCursor | None) -> DriveCursor:
        if state is None:
            return self._start_full()
        self._shared_drives.update(self._list_shared_drives())
        if state.steps:
            return state
        if state.tokens.keys() - {""} - self._shared_drives.keys() or _today() - state.day >= FULL_LISTING_DAYS:
            return self._start_full()
        fresh = self._start_tokens(sorted(self._shared_drives.keys() - state.tokens.keys()))
        state.whole, state.page = False, None
        state.steps = [Step("changes", change_log) for change_log in state.tokens]
        state.steps += [Step("files", change_log) for change_log in fresh]
        state.steps += [Step("shared", "", folder) for folder in state.shared]
        state.tokens |= fresh
        return state

    def _start_full(self) -> DriveCursor:
        self._seen_pages.clear()
        self._shared_drives.clear()
        self._skipped.clear()
        self._shared_drives.update(self._list_shared_drives())
        tokens = self._start_tokens(["", *self._shared_drives] if self._part is None else [self._part.change_log])
        steps = [Step("files", change_log) for change_log in tokens]
        return DriveCursor(tokens, steps, _today(), whole=not self._skipped)

    def _list_shared_drives(self) -> dict[str, str]:
        if self._part is None:
            return self._drive.list_shared_drives()
        return {self._part.change_log: self._part.name} if self._part.change_log else {}

    def _is_elsewhere(self, file: Mapping[str, Any]) -> bool:
        """Check for a file of another part."""
        return self._part is not None and not self._part.holds(file)

    def _start_tokens(self, logs: Sequence[str]) -> dict[str, str]:
        """Read the start tokens of the logs; the next listing retries a shared drive without one."""
        tokens = {}
        for log_id in logs:
            try:
                tokens[log_id] = self._drive.read_start_token(log_id)
            except (api.CursorExpired, api.Forbidden):
                if not log_id:
                    raise
                logger.warning("drive.skipped", drive=log_id)
                self._skipped[files.SKIPPED_DRIVE] += 1
                del self._shared_drives[log_id]
        return tokens

    def _list_files(self, state: DriveCursor, step: Step) -> ListedPage:
        self._folders.load_all(step.change_log)
        query = OWN_FILES_QUERY if self._part is not None and not step.change_log else FILES_QUERY
        answer = self._drive.list_files(query, step.change_log, state.page)
        page = ListedPage(answer.get("nextPageToken") or None)
        for file in answer["files"]:
            if step.change_log or file.get("driveId") not in self._shared_drives:  # a shared drive lists its own
                self._listed_ids.add(file["id"])
                self._add_item(state, file, page)
        if not step.change_log and page.next is None and self._part is None:
            for folder in self._folders.foreign:
                self._queue_foreign_folder(state, folder, page)
        return page

    def _list_changes(self, state: DriveCursor, step: Step) -> ListedPage:
        answer = self._drive.list_changes(step.change_log, state.page or state.tokens[step.change_log])
        page = ListedPage(answer.get("nextPageToken") or None)
        for change in answer["changes"]:
            file: Answer = change.get("file") or {}
            drives = {change.get("driveId"), file.get("driveId")}
            is_in_own_log = not step.change_log and drives & self._shared_drives.keys()
            if change.get("changeType", "file") == "file" and not is_in_own_log:
                self._add_change(state, change["fileId"], file, page)
        if page.next is None:
            state.tokens[step.change_log] = str(answer["newStartPageToken"])
        return page

    def _list_folder(self, state: DriveCursor, step: Step) -> ListedPage:
        """List a folder."""
        # Google does not report every file of a changed folder.
        quoted = step.folder.replace("\\", "\\\\").replace("'", "\\'")
        answer = self._drive.list_files(f"'{quoted}' in parents", step.change_log, state.page, partial=True)
        page = ListedPage(answer.get("nextPageToken") or None)
        already_listed = [
            file["id"] in self._listed_ids or self._folders.has_folder(file["id"]) for file in answer["files"]
        ]
        if step.kind == "shared" and not (already_listed and all(already_listed)):
            state.list_every_time(step.folder)
        for file in answer["files"]:
            is_gone = step.kind == "trash" or bool(file.get("explicitlyTrashed"))
            if file["mimeType"] == files.FOLDER_TYPE:
                self._queue_folder(state, file, "trash" if is_gone else step.kind, page)
            elif is_gone:
                page.add_deleted(file["id"])
            elif file["id"] not in self._listed_ids and not self._is_elsewhere(file):
                self._add_item(state, file, page)
        return page

    def _list_foreign_folder(self, state: DriveCursor, step: Step) -> ListedPage:
        """List a foreign folder; an unshared one is dropped."""
        # Only a full listing finds its files missing.
        try:
            return self._list_folder(state, step)
        except api.CursorExpired:
            state.shared = [folder for folder in state.shared if folder != step.folder]
            if not state.whole:
                raise
            return ListedPage(None)

    def _queue_foreign_folder(self, state: DriveCursor, folder_id: str, page: ListedPage) -> None:
        """Queue a foreign folder after all other steps."""
        self._queue_step(state, Step("shared", "", folder_id), len(state.steps), page)

    def _queue_step(self, state: DriveCursor, step: Step, at: int, page: ListedPage) -> None:
        """Queue a step once, within the limit of foreign folders."""
        if step in state.steps or (step, None) in self._seen_pages:
            return
        self._foreign_count += step.kind == "shared"
        if step.kind == "shared" and self._foreign_count > MAX_FOREIGN_FOLDERS:
            page.skipped[files.SKIPPED_EXCESS_FOLDER] += 1
        else:
            state.steps.insert(at, step)

    def _add_change(self, state: DriveCursor, file_id: str, file: Mapping[str, Any], page: ListedPage) -> None:
        """Handle a change; without a file, or in the trash, the item is deleted."""
        if file and file["mimeType"] == files.FOLDER_TYPE:
            self._add_folder_change(state, file, page)
        elif not file or file.get("trashed") or self._is_elsewhere(file):
            page.add_deleted(file_id)
        else:
            self._add_item(state, file, page)

    def _add_folder_change(self, state: DriveCursor, folder: Mapping[str, Any], page: ListedPage) -> None:
        """List a folder trashed, renamed or moved since the last listing."""
        if folder.get("trashed"):
            state.folders.pop(folder["id"], None)
            self._queue_folder(state, folder, "trash", page)
        elif folder["id"] not in self._shared_drives and folder["id"] != self._folders.root_id:
            mark = f"{parent_id(folder)}/{folder['name']}"
            if not state.update_mark(folder["id"], mark):
                return
            if self._folders.is_foreign(folder):
                if self._part is None:
                    self._queue_foreign_folder(state, folder["id"], page)
            else:
                self._queue_folder(state, folder, "folder", page)

    def _queue_folder(self, state: DriveCursor, folder: Mapping[str, Any], kind: str, page: ListedPage) -> None:
        """Queue the contents of a folder, once."""
        self._folders.add(folder)
        shared = folder.get("driveId") or ""
        self._queue_step(state, Step(kind, shared if shared in self._shared_drives else "", folder["id"]), 1, page)

    def _add_item(self, state: DriveCursor, file: Mapping[str, Any], page: ListedPage) -> None:
        """Add an item, or a count of a skipped one, to the page."""
        # Folders are neither; a shortcut stands for its target, which an organization lists in its own part.
        target: Mapping[str, Any] | None = file
        reason = ""
        if file["mimeType"] == files.SHORTCUT_TYPE and self._part is not None:
            return
        if file["mimeType"] == files.SHORTCUT_TYPE:
            target, reason = self._read_target(file)
            if target is not None and self._folders.is_foreign(target) and target["mimeType"] == files.FOLDER_TYPE:
                self._folders.add(target)
                self._queue_foreign_folder(state, target["id"], page)
                return
            if target is not None and target["mimeType"] == files.FOLDER_TYPE:
                reason = files.SKIPPED_FOLDER_SHORTCUT
        if reason or target is None or (reason := files.skip_reason(target)):
            page.skipped[reason] += 1
        elif target["mimeType"] != files.FOLDER_TYPE:
            page.items.append(files.source_item(target, self._folders.locate(target)))

    def _read_target(self, file: Mapping[str, Any]) -> tuple[Answer | None, str]:
        """Return the target of a shortcut, requested once, or the reason to skip it."""
        details = file.get("shortcutDetails") or {}
        target = str(details.get("targetId") or "")
        if target and target not in self._shortcut_targets:
            try:
                self._shortcut_targets[target] = self._drive.read_file(target)
            except Skippable:
                self._shortcut_targets[target] = None
        answer = self._shortcut_targets.get(target)
        is_lost = answer is None or bool(answer.get("trashed")) or answer["mimeType"] == files.SHORTCUT_TYPE
        return (None, files.SKIPPED_LOST_SHORTCUT) if is_lost else (answer, "")


def _today() -> int:
    return int(time.time() // 86400)
