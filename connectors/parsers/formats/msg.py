"""The attachments of an Outlook message (MSG), as files ([MS-OXMSG]); a message among them as an e-mail."""

from __future__ import annotations

from email.message import EmailMessage
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.parsers.formats.archives import Folder

if TYPE_CHECKING:
    import olefile

_ATTACHMENT = "__attach_version1.0_"
_WITHIN = "__substg1.0_3701000D"
"""The storage of a message within a message."""
_DEEPEST = 8


def unpack(path: Path, folder: Folder) -> None:
    """What is attached to the message; a storage each (2.2.2)."""
    import olefile

    try:
        with olefile.OleFileIO(str(path)) as file:
            for storage in _attachments(file, ""):
                _unpack(file, storage, folder)
    except (OSError, ValueError, IndexError):
        return


def _attachments(file: olefile.OleFileIO, within: str) -> list[str]:
    """The attachments' storages of the message that lies in the storage `within`, in their order."""
    depth = len(within.split("/")) if within else 0
    paths = ("/".join(entry[: depth + 1]) for entry in file.listdir() if len(entry) > depth + 1)
    return sorted({path for path in paths if path.startswith(f"{within}/{_ATTACHMENT}" if within else _ATTACHMENT)})


def _unpack(file: olefile.OleFileIO, storage: str, folder: Folder) -> None:
    name, data = _name(file, storage), _stream(file, f"{storage}/__substg1.0_37010102")
    if file.exists(f"{storage}/{_WITHIN}"):
        subject = _text(file, f"{storage}/{_WITHIN}", "0037") or name
        whole = _message(file, f"{storage}/{_WITHIN}", depth=1)
        folder.add(f"{subject.replace('/', '-')}.eml", "message/rfc822", [whole.as_bytes()])
    elif data:
        folder.add(name, _text(file, storage, "370E"), [data])


def _message(file: olefile.OleFileIO, storage: str, *, depth: int) -> EmailMessage:
    """The message in `storage` as an e-mail, with its own attachments."""
    mail = EmailMessage()
    sender, address = _text(file, storage, "0C1A"), _text(file, storage, "0C1F")
    said = {"Subject": _text(file, storage, "0037"), "From": f"{sender} <{address}>" if "@" in address else sender}
    for name, value in {**said, "To": _text(file, storage, "0E04")}.items():
        if line := " ".join(value.split()):
            mail[name] = line
    page = _stream(file, f"{storage}/__substg1.0_10130102").decode("utf-8", "replace") or _text(file, storage, "1013")
    text = _text(file, storage, "1000")
    mail.set_content(text or page, subtype="plain" if text or not page else "html")
    for attachment in _attachments(file, storage) if depth < _DEEPEST else []:
        if file.exists(f"{attachment}/{_WITHIN}"):
            mail.add_attachment(_message(file, f"{attachment}/{_WITHIN}", depth=depth + 1))
        else:
            data = _stream(file, f"{attachment}/__substg1.0_37010102")
            mail.add_attachment(data, "application", "octet-stream", filename=_name(file, attachment))
    return mail


def _name(file: olefile.OleFileIO, storage: str) -> str:
    return _text(file, storage, "3707") or _text(file, storage, "3704") or "attachment"


def _text(file: olefile.OleFileIO, storage: str, tag: str) -> str:
    wide = _stream(file, f"{storage}/__substg1.0_{tag}001F")
    narrow = _stream(file, f"{storage}/__substg1.0_{tag}001E")
    return (wide.decode("utf-16-le", "replace") or narrow.decode("cp1252", "replace")).strip("\0 ")


def _stream(file: Any, path: str) -> bytes:
    return bytes(file.openstream(path).read()) if file.exists(path) else b""
