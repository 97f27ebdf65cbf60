"""SFTP over a connection of the guard, to a server with the config's host key."""

from __future__ import annotations

import base64
import hashlib
import io
import stat
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast
from urllib.parse import urlsplit

from connectors.http import sessions
from connectors.http.retries import TransientError
from connectors.sources.objects.location import Location
from connectors.sources.objects.tree import GONE, REFUSED, Tree, explain_failures
from retrieval.errors import Fatal, Skippable
from retrieval.network import fetch_guard
from retrieval.network.fetch_guard import Guard
from retrieval.settings import Settings

if TYPE_CHECKING:
    from paramiko import PKey, SFTPAttributes, SFTPClient, Transport

SERVER_TITLE: Final = "The SFTP server"
PORT: Final = 22
# Seconds that a connection, its handshake or an answer may take.
SOCKET_TIMEOUT_SECONDS: Final = 30.0
_KINDS: Final = {stat.S_IFREG: "file", stat.S_IFDIR: "directory"}


class SftpFiles:
    """Files of a server for `Tree`."""

    def __init__(self, location: Location, guard: Guard) -> None:
        parts = urlsplit(f"sftp://{location.host}")
        self._address = parts.hostname or "", parts.port or PORT
        self._location = location
        self._guard = guard
        self._lock = Lock()
        self._transport: Transport | None = None
        self._idle: list[SFTPClient] = []

    def ls(self, path: str) -> Sequence[Mapping[str, Any]]:
        """List a folder."""
        with self._channel() as channel:
            return [_info(f"{path.rstrip('/')}/{entry.filename}", entry) for entry in channel.listdir_attr(path)]

    def info(self, path: str) -> Mapping[str, Any]:
        """Describe the file, folder or link at a path."""
        with self._channel() as channel:
            return _info(path, channel.lstat(path))

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        try:
            with self._channel() as channel, channel.open(path, "rb") as file:
                file.prefetch(file.stat().st_size, max_concurrent_requests=64)
                yield cast("BinaryIO", file)
        except FileNotFoundError as error:
            raise Skippable(GONE) from error
        except PermissionError as error:
            raise Skippable(REFUSED) from error

    @contextmanager
    def _channel(self) -> Iterator[SFTPClient]:
        """Lease a channel to this thread; closed after a failure other than an answer."""
        channel = self._take()
        try:
            yield channel
        except (FileNotFoundError, PermissionError):
            self._idle.append(channel)
            raise
        except BaseException:
            channel.close()
            raise
        self._idle.append(channel)

    def _take(self) -> SFTPClient:
        from paramiko import SFTPClient

        with self._lock:
            if self._transport is None or not self._transport.is_active():
                self._idle.clear()
                self._transport = self._connect()
            if self._idle:
                return self._idle.pop()
            channel = SFTPClient.from_transport(self._transport)
        if channel is None:
            raise TransientError("The SFTP server opens no channel.")
        channel.get_channel().settimeout(SOCKET_TIMEOUT_SECONDS)
        return channel

    def _connect(self) -> Transport:
        """Connect and authorize a user. Fatal for a wrong host key or a refused user."""
        from paramiko import AuthenticationException, Transport

        sock = self._guard.connect(*self._address, SOCKET_TIMEOUT_SECONDS)
        sock.settimeout(SOCKET_TIMEOUT_SECONDS)
        transport = Transport(sock)
        transport.banner_timeout = transport.auth_timeout = SOCKET_TIMEOUT_SECONDS
        try:
            transport.start_client(timeout=SOCKET_TIMEOUT_SECONDS)
            self._check_key(transport.get_remote_server_key())
            names = self._location.credentials
            if key := names.get("privateKey"):
                transport.auth_publickey(names["user"], _read_key(key, names.get("password")))
            else:
                transport.auth_password(names["user"], names["password"])
        except AuthenticationException as error:
            transport.close()
            raise Fatal("The SFTP server does not accept this user with these credentials.") from error
        except BaseException:
            transport.close()
            raise
        weakref.finalize(self, transport.close)
        return transport

    def _check_key(self, key: PKey) -> None:
        digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
        if f"SHA256:{digest}" not in {fingerprint.rstrip("=") for fingerprint in self._location.host_key.split()}:
            raise Fatal(
                f"The SFTP server shows the key SHA256:{digest} ({key.get_name()}), which is not the hostKey of the"
                " connection."
            )


def make_sftp(location: Location, settings: Settings) -> Tree:
    from paramiko import SSHException

    sessions.quiet_loggers("paramiko")
    files = SftpFiles(location, fetch_guard.make_guard(settings, frozenset({PORT})))
    return Tree(files, location.prefix, files.open, partial(explain_failures, SERVER_TITLE, SSHException))


def _read_key(text: str, password: str | None) -> PKey:
    from paramiko import ECDSAKey, Ed25519Key, RSAKey, SSHException

    for kind in (Ed25519Key, ECDSAKey, RSAKey):
        with suppress(SSHException, ValueError, TypeError, IndexError):
            return kind.from_private_key(io.StringIO(text), password)
    raise Fatal("The privateKey of the connection cannot be read; a key with a passphrase needs it as password.")


def _info(path: str, entry: SFTPAttributes) -> dict[str, Any]:
    """Convert a file to fsspec's form."""
    mode = entry.st_mode or 0
    return {
        "name": path,
        "type": _KINDS.get(stat.S_IFMT(mode), "other"),
        "size": entry.st_size or 0,
        "mtime": entry.st_mtime,
        "islink": stat.S_ISLNK(mode),
    }
