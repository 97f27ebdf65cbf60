"""Drive API: resources, errors of refusals, and export links."""

# Export links lead to docs.google.com, with the same bearer, and from there to a download host without one:
# developers.google.com/workspace/drive/api/reference/rest/v3/files (exportLinks) and …/files/export (10 MB).

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import httpx

from connectors.google.transport import (
    ANSWER_SECONDS,
    PUSH_REASON_PREFIX,
    READ_SECONDS,
    AppsForbidden,
    GoogleApi,
    HttpPool,
    NotFound,
    Sink,
)
from connectors.http import sessions
from connectors.http.responses import connection_error
from connectors.http.retries import TransientError
from retrieval.errors import Fatal, Retryable, Skippable


class CursorExpired(Exception):
    """Google rejects a page token or does not know the shared drive: list everything again."""


class Forbidden(Exception):
    """The account may not list this shared drive or folder."""


class TooLarge(Skippable):
    """Document beyond the 10 MB of a direct export."""


class Unsupported(Skippable):
    """The request cannot be served: an unavailable export format, or an invalid token."""


_FATAL_MESSAGES: Mapping[str, str] = {
    "accessNotConfigured": "The Google Drive API is switched off for the app: enable it in its Google Cloud project.",
    "insufficientPermissions": "The connection may not read files: authorize it again and allow that.",
    "domainPolicy": "The Google Workspace does not let apps read its files: ask its administrator to allow this one.",
}
_SKIPPABLE_MESSAGES: Mapping[str, str] = {
    "cannotDownloadFile": "The file's owner does not let it be downloaded.",
    "cannotExportFile": "The file's owner does not let it be downloaded.",
    "fileNotDownloadable": "Google Drive has no content of this file that could be downloaded.",
    "insufficientFilePermissions": "The connected account may not read the file.",
    "appNotAuthorizedToFile": "The connected account has not given this file to the app.",
    "cannotDownloadAbusiveFile": "Google Drive holds the file for harmful and does not hand it out.",
    "downloadQuotaExceeded": "The file was downloaded too often today: ingest again tomorrow.",
}
_TOO_LARGE_REASON = "exportSizeLimitExceeded"
PUSH_REFUSED_MESSAGE: Final = (
    "Google refuses to announce changes at the address of push: RETRIEVAL_PUBLIC_URL must be an address of the API that"
    " Google reaches by https, with a certificate of a public authority."
)


def incomplete_answer() -> TransientError:
    return TransientError("Google Drive searched only a part of what there is.")


def endless_listing() -> Retryable:
    return Retryable("Google Drive's listing repeats a page and would never end.")


def _error_of_reason(status: int, reason: str) -> Exception:
    if status in {404, 410}:
        return NotFound("The file is not in Google Drive any more, or not for the connected account.")
    if reason == _TOO_LARGE_REASON:
        return TooLarge("Google exports at most 10 MB of a document: split it into smaller ones.")
    if reason in _FATAL_MESSAGES:
        return (AppsForbidden if reason == "domainPolicy" else Fatal)(_FATAL_MESSAGES[reason])
    if reason in _SKIPPABLE_MESSAGES or reason.startswith(PUSH_REASON_PREFIX):
        return Skippable(_SKIPPABLE_MESSAGES.get(reason, PUSH_REFUSED_MESSAGE))
    if status == 403:
        return Skippable("Google Drive does not let the connected account read the file.")
    return Unsupported("Google Drive cannot hand out the file in a format that can be read.")


@dataclass(frozen=True, slots=True)
class DriveResources:
    """The SDK's resources of Drive."""

    files: Any
    changes: Any
    drives: Any
    permissions: Any
    channels: Any


def _select_resources(service: Any) -> DriveResources:
    return DriveResources(
        service.files(), service.changes(), service.drives(), service.permissions(), service.channels()
    )


DRIVE_API: Final = GoogleApi(
    title="Google Drive",
    name="GOOGLE_DRIVE",
    url="https://www.googleapis.com",
    path="/drive/v3/",
    version=("drive", "v3"),
    select_resources=_select_resources,
    make_error=_error_of_reason,
)


EXPORT_HOST: Final = "docs.google.com"
DOWNLOAD_HOST_SUFFIX: Final = ".googleusercontent.com"
# Redirects of one link.
MAX_REDIRECTS: Final = 4
_REFUSAL_BYTES: Final = 64 * 1024


def load_export(connections: HttpPool, token: str, url: str, sink: Sink) -> None:
    """Write the content of an export link to `sink`. Unsupported for other hosts, and for a page instead of a
    document."""
    headers = {"Authorization": f"Bearer {token}"}
    with sessions.httpx_client(connections.tls_context(), seconds=READ_SECONDS) as client:
        for _ in range(MAX_REDIRECTS):
            headers = headers if _needs_bearer(connections, url) else {}
            try:
                with client.stream("GET", url, headers=headers) as answer:
                    if not answer.has_redirect_location:
                        _read_export(connections, answer, sink)
                        return
                    url = urljoin(url, answer.headers["location"])
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise connection_error("Google Drive") from error
    raise Unsupported("Google Drive leads from one address to the next and gives no document.")


def _needs_bearer(connections: HttpPool, url: str) -> bool:
    """Return True for Google's own address, with the bearer token. Unsupported for other hosts."""
    parts = urlsplit(url)
    if url.startswith(connections.origin + "/") or (parts.scheme, parts.netloc) == ("https", EXPORT_HOST):
        return True
    if parts.scheme == "https" and (parts.hostname or "").endswith(DOWNLOAD_HOST_SUFFIX) and "@" not in parts.netloc:
        return False
    raise Unsupported("Google Drive's link points to another host, which is not asked.")


def _read_export(connections: HttpPool, answer: httpx.Response, sink: Sink) -> None:
    ends = time.monotonic() + ANSWER_SECONDS
    if answer.status_code != 200:
        body = b""
        for piece in answer.iter_bytes():
            body += piece
            if len(body) > _REFUSAL_BYTES or time.monotonic() > ends:
                break
        raise connections.api.error_of_response(answer.status_code, body, answer.headers)
    if answer.headers.get("content-type", "").startswith("text/html"):
        raise Unsupported("Google Drive shows a page where the document should be.")
    for piece in answer.iter_bytes():
        sink.write(piece)
        if time.monotonic() > ends:
            raise TransientError("Google Drive did not send the document in time.")
