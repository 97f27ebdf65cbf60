"""Files in a local or mounted folder."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from retrieval.documents.file_keys import check_key
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.settings import Settings

# Suffix of incomplete files.
PART = ".part"


class LocalFiles:
    """`FileStore` in a folder, with atomic writes."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, key: str, chunks: Iterable[bytes]) -> int:
        path = self._path(key)
        aside = path.with_name(f"{path.name}.{secrets.token_hex(6)}{PART}")
        size = 0
        try:
            with _create(aside) as file:
                for chunk in chunks:
                    size += file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except OSError as error:
            raise Retryable(f"The file store could not write: {error.strerror}.") from error
        finally:
            aside.unlink(missing_ok=True)
        return size

    @contextmanager
    def open(self, key: str) -> Iterator[BinaryIO]:
        try:
            file = self._path(key).open("rb")
        except FileNotFoundError as error:
            if self._is_empty():
                raise Retryable(f"The folder of the file store {self._root} is empty: is its disk mounted?") from error
            raise Skippable("The stored file is gone from the file store; ingest the document again.") from error
        except OSError as error:
            raise Retryable(f"The file store could not read: {error.strerror}.") from error
        with file:
            yield file

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            path = self._path(key)
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise Retryable(f"The file store could not delete: {error.strerror}.") from error
            self._prune(path.parent)

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield the keys with `prefix`, without incomplete files."""
        if self._is_empty():
            raise Retryable(f"The folder of the file store {self._root} is empty: is its disk mounted?")
        top = self._root / prefix.rpartition("/")[0]
        if prefix and (self._root / prefix).is_file():
            yield check_key(prefix)
        for folder, _, names in os.walk(top, onerror=_unreadable):
            within = Path(folder).relative_to(self._root).as_posix()
            for name in names:
                key = name if within == "." else f"{within}/{name}"
                if key.startswith(prefix) and key != prefix and not name.endswith(PART):
                    yield key

    def sizes(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield keys and sizes in bytes, without files deleted during the listing."""
        for key in self.keys(prefix):
            with contextlib.suppress(FileNotFoundError):
                yield key, (self._root / key).stat().st_size

    def check(self) -> None:
        try:
            self._root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Fatal(f"The folder of the file store cannot be made: {error.strerror}.") from error
        if not os.access(self._root, os.W_OK):
            raise Fatal("The folder of the file store cannot be written to.")

    def _is_empty(self) -> bool:
        """Return True for an empty folder, such as a mount point without a disk."""
        try:
            return next(self._root.iterdir(), None) is None
        except OSError:
            return True

    def _path(self, key: str) -> Path:
        return self._root / check_key(key)

    def _prune(self, folder: Path) -> None:
        """Remove empty folders."""
        with contextlib.suppress(OSError):
            while folder != self._root and folder.is_relative_to(self._root):
                folder.rmdir()
                folder = folder.parent


def _unreadable(error: OSError) -> None:
    """Raise Retryable for an unreadable folder, except a deleted folder."""
    if not isinstance(error, FileNotFoundError):
        raise Retryable(f"The file store could not read: {error.strerror}.") from error


def _create(path: Path) -> BinaryIO:
    """Open a new file; retry after a concurrent removal of the folder."""
    for _ in range(3):
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            return path.open("wb")
    return path.open("wb")


def make(_config: Mapping[str, Any], settings: Settings) -> LocalFiles:
    """Build the store in the operator's folder."""
    return LocalFiles(settings.files_folder)
