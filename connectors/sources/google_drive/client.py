"""The requests that this service makes of Google Drive, each with its fields named and shared drives included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from connectors.http.responses import Cursors
from connectors.http.retries import ServicePolicy
from connectors.sources.google_drive import transport
from connectors.sources.google_drive.transport import Ask, HttpPool, Sink
from retrieval.errors import Fatal, Skippable
from retrieval.ports import TokenSource

POLICY: Final = ServicePolicy(service="Google Drive", per_minute=3000, burst=50)
"""The vendor allows 325,000 units a minute and user and promises no Retry-After: an even rate is better than a stop."""
PAGE: Final = 1000
DRIVES_PAGE: Final = 100

FILE: Final = (
    "id,name,mimeType,parents,trashed,explicitlyTrashed,driveId,md5Checksum,headRevisionId,createdTime,modifiedTime,"
    "size,webViewLink,ownedByMe,owners(displayName,emailAddress),shortcutDetails(targetId,targetMimeType),capabilities(canDownload)"
)
KINDS: Final = {"parents": list, "owners": list, "shortcutDetails": dict, "capabilities": dict, "exportLinks": dict}
"""Of a file's fields; all others are strings, or say yes or no."""
EVERYWHERE: Final[dict[str, Any]] = {"supportsAllDrives": True, "includeItemsFromAllDrives": True}
Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Drive:
    """Requests of one connection. Safe to use from several threads."""

    wires: HttpPool
    tokens: TokenSource

    def shared_drives(self) -> dict[str, str]:
        """Names by id of all that the account is a member of."""
        answers = iterate_pages(self._shared_drives)
        return {shared_drive["id"]: shared_drive["name"] for answer in answers for shared_drive in answer["drives"]}

    def start_token(self, log: str) -> str:
        """Return the token for changes from now on: of a shared drive, or for "" of the account itself."""
        answer = self._listed(
            "startPageToken",
            lambda drive: drive.changes.getStartPageToken(
                supportsAllDrives=True, fields="startPageToken", driveId=log or None
            ),
            part=bool(log),
        )
        return str(answer["startPageToken"])

    def files(self, query: str, log: str, page: str | None, *, part: bool = False) -> Answer:
        """A page of files: of a shared drive, or for "" of what the account owns or was given; `part`: of a folder."""
        return self._listed(
            "files",
            lambda drive: drive.files.list(
                q=query,
                corpora="drive" if log else "user",
                driveId=log or None,
                pageSize=PAGE,
                pageToken=page,
                fields=f"nextPageToken,incompleteSearch,files({FILE})",
                **EVERYWHERE,
            ),
            part=part or bool(log),
        )

    def changes(self, log: str, page: str) -> Answer:
        """Return a page of changes. A change without a file is of a file that was deleted everywhere."""
        return self._listed(
            "changes",
            lambda drive: drive.changes.list(
                pageToken=page,
                driveId=log or None,
                pageSize=PAGE,
                includeRemoved=True,
                includeCorpusRemovals=True,
                fields=f"nextPageToken,newStartPageToken,changes(changeType,removed,fileId,driveId,file({FILE}))",
                **EVERYWHERE,
            ),
            part=bool(log),
        )

    def file(self, file_id: str, fields: str = FILE) -> Answer:
        """One file or folder. NotFound, a Skippable, if it is not there, or not for this account."""

        def once(token: str) -> Answer:
            answer = self.wires.answer(
                token, lambda drive: drive.files.get(fileId=file_id, fields=fields, supportsAllDrives=True)
            )
            if not _is_shaped(answer) or not answer.keys() & set(fields.split(",")):
                raise transport.senseless_answer()
            return answer

        return POLICY.call(self.tokens, once)

    def permissions(self, file_id: str, page: str | None) -> Answer:
        """A page of a file's permissions, inherited ones too."""
        wanted_fields = "id,type,emailAddress,domain,role,deleted,view,expirationTime,inheritedPermissionsDisabled"
        fields = f"nextPageToken,permissions({wanted_fields},permissionDetails(inherited))"
        return self._listed(
            "permissions",
            lambda drive: drive.permissions.list(
                fileId=file_id, pageSize=100, pageToken=page, supportsAllDrives=True, fields=fields
            ),
            part=True,
        )

    def media(self, file_id: str, to: Path, most: int) -> Sink:
        """A stored file's content."""

        def once(token: str) -> Sink:
            with Sink(to, most) as sink:
                self.wires.load(
                    token, lambda drive: drive.files.get_media(fileId=file_id, supportsAllDrives=True), sink
                )
            return sink

        return POLICY.call(self.tokens, once)

    def export(self, file_id: str, media_type: str, to: Path, most: int) -> None:
        """A document of Google's own in another format; TooLarge or Unsupported, both Skippable, if it cannot be."""

        def once(token: str) -> None:
            with Sink(to, most) as sink:
                self.wires.export(
                    token, lambda drive: drive.files.export_media(fileId=file_id, mimeType=media_type), sink
                )

        POLICY.call(self.tokens, once)

    def linked(self, url: str, to: Path, most: int) -> None:
        """Download the file by one of its `exportLinks`, which have no limit of 10 MB."""

        def once(token: str) -> None:
            with Sink(to, most) as sink:
                transport.load_export(self.wires, token, url, sink)

        POLICY.call(self.tokens, once)

    def _shared_drives(self, page: str | None) -> Answer:
        fields = "nextPageToken,drives(id,name)"
        return self._listed(
            "drives", lambda drive: drive.drives.list(pageSize=DRIVES_PAGE, pageToken=page, fields=fields)
        )

    def _listed(self, what: str, ask: Ask, *, part: bool = False) -> Answer:
        """CursorExpired if the page token or the listed drive is no longer known; Forbidden if it is a `part` of what
        there is, a shared drive or a folder, and may not be listed."""

        def once(token: str) -> Answer:
            answer = self.wires.answer(token, ask)
            try:
                _judge(answer, what)
            except (TypeError, AttributeError, LookupError) as error:
                raise transport.senseless_answer() from error
            return answer

        try:
            return POLICY.call(self.tokens, once)
        except (transport.NotFound, transport.Unsupported) as error:
            raise transport.CursorExpired from error
        except Skippable as error:
            if part:
                raise transport.Forbidden from error
            raise Fatal("Google Drive does not let the connected account list its files.") from error


