"""Requests to Google Drive, with explicit fields and shared drives included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from connectors.google.transport import HttpPool, NotFound, RequestBuilder, Sink, iterate_pages
from connectors.http.retries import ServicePolicy
from connectors.sources.google_drive import api
from connectors.sources.google_drive.api import DRIVE_API
from retrieval.errors import Fatal, Skippable
from retrieval.ports import TokenSource

# Google allows 325,000 units a minute per user and promises no Retry-After: an even rate beats a stop.
SERVICE_POLICY: Final = ServicePolicy(service="Google Drive", per_minute=3000, burst=50)
FILES_PER_PAGE: Final = 1000
DRIVES_PER_PAGE: Final = 100

FILE_FIELDS: Final = (
    "id,name,mimeType,parents,trashed,explicitlyTrashed,driveId,md5Checksum,headRevisionId,createdTime,modifiedTime,"
    "size,webViewLink,ownedByMe,owners(displayName,emailAddress),shortcutDetails(targetId,targetMimeType),capabilities(canDownload)"
)
# Types of a file's fields; all others are strings or booleans.
FIELD_TYPES: Final = {
    "parents": list,
    "owners": list,
    "shortcutDetails": dict,
    "capabilities": dict,
    "exportLinks": dict,
}
ALL_DRIVES: Final[dict[str, Any]] = {"supportsAllDrives": True, "includeItemsFromAllDrives": True}
Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Drive:
    """Requests of one connection. Thread-safe."""

    pool: HttpPool
    tokens: TokenSource

    def list_shared_drives(self, *, admin: bool = False) -> dict[str, str]:
        """Return names by id of the account's shared drives; `admin`: of all in the organization."""
        answers = iterate_pages(DRIVE_API.title, lambda page: self._list_drives_page(page, admin=admin))
        return {shared_drive["id"]: shared_drive["name"] for answer in answers for shared_drive in answer["drives"]}

    def read_shared_drive(self, drive_id: str) -> str:
        """Return the name of a shared drive, for an administrator. NotFound if it is missing."""

        def send(token: str) -> str:
            request = {"driveId": drive_id, "useDomainAdminAccess": True, "fields": "id,name"}
            return str(self.pool.send(token, lambda drive: drive.drives.get(**request)).get("name"))

        return SERVICE_POLICY.call(self.tokens, send)

    def read_start_token(self, change_log: str) -> str:
        """Return the token for future changes of a shared drive, or for "" of the account."""
        answer = self._list(
            "startPageToken",
            lambda drive: drive.changes.getStartPageToken(
                supportsAllDrives=True, fields="startPageToken", driveId=change_log or None
            ),
            partial=bool(change_log),
        )
        return str(answer["startPageToken"])

    def list_files(self, query: str, change_log: str, page: str | None, *, partial: bool = False) -> Answer:
        """Return a page of files of a shared drive, or for "" of the account; `partial`: only of a folder."""
        return self._list(
            "files",
            lambda drive: drive.files.list(
                q=query,
                corpora="drive" if change_log else "user",
                driveId=change_log or None,
                pageSize=FILES_PER_PAGE,
                pageToken=page,
                fields=f"nextPageToken,incompleteSearch,files({FILE_FIELDS})",
                **ALL_DRIVES,
            ),
            partial=partial or bool(change_log),
        )

    def list_changes(self, change_log: str, page: str) -> Answer:
        """Return a page of changes; a change without a file means a deleted file."""
        return self._list(
            "changes",
            lambda drive: drive.changes.list(
                pageToken=page,
                driveId=change_log or None,
                pageSize=FILES_PER_PAGE,
                includeRemoved=True,
                includeCorpusRemovals=True,
                fields=f"nextPageToken,newStartPageToken,changes(changeType,removed,fileId,driveId,file({FILE_FIELDS}))",
                **ALL_DRIVES,
            ),
            partial=bool(change_log),
        )

    def watch_changes(self, change_log: str, channel: Mapping[str, str]) -> Answer:
        """Open a channel for the changes of a shared drive, or for "" of the account."""
        token = self.read_start_token(change_log)
        return self._list(
            "resourceId",
            lambda drive: drive.changes.watch(
                body=dict(channel),
                pageToken=token,
                driveId=change_log or None,
                includeRemoved=True,
                includeCorpusRemovals=True,
                fields="id,resourceId,expiration",
                **ALL_DRIVES,
            ),
            partial=True,
        )

    def stop_channel(self, channel: Mapping[str, str]) -> None:
        """Close a channel. NotFound for an ended one."""
        SERVICE_POLICY.call(
            self.tokens, lambda token: self.pool.send(token, lambda drive: drive.channels.stop(body=dict(channel)))
        )

    def read_file(self, file_id: str, fields: str = FILE_FIELDS) -> Answer:
        """Return a file or folder. NotFound, a Skippable, if it is missing or invisible to the account."""

        def send(token: str) -> Answer:
            answer = self.pool.send(
                token, lambda drive: drive.files.get(fileId=file_id, fields=fields, supportsAllDrives=True)
            )
            if not _is_shaped(answer) or not answer.keys() & set(fields.split(",")):
                raise DRIVE_API.senseless_answer()
            return answer

        return SERVICE_POLICY.call(self.tokens, send)

    def list_permissions(self, file_id: str, page: str | None, *, admin: bool = False) -> Answer:
        """Return a page of a file's permissions, including inherited ones; `admin`: of any shared drive."""
        permission_fields = "id,type,emailAddress,domain,role,deleted,view,expirationTime,inheritedPermissionsDisabled"
        fields = f"nextPageToken,permissions({permission_fields},permissionDetails(inherited))"
        return self._list(
            "permissions",
            lambda drive: drive.permissions.list(
                fileId=file_id,
                pageSize=100,
                pageToken=page,
                supportsAllDrives=True,
                useDomainAdminAccess=admin or None,
                fields=fields,
            ),
            partial=True,
        )

    def download(self, file_id: str, to: Path, max_bytes: int) -> Sink:
        """Download a stored file."""

        def send(token: str) -> Sink:
            with Sink(to, max_bytes) as sink:
                self.pool.download(
                    token, lambda drive: drive.files.get_media(fileId=file_id, supportsAllDrives=True), sink
                )
            return sink

        return SERVICE_POLICY.call(self.tokens, send)

    def export_document(self, file_id: str, media_type: str, to: Path, max_bytes: int) -> None:
        """Export a Google document. TooLarge or Unsupported, both Skippable, if it is impossible."""

        def send(token: str) -> None:
            with Sink(to, max_bytes) as sink:
                self.pool.export(
                    token, lambda drive: drive.files.export_media(fileId=file_id, mimeType=media_type), sink
                )

        SERVICE_POLICY.call(self.tokens, send)

    def download_link(self, url: str, to: Path, max_bytes: int) -> None:
        """Download a document by an export link."""
        # Links have no limit of 10 MB.

        def send(token: str) -> None:
            with Sink(to, max_bytes) as sink:
                api.load_export(self.pool, token, url, sink)

        SERVICE_POLICY.call(self.tokens, send)

    def _list_drives_page(self, page: str | None, *, admin: bool) -> Answer:
        request = {"pageSize": DRIVES_PER_PAGE, "pageToken": page, "fields": "nextPageToken,drives(id,name)"}
        request |= {"useDomainAdminAccess": True} if admin else {}
        return self._list("drives", lambda drive: drive.drives.list(**request), partial=admin)

    def _list(self, collection: str, build_request: RequestBuilder, *, partial: bool = False) -> Answer:
        """Return a page of a collection. CursorExpired for an unknown token or drive; Forbidden for a `partial` one, a
        shared drive or a folder, without permission to list."""

        def send(token: str) -> Answer:
            answer = self.pool.send(token, build_request)
            try:
                _check_answer(answer, collection)
            except (TypeError, AttributeError, LookupError) as error:
                raise DRIVE_API.senseless_answer() from error
            return answer

        try:
            return SERVICE_POLICY.call(self.tokens, send)
        except (NotFound, api.Unsupported) as error:
            raise api.CursorExpired from error
        except Skippable as error:
            if partial:
                raise api.Forbidden from error
            raise Fatal("Google Drive does not let the connected account list its files.") from error


def _check_answer(answer: Answer, collection: str) -> None:
    """Raise an error for an incomplete answer, or one without the requested field."""
    # Such an answer must not count as an empty listing. Permissions, of one file, are checked by the caller.
    if (collection not in answer and collection != "permissions") or (
        collection == "changes" and not answer.keys() & {"nextPageToken", "newStartPageToken"}
    ):
        raise DRIVE_API.senseless_answer()
    if answer.get("incompleteSearch"):
        raise api.incomplete_answer()
    files = answer.get("files", []) + [change["file"] for change in answer.get("changes", []) if change.get("file")]
    if not all(_is_shaped(file) and file.keys() >= {"id", "name", "mimeType"} for file in files):
        raise DRIVE_API.senseless_answer()


def _is_shaped(file: Any) -> bool:
    """Return True if all fields have their types."""
    shaped = isinstance(file, dict) and all(
        isinstance(value, FIELD_TYPES.get(name, str | bool)) for name, value in file.items()
    )
    return shaped and all(isinstance(owner, dict) for owner in file.get("owners", []))
