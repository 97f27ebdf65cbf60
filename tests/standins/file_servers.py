"""Servers of a folder on loopback: WebDAV by WsgiDAV, and SFTP by paramiko's own server."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import paramiko

USER, PASSWORD = "ada", "canary-objects-password"


@dataclass
class FileServer:
    """`private_key`: of the user of SFTP; `seen`: methods and paths of a WebDAV server; `statuses`: by path, what it
    answers instead."""

    port: int
    host_key: str = ""
    private_key: str = ""
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
    """The folder at /dav/ for one user."""
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
    """The folder at /files, for one user."""
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
