"""Servers of a folder on loopback: WebDAV by WsgiDAV, SFTP by paramiko's own server, FTP by pyftpdlib, SMB by Samba."""

from __future__ import annotations

import base64
import getpass
import hashlib
import io
import logging
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import paramiko

from tests.standins import secure

USER, PASSWORD = "ada", "canary-objects-password"


@dataclass
class FileServer:
    """A server: key of the SFTP user, closing of FTP connections, methods and paths of WebDAV requests, statuses
    by path."""

    port: int
    host_key: str = ""
    private_key: str = ""
    certificate: Path | None = None
    close_connections: Callable[[], None] = field(default=lambda: None)
    seen: list[tuple[str, str]] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None: ...

    def handle(self) -> None:
        with suppress(ConnectionError):
            super().handle()


class _Threads(ThreadingMixIn, WSGIServer):
    daemon_threads = True


@contextmanager
def serve_webdav(folder: Path) -> Iterator[FileServer]:
    """Serve the folder at /dav/ for one user."""
    from wsgidav.wsgidav_app import WsgiDAVApp

    app = WsgiDAVApp(
        {
            "provider_mapping": {"/dav": str(folder)},
            "simple_dc": {"user_mapping": {"*": {USER: {"password": PASSWORD}}}},
            "http_authenticator": {"accept_basic": True, "accept_digest": False, "default_to_digest": False},
            "verbose": 0,
            "logging": {"enable": False},
            "dir_browser": {"enable": False},
        }
    )
    server = FileServer(0)

    def answer(environ: dict[str, Any], start: Any) -> Any:
        path = environ["PATH_INFO"]
        server.seen.append((environ["REQUEST_METHOD"], path))
        if status := server.statuses.get(path):
            start(f"{status} Refused", [("Content-Length", "0")])
            return [b""]
        return app(environ, start)

    with make_server("127.0.0.1", 0, answer, _Threads, _Quiet) as http:
        server.port = http.server_port
        threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        http.shutdown()


@contextmanager
def serve_sftp(folder: Path) -> Iterator[FileServer]:
    """Serve the folder at /files for one user."""
    key, user_key, written = paramiko.ECDSAKey.generate(), paramiko.ECDSAKey.generate(), io.StringIO()
    user_key.write_private_key(written)
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_accept, args=(listening, key, user_key, folder), daemon=True).start()
        yield FileServer(listening.getsockname()[1], f"SHA256:{digest}", written.getvalue())


def _accept(listening: socket.socket, key: paramiko.PKey, user_key: paramiko.PKey, folder: Path) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        transport = paramiko.Transport(connection)
        transport.add_server_key(key)
        transport.set_subsystem_handler("sftp", paramiko.SFTPServer, _Files, folder)
        transport.start_server(threading.Event(), _Users(user_key))  # in a thread of its own, which a client may leave


class _Users(paramiko.ServerInterface):
    def __init__(self, key: paramiko.PKey) -> None:
        self._key = key

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.AUTH_SUCCESSFUL if (username, key) == (USER, self._key) else paramiko.AUTH_FAILED

    def check_auth_password(self, username: str, password: str) -> int:
        accepted = (username, password) == (USER, PASSWORD)
        return paramiko.AUTH_SUCCESSFUL if accepted else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED if kind == "session" else paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def get_allowed_auths(self, username: str) -> str:
        return "password,publickey"


class _Files(paramiko.SFTPServerInterface):
    def __init__(self, server: paramiko.ServerInterface, folder: Path) -> None:
        super().__init__(server)
        self._folder = folder

    def _real(self, path: str) -> Path:
        return self._folder / path.removeprefix("/files").lstrip("/")

    def list_folder(self, path: str) -> Any:
        try:
            return [
                paramiko.SFTPAttributes.from_stat(entry.lstat(), entry.name) for entry in self._real(path).iterdir()
            ]
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)

    def lstat(self, path: str) -> Any:
        try:
            return paramiko.SFTPAttributes.from_stat(self._real(path).lstat())
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)

    stat = lstat

    def open(self, path: str, flags: int, attr: Any) -> Any:
        try:
            file = self._real(path).open("rb")
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)
        handle = paramiko.SFTPHandle(os.O_RDONLY)
        handle.readfile = file
        handle.stat = lambda: paramiko.SFTPAttributes.from_stat(os.fstat(file.fileno()))
        return handle


