"""Documents beyond the 10 MB that files.export gives, by the `exportLinks` of the file, which have no such limit.

The links lead to docs.google.com, which takes the same bearer and may lead on to a download host, which gets none. By
developers.google.com/workspace/drive/api/reference/rest/v3/files (exportLinks) and …/files/export (10 MB).
"""

from __future__ import annotations

import time
from typing import Final
from urllib.parse import urljoin, urlsplit

import httpx

from connectors.http import sessions
from connectors.http.responses import unreached
from connectors.http.retries import TransientError
from connectors.sources.google_drive import errors as drive_errors
from connectors.sources.google_drive import transport as wire

HOST: Final = "docs.google.com"
DOWNLOADS: Final = ".googleusercontent.com"
HOPS: Final = 4
"""Addresses that one link may lead to, one after the other."""
_REFUSAL_BYTES: Final = 64 * 1024


def load(wires: wire.Wires, token: str, url: str, sink: wire.Sink) -> None:
    """The content behind a link. Unsupported for a link to another host, and for a page instead of the document."""
    headers = {"Authorization": f"Bearer {token}"}
    with sessions.httpx_client(wires.trust(), seconds=wire.SECONDS) as client:
        for _ in range(HOPS):
            headers = headers if _is_first(wires, url) else {}
            try:
                with client.stream("GET", url, headers=headers) as answer:
                    if not answer.has_redirect_location:
                        _read(answer, sink)
                        return
                    url = urljoin(url, answer.headers["location"])
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise unreached("Google Drive") from error
    raise drive_errors.Unsupported("Google Drive leads from one address to the next and gives no document.")


def _is_first(wires: wire.Wires, url: str) -> bool:
    """Whether the address is Google's own, which gets the bearer. Unsupported for one that is not asked at all."""
    parts = urlsplit(url)
    if url.startswith(wires.origin + "/") or (parts.scheme, parts.netloc) == ("https", HOST):
        return True
    if parts.scheme == "https" and (parts.hostname or "").endswith(DOWNLOADS) and "@" not in parts.netloc:
        return False
    raise drive_errors.Unsupported("Google Drive's link points to another host, which is not asked.")


def _read(answer: httpx.Response, sink: wire.Sink) -> None:
    ends = time.monotonic() + wire.ANSWER_SECONDS
    if answer.status_code != 200:
        said = b""
        for piece in answer.iter_bytes():
            said += piece
            if len(said) > _REFUSAL_BYTES or time.monotonic() > ends:
                break
        raise drive_errors.understand(answer.status_code, said, answer.headers)
    if answer.headers.get("content-type", "").startswith("text/html"):
        raise drive_errors.Unsupported("Google Drive shows a page where the document should be.")
    for piece in answer.iter_bytes():
        sink.write(piece)
        if time.monotonic() > ends:
            raise TransientError("Google Drive did not send the document in time.")
