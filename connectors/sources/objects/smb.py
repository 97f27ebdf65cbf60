"""SMB 2 and 3, of shares in private networks: signed, or encrypted on the server's demand."""

# The client is connected to an address that the guard resolved. Referrals of DFS, which lead to other servers, are not
# followed.

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, BinaryIO, Final, cast
from urllib.parse import urlsplit

from smbprotocol import MAX_PAYLOAD_SIZE, exceptions
from smbprotocol.connection import Connection
from smbprotocol.file_info import FileAttributes, FileInformationClass
from smbprotocol.open import (
    CreateDisposition,
    CreateOptions,
    DirectoryAccessMask,
    FilePipePrinterAccessMask,
    ImpersonationLevel,
    Open,
    ShareAccess,
)
from smbprotocol.session import Session
from smbprotocol.tree import TreeConnect

from connectors.http import sessions
from connectors.sources.objects.location import Location
from connectors.sources.objects.pool import Pool
from connectors.sources.objects.tree import GONE, REFUSED, Tree, explain_failures
from retrieval.errors import Fatal, Skippable
from retrieval.network import fetch_guard
from retrieval.network.fetch_guard import Guard
from retrieval.settings import Settings

SERVER_TITLE: Final = "The SMB server"
PORT: Final = 445
# Seconds that a connection or an answer may take.
SOCKET_TIMEOUT_SECONDS: Final = 30
READ_CHUNK_BYTES: Final = 4 * MAX_PAYLOAD_SIZE
_MISSING: Final = (
    exceptions.ObjectNameNotFound,
    exceptions.ObjectPathNotFound,
    exceptions.NoSuchFile,
    exceptions.BadNetworkName,
    exceptions.ObjectNameInvalid,
    exceptions.DeletePending,
)
_BUSY: Final = (exceptions.InsufficientResources, exceptions.InsuffServerResources, exceptions.RequestNotAccepted)
_FAILURES: Final = (exceptions.SMBException, ValueError, LookupError)
# Bit of the tags of links, by which they differ from files that are stored in another way (MS-FSCC 2.1.2.1).
_LINK: Final = 0x20000000
_DFS: Final = 0x8000000A


class _Connection(Connection):  # type: ignore[misc]
    """Connection with bounded waits, without followed links."""

    def receive(self, request: Any, *options: Any, **named: Any) -> Any:
        return super().receive(
            request, *options, **{"timeout": SOCKET_TIMEOUT_SECONDS, "resolve_symlinks": False, **named}
        )


class Share:
    """Share of an authorized user; paths begin with the share's name."""

    def __init__(self, connection: Connection, session: Session, host: str, name: str) -> None:
        self._connection = connection
        self._tree = TreeConnect(session, rf"\\{host}\{name}")
        self._tree.connect()
        self._name, self._above = name, rf"{host}\{name}" if self._tree.is_dfs_share else ""

    def close(self) -> None:
        self._connection.disconnect(close=False)

    def list_folder(self, path: str, pattern: str = "*") -> list[dict[str, Any]]:
        """List matching entries of a folder. FileNotFoundError, NotADirectoryError or PermissionError."""
        kind, structures = FileInformationClass.FILE_ID_FULL_DIRECTORY_INFORMATION, []
        access, options = DirectoryAccessMask.FILE_LIST_DIRECTORY, CreateOptions.FILE_DIRECTORY_FILE
        end = suppress(exceptions.NoMoreFiles, exceptions.NoSuchFile)
        with self._open(path, access, options) as folder, end:
            while True:
                structures += folder.query_directory(pattern, kind)
        return [_info(path, structure) for structure in structures]

    def describe(self, path: str) -> dict[str, Any]:
        """Describe a file, folder or link. FileNotFoundError, also for a name in other letter case."""
        folder, _, name = path.rstrip("/").rpartition("/")
        _require_names(name)
        if not folder:
            return {"name": path, "type": "directory"}
        for entry in self.list_folder(folder, name):
            if entry["name"] == f"{folder}/{name}":
                return entry
        raise FileNotFoundError(path)

    @contextmanager
    def open_file(self, path: str) -> Iterator[BinaryIO]:
        options = CreateOptions.FILE_NON_DIRECTORY_FILE
        with self._open(path, FilePipePrinterAccessMask.FILE_READ_DATA, options) as file:
            yield cast("BinaryIO", _Stream(file))

    @contextmanager
    def _open(self, path: str, access: int, options: int) -> Iterator[Open]:
        _require_names(path)
        parts = path.removeprefix(f"/{self._name}").strip("/").split("/")
        opened = Open(self._tree, "\\".join([self._above, *parts]).strip("\\"))
        shared = ShareAccess.FILE_SHARE_READ | ShareAccess.FILE_SHARE_WRITE | ShareAccess.FILE_SHARE_DELETE
        try:
            opened.create(ImpersonationLevel.Impersonation, access, 0, shared, CreateDisposition.FILE_OPEN, options)
        except _MISSING as error:
            raise FileNotFoundError(path) from error
        except exceptions.StatusNotADirectory as error:
            raise NotADirectoryError(path) from error
        except (exceptions.AccessDenied, exceptions.SharingViolation) as error:
            raise PermissionError(path) from error
        try:
            yield opened
        finally:
            opened.close()


