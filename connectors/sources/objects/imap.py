"""Mailboxes over IMAP (RFC 3501): folders are listed by UID, and mails, which never change, are read in parts."""

# A mail's key is its folder, the folder's UIDVALIDITY and its UID. CONDSTORE would only add changes of flags;
# a listing, three requests for 1,000 mails, finds new and removed mails without it.

from __future__ import annotations

import base64
import imaplib
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from email.header import decode_header, make_header
from email.parser import BytesHeaderParser
from functools import partial
from typing import Any, BinaryIO, Final, cast
from urllib.parse import urlsplit

from connectors.http import responses, sessions
from connectors.sources.objects.location import Location
from connectors.sources.objects.pool import Pool
from connectors.sources.objects.storage import BATCH, UNKNOWN, Batch, StoredObject
from connectors.sources.objects.tree import GONE
from retrieval.errors import Fatal, Skippable
from retrieval.network import fetch_guard
from retrieval.network.fetch_guard import Guard
from retrieval.settings import Settings

SERVER_TITLE: Final = "The IMAP server"
PORTS: Final = {"imaps": 993, "imap": 143}
SOCKET_TIMEOUT_SECONDS: Final = 60.0
READ_CHUNK_BYTES: Final = 1 << 20
SUFFIX: Final = ".eml"
_EMPTY: Final = frozenset({"\\noselect", "\\nonexistent"})
# Folders with mails of other folders, junk, or unsent and deleted mails. One that the URL names is read.
_LEFT_OUT: Final = frozenset({"\\all", "\\flagged", "\\junk", "\\trash", "\\drafts"})
_FETCH_FIELDS: Final = "(UID FLAGS INTERNALDATE RFC822.SIZE BODY.PEEK[HEADER.FIELDS (SUBJECT)])"
_KEY: Final = re.compile(r"(?P<folder>.+)/(?P<validity>\d+)\.(?P<uid>\d+)\.eml", re.DOTALL)
_LIST: Final = re.compile(rb'\((?P<flags>[^)]*)\) (?:"(?P<delimiter>\\?.)"|NIL) (?P<name>.*)', re.DOTALL)
_SIZE: Final = re.compile(rb"RFC822\.SIZE (\d+)")
_UID: Final = re.compile(rb"\bUID (\d+)")


class Session(imaplib.IMAP4):
    """Connection through the guard; `bytes_left`: bytes that the current command may still answer."""

    def __init__(self, guard: Guard, scheme: str, host: str, port: int) -> None:
        self._guard, self._tls = guard, scheme == "imaps"
        self.bytes_left = responses.MAX_BODY_BYTES
        super().__init__(host, port, SOCKET_TIMEOUT_SECONDS)

    def open(self, host: str = "", port: int = 0, timeout: float | None = None) -> None:
        connection = self._guard.connect(host, port, timeout)
        connection.settimeout(timeout)
        if self._tls:
            connection = sessions.trusted_certificates(None, SERVER_TITLE).wrap_socket(connection, server_hostname=host)
        self._connection, self._stream = connection, connection.makefile("rb")

    def read(self, size: int) -> bytes:
        self._count(size)
        return self._stream.read(size)

    def readline(self) -> bytes:
        line = self._stream.readline(responses.MAX_BODY_BYTES)
        self._count(len(line))
        return line

    def send(self, data: Any) -> None:
        self._connection.sendall(data)

    def shutdown(self) -> None:
        self._stream.close()
        self._connection.close()

    def ask(self, name: str, *arguments: str) -> list[Any]:
        """Send a command and return the data. LookupError for NO, imaplib's errors for failures."""
        self.bytes_left = responses.MAX_BODY_BYTES
        kind = "FETCH" if name == "UID" else name
        self.response(kind)
        status, data = self.uid(*arguments) if name == "UID" else getattr(self, name.lower())(*arguments)
        if status != "OK":
            raise LookupError(name)
        return cast("list[Any]", data)

    def _count(self, size: int) -> None:
        self.bytes_left -= size
        if self.bytes_left < 0:
            raise self.abort("The answer has no end.")


