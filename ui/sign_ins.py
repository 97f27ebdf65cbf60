"""Sign-ins kept over refreshes, new tabs and restarts of the app.

The cookie holds a random id; a file named by the id's hash holds the API key, encrypted with the id. Neither the file
nor the cookie gives the key without the other. One-time links of `retrieval up` use such files too.
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

COOKIE_NAME = "retrieval_sign_in"
# Folder of the sign-ins; without it they end with the process.
FOLDER_VARIABLE = "RETRIEVAL_UI_SIGN_INS"
SIGN_IN_SECONDS = 12 * 3600
LINK_SECONDS = 3600
# Files with the last used namespace by key or person.
NAMESPACE_SUFFIX, NAMESPACE_FILE_SECONDS = ".namespace", 90 * 24 * 3600
# Files with the saved filters by key or person and namespace, which do not expire.
FILTERS_SUFFIX = ".filters"


@dataclass(frozen=True, slots=True)
class SignIn:
    """API key and tenant as typed; `once` for a one-time link."""

    key: str = field(repr=False)
    tenant: str = ""
    once: bool = False


def create_sign_in(sign_in: SignIn, folder: Path | None = None) -> str:
    """Store a sign-in and return its secret id; remove expired files."""
    folder = folder or _sign_in_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_expired(folder)
    sign_in_id = secrets.token_urlsafe(32)
    _write_file(folder, sign_in_id, sign_in)
    return sign_in_id


def replace_key(sign_in_id: str | None, key: str) -> None:
    if sign_in_id and (sign_in := read_sign_in(sign_in_id)) is not None:
        _file_path(_sign_in_folder(), sign_in_id).unlink(missing_ok=True)
        _write_file(_sign_in_folder(), sign_in_id, SignIn(key, sign_in.tenant))


def _write_file(folder: Path, sign_in_id: str, sign_in: SignIn) -> None:
    expires_at = time.time() + (LINK_SECONDS if sign_in.once else SIGN_IN_SECONDS)
    content = json.dumps({"key": sign_in.key, "tenant": sign_in.tenant, "once": sign_in.once, "ends": expires_at})
    path = _file_path(folder, sign_in_id)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(_make_cipher(sign_in_id).encrypt(content.encode()))


def read_sign_in(sign_in_id: str | None) -> SignIn | None:
    """Return a browser's sign-in; None for unknown, expired and link ids."""
    sign_in = _read_file(sign_in_id)
    return None if sign_in is None or sign_in.once else sign_in


def is_link(link_id: str) -> bool:
    """Check for an unused, unexpired one-time link."""
    sign_in = _read_file(link_id)
    return sign_in is not None and sign_in.once


def take_link(link_id: str | None) -> SignIn | None:
    """Return the sign-in of a one-time link once, then None."""
    sign_in = _read_file(link_id)
    if sign_in is None or not sign_in.once:
        return None
    try:
        _file_path(_sign_in_folder(), link_id or "").unlink()
    except FileNotFoundError:
        return None
    return sign_in


def end_sign_in(sign_in_id: str | None) -> None:
    """End a sign-in in all tabs of the browser."""
    if sign_in_id:
        _file_path(_sign_in_folder(), sign_in_id).unlink(missing_ok=True)


def _read_file(sign_in_id: str | None) -> SignIn | None:
    if not sign_in_id:
        return None
    try:
        content = json.loads(_make_cipher(sign_in_id).decrypt(_file_path(_sign_in_folder(), sign_in_id).read_bytes()))
    except (OSError, InvalidToken):
        return None
    if time.time() >= content["ends"]:
        return None
    return SignIn(content["key"], content["tenant"], content["once"])


def keep_namespace(owner: str, namespace: str) -> None:
    """Store the last used namespace of a key or person."""
    _write_text(_owner_file(owner, NAMESPACE_SUFFIX), namespace)


def read_namespace(owner: str) -> str | None:
    return _read_text(_owner_file(owner, NAMESPACE_SUFFIX))


def read_filters(owner: str) -> dict[str, dict[str, str]]:
    """Return address parameters of the saved filters of an owner by name."""
    return dict(json.loads(_read_text(_owner_file(owner, FILTERS_SUFFIX)) or "{}"))


def keep_filter(owner: str, name: str, parameters: dict[str, str]) -> None:
    """Store a filter; delete it without parameters."""
    saved = {**read_filters(owner), name: parameters}
    text = json.dumps({key: saved[key] for key in sorted(saved) if saved[key]})
    _write_text(_owner_file(owner, FILTERS_SUFFIX), text)


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(text)
    Path(file.name).replace(path)


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _owner_file(owner: str, suffix: str) -> Path:
    return _file_path(_sign_in_folder(), owner).with_suffix(suffix)


def _remove_expired(folder: Path) -> None:
    for path in folder.iterdir():
        try:
            if path.suffix == FILTERS_SUFFIX:
                continue
            seconds = NAMESPACE_FILE_SECONDS if path.suffix == NAMESPACE_SUFFIX else SIGN_IN_SECONDS
            if time.time() - path.stat().st_mtime > seconds:
                path.unlink()
        except FileNotFoundError:
            continue


def _file_path(folder: Path, sign_in_id: str) -> Path:
    return folder / hashlib.sha256(sign_in_id.encode()).hexdigest()


def _make_cipher(sign_in_id: str) -> Fernet:
    # The id has 256 random bits: its hash is a key.
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(b"seal " + sign_in_id.encode()).digest()))


def _sign_in_folder() -> Path:
    return Path(os.environ[FOLDER_VARIABLE]) if os.environ.get(FOLDER_VARIABLE) else _temporary_folder()


@lru_cache(maxsize=1)
def _temporary_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="retrieval-sign-ins-"))
