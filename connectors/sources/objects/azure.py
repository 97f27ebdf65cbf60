"""Blobs of Azure: containers are listed by the service's own pages, whose marker the cursor keeps."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from connectors.http import responses
from connectors.sources.objects.location import Location
from connectors.sources.objects.storage import BATCH, Batch, StoredObject
from connectors.sources.objects.web import NotReadable, Refused, WebClient, parse_xml
from retrieval.errors import Fatal
from retrieval.settings import Settings

if TYPE_CHECKING:
    import httpx

VENDOR_TITLE: Final = "Azure Blob Storage"
VERSION: Final = "2021-12-02"
FORBIDDEN: Final = "The credentials may not list and read this container, or have expired."


class Container:
    """A `Storage` in a container, with blob names as keys."""

    def __init__(self, client: WebClient, location: Location) -> None:
        self._client = client
        self._name, _, self._prefix = location.prefix.partition("/")

    def list_objects(self, after: str) -> Iterator[Batch]:
        marker, markers, is_new = after, responses.Cursors("The container's listing"), False
        while True:
            try:
                batch = self._list(marker, prefix=self._prefix)
            except Refused:
                if not marker or marker != after or is_new:
                    raise
                marker, is_new = "", True  # the service no longer knows it
                continue
            yield batch
            if batch.last is None:
                return
            marker = batch.last
            markers.follow(marker, brought=bool(batch.objects))

    def list_folder(self, folder: str, after: str) -> Batch:
        return self._list(after, prefix=folder.partition("/")[2] or self._prefix, delimiter="/")

    @contextmanager
    def open(self, key: str) -> Iterator[tuple[StoredObject, BinaryIO]]:
        with self._client.stream("/" + quote(key)) as (response, stream):
            yield _stored_of_headers(key, response.headers), stream

    def find(self, key: str) -> StoredObject | None:
        try:
            response, _ = self._client.send("HEAD", "/" + quote(key))
        except FileNotFoundError:
            return None
        except NotReadable as error:
            raise Fatal(FORBIDDEN) from error
        return _stored_of_headers(key, response.headers)

    def _list(self, marker: str, **request: str) -> Batch:
        position = {"marker": marker} if marker else {}
        query = {"restype": "container", "comp": "list", "maxresults": str(BATCH)} | request | position
        try:
            _, body = self._client.send("GET", f"/{self._name}?{urlencode(query)}")
        except FileNotFoundError as error:
            raise Fatal("The account has no such container.") from error
        except NotReadable as error:
            raise Fatal(FORBIDDEN) from error
        root = parse_xml(body, "EnumerationResults", VENDOR_TITLE)
        entries = root.iterfind("Blobs/*")
        objects = [self._stored(entry) for entry in entries if entry.findtext("Properties/ResourceType") != "directory"]
        is_folder = "delimiter" in request
        blobs = [stored for stored in objects if is_folder or not stored.key.endswith("/")]
        return Batch(blobs, root.findtext("NextMarker") or None)

    def _stored(self, entry: Any) -> StoredObject:
        name = entry.find("Name")
        text = (name.text or "") if name is not None else ""
        key = f"{self._name}/{unquote(text) if name is not None and name.get('Encoded') == 'true' else text}"
        if entry.tag == "BlobPrefix":
            return StoredObject(key, 0, "")
        properties = {part.tag: part.text or "" for part in entry.iterfind("Properties/*")}
        return _stored(key, properties.get("Content-Length"), properties.get("Etag"), properties.get("Last-Modified"))


def make_container(location: Location, settings: Settings) -> Container:
    endpoint = location.endpoint or f"https://{location.host}.blob.core.windows.net"
    endpoint = endpoint if "://" in endpoint else f"https://{endpoint}"
    names = location.credentials
    sign = (
        _sign_by_key(location.host, names["accountKey"]) if "accountKey" in names else _sign_by_sas(names["sasToken"])
    )
    return Container(WebClient(VENDOR_TITLE, endpoint, settings, sign, is_unauthorized=_is_unauthorized), location)


def _is_unauthorized(response: httpx.Response) -> bool:
    return response.headers.get("x-ms-error-code") in {"AuthenticationFailed", "NoAuthenticationInformation"}


def _sign_by_sas(token: str) -> Callable[[httpx.Request], httpx.Request]:
    parameters = dict(parse_qsl(token.removeprefix("?")))

    def sign(request: httpx.Request) -> httpx.Request:
        request.headers["x-ms-version"] = VERSION
        request.url = request.url.copy_merge_params(parameters)
        return request

    return sign


def _sign_by_key(account: str, key: str) -> Callable[[httpx.Request], httpx.Request]:
    """Sign by the account's key ("Authorize with Shared Key" of Azure's documentation). Fatal if it is not Base64."""
    try:
        secret = base64.b64decode(key, validate=True)
    except ValueError as error:
        raise Fatal("The accountKey of the connection is not Base64.") from error

    def sign(request: httpx.Request) -> httpx.Request:
        request.headers["x-ms-date"] = format_datetime(datetime.now(UTC), usegmt=True)
        request.headers["x-ms-version"] = VERSION
        names = sorted(name for name in request.headers if name.startswith("x-ms-"))
        path, _, query = request.url.raw_path.decode().partition("?")
        lines = [
            request.method,
            *[""] * 11,  # no header of the standard is sent that the signature covers
            *(f"{name}:{request.headers[name]}" for name in names),
            f"/{account}{path}",
            *(f"{name}:{value}" for name, value in sorted(parse_qsl(query))),
        ]
        digest = hmac.new(secret, "\n".join(lines).encode(), hashlib.sha256).digest()
        request.headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(digest).decode()}"
        return request

    return sign


def _stored_of_headers(key: str, headers: Mapping[str, str]) -> StoredObject:
    return _stored(key, headers.get("Content-Length"), headers.get("ETag"), headers.get("Last-Modified"))


def _stored(key: str, size: str | None, etag: str | None, modified: str | None) -> StoredObject:
    """Return the object. TransientError for unreadable values."""
    try:
        return StoredObject(key, int(size or 0), (etag or "").strip('"'), _time(modified))
    except ValueError as error:
        raise responses.unreadable_answer(VENDOR_TITLE) from error


def _time(text: str | None) -> datetime | None:
    return parsedate_to_datetime(text) if text else None