@contextmanager
def serve_ftp(
    folder: Path,
    keys: Path | None = None,
    *,
    commands: AbstractSet[str] = frozenset(),
    closed: Sequence[str] = (),
) -> Iterator[FileServer]:
    """Serve the folder at / for one user and anonymous users, with a NAT address in passive mode."""
    # `keys`: folder of the certificate, only for TLS; `commands`: unsupported commands; `closed`: unreadable folders.
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import FTPHandler, TLS_FTPHandler
    from pyftpdlib.ioloop import IOLoop
    from pyftpdlib.servers import FTPServer

    server = FileServer(0)
    authorizer = DummyAuthorizer()
    authorizer.add_user(USER, PASSWORD, str(folder), perm="elr")
    authorizer.add_anonymous(str(folder), perm="elr")
    for path in closed:
        (folder / path).mkdir(parents=True)
        authorizer.override_perm(USER, str(folder / path), "", recursive=True)
    values: dict[str, Any] = {"authorizer": authorizer, "auth_failed_timeout": 0, "masquerade_address": "192.0.2.1"}
    if keys is not None:
        server.certificate = keys / "certificate.pem"
        secure.certify(server.certificate, keys / "key.pem")
        values |= {"certfile": str(server.certificate), "keyfile": str(keys / "key.pem")}
        values |= {"tls_control_required": True, "tls_data_required": True}
    base = TLS_FTPHandler if keys else FTPHandler
    values["proto_cmds"] = {name: about for name, about in base.proto_cmds.items() if name not in commands}
    handler = type("Handler", (base,), values)
    logging.getLogger("pyftpdlib").setLevel(logging.WARNING)
    loop = IOLoop()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server.port = listening.getsockname()[1]
        ftp = FTPServer(listening, handler, ioloop=loop)
        stopped, closing = threading.Event(), threading.Event()

        def serve() -> None:
            while not stopped.is_set():
                ftp.serve_forever(timeout=0.05, blocking=False, handle_exit=False)
                if closing.is_set():
                    for connected in [item for item in loop.socket_map.values() if isinstance(item, base)]:
                        connected.close()
                    closing.clear()
            ftp.close_all()

        def close_connections() -> None:
            closing.set()
            while closing.is_set():
                time.sleep(0.01)

        server.close_connections = close_connections

        running = threading.Thread(target=serve, daemon=True)
        running.start()
        try:
            yield server
        finally:
            stopped.set()
            running.join(5)


_SAMBA = """
[global]
server role = standalone server
smb ports = {port}
interfaces = 127.0.0.1
bind interfaces only = yes
disable netbios = yes
state directory = {keys}
lock directory = {keys}
cache directory = {keys}
private dir = {keys}
pid directory = {keys}
ncalrpc dir = {keys}/rpc
log file = {keys}/log
load printers = no
printcap name = /dev/null
rpc start on demand helpers = no
username map = {keys}/users
mangled names = no
map archive = no
[files]
path = {folder}
read only = yes
[tree]
path = {folder}
msdfs root = yes
[sealed]
path = {folder}
server smb encrypt = required
[closed]
path = {folder}
invalid users = {user}
"""


@contextmanager
def serve_smb(folder: Path, keys: Path) -> Iterator[FileServer]:
    """The folder as a share, as "tree" with DFS, "sealed" with encryption, and "closed". `keys`: Samba's own files."""
    program = shutil.which("smbd") or shutil.which("smbd", path="/usr/sbin")
    assert program, "samba is not on this machine: .ci/run installs what this test needs"
    with socket.create_server(("127.0.0.1", 0)) as free:
        server = FileServer(free.getsockname()[1])
    configuration = keys / "smb.conf"
    configuration.write_text(_SAMBA.format(port=server.port, keys=keys, folder=folder, user=getpass.getuser()))
    (keys / "users").write_text(f"{getpass.getuser()} = {USER}\n")
    subprocess.run(
        ["smbpasswd", "-c", configuration, "-L", "-a", "-s", getpass.getuser()],
        input=f"{PASSWORD}\n{PASSWORD}\n".encode(),
        check=True,
        capture_output=True,
    )
    with subprocess.Popen([program, "-F", "-s", configuration]) as running:
        try:
            wait_for_port(server.port, keys / "log")
            yield server
        finally:
            running.terminate()


def wait_for_port(port: int, log: Path) -> None:
    """Wait until a server listens; fail with its log."""
    ends = time.monotonic() + 30
    while time.monotonic() < ends:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise AssertionError(log.read_text() if log.exists() else f"Nothing listens at {port}.")
