"""WebDAV (RFC 4918): a folder is listed by one PROPFIND of depth 1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any, BinaryIO, Final
from urllib.parse import quote, unquote, urlsplit

from connectors.http import responses
from connectors.sources.objects.location import Location
from connectors.sources.objects.tree import Tree
from connectors.sources.objects.web import NotReadable, WebClient, parse_xml
from retrieval.errors import Fatal
from retrieval.settings import Settings

SERVER_TITLE: Final = "The WebDAV server"
_NAMES: Final = ("resourcetype", "getcontentlength", "getlastmodified", "getetag")
_BODY: Final = (
    '<?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:"><prop>'
    + "".join(f"<{name}/>" for name in _NAMES)
    + "</prop></propfind>"
).encode()


class WebdavFiles:
    """Files of a server for `Tree`."""

    def __init__(self, client: WebClient) -> None:
        self._client = client

    def ls(self, path: str) -> list[dict[str, Any]]:
        """List a folder. Fatal for an answer without the folder itself."""
        entries = self._find(path.rstrip("/") + "/", "1")
        folder = path.strip("/")
        # Without the folder, the paths of the answer are relative to another one.
        if folder not in {entry["name"] for entry in entries}:
            raise Fatal("The WebDAV server lists another folder than the one that was requested.")
        return [entry for entry in entries if entry["name"] != folder]

    def info(self, path: str) -> dict[str, Any]:
        """Describe the file or folder at a path."""
        entries = self._find(path, "0")
        if len(entries) != 1:
            raise responses.unreadable_answer(SERVER_TITLE)
        return entries[0]

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        with self._client.stream(quote(path)) as (_, stream):
            yield stream

    def _find(self, path: str, depth: str) -> list[dict[str, Any]]:
        headers = {"Depth": depth, "Content-Type": "application/xml"}
        response, body = self._client.send("PROPFIND", quote(path), body=_BODY, headers=headers)
        if response.status_code != 207:
            raise Fatal("The server does not speak WebDAV at this URL.")
        return [
            _entry(element) for element in parse_xml(body, "{DAV:}multistatus", SERVER_TITLE).iterfind("{DAV:}response")
        ]


def make_webdav(location: Location, settings: Settings) -> Tree:
    import httpx

    names = location.credentials
    auth = httpx.BasicAuth(names["user"], names.get("password", "")) if names else None
    scheme = location.scheme.removeprefix("webdav+")
    files = WebdavFiles(WebClient(SERVER_TITLE, f"{scheme}://{location.host}", settings, auth))
    return Tree(files, location.prefix, files.open, explain_refusals)


@contextmanager
def explain_refusals() -> Iterator[None]:
    """Translate a refused folder to Fatal."""
    # The listing ends: a gap would look like a removal.
    try:
        yield
    except NotReadable as error:
        raise Fatal("A folder below that of the connection may not be read with these credentials.") from error


def _entry(element: Any) -> dict[str, Any]:
    """Convert a resource to fsspec's form. TransientError without a path."""
    properties = {
        name: part
        for propstat in element.iterfind("{DAV:}propstat")
        if " 200" in (propstat.findtext("{DAV:}status") or "")
        for name in _NAMES
        if (part := propstat.find(f"{{DAV:}}prop/{{DAV:}}{name}")) is not None
    }
    texts = {name: (part.text or "").strip() for name, part in properties.items()}
    kind = properties.get("resourcetype")
    is_folder = kind is not None and kind.find("{DAV:}collection") is not None
    try:
        return {
            "name": unquote(urlsplit((element.findtext("{DAV:}href") or "").strip()).path, errors="strict").strip("/"),
            "type": "directory" if is_folder else "file",
            "size": int(texts.get("getcontentlength") or 0),
            "etag": texts.get("getetag", ""),
            "modified": parsedate_to_datetime(texts["getlastmodified"]) if texts.get("getlastmodified") else None,
        }
    except ValueError as error:
        raise responses.unreadable_answer(SERVER_TITLE) from error