class Mailbox:
    """A `Storage` of the mails below a folder, "" for all of a user. Keys hold folders with `/` between them."""

    def __init__(self, location: Location, guard: Guard) -> None:
        self._prefix = location.prefix
        self._pool = Pool(partial(_connect, location, guard), Session.shutdown)
        self._folders: dict[str, str] = {}

    def list_objects(self, after: str) -> Iterator[Batch]:
        with self._session() as session:
            names = sorted(self._list_folders(session))
        resumed = _KEY.fullmatch(after)
        for name in [name for name in names if not resumed or name >= resumed["folder"]]:
            position: str | None = after if resumed and name == resumed["folder"] else ""
            while position is not None:
                batch = self._read_batch(name, position)
                position = batch.last
                if batch.objects:
                    yield Batch(batch.objects, position or batch.objects[-1].key)
        yield Batch([], None)

    def list_folder(self, folder: str, after: str) -> Batch:
        above = folder or self._prefix
        with self._session() as session:
            names = self._list_folders(session)
        below = {name.removeprefix(above).partition("/")[0] for name in names if name.startswith(above)}
        entries = [StoredObject(f"{above}{name}/", 0, "") for name in sorted(below) if not after]
        name = above.rstrip("/")
        batch = self._read_batch(name, after) if name in names else Batch([], None)
        return Batch([*entries, *batch.objects], batch.last)

    def _read_batch(self, name: str, after: str) -> Batch:
        """Return mails behind a key; none for a deleted folder."""
        with self._session() as session:
            validity = self._select(session, name)
            if validity is None:
                return Batch([], None)
            position = _KEY.fullmatch(after)
            first = int(position["uid"]) + 1 if position and position["validity"] == validity else 1
            data = session.ask("UID", "SEARCH", "UID", f"{first}:*", "UNDELETED")
            uids = sorted({int(uid) for line in data if line for uid in line.split() if int(uid) >= first})
            part = uids[:BATCH]
            mails = _read_mails(session, name, validity, f"{part[0]}:{part[-1]}") if part else []
            return Batch(mails, _key(name, validity, part[-1]) if len(uids) > BATCH else None)

    @contextmanager
    def open(self, key: str) -> Iterator[tuple[StoredObject, BinaryIO]]:
        with self._session() as session:
            if (stored := self._find(session, key)) is None:
                raise Skippable(GONE)
            # Some servers estimate the size of a mail.
            yield replace(stored, size=UNKNOWN), cast("BinaryIO", _Mail(session, key))

    def find(self, key: str) -> StoredObject | None:
        with self._session() as session:
            return self._find(session, key)

    def _find(self, session: Session, key: str) -> StoredObject | None:
        """Select a mail's folder and describe the mail."""
        parts = _KEY.fullmatch(key)
        if parts is None or self._select(session, parts["folder"]) != parts["validity"]:
            return None
        return next(iter(_read_mails(session, parts["folder"], parts["validity"], parts["uid"])), None)

    def _select(self, session: Session, name: str) -> str | None:
        """Select a folder for reading; return UIDVALIDITY, or None for a missing folder."""
        if name not in self._folders and name not in self._list_folders(session):
            return None
        try:
            session.ask("SELECT", self._folders[name], cast("str", True))  # noqa: FBT003 - read-only, by EXAMINE
        except LookupError:
            if name in self._list_folders(session):
                raise Fatal("A folder of the mailbox may not be read by this user.") from None
            return None
        validity = session.response("UIDVALIDITY")[1][-1]
        if validity is None or not validity.isdigit():
            raise Fatal("The IMAP server names no UIDVALIDITY: its mails have no lasting names.")
        return str(int(validity))

    def _list_folders(self, session: Session) -> dict[str, str]:
        """Return folders below the prefix with the server's names. Fatal without any."""
        folders = dict(filter(None, (_read_folder(line, self._prefix) for line in session.ask("LIST", '""', "*"))))
        if not folders:
            raise Fatal("The mailbox has no such folder.")
        self._folders = folders
        return folders

    @contextmanager
    def _session(self) -> Iterator[Session]:
        with _explained(), self._pool.lease() as session:
            yield session


def _connect(location: Location, guard: Guard) -> Session:
    """Connect and authorize a user."""
    parts = urlsplit(f"{location.scheme}://{location.host}")
    address = parts.hostname or "", parts.port or PORTS[location.scheme]
    if location.scheme == "imap" and not guard.allows_plainly(*address):
        raise Fatal("Without imaps only a server in a range that RETRIEVAL_FETCH_ALLOW names can be used.")
    session = Session(guard, location.scheme, *address)
    try:
        session.login(location.credentials["user"], location.credentials["password"])
    except imaplib.IMAP4.abort:
        raise
    except imaplib.IMAP4.error:
        session.shutdown()
        raise Fatal("The IMAP server does not accept this user with this password.") from None
    return session


