"""FTP, with TLS as `ftps` (RFC 4217), over connections that the guard dials."""

# A folder is listed by MLSD (RFC 3659). Servers without MLSD, such as vsftpd and IIS, are read by LIST; LIST has no
# exact times, so MDTM reads each file's time.

from __future__ import annotations

import ftplib
import re
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from socket import AF_INET, AF_INET6, socket
from typing import Any, BinaryIO, Final, cast
from urllib.parse import urlsplit

from connectors.http import responses, sessions
from connectors.sources.objects.location import Location
from connectors.sources.objects.pool import Pool
from connectors.sources.objects.tree import REFUSED, Tree, explain_failures
from retrieval.errors import Fatal, Skippable
from retrieval.network import fetch_guard
from retrieval.network.fetch_guard import Guard
from retrieval.settings import Settings

SERVER_TITLE: Final = "The FTP server"
PORT: Final = 21
# Seconds that a connection or an answer may take.
SOCKET_TIMEOUT_SECONDS: Final = 30.0
_KINDS: Final = {"file": "file", "dir": "directory"}
_ABOVE: Final = frozenset({"cdir", "pdir"})
# A line of LIST: of `ls -l`, or of `dir` on Windows.
_LINE: Final = re.compile(
    r"(?P<kind>[a-z-])[rwxstST-]{9}\S? +(?:\S+ +){1,3}(?P<size>\d+) +\w{3} +\d+ +[\d:]+ (?P<name>.+)"
    r"|\d\d-\d\d-\d{2,4} +\d\d:\d\d[AP]M +(?:(?P<folder><DIR>)|(?P<length>\d+)) +(?P<title>.+)"
)

Info = dict[str, Any]


class Session(ftplib.FTP_TLS):
    """Connection to a server; `name`: of the server, as in the certificate."""

    def __init__(self, guard: Guard, address: str, port: int, name: str) -> None:
        super().__init__(timeout=SOCKET_TIMEOUT_SECONDS, context=sessions.trusted_certificates(None, SERVER_TITLE))
        self._guard, self._address, self._max_bytes = guard, address, responses.MAX_BODY_BYTES
        self.host, self.port = name, port
        self.sock = self._dial(port)
        self.af = AF_INET if ip_address(address).version == 4 else AF_INET6
        self.file = self.sock.makefile("r", encoding=self.encoding)
        self.welcome = self.getresp()
        self.features = ""

    def sign_in(self, names: Mapping[str, str], *, secure: bool) -> None:
        """Authorize a user, the anonymous one without `names`. Fatal if the server refuses, or has no TLS."""
        try:
            if secure:
                self.auth()
        except ftplib.error_perm as error:
            raise Fatal("The FTP server offers no TLS: ftp:// is for servers in private networks.") from error
        try:
            self.login(names.get("user", ""), names.get("password", ""), secure=False)
        except ftplib.error_perm as error:
            also = "" if secure else ", or only by ftps"
            raise Fatal(f"The FTP server does not accept this user with this password{also}.") from error
        if secure:
            self.prot_p()
        with suppress(ftplib.error_perm):
            self.features = self.sendcmd("FEAT").upper()
        with suppress(ftplib.error_perm):
            self.sendcmd("OPTS UTF8 ON")

    def putline(self, line: str) -> None:
        self._max_bytes = responses.MAX_BODY_BYTES
        super().putline(line)

    def getline(self) -> str:
        line = super().getline()
        self._count(line)
        return line

    def retrlines(self, cmd: str, callback: Callable[[str], object] | None = None) -> str:
        def read(line: str) -> None:
            self._count(line)
            if callback:
                callback(line)

        return super().retrlines(cmd, read)

    def _count(self, line: str) -> None:
        """Raise EOFError for an answer above the limit of bytes."""
        self._max_bytes -= len(line)
        if self._max_bytes < 0:
            raise EOFError("The answer has no end.")

    def ntransfercmd(self, cmd: str, _rest: int | str | None = None) -> tuple[socket, int | None]:
        """Open a data connection."""
        # To the address of this connection, never to another one that the server names.
        _, port = self.makepasv()
        connection = self._dial(port)
        try:
            self._begin_transfer(cmd)
            if isinstance(self.sock, ssl.SSLSocket):
                # Most servers demand that a data connection resumes the TLS session.
                session = self.sock.session
                connection = self.context.wrap_socket(connection, server_hostname=self.host, session=session)
        except BaseException:
            connection.close()
            raise
        return connection, None

    def _begin_transfer(self, command: str) -> None:
        answer = self.sendcmd(command)
        if answer[0] == "2":  # some servers send another answer before it
            answer = self.getresp()
        if answer[0] != "1":
            raise EOFError(answer)

    def list_folder(self, path: str) -> list[Info]:
        """List a folder. FileNotFoundError, or PermissionError for an unreadable folder."""
        try:
            if "MLST" in self.features:
                return [
                    _info(f"{path.rstrip('/')}/{name}", facts)
                    for name, facts in self.mlsd(path)
                    if facts.get("type", "").lower() not in _ABOVE
                ]
            self.cwd(path)
            return self._list_plainly(path)
        except ftplib.error_perm as error:
            _require_path_error(error)
            self.describe(path)
            raise PermissionError(path) from error

    def describe(self, path: str) -> Info:
        """Describe a file or folder. PermissionError or FileNotFoundError."""
        try:
            if "MLST" in self.features:
                line = self.sendcmd(f"MLST {path}").splitlines()[1].strip()
                facts = (fact.partition("=") for fact in line.partition(" ")[0].split(";"))
                return _info(path, {name.lower(): value for name, _, value in facts})
            return self._describe_plainly(path)
        except ftplib.error_perm as error:
            _require_path_error(error)
            folder, _, name = path.rstrip("/").rpartition("/")
            if not name or path in {entry["name"] for entry in self.list_folder(folder or "/")}:
                raise PermissionError(path) from error
            raise FileNotFoundError(path) from error

    def _list_plainly(self, path: str) -> list[Info]:
        """List the current folder."""
        lines: list[str] = []
        answer = self.retrlines("LIST", lines.append)
        if "failed" in answer:  # vsftpd's answer to a folder that it may not open is a success
            raise PermissionError(path)
        entries = []
        for line in lines:
            if (match := _LINE.fullmatch(line)) is None:
                if line.strip() and not line.startswith("total "):
                    raise Fatal("The FTP server lists a folder in a format that is not known.")
                continue
            is_folder = match["kind"] == "d" or bool(match["folder"])
            kind = "dir" if is_folder else "file" if match["kind"] in {"-", None} else "other"
            name = f"{path.rstrip('/')}/{match['name'] or match['title']}"
            facts = {"type": kind, "size": match["size"] or match["length"] or "0"}
            entries.append(_info(name, facts | ({"modify": self._read_time(name)} if kind == "file" else {})))
        return entries

    def _describe_plainly(self, path: str) -> Info:
        self.voidcmd("TYPE I")
        try:
            size = self.size(path)
        except ftplib.error_perm as error:
            _require_path_error(error)
            self.cwd(path)
            return _info(path, {"type": "dir"})
        return _info(path, {"type": "file", "size": str(size or 0), "modify": self._read_time(path)})

    def _read_time(self, path: str) -> str:
        return self.sendcmd(f"MDTM {path}").partition(" ")[2].strip()

    def _dial(self, port: int) -> socket:
        guard = replace(self._guard, extra_ports=frozenset({port}))
        connection = guard.connect(self._address, port, SOCKET_TIMEOUT_SECONDS)
        connection.settimeout(SOCKET_TIMEOUT_SECONDS)
        return connection


