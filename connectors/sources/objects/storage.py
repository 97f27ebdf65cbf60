"""The port of storages: list objects in the order of their keys, list a folder, open and look up an object."""

# A storage is a small class with these four methods, made by the scheme of its URL in `connector.py`. By the order, a
# listing resumes behind any key in another process, without a server's cursor that could expire.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO, Final, Protocol

# Objects of one page of a listing, which S3 sends in one answer.
BATCH: Final = 1000


# Size of an object if the storage only estimates it; the stream's end decides.
UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class StoredObject:
    """Object, or in listings of folders a folder, with a key ending in `/`.

    `version`: ETag, or size and time; `name`: for people, if different from the end of the key.
    """

    key: str
    size: int
    version: str
    modified: datetime | None = None
    name: str = ""
    media_type: str = ""

    @property
    def modified_at(self) -> str:
        return self.modified.astimezone(UTC).isoformat().replace("+00:00", "Z") if self.modified else ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive objects; `last`: start of the next batch, None at the end."""

    objects: Sequence[StoredObject]
    last: str | None
    links: int = 0


class Storage(Protocol):
    """Storage below a prefix. Raises Retryable, Fatal, Skippable, or for a retry TransientError, RateLimited."""

    def list_objects(self, after: str) -> Iterator[Batch]:
        """Yield batches of objects behind a key; all for ""."""
        ...

    def list_folder(self, folder: str, after: str) -> Batch:
        """Return a batch of entries of a folder, "" or a key with a final `/`."""
        ...

    def open(self, key: str) -> AbstractContextManager[tuple[StoredObject, BinaryIO]]:
        """Open an object as a stream. Skippable for a missing object."""
        ...

    def find(self, key: str) -> StoredObject | None:
        """Return the current object, or None."""
        ...
