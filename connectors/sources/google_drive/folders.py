"""Where files lie: paths from folders, which are asked for one by one while they are few, and all at once otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connectors.sources.google_drive.client import Drive, every
from connectors.sources.google_drive.items import FOLDER
from retrieval.errors import Skippable

FEW: Final = 20
DEEPEST: Final = 100
"""Google Drive has no folders in deeper folders than these."""
TOP: Final = ("", "")


class Folders:
    """Names and parents of folders, as long as one listing lasts. `shared`: the shared drives' names by id."""

    def __init__(self, drive: Drive, shared: Mapping[str, str]) -> None:
        self._drive = drive
        self._shared = shared
        self._known: dict[str, tuple[str, str]] = {}
        self._loaded: set[str] = set()
        self._root: str | None = None
        self._asked = 0
        self.foreign: dict[str, None] = {}
        """Folders of somebody else, in the order in which they were told of."""

    @property
    def root(self) -> str:
        """The id of "My Drive"."""
        if self._root is None:
            try:
                self._root = str(self._drive.file("root", "id").get("id"))
            except Skippable:
                self._root = ""
        return self._root

    def load(self, log: str) -> None:
        """All folders of a shared drive, or for "" of the account: a request for each thousand."""
        if log in self._loaded:
            return
        for answer in every(lambda page: self._drive.files(f"trashed = false and mimeType = '{FOLDER}'", log, page)):
            for folder in answer["files"]:
                self.note(folder)
        self._loaded.add(log)

    def note(self, folder: Mapping[str, Any]) -> None:
        self._known[folder["id"]] = (folder["name"], parent_of(folder))
        if self.is_foreign(folder):
            self.foreign[folder["id"]] = None

    def knows(self, folder_id: str) -> bool:
        return folder_id in self._known

    def is_foreign(self, folder: Mapping[str, Any]) -> bool:
        """Whether it is somebody else's, and in no shared drive that is listed itself."""
        drive = folder.get("driveId")
        return drive not in self._shared if drive else folder.get("ownedByMe") is False

    def place(self, file: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
        """Path and ids of the folders: the drive's name if it is a shared one, the folders that the account can see,
        and the file's name. "My Drive" goes by `root`, too.
        """
        parts, log, ids = [file["name"]], file.get("driveId") or "", list[str]()
        log = log if log in self._shared else ""
        above = parent_of(file)
        for _ in range(DEEPEST):
            ids += [above] if above else []
            if above in self._shared:
                parts.append(self._shared[above])
            if not above or above in self._shared or above == self.root:
                ids += ["root"] if above == self.root else []
                break
            name, above = self._folder(above, log)
            parts += [name] if name else []
        return "/".join(reversed(parts)), tuple(ids)

    def _folder(self, folder_id: str, log: str) -> tuple[str, str]:
        if folder_id not in self._known and log not in self._loaded:
            self._asked += 1
            if self._asked > FEW:
                self.load(log)
            else:
                self._ask(folder_id)
        return self._known.setdefault(folder_id, TOP)

    def _ask(self, folder_id: str) -> None:
        try:
            self.note(self._drive.file(folder_id, "id,name,parents"))
        except Skippable:
            self._known[folder_id] = TOP


def parent_of(file: Mapping[str, Any]) -> str:
    """The folder that it lies in, "" if the account cannot see it."""
    return str((file.get("parents") or [""])[0])