class FtpFiles:
    """Files of a server for `Tree`."""

    def __init__(self, location: Location, guard: Guard) -> None:
        connect = partial(_connect, location, guard)
        self._pool = Pool(connect, Session.close, (FileNotFoundError, PermissionError))

    def ls(self, path: str) -> Sequence[Mapping[str, Any]]:
        """List a folder."""
        with self._pool.lease() as session:
            return session.list_folder(path)

    def info(self, path: str) -> Mapping[str, Any]:
        """Describe the file, folder or link at a path."""
        with self._pool.lease() as session:
            return session.describe(path)

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        with self._pool.lease() as session:
            session.voidcmd("TYPE I")
            try:
                connection = session.transfercmd(f"RETR {path}")
            except ftplib.error_perm as error:
                _require_path_error(error)
                raise Skippable(REFUSED) from error
            with connection, connection.makefile("rb", buffering=0) as stream:  # as it arrives
                yield cast("BinaryIO", stream)
            session.voidresp()


def make_ftp(location: Location, settings: Settings) -> Tree:
    files = FtpFiles(location, fetch_guard.make_guard(settings, frozenset({PORT})))
    return Tree(files, location.prefix, files.open, _explain_failures)


@contextmanager
def _explain_failures() -> Iterator[None]:
    with explain_failures(SERVER_TITLE, ftplib.Error, ValueError, LookupError):
        try:
            yield
        except ssl.SSLCertVerificationError as error:
            raise Fatal("The certificate of the FTP server is not trusted.") from error
        except ftplib.error_perm as error:
            raise Fatal("The FTP server refuses a command that is needed to read files.") from error


def _connect(location: Location, guard: Guard) -> Session:
    """Connect and authorize a user. OSError without an answering address."""
    parts = urlsplit(f"ftp://{location.host}")
    name, port = parts.hostname or "", parts.port or PORT
    if location.scheme == "ftp" and not guard.allows_plainly(name, port):
        raise Fatal("Without ftps only a server in a range that RETRIEVAL_FETCH_ALLOW names can be used.")
    failure = OSError("The name leads nowhere.")
    for _, socket_address in guard.resolve(name, port):
        try:
            session = Session(guard, socket_address[0], port, name)
        except OSError as error:
            failure = error
            continue
        try:
            session.sign_in(location.credentials, secure=location.scheme == "ftps")
        except BaseException:
            session.close()
            raise
        return session
    raise failure


def _require_path_error(error: ftplib.error_perm) -> None:
    """Re-raise errors other than missing, unreadable or invalid paths (RFC 3659, 7.2)."""
    if not str(error).startswith(("550", "501")):
        raise error


def _info(path: str, facts: Mapping[str, str]) -> Info:
    """Convert facts of MLSD to fsspec's form."""
    kind = _KINDS.get(facts.get("type", "").lower(), "other")
    return {"name": path, "type": kind, "size": int(facts.get("size") or 0), "modify": facts.get("modify")}