class _Stream:
    """Stream of a file's content in pieces."""

    def __init__(self, file: Open) -> None:
        self._file = file
        self._start = 0

    def read(self, _size: int = -1) -> bytes:
        if self._start >= self._file.end_of_file:
            return b""
        piece = bytes(self._file.read(self._start, min(READ_CHUNK_BYTES, self._file.connection.max_read_size)))
        self._start += len(piece)
        return piece


class SmbFiles:
    """Files of a share for `Tree`."""

    def __init__(self, location: Location, guard: Guard) -> None:
        answers = (FileNotFoundError, NotADirectoryError, PermissionError)
        self._pool = Pool(partial(_connect, location, guard), Share.close, answers)

    def ls(self, path: str) -> Sequence[Mapping[str, Any]]:
        """List a folder."""
        with self._pool.lease() as share:
            return share.list_folder(path)

    def info(self, path: str) -> Mapping[str, Any]:
        """Describe the file, folder or link at a path."""
        with self._pool.lease() as share:
            return share.describe(path)

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        try:
            with self._pool.lease() as share, share.open_file(path) as stream:
                yield stream
        except FileNotFoundError as error:
            raise Skippable(GONE) from error
        except PermissionError as error:
            raise Skippable(REFUSED) from error


def make_share(location: Location, settings: Settings) -> Tree:
    sessions.quiet_loggers("smbprotocol", "spnego")
    files = SmbFiles(location, fetch_guard.make_guard(settings, frozenset({PORT})))
    return Tree(files, location.prefix, files.open, partial(explain_failures, SERVER_TITLE, *_FAILURES))


def _connect(location: Location, guard: Guard) -> Share:
    """Connect to the share of the location. OSError without an answering address."""
    parts = urlsplit(f"smb://{location.host}")
    host, port = parts.hostname or "", parts.port or PORT
    failure: Exception = OSError("The name leads nowhere.")
    for _, socket_address in guard.resolve(host, port):
        address = socket_address[0]
        if guard.route(address) or not guard.allows_plainly(address, port):
            raise Fatal("By SMB only a server in a private range that RETRIEVAL_FETCH_ALLOW names can be used.")
        connection = _Connection(uuid.uuid4(), address, port)
        try:
            connection.connect(timeout=SOCKET_TIMEOUT_SECONDS)
        except (ValueError, OSError, exceptions.SMBException) as error:
            failure = error
            continue
        try:
            return _sign_in(connection, location, host)
        except BaseException:
            connection.disconnect(close=False)
            raise
    raise failure


def _sign_in(connection: Connection, location: Location, host: str) -> Share:
    """Authorize the user by NTLM."""
    names = location.credentials
    # Not by Kerberos, which would connect to servers that the guard does not know.
    session = Session(
        connection,
        names["user"],
        names["password"],
        require_encryption=False,
        hostname_override=host,
        auth_protocol="ntlm",
    )
    try:
        session.connect()
    except exceptions.SMBException as error:
        is_guest = session.session_id is None
        is_answer = isinstance(error, exceptions.SMBAuthenticationError | exceptions.SMBResponseException)
        if is_guest or (is_answer and not isinstance(error, _BUSY)):
            raise Fatal("The SMB server does not accept this user with this password.") from error
        raise
    share = location.prefix.partition("/")[0]
    try:
        return Share(connection, session, host, share)
    except exceptions.BadNetworkName as error:
        raise Fatal("The SMB server has no such share.") from error
    except exceptions.AccessDenied as error:
        raise Fatal("The share may not be read by this user.") from error


def _require_names(path: str) -> None:
    """Raise FileNotFoundError for a backslash."""
    # No name has a backslash, which would lead to another folder.
    if "\\" in path:
        raise FileNotFoundError(path)


def _info(folder: str, structure: Any) -> dict[str, Any]:
    """Convert a file to fsspec's form."""
    # `ea_size` of a reparse point is its tag (MS-FSCC 2.4.18).
    attributes, tag = structure["file_attributes"], structure["ea_size"].get_value()
    is_link = attributes.has_flag(FileAttributes.FILE_ATTRIBUTE_REPARSE_POINT) and (tag & _LINK or tag == _DFS)
    return {
        "name": f"{folder.rstrip('/')}/{structure['file_name'].get_value().decode('utf-16-le')}",
        "type": "directory" if attributes.has_flag(FileAttributes.FILE_ATTRIBUTE_DIRECTORY) else "file",
        "size": structure["end_of_file"].get_value(),
        "modified": structure["last_write_time"].get_value(),
        "islink": bool(is_link),
    }