def iterate_pages(ask: Callable[[str | None], Answer]) -> Iterator[Answer]:
    """Page after page, until there are no more. Retryable if they would never end."""
    page, cursors = None, Cursors("Google Drive's listing")
    while True:
        answer = ask(page)
        yield answer
        page = answer.get("nextPageToken")
        if not page:
            return
        cursors.follow(page, brought=any(isinstance(value, list) and value for value in answer.values()))


def _judge(answer: Answer, what: str) -> None:
    """Raise an error for an answer that is incomplete or lacks the requested field, so that it is not taken for an
    empty listing.

    Permissions are judged by their caller: they are of one file, and only that file's access is unknown then.
    """
    if (what not in answer and what != "permissions") or (
        what == "changes" and not answer.keys() & {"nextPageToken", "newStartPageToken"}
    ):
        raise transport.senseless_answer()
    if answer.get("incompleteSearch"):
        raise transport.incomplete_answer()
    files = answer.get("files", []) + [change["file"] for change in answer.get("changes", []) if change.get("file")]
    if not all(_is_shaped(file) and file.keys() >= {"id", "name", "mimeType"} for file in files):
        raise transport.senseless_answer()


def _is_shaped(file: Any) -> bool:
    """Tell whether the fields that are present are of their kinds."""
    shaped = isinstance(file, dict) and all(
        isinstance(value, KINDS.get(name, str | bool)) for name, value in file.items()
    )
    return shaped and all(isinstance(owner, dict) for owner in file.get("owners", []))
