"""Listing of Google Drive: its cursor, which another process can continue from.

everything ──▶ the tokens of all change logs ──▶ files of the account, of each drive ──▶ folders of others   (whole)
    since then ──▶ changes of each log ──▶ folders that changed ──▶ files of drives that are new ──▶ folders of others

The content of a folder that was shared by its link is in no listing of the account and in no change log (corpora
"user": files created by, opened by, or shared directly with the user), so such folders are looked into each time.
A shared drive that may not be listed is left out and counted; without it a listing is not whole, so that its documents
stay.

Tokens are taken before anything is listed: the next listing reports what changes meanwhile. A token or drive that is
no longer valid, and a week, start everything anew, which finds what no change reported.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import structlog

from connectors.sources.google_drive import files, transport
from connectors.sources.google_drive.client import Answer, Drive
from connectors.sources.google_drive.files import Folders, parent_of
from retrieval.errors import Retryable, Skippable
from retrieval.ports import Page, SourceItem

REMEMBERED: Final = 200
"""Folders whose place and name are remembered between listings."""
SHARED: Final = 1000
"""Folders of others that are looked into by each listing."""


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a listing.

    `log`: a shared drive's id, "" for the account itself. files: everything there; changes: changes since the log's
    token; folder: contents of a changed folder; trash: contents of a trashed folder; shared: contents of a folder of
    another owner.
    """

    kind: str
    log: str
    folder: str = ""


@dataclass(slots=True)
class DriveCursor:
    """`tokens`: where each change log continues.

    `steps`: what is left to do, the first one from `page` on. `day`: of the last full listing, in days since 1970.
    `folders`: a mark of each folder that a change named. `shared`: folders of others whose contents are in neither the
    listing nor a change log of the account.
    """

    tokens: dict[str, str]
    steps: list[Step]
    day: int
    whole: bool = False
    page: str | None = None
    folders: dict[str, str] = field(default_factory=dict)
    shared: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, cursor: str | None) -> DriveCursor | None:
        """None for none, and for one that cannot be read."""
        try:
            fields: dict[str, Any] = json.loads(cursor or "null")
            return cls(**{**fields, "steps": [Step(*step) for step in fields["steps"]]})
        except (ValueError, TypeError, LookupError):
            return None

    def __str__(self) -> str:
        fields = {**asdict(self), "steps": [(step.kind, step.log, step.folder) for step in self.steps]}
        return json.dumps(fields, separators=(",", ":"))

    def keep(self, folder_id: str) -> None:
        """Look into this folder with each listing from now on."""
        if folder_id not in self.shared and len(self.shared) < SHARED:
            self.shared.append(folder_id)

    def is_news(self, folder_id: str, mark: str) -> bool:
        """Tell whether a folder's mark changed: many changes of a folder are visits by people."""
        if self.folders.pop(folder_id, None) == mark:
            self.folders[folder_id] = mark
            return False
        self.folders[folder_id] = mark
        for oldest in list(self.folders)[:-REMEMBERED]:
            del self.folders[oldest]
        return True


FILES: Final = f"trashed = false and mimeType != '{files.FOLDER}'"
DAYS: Final = 7
"""A listing of changes that is further away from the last whole one becomes a whole one."""
EMPTY_PAGES: Final = 1000
"""Pages without anything, one after the other, that are believed."""

log = structlog.get_logger()


@dataclass(slots=True)
class Found:
    """Page of Google's listing. `next`: the token of the next one."""

    next: str | None
    items: list[SourceItem] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    def gone(self, file_id: str) -> None:
        self.items.append(SourceItem(file_id, "", deleted=True))


