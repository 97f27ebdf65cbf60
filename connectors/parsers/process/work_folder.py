"""The folder of one parser child: `given` holds the file that it reads, and `made` what it writes."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec

from connectors.parsers.messages import Packed, Reply, Task, Unpack
from retrieval.errors import Retryable

_NOT_TAKEN = "What is packed into the file could not be written to the worker's disk."


class Room:
    """Created by the parent, which copies input in and results out; the child is confined to it.

    Paths that the child reports are never trusted: the file it read may have taken it over.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="retrieval-child-")).resolve()
        self.given, self.made = self.path / "given", self.path / "made"
        self.given.mkdir()
        self.made.mkdir()
        self._files = 0

    def bring(self, task: Task) -> Task:
        """The same task for a file in the room, with members to be written there. OSError if that cannot be done."""
        self._files += 1
        place = self.given / f"raw-{self._files}"
        try:
            os.link(task.path, place)
        except OSError:  # another file system, or a file of somebody else's
            shutil.copyfile(task.path, place)
        unpack = task.unpack and msgspec.structs.replace(task.unpack, folder=str(self.made))
        return msgspec.structs.replace(task, path=str(place), unpack=unpack)

    def take(self, reply: Reply, unpack: Unpack | None) -> Reply:
        """The reply with what was made moved to the folder that the task named."""
        if not reply.members or unpack is None:
            return msgspec.structs.replace(reply, members=())
        folder = Path(unpack.folder)
        taken = tuple(self._taken(one, folder / str(number)) for number, one in enumerate(reply.members))
        return msgspec.structs.replace(reply, members=taken)

    def clear(self) -> None:
        """Leave nothing of a file to whoever comes next."""
        for folder in (self.given, self.made):
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    _remove(entry)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _taken(self, member: Packed, to: Path) -> Packed:
        if member.reason or not member.place:
            return msgspec.structs.replace(member, place="")
        try:
            _move(self.made / Path(member.place).name, to)
            found = to.lstat()
        except OSError as error:
            raise Retryable(_NOT_TAKEN) from error
        if not stat.S_ISREG(found.st_mode):
            raise Retryable(_NOT_TAKEN)
        return msgspec.structs.replace(member, place=str(to), size=found.st_size)


def _move(path: Path, to: Path) -> None:
    try:
        path.replace(to)
    except OSError:  # another file system
        shutil.copyfile(path, to, follow_symlinks=False)


def _remove(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path, ignore_errors=True)
    else:
        with suppress(OSError):
            Path(entry.path).unlink()
