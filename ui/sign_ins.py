"""Sign-ins that outlive a refresh, a new tab and a restart of the app.

The browser's cookie holds a random id. A file named by the id's hash holds the API key, encrypted with the id: neither
the files nor the browser alone give the key. Several processes of the app may share the folder. A one-time link, as
`retrieval up` prints it, names such a file too; it is exchanged for a sign-in of the browser. Beside them is the
namespace that each key or person used last, by a hash of its id.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import tempfile
import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

COOKIE = "retrieval_sign_in"
FOLDER = "RETRIEVAL_UI_SIGN_INS"
"""Names the folder of the files; without it they end with the process."""
SECONDS = 12 * 3600
LINK_SECONDS = 3600
"""How long a one-time link may be used."""
NAMESPACE, NAMESPACE_SECONDS = ".namespace", 90 * 24 * 3600
"""Suffix of files with the namespace that was used last, and how long they are kept."""


@dataclass(frozen=True, slots=True)
class SignIn:
    """An API key and a tenant, as they were typed. `once`: of a link, which is no sign-in of a browser."""

    key: str = field(repr=False)
    tenant: str = ""
    once: bool = False


def create_sign_in(sign_in: SignIn, folder: Path | None = None) -> str:
    """Keep a sign-in and return its id, which nothing else holds. Files that have expired are removed."""
    folder = folder or _folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_expired(folder)
    sign_in_id = secrets.token_urlsafe(32)
    _write(folder, sign_in_id, sign_in)
    return sign_in_id


def replace_key(sign_in_id: str | None, key: str) -> None:
    if sign_in_id and (sign_in := read_sign_in(sign_in_id)) is not None:
        _file(_folder(), sign_in_id).unlink(missing_ok=True)
        _write(_folder(), sign_in_id, SignIn(key, sign_in.tenant))


def _write(folder: Path, sign_in_id: str, sign_in: SignIn) -> None:
    ends = time.time() + (LINK_SECONDS if sign_in.once else SECONDS)
    content = json.dumps({"key": sign_in.key, "tenant": sign_in.tenant, "once": sign_in.once, "ends": ends})
    path = _file(folder, sign_in_id)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(_cipher(sign_in_id).encrypt(content.encode()))


def read_sign_in(sign_in_id: str | None) -> SignIn | None:
    """Return the sign-in of a browser; None for an id that is unknown, has expired or belongs to a link."""
    sign_in = _read(sign_in_id)
    return None if sign_in is None or sign_in.once else sign_in


def take_link(link_id: str | None) -> SignIn | None:
    """Return the sign-in of a one-time link, and end it; None the second time."""
    sign_in = _read(link_id)
    if sign_in is None or not sign_in.once:
        return None
    try:
        _file(_folder(), link_id or "").unlink()
    except FileNotFoundError:
        return None
    return sign_in


def end_sign_in(sign_in_id: str | None) -> None:
    """End a sign-in, in all tabs of its browser."""
    if sign_in_id:
        _file(_folder(), sign_in_id).unlink(missing_ok=True)


def _read(sign_in_id: str | None) -> SignIn | None:
    if not sign_in_id:
        return None
    try:
        content = json.loads(_cipher(sign_in_id).decrypt(_file(_folder(), sign_in_id).read_bytes()))
    except (OSError, InvalidToken):
        return None
    if time.time() >= content["ends"]:
        return None
    return SignIn(content["key"], content["tenant"], content["once"])


def keep_namespace(owner: str, namespace: str) -> None:
    """Keep the namespace that a key or a person used last, for later sign-ins."""
    folder = _folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
        file.write(namespace)
    Path(file.name).replace(_namespace_file(owner))


def read_namespace(owner: str) -> str | None:
    try:
        return _namespace_file(owner).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _namespace_file(owner: str) -> Path:
    return _file(_folder(), owner).with_suffix(NAMESPACE)


def _remove_expired(folder: Path) -> None:
    for path in folder.iterdir():
        try:
            seconds = NAMESPACE_SECONDS if path.suffix == NAMESPACE else SECONDS
            if time.time() - path.stat().st_mtime > seconds:
                path.unlink()
        except FileNotFoundError:
            continue


def _file(folder: Path, sign_in_id: str) -> Path:
    return folder / hashlib.sha256(sign_in_id.encode()).hexdigest()


def _cipher(sign_in_id: str) -> Fernet:
    """The id has 256 random bits: a hash of it is a key."""
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(b"seal " + sign_in_id.encode()).digest()))


def _folder() -> Path:
    return Path(os.environ[FOLDER]) if os.environ.get(FOLDER) else _temporary_folder()


@lru_cache(maxsize=1)
def _temporary_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="retrieval-sign-ins-"))