class DriveListing:
    """One listing, for one thread."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
        self._shared: dict[str, str] = {}
        self._folders = Folders(drive, self._shared)
        self._targets: dict[str, Answer | None] = {}
        self._listed: set[str] = set()
        self._left_out: Counter[str] = Counter()
        self._looked = 0
        self._seen: set[tuple[Step, str | None]] = set()
        self._empty = 0
        self._steps = {
            "files": self._files,
            "changes": self._changes,
            "folder": self._folder,
            "trash": self._folder,
            "shared": self._shared_folder,
        }

    def pages(self, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """See `Connector.iter_changes`. A token that is refused starts everything anew, once."""
        try:
            yield from self._pages(self._begin(DriveCursor.read(cursor)))
        except transport.CursorExpired:
            log.info("drive.full_listing", reason="a page token is no longer accepted")
            try:
                yield from self._pages(self._everything())
            except transport.CursorExpired as error:
                raise Retryable("Google Drive rejects the page token that it issued.") from error

    def _pages(self, state: DriveCursor) -> Iterator[Page[SourceItem]]:
        while state.steps:
            step = state.steps[0]
            self._turn(step, state.page)
            page = self._found(state, step)
            state.page = page.next
            state.steps = state.steps if page.next else state.steps[1:]
            self._empty = 0 if page.items or page.skipped or page.next is None else self._empty + 1
            done = not state.steps
            skipped, self._left_out = page.skipped + self._left_out, Counter()
            yield Page(page.items, str(state), done, skipped, whole=done and state.whole)

    def _found(self, state: DriveCursor, step: Step) -> Found:
        """Page of a step; for a part that may not be listed, only a count."""
        try:
            return self._steps[step.kind](state, step)
        except transport.Forbidden:
            log.warning("drive.skipped", drive=step.log, step=step.kind)
            state.whole = False
            if step.kind == "files":
                state.tokens.pop(step.log, None)  # tried again by the next listing
            barred = files.BARRED_DRIVE if step.log and not step.folder else files.BARRED_FOLDER
            return Found(None, skipped=Counter({barred: 1}))

    def _turn(self, step: Step, page: str | None) -> None:
        """Check progress: Retryable if the listing repeats itself, or yields nothing without end."""
        if (step, page) in self._seen or self._empty > EMPTY_PAGES:
            raise transport.endless_listing()
        self._seen.add((step, page))

    def _begin(self, state: DriveCursor | None) -> DriveCursor:
        if state is None:
            return self._everything()
        self._shared.update(self._drive.shared_drives())
        if state.steps:
            return state
        if state.tokens.keys() - {""} - self._shared.keys() or _today() - state.day >= DAYS:
            return self._everything()
        fresh = self._start_tokens(sorted(self._shared.keys() - state.tokens.keys()))
        state.whole, state.page = False, None
        state.steps = [Step("changes", log) for log in state.tokens] + [Step("files", new) for new in fresh]
        state.steps += [Step("shared", "", folder) for folder in state.shared]
        state.tokens |= fresh
        return state

    def _everything(self) -> DriveCursor:
        self._seen.clear()
        self._shared.clear()
        self._left_out.clear()
        self._shared.update(self._drive.shared_drives())
        tokens = self._start_tokens(["", *self._shared])
        return DriveCursor(tokens, [Step("files", log) for log in tokens], _today(), whole=not self._left_out)

    def _start_tokens(self, logs: Sequence[str]) -> dict[str, str]:
        """Start tokens of the logs that have one: a shared drive without one is tried again by the next listing."""
        tokens = {}
        for log_id in logs:
            try:
                tokens[log_id] = self._drive.start_token(log_id)
            except (transport.CursorExpired, transport.Forbidden):
                if not log_id:
                    raise
                log.warning("drive.skipped", drive=log_id)
                self._left_out[files.BARRED_DRIVE] += 1
                del self._shared[log_id]
        return tokens

    def _files(self, state: DriveCursor, step: Step) -> Found:
        self._folders.load(step.log)
        answer = self._drive.files(FILES, step.log, state.page)
        page = Found(answer.get("nextPageToken") or None)
        for file in answer["files"]:
            if step.log or file.get("driveId") not in self._shared:  # a shared drive lists its own
                self._listed.add(file["id"])
                self._take(state, file, page)
        if not step.log and page.next is None:
            for folder in self._folders.foreign:
                self._look_into(state, folder, page)
        return page

    def _changes(self, state: DriveCursor, step: Step) -> Found:
        answer = self._drive.changes(step.log, state.page or state.tokens[step.log])
        page = Found(answer.get("nextPageToken") or None)
        for change in answer["changes"]:
            file: Answer = change.get("file") or {}
            told_elsewhere = not step.log and {change.get("driveId"), file.get("driveId")} & self._shared.keys()
            if change.get("changeType", "file") == "file" and not told_elsewhere:
                self._changed(state, change["fileId"], file, page)
        if page.next is None:
            state.tokens[step.log] = str(answer["newStartPageToken"])
        return page

    def _folder(self, state: DriveCursor, step: Step) -> Found:
        """List a folder: its content changes with it, whether the service reports each file or not."""
        quoted = step.folder.replace("\\", "\\\\").replace("'", "\\'")
        answer = self._drive.files(f"'{quoted}' in parents", step.log, state.page, part=True)
        page = Found(answer.get("nextPageToken") or None)
        already_listed = [file["id"] in self._listed or self._folders.knows(file["id"]) for file in answer["files"]]
        if step.kind == "shared" and not (already_listed and all(already_listed)):
            state.keep(step.folder)
        for file in answer["files"]:
            is_gone = step.kind == "trash" or bool(file.get("explicitlyTrashed"))
            if file["mimeType"] == files.FOLDER:
                self._walk(state, file, "trash" if is_gone else step.kind, page)
            elif is_gone:
                page.gone(file["id"])
            elif file["id"] not in self._listed:
                self._take(state, file, page)
        return page

    def _shared_folder(self, state: DriveCursor, step: Step) -> Found:
        """Handle a folder that is shared no longer: its content is found missing by a full listing only."""
        try:
            return self._folder(state, step)
        except transport.CursorExpired:
            state.shared = [folder for folder in state.shared if folder != step.folder]
            if not state.whole:
                raise
            return Found(None)

    def _look_into(self, state: DriveCursor, folder_id: str, found: Found) -> None:
        """Queue a folder of another person for the end, when it is known what else is listed."""
        self._add(state, Step("shared", "", folder_id), len(state.steps), found)

    def _add(self, state: DriveCursor, step: Step, at: int, found: Found) -> None:
        """Once; of folders of others no more than so many."""
        if step in state.steps or (step, None) in self._seen:
            return
        self._looked += step.kind == "shared"
        if step.kind == "shared" and self._looked > SHARED:
            found.skipped[files.MANY_FOLDERS] += 1
        else:
            state.steps.insert(at, step)

    def _changed(self, state: DriveCursor, file_id: str, file: Mapping[str, Any], found: Found) -> None:
        """Handle a change. One without a file is of a deleted item; so is one in the trash."""
        if file and file["mimeType"] == files.FOLDER:
            self._folder_changed(state, file, found)
        elif not file or file.get("trashed"):
            found.gone(file_id)
        else:
            self._take(state, file, found)

    def _folder_changed(self, state: DriveCursor, folder: Mapping[str, Any], found: Found) -> None:
        """Looked into if it went to the trash, or has another name or place than when it was last looked into."""
        if folder.get("trashed"):
            state.folders.pop(folder["id"], None)
            self._walk(state, folder, "trash", found)
        elif folder["id"] not in self._shared and folder["id"] != self._folders.root:
            mark = f"{parent_of(folder)}/{folder['name']}"
            if not state.is_news(folder["id"], mark):
                return
            if self._folders.is_foreign(folder):
                self._look_into(state, folder["id"], found)
            else:
                self._walk(state, folder, "folder", found)

    def _walk(self, state: DriveCursor, folder: Mapping[str, Any], kind: str, found: Found) -> None:
        """Queue the files and folders of a folder, once."""
        self._folders.note(folder)
        shared = folder.get("driveId") or ""
        self._add(state, Step(kind, shared if shared in self._shared else "", folder["id"]), 1, found)

    def _take(self, state: DriveCursor, file: Mapping[str, Any], found: Found) -> None:
        """An item, or a count of what is left out. Folders are neither; a shortcut is what it leads to."""
        target: Mapping[str, Any] | None = file
        reason = ""
        if file["mimeType"] == files.SHORTCUT:
            target, reason = self._target(file)
            if target is not None and self._folders.is_foreign(target) and target["mimeType"] == files.FOLDER:
                self._folders.note(target)
                self._look_into(state, target["id"], found)
                return
            if target is not None and target["mimeType"] == files.FOLDER:
                reason = files.FOLDER_SHORTCUT
        if reason or target is None or (reason := files.skip_reason(target)):
            found.skipped[reason] += 1
        elif target["mimeType"] != files.FOLDER:
            found.items.append(files.source_item(target, self._folders.place(target)))

    def _target(self, file: Mapping[str, Any]) -> tuple[Answer | None, str]:
        """Target of a shortcut, requested once, or the reason why it is left out."""
        details = file.get("shortcutDetails") or {}
        target = str(details.get("targetId") or "")
        if target and target not in self._targets:
            try:
                self._targets[target] = self._drive.file(target)
            except Skippable:
                self._targets[target] = None
        answer = self._targets.get(target)
        lost = answer is None or bool(answer.get("trashed")) or answer["mimeType"] == files.SHORTCUT
        return (None, files.LOST_SHORTCUT) if lost else (answer, "")


def _today() -> int:
    return int(time.time() // 86400)