class _Mail:
    """Stream of a mail in pieces."""

    def __init__(self, session: Session, key: str) -> None:
        self._session, self._uid = session, cast("re.Match[str]", _KEY.fullmatch(key))["uid"]
        self._start = 0

    def read(self, _size: int = -1) -> bytes:
        if self._start % READ_CHUNK_BYTES:
            return b""
        data = self._session.ask("UID", "FETCH", self._uid, f"(BODY.PEEK[]<{self._start}.{READ_CHUNK_BYTES}>)")
        piece = next((bytes(part[1]) for part in data if isinstance(part, tuple)), b"")
        self._start += len(piece)
        return piece


def make_mailbox(location: Location, settings: Settings) -> Mailbox:
    return Mailbox(location, fetch_guard.make_guard(settings, frozenset(PORTS.values())))


@contextmanager
def _explained() -> Iterator[None]:
    """Translate failures to port errors."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise Fatal("The certificate of the IMAP server is not trusted.") from error
    except (imaplib.IMAP4.error, LookupError, OSError) as error:
        raise responses.connection_error(SERVER_TITLE) from error


def _read_folder(line: Any, prefix: str) -> tuple[str, str] | None:
    """Return a folder's name with `/` and the server's spelling; None for an excluded folder."""
    text = line[0] if isinstance(line, tuple) else line
    if text is None or (parts := _LIST.match(text)) is None:
        return None
    spelled = re.sub(rb'^"(.*)"$', rb"\1", line[1] if isinstance(line, tuple) else parts["name"], flags=re.DOTALL)
    name, delimiter = _decode_name(re.sub(rb"\\(.)", rb"\1", spelled)), (parts["delimiter"] or b"")[-1:].decode()
    path = "/".join(part.replace("/", "_") for part in (name.split(delimiter) if delimiter else [name]))
    flags = set(parts["flags"].decode("ascii", "replace").lower().split())
    if not f"{path}/".startswith(prefix) or flags & (_EMPTY if f"{path}/" == prefix else _EMPTY | _LEFT_OUT):
        return None
    return path, '"' + spelled.decode("ascii", "replace") + '"'


def _read_mails(session: Session, folder: str, validity: str, uids: str) -> list[StoredObject]:
    """Return mails of the selected folder, by UID."""
    mails = {}
    data = session.ask("UID", "FETCH", uids, _FETCH_FIELDS)
    for part, closing in zip(data, [*data[1:], b""], strict=True):
        if not isinstance(part, tuple):
            continue
        line = part[0] + (closing if isinstance(closing, bytes) else b"")
        uid, size = _UID.search(line), _SIZE.search(line)
        if uid is None or size is None or rb"\Deleted" in line:
            continue
        subject = BytesHeaderParser().parsebytes(part[1]).get("subject", "")
        mails[int(uid[1])] = StoredObject(
            _key(folder, validity, int(uid[1])),
            int(size[1]),
            f"{validity}.{int(uid[1])}",
            _date(line),
            _text(subject),
            "message/rfc822",
        )
    return [mails[uid] for uid in sorted(mails)]


def _key(folder: str, validity: str, uid: int) -> str:
    return f"{folder}/{validity}.{uid}{SUFFIX}"


def _date(line: bytes) -> datetime | None:
    with suppress(ValueError, LookupError):
        text = line.partition(b'INTERNALDATE "')[2].partition(b'"')[0].decode("ascii").strip()
        return datetime.strptime(text, "%d-%b-%Y %H:%M:%S %z")
    return None


def _text(subject: str) -> str:
    try:
        return " ".join(str(make_header(decode_header(subject))).split())
    except (LookupError, ValueError):
        return " ".join(subject.split())


def _decode_name(spelled: bytes) -> str:
    """Decode a folder's name from modified UTF-7 (RFC 3501, 5.1.3) or UTF-8."""

    def decode(match: re.Match[str]) -> str:
        if not match[1]:
            return "&"
        text = match[1].replace(",", "/")
        return base64.b64decode(text + "=" * (-len(text) % 4)).decode("utf-16-be")

    text = spelled.decode("utf-8", "replace")
    with suppress(ValueError):
        return re.sub(r"&([A-Za-z0-9+,]*)-", decode, text)
    return text
