"""How far a listing of Google Drive has come: its cursor, which another process can go on from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Final

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
            said: dict[str, Any] = json.loads(cursor or "null")
            return cls(**{**said, "steps": [Step(*step) for step in said["steps"]]})
        except (ValueError, TypeError, LookupError):
            return None

    def __str__(self) -> str:
        said = {**asdict(self), "steps": [(step.kind, step.log, step.folder) for step in self.steps]}
        return json.dumps(said, separators=(",", ":"))

    def keep(self, folder_id: str) -> None:
        """Look into this folder with each listing from now on."""
        if folder_id not in self.shared and len(self.shared) < SHARED:
            self.shared.append(folder_id)

    def is_news(self, folder_id: str, mark: str) -> bool:
        """Whether a folder's mark is another than the last one: many changes of a folder are visits by people."""
        if self.folders.pop(folder_id, None) == mark:
            self.folders[folder_id] = mark
            return False
        self.folders[folder_id] = mark
        for oldest in list(self.folders)[:-REMEMBERED]:
            del self.folders[oldest]
        return True
