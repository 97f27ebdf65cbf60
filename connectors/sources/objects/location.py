"""Location of a storage: URL, endpoint and credentials from a connection's `config`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from retrieval.errors import Fatal
from retrieval.network.service_urls import require_service
from retrieval.settings import Settings

_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")
_KEYS: Final = frozenset({"accessKeyId", "secretAccessKey", "sessionToken"})
_ACCOUNT: Final = re.compile(r"[a-z0-9]{3,24}")
_CONTAINER: Final = re.compile(r"[a-z0-9$][a-z0-9-]{1,62}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_FINGERPRINT: Final = re.compile(r"SHA256:[A-Za-z0-9+/]{43}=?")


@dataclass(frozen=True, slots=True)
class Location:
    """Location in a storage: `host` (bucket or account) and `prefix`, "" or ending in `/`."""

    scheme: str
    host: str
    prefix: str
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    endpoint: str = ""
    region: str = ""
    host_key: str = ""

    @property
    def root(self) -> str:
        """Return the stable root URL; `external_id`s begin with this."""
        if self.scheme == "s3" and self.endpoint:
            return f"{self.endpoint.rstrip('/')}/{self.host}/"
        return f"{self.scheme}://{self.host}/"

    @property
    def page_root(self) -> str:
        """Return the root URL for browsers."""
        return self.root.removeprefix("webdav+")


def parse_location(config: Mapping[str, Any], settings: Settings) -> Location:
    """Parse a location. ValueError with the field and the reason."""
    url = str(config.get("url") or "")
    if len(url) > 2048 or _CONTROL.search(url) or "\\" in url:
        raise ValueError("url", "must be a URL of at most 2048 characters without control characters or backslashes")
    try:
        parts = urlsplit(url)
        has_port = parts.port is not None
    except ValueError:
        raise ValueError("url", "is not a valid URL: its host or port cannot be read") from None
    if "@" in parts.netloc:
        raise ValueError("url", "must not hold a user name or password: send them in credentials")
    if parts.query or parts.fragment:
        raise ValueError("url", "must not hold a query or fragment")
    if parts.scheme not in _SCHEMES:
        raise ValueError("url", "must begin with " + " or ".join(f"{scheme}://" for scheme in _SCHEMES))
    prefix = unquote(parts.path).strip("/")
    if prefix and any(part in {"", ".", ".."} or _CONTROL.search(part) for part in prefix.split("/")):
        raise ValueError("url", "must not hold empty parts, control characters, . or .. in its path")
    location = Location(
        parts.scheme,
        parts.netloc,
        f"{prefix}/" if prefix else "",
        {name: str(value) for name, value in (config.get("credentials") or {}).items() if value},
        str(config.get("endpoint") or "").rstrip("/"),
        str(config.get("region") or ""),
        str(config.get("hostKey") or ""),
    )
    if has_port and location.scheme in {"s3", "gs", "azure"}:
        raise ValueError("url", "must name a bucket; send the host of the storage as endpoint")
    if location.host_key and location.scheme != "sftp":
        raise ValueError("hostKey", "is only for sftp://")
    _SCHEMES[location.scheme](location, settings)
    return location


def open_location(token: str, settings: Settings) -> Location:
    """Return the stored location of a connection. Fatal for a forbidden location."""
    try:
        return parse_location(json.loads(token), settings)
    except ValueError as error:
        name, reason = error.args if len(error.args) == 2 else ("config", "cannot be read")
        raise Fatal(f"The connection's {name} {reason}.") from None


def _check_folder(location: Location, settings: Settings) -> None:
    if location.host:
        raise ValueError("url", "must name a folder of the server, as file:///srv/files")
    if location.credentials or location.endpoint or location.region:
        raise ValueError("url", "names a folder, which has no credentials, endpoint or region")
    # A path outside of the allowed folders is refused by its name: resolving it would reveal the server's paths.
    folder = Path(f"/{location.prefix}")
    is_allowed = any(
        (folder.is_relative_to(allowed) or folder.is_relative_to(os.path.realpath(allowed)))
        and Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(allowed))
        for allowed in settings.source_folders
    )
    if not is_allowed:
        raise ValueError("url", "names no folder that the operator allows by RETRIEVAL_SOURCE_FOLDERS")


def _check_bucket(location: Location, _settings: Settings) -> None:
    if not _BUCKET.fullmatch(location.host):
        raise ValueError("url", "must name a bucket, as s3://bucket/folder")
    if not {"accessKeyId", "secretAccessKey"} <= location.credentials.keys() <= _KEYS:
        raise ValueError("credentials", "must hold accessKeyId and secretAccessKey, and may hold sessionToken")
    _check_endpoint(location)


def _check_container(location: Location, _settings: Settings) -> None:
    if not _ACCOUNT.fullmatch(location.host) or not _CONTAINER.fullmatch(location.prefix.partition("/")[0]):
        raise ValueError("url", "must name an account and a container, as azure://account/container/folder")
    if len(location.credentials) != 1 or not location.credentials.keys() <= {"accountKey", "sasToken"}:
        raise ValueError("credentials", "must hold either accountKey or sasToken")
    if location.region:
        raise ValueError("region", "is not for azure://")
    _check_endpoint(location)


def _check_webdav(location: Location, _settings: Settings) -> None:
    _check_server(location, {"user", "password"}, "must hold user and password, or nothing")
    if location.credentials and not location.credentials.get("user"):
        raise ValueError("credentials", "must hold user and password, or nothing")


def _check_sftp(location: Location, _settings: Settings) -> None:
    _check_server(location, {"user", "password", "privateKey"}, "must hold user and password or privateKey")
    if "user" not in location.credentials or len(location.credentials) < 2:
        raise ValueError("credentials", "must hold user and password or privateKey")
    if not location.host_key or not all(map(_FINGERPRINT.fullmatch, location.host_key.split())):
        raise ValueError("hostKey", "must hold the server's key as ssh-keygen -lf shows it, SHA256:…")


def _check_share(location: Location, _settings: Settings) -> None:
    _check_mailbox(location, _settings)
    if not location.prefix or "\\" in location.prefix:
        raise ValueError("url", "must name a share, as smb://files.example.com/share/folder")


def _check_ftp(location: Location, _settings: Settings) -> None:
    _check_webdav(location, _settings)
    if not "".join(location.credentials.values()).isprintable():
        raise ValueError("credentials", "must hold no control characters")


def _check_mailbox(location: Location, _settings: Settings) -> None:
    _check_server(location, {"user", "password"}, "must hold user and password")
    if len(location.credentials) != 2 or not location.credentials["user"].isprintable():
        raise ValueError("credentials", "must hold user and password")


def _check_server(location: Location, names: AbstractSet[str], words: str) -> None:
    if not location.host:
        raise ValueError("url", f"must name a server, as {location.scheme}://files.example.com/folder")
    if not location.credentials.keys() <= names:
        raise ValueError("credentials", words)
    if location.endpoint or location.region:
        raise ValueError("url", "names a server, which has no endpoint or region")


def _check_endpoint(location: Location) -> None:
    if location.endpoint:
        try:
            require_service(location.endpoint)
        except ValueError as error:
            raise ValueError("endpoint", str(error)) from None


_SCHEMES: Final[Mapping[str, Callable[[Location, Settings], None]]] = {
    "s3": _check_bucket,
    "gs": _check_bucket,
    "azure": _check_container,
    "webdav+https": _check_webdav,
    "webdav+http": _check_webdav,
    "sftp": _check_sftp,
    "smb": _check_share,
    "ftps": _check_ftp,
    "ftp": _check_ftp,
    "imaps": _check_mailbox,
    "imap": _check_mailbox,
    "file": _check_folder,
}
