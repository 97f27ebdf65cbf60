"""Folders of a file system of fsspec, walked in the order of their names."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol, cast

from connectors.http import responses
from connectors.http.retries import TransientError
from connectors.sources.objects.storage import BATCH, Batch, StoredObject
from retrieval.errors import Fatal, Skippable

if TYPE_CHECKING:
    from connectors.sources.objects.location import Location
    from retrieval.settings import Settings

# Limit of nested folders; links in a circle nest without end.
DEPTH: Final = 100
GONE: Final = "The file is no longer there."
REFUSED: Final = "The file may not be read with these credentials."
_TIMES: Final = ("mtime", "modified", "modify")

Opener = Callable[[str], AbstractContextManager[BinaryIO]]
Errors = Callable[[], AbstractContextManager[None]]


@contextmanager
def explain_failures(service: str, *failures: type[Exception]) -> Iterator[None]:
    """Translate failures of a server to port errors, except FileNotFoundError and NotADirectoryError.

    `failures`: exceptions of the library for a broken connection or answer, in addition to OSError and EOFError.
    """
    broken: tuple[type[Exception], ...] = (OSError, EOFError, *failures)
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, Skippable):
        raise
    # An unreadable folder ends the listing: a gap would look like a removal.
    except PermissionError as error:
        raise Fatal("A folder below that of the connection may not be read by this user.") from error
    except UnicodeDecodeError as error:
        raise Fatal("A folder below that of the connection has a name that is not in UTF-8.") from error
    except broken as error:
        raise responses.connection_error(service) from error


class Files(Protocol):
    """Methods used of fsspec's file systems; a server's files are a small class with both.

    Both raise FileNotFoundError.
    """

    def ls(self, path: str) -> Sequence[Mapping[str, Any]]: ...

    def info(self, path: str) -> Mapping[str, Any]: ...


class Tree:
    """A `Storage` of folders. Keys are paths from the top of the file system, without the slash before them."""

    def __init__(self, files: Files, prefix: str, opener: Opener, errors: Errors) -> None:
        self._files = files
        self._prefix = prefix
        self._open = opener
        self._errors = errors

    def list_objects(self, after: str) -> Iterator[Batch]:
        if not self._exists(self._prefix):
            raise Fatal("The folder of the connection does not exist, or may not be read.")
        objects, links = list[StoredObject](), 0
        for stored in self._walk(self._prefix, tuple(after.split("/")) if after else (), 0):
            if isinstance(stored, str):
                links += 1
                continue
            objects.append(stored)
            if len(objects) == BATCH:
                yield Batch(objects, stored.key, links)
                objects, links = [], 0
        yield Batch(objects, None, links)

    def list_folder(self, folder: str, after: str) -> Batch:
        if not _is_below(folder):
            raise Skippable("There is no such folder.")
        entries = [entry for entry in self._read_folder(folder or self._prefix) if not isinstance(entry, str)]
        if not entries and not self._exists(folder or self._prefix):
            raise Skippable("There is no such folder.")
        remaining = [entry for entry in entries if entry.key > after]
        return Batch(remaining[:BATCH], remaining[BATCH - 1].key if len(remaining) > BATCH else None)

    @contextmanager
    def open(self, key: str) -> Iterator[tuple[StoredObject, BinaryIO]]:
        stored = self.find(key)
        if stored is None:
            raise Skippable(GONE)
        with self._errors(), self._open(f"/{key}") as stream:
            yield stored, stream

    def find(self, key: str) -> StoredObject | None:
        if not _is_below(key):
            return None
        try:
            with self._errors():
                entry = _as_stored(self._files.info(f"/{key}"), key)
        except FileNotFoundError:
            return None
        return entry if isinstance(entry, StoredObject) and not entry.key.endswith("/") else None

    def _walk(self, folder: str, after: tuple[str, ...], depth: int) -> Iterator[StoredObject | str]:
        """Yield files below a folder behind `after`, depth first, and paths of skipped links."""
        if depth > DEPTH:
            raise Fatal(f"The folders are nested more than {DEPTH} deep.")
        for entry in self._read_folder(folder):
            if isinstance(entry, str):
                yield entry
                continue
            parts = tuple(entry.key.rstrip("/").split("/"))
            if not entry.key.endswith("/"):
                if parts > after:
                    yield entry
            elif parts >= after[: len(parts)]:
                yield from self._walk(entry.key, after if parts == after[: len(parts)] else (), depth + 1)

    def _read_folder(self, folder: str) -> Iterator[StoredObject | str]:
        """Return entries by name; none for a vanished folder."""
        try:
            with self._errors():
                infos = self._files.ls(f"/{folder.rstrip('/')}")
        except (FileNotFoundError, NotADirectoryError):
            return
        keys = {key: info for info in infos if _is_in(folder.rstrip("/"), key := _key_of(info))}
        for key in sorted(keys, key=lambda key: key.split("/")):
            yield _as_stored(keys[key], key)

    def _exists(self, folder: str) -> bool:
        try:
            with self._errors():
                return bool(self._files.info(f"/{folder.rstrip('/')}")["type"] == "directory")
        except FileNotFoundError:
            return False


def _is_below(key: str) -> bool:
    """Return True for a path without upward steps."""
    # Clients send the path.
    return "\0" not in key and not {".", ".."} & set(key.split("/"))


def _is_in(folder: str, key: str) -> bool:
    """Return True for a direct child of a folder."""
    # Servers also list the folder itself, or what is above it.
    above, _, name = key.rpartition("/")
    return above == folder and name not in {"", ".", ".."}


def _key_of(info: Mapping[str, Any]) -> str:
    return str(info["name"]).strip("/")


def _as_stored(info: Mapping[str, Any], key: str) -> StoredObject | str:
    if info.get("islink") or info["type"] not in {"file", "directory"}:
        return key
    if info["type"] == "directory":
        return StoredObject(f"{key}/", 0, "", _modified(info))
    modified, size = _modified(info), int(info.get("size") or 0)
    time = modified.isoformat() if modified else ""
    return StoredObject(key, size, str(info.get("etag") or f"{size}-{time}").strip('"'), modified)


def _modified(info: Mapping[str, Any]) -> datetime | None:
    value = next((info[name] for name in _TIMES if info.get(name)), None)
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    if isinstance(value, str):
        value = datetime.strptime(value[:14], "%Y%m%d%H%M%S")  # noqa: DTZ007 - of FTP, which says UTC
    return value.replace(tzinfo=value.tzinfo or UTC) if isinstance(value, datetime) else None


def make_folder(location: Location, _settings: Settings) -> Tree:
    """Return a folder of this machine."""
    folder = f"/{location.prefix.rstrip('/')}"
    # Links above the folder are followed once, here; links below it never.
    real_folder = os.path.realpath(folder)

    def find_place(path: str) -> str:
        return (real_folder.rstrip("/") + path.removeprefix(folder.rstrip("/"))) or "/"

    def open_file(path: str) -> AbstractContextManager[BinaryIO]:
        return open_local(find_place(path))

    return Tree(_LocalFiles(find_place), location.prefix, open_file, local_errors)


class _LocalFiles:
    """Files of this machine. `find_place`: their paths without the links on the way to the folder of a connection."""

    def __init__(self, find_place: Callable[[str], str]) -> None:
        from fsspec.implementations.local import LocalFileSystem

        self._files = LocalFileSystem(skip_instance_cache=True)
        self._find_place = find_place

    def ls(self, path: str) -> Sequence[Mapping[str, Any]]:
        place = self._find_place(path)
        if os.path.realpath(place) != place:  # behind a link
            raise FileNotFoundError(path)
        return cast("Sequence[Mapping[str, Any]]", self._files.ls(path, detail=True))

    def info(self, path: str) -> Mapping[str, Any]:
        place = self._find_place(path)
        if os.path.realpath(os.path.dirname(place)) != os.path.dirname(place):  # noqa: PTH120
            raise FileNotFoundError(path)
        return cast("Mapping[str, Any]", self._files.info(path))


@contextmanager
def open_local(path: str) -> Iterator[BinaryIO]:
    """Open a regular file at exactly this path."""
    # No link leads out of a folder that is allowed.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Skippable(GONE if isinstance(error, FileNotFoundError) else REFUSED) from error
    with os.fdopen(descriptor, "rb") as file:
        real = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or real != path:
            raise Skippable("The path is no longer a regular file.")
        yield cast("BinaryIO", file)


@contextmanager
def local_errors() -> Iterator[None]:
    """Translate errors of a folder to Fatal or TransientError, except FileNotFoundError and NotADirectoryError."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    # An unreadable folder ends the listing: a gap would look like a removal.
    except PermissionError as error:
        raise Fatal("A folder below that of the connection may not be read by the service.") from error
    except OSError as error:
        raise TransientError("The folder of the connection cannot be read.") from error
