"""Mails: headers, the parts that are shown, attached files, and the content of signed ones."""

from __future__ import annotations

import base64
import email
import io
import mimetypes
import quopri
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.errors import CloseBoundaryNotFoundDefect
from email.generator import BytesGenerator
from email.message import EmailMessage, Message
from enum import Enum, auto

from connectors.parsers.formats.containers import tnef
from connectors.parsers.formats.containers.ledger import Part
from connectors.parsers.formats.containers.mail_decoding import decode_text, header_of, name_of
from retrieval.errors import Skippable

_ARMOUR = re.compile(rb"-----BEGIN (?:PKCS7|CMS)-----\s+([A-Za-z0-9+/=\s]+?)-----END ")
ENCRYPTED = (
    "It is encrypted (S/MIME), and the service has no key. Decrypt it in the mail program, save it and upload that."
)
_NO_CONTENT = "It is a signature or a list of certificates and holds no content. Upload the file that was signed."
_DAMAGED_SIGNATURE = (
    "The signed file is damaged and cannot be read. Save it again from the program that made it and upload that."
)


def signed_content(data: bytes) -> bytes:
    """The content that was signed or compressed. Skippable if it is encrypted, missing or damaged."""
    from asn1crypto import cms

    if armour := _ARMOUR.search(data):
        data = base64.b64decode(b"".join(armour[1].split()))
    try:
        info = cms.ContentInfo.load(data)
        kind = info["content_type"].native
        if kind == "signed_data":
            content = info["content"]["encap_content_info"]["content"].native
        elif kind == "compressed_data":
            content = info["content"].decompressed
        else:
            content = info["content"].native if kind == "data" else None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Skippable(_DAMAGED_SIGNATURE) from error
    if kind in ("enveloped_data", "authenticated_enveloped_data", "encrypted_data", "signed_and_enveloped_data"):
        raise Skippable(ENCRYPTED)
    if not isinstance(content, bytes) or not content:
        raise Skippable(_NO_CONTENT)
    return content


DEEPEST = 50
_SIGNATURES = frozenset({"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"})
_WITHOUT_WORDS = frozenset({"text/css", "text/javascript", "application/javascript", "application/applefile"})
_CMS = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime"})
_TNEF = frozenset({"application/ms-tnef", "application/vnd.ms-tnef"})
_SHOWN = frozenset({"text/plain", "text/html", "text/markdown", "text/enriched", "text/richtext", "text/calendar"})
_MESSAGES = frozenset({"message/rfc822", "message/global"})
_REPORTS = frozenset(
    {"message/delivery-status", "message/disposition-notification", "message/feedback-report", "text/rfc822-headers"}
)
_REFERENCE = "The mail holds only a reference to it, no content. Upload the file itself."
_FRAGMENT = "It is a fragment of a message that was sent in several mails. Save the whole message and upload that."
_TOO_DEEP = f"The mail is nested more than {DEEPEST} levels deep; what lies deeper was not read. Upload it separately."
_PGP = (
    "It is encrypted (PGP), and the service has no key to it. Decrypt it in the mail program, save it and upload that."
)
_BROKEN_OFF = "The file winmail.dat is damaged: what follows in it could not be read. Ask for the files themselves."
_DECORATION_BYTES = 10_000
"""A picture up to this size that is not marked as an attachment is taken for a logo or a tracking pixel."""
_PICTURES = "pictures within the text"
_EMPTY = "empty attachments"
_CUT_OFF = "what follows where the mail is cut off"
_PGP_BLOCK = re.compile(r"^-----BEGIN PGP MESSAGE-----$.*?(?:^-----END PGP MESSAGE-----$|\Z)", re.DOTALL | re.MULTILINE)
_UU_BLOCK = re.compile(r"^begin [0-7]{3,4} (\S[^\n]*)\n((?:[ -`]{1,62}\n)+)end$", re.MULTILINE)
_FIELD = re.compile(rb"^[A-Za-z][A-Za-z0-9-]{0,60}:[ \t]")


def is_message(content: bytes) -> bool:
    """Tell if signed content is a part of a mail, with headers, rather than a file."""
    return bool(_FIELD.match(content))


class Role(Enum):
    """The use of a part within its message."""

    TEXT = auto()
    """Words that a reader sees in the message itself."""
    FILE = auto()
    MESSAGE = auto()
    """Another message, attached whole."""
    PICTURE = auto()
    """One that decorates the text."""
    MACHINE = auto()
    """Read by programs only: signatures, styles, other versions of the text."""


@dataclass(slots=True)
class Mail:
    """A message whose wrappers are opened: signed content and winmail.dat stand in the tree as what they hold.

    `errors`: reasons of the parts that cannot be read.
    """

    message: Message
    errors: dict[Message, str] = field(default_factory=dict)


def open_wrappers(data: bytes) -> Mail:
    """The message with its wrappers opened. Skippable if all of it is encrypted."""
    if apple := _APPLE_MAIL.match(data):
        data = data[apple.end() :][: int(apple[1])]
    mail = Mail(_unwrapped(email.message_from_bytes(data)))
    _open(mail, mail.message, 0)
    if reason := mail.errors.get(mail.message):
        raise Skippable(reason.replace("It is", "The message is", 1))
    return mail


_APPLE_MAIL = re.compile(rb"\s*(\d{1,10})[ \t]*\r?\n(?=[A-Za-z][A-Za-z0-9-]*:)")
"""The line before a mail in a file of Apple Mail (EMLX): its bytes, after which a property list follows."""


def _unwrapped(message: Message) -> Message:
    """The mail of a file that is no more than a wrapper of one; a mail that forwards one holds it as a part."""
    if message.get_content_type() not in _MESSAGES or not _inner(message):
        return message
    _decode_message(message)
    (inner, *_) = _inner(message)
    if not any(name in message for name in ("subject", "from", "to")):
        return _unwrapped(inner)
    part = Message()
    part["Content-Type"] = "message/rfc822"
    part.set_payload([inner])
    message.set_type("multipart/mixed")
    message.set_payload([part])
    return message


def _decode_message(part: Message) -> None:
    """Decode a message that is attached in base64 or quoted-printable, which the standard forbids."""
    encoding = str(part.get("content-transfer-encoding", "")).strip().lower()
    if encoding not in ("base64", "quoted-printable") or not (inner := _inner(part)):
        return
    file = io.BytesIO()
    BytesGenerator(file, mangle_from_=False, maxheaderlen=0).flatten(inner[0])
    raw = file.getvalue()
    try:
        data = base64.b64decode(raw) if encoding == "base64" else quopri.decodestring(raw)
    except ValueError:
        return
    if _FIELD.match(data.lstrip()):
        part.set_payload([email.message_from_bytes(data.lstrip())])
        del part["content-transfer-encoding"]


def _open(mail: Mail, part: Message, depth: int) -> None:
    kind = part.get_content_type()
    if depth > DEEPEST:
        return
    if kind in _MESSAGES:
        _decode_message(part)
    if kind == "multipart/encrypted":
        mail.errors[part] = _PGP
    elif kind == "message/rfc822" and depth:
        return  # a file of its own, which is opened when that is read
    elif part.is_multipart():
        for inner in _inner(part):
            _open(mail, inner, depth + 1)
    elif kind in _CMS:
        _open_signed(mail, part, depth)
    elif kind in _TNEF or name_of(part).lower() == "winmail.dat":
        _open_tnef(mail, part, depth)


def _open_signed(mail: Mail, part: Message, depth: int) -> None:
    try:
        content = signed_content(_data(part))
    except Skippable as error:
        mail.errors[part] = str(error)
        return
    if is_message(content):
        _replace(part, email.message_from_bytes(content))
        _open(mail, part, depth + 1)


def _open_tnef(mail: Mail, part: Message, depth: int) -> None:
    data = _data(part)
    if not data.startswith(tnef.MARK):
        return
    try:
        inner = tnef.read_mail(data)
    except tnef.Damaged as error:
        inner = error.mail
        missing = EmailMessage()
        missing["Content-Type"] = "application/ms-tnef"
        missing["Content-Disposition"] = 'attachment; filename="winmail.dat"'
        missing.set_payload("")
        inner.attach(missing)
        mail.errors[missing] = _BROKEN_OFF
    text, *files = _inner(inner)
    is_repeated = depth and (not _data(text).strip() or _said_already(mail.message, text))
    attachments: list[Message | str] = [*files] if is_repeated else [text, *files]
    inner.set_payload(attachments)
    _replace(part, inner)
    for inner_part in _inner(part):
        _open(mail, inner_part, depth + 1)


def _said_already(message: Message, text: Message) -> bool:
    """Tell if the mail has a text of its own, of which the one in winmail.dat is another version."""
    text_parts = [part for part in message.walk() if part.get_content_type() in ("text/plain", "text/html")]
    words = re.findall(r"\w+", re.sub(r"<[^>]*>", " ", decode_text(text)))
    body_words = {word for part in text_parts for word in re.findall(r"\w+", decode_text(part))}
    return body_words.issuperset(words)


def _replace(part: Message, inner: Message) -> None:
    """Put the content of `inner` in the place of that of `part`, whose own headers stay."""
    for name in [name for name in part if name.lower().startswith("content-")]:
        del part[name]
    for name, value in inner.raw_items():
        if name.lower().startswith("content-"):
            part[name] = str(value)
    part.set_payload(inner.get_payload())


def role_of_part(part: Message, within: str, depth: int) -> Role:
    """The use of a part that holds no others, `depth` levels deep in a part of the type `within`."""
    kind, main = part.get_content_type(), part.get_content_maintype()
    attachment = part.get_content_disposition() == "attachment"
    if kind in _SIGNATURES or kind in _WITHOUT_WORDS or main == "font":
        return Role.MACHINE
    if kind in _REPORTS or main == "multipart" or (kind in _MESSAGES and depth):
        return Role.MESSAGE if kind in _MESSAGES else Role.TEXT
    if main == "image" and not attachment:
        is_inline = within == "multipart/related" and ("content-id" in part or "content-location" in part)
        return Role.PICTURE if depth and (is_inline or len(_data(part)) <= _DECORATION_BYTES) else Role.FILE
    is_version = within == "multipart/alternative" and main == "text" and not attachment
    if kind in _SHOWN and not attachment and (is_version or not depth or not name_of(part)):
        return Role.TEXT
    return Role.MACHINE if is_version else Role.FILE


def text_of(part: Message) -> str:
    """The words of a text part, without what is encrypted or packed in it as a file."""
    payload = part.get_payload()
    if isinstance(payload, list):  # a report, whose blocks of headers the parser made messages of
        return "\n".join(str(block) for block in payload)
    return _UU_BLOCK.sub("", _PGP_BLOCK.sub("", decode_text(part)))


def find_parts(mail: Mail) -> Iterator[Part]:
    """The parts that are no text of the message itself."""
    yield from _parts(mail, mail.message, within="", depth=0)
    leaves = list(_leaves(mail.message))
    is_open = any(isinstance(defect, CloseBoundaryNotFoundDefect) for defect in _defects(mail.message))
    if leaves and (is_open or _is_cut(leaves[-1])):
        yield Part(name_of(leaves[-1]) or leaves[-1].get_content_type(), notice=_CUT_OFF)


def _leaves(part: Message) -> Iterator[Message]:
    """Parts that hold no others of this mail."""
    if part.get_content_maintype() == "multipart" and part.is_multipart():
        for inner in _inner(part):
            yield from _leaves(inner)
    else:
        yield part


def _defects(part: Message) -> Iterator[Exception]:
    yield from part.defects
    for inner in _inner(part) if part.get_content_maintype() == "multipart" else ():
        yield from _defects(inner)


def _is_cut(part: Message) -> bool:
    """The file ends within the base64 of its last part."""
    is_encoded = str(part.get("content-transfer-encoding", "")).strip().lower() == "base64"
    return is_encoded and not part.is_multipart() and len("".join(str(part.get_payload()).split())) % 4 > 0


def _parts(mail: Mail, part: Message, *, within: str, depth: int) -> Iterator[Part]:
    kind = part.get_content_type()
    if reason := mail.errors.get(part):
        yield Part(name_of(part) or f"encrypted part{_ending(kind)}", error=reason)
        return
    if kind.startswith("multipart/") and part.is_multipart():
        if depth >= DEEPEST:
            yield Part(f"parts below level {DEEPEST}", error=_TOO_DEEP)
            return
        for inner in _inner(part):
            yield from _parts(mail, inner, within=kind, depth=depth + 1)
        return
    match role_of_part(part, within, depth):
        case Role.TEXT:
            yield from _within_text(part)
        case Role.PICTURE:
            yield Part(
                name_of(part) or str(part.get("content-location") or f"picture{_ending(kind)}"), notice=_PICTURES
            )
        case Role.MESSAGE:
            yield _message(part)
        case Role.FILE:
            yield _file(part, kind)


def _within_text(part: Message) -> Iterator[Part]:
    """Yield encrypted blocks and files (uuencode) that a text holds as letters."""
    if part.is_multipart():
        return
    text = decode_text(part)
    for _ in _PGP_BLOCK.findall(text):
        yield Part("encrypted text.asc", error=_PGP)
    for match in _UU_BLOCK.finditer(text):
        yield Part(match[1], content=lambda lines=match[2]: [_uudecoded(lines)])  # type: ignore[misc]


def _uudecoded(lines: str) -> bytes:
    import binascii

    return b"".join(binascii.a2b_uu(line) for line in lines.splitlines())


def _file(part: Message, kind: str) -> Part:
    name = name_of(part) or f"attachment{_ending(kind)}"
    if kind == "message/external-body":
        return Part(name, error=_REFERENCE)
    if kind == "message/partial":
        return Part(name, error=_FRAGMENT)
    data = _data(part)
    return Part(name, kind, content=lambda: [data]) if data else Part(name, notice=_EMPTY)


def _message(part: Message) -> Part:
    """A message that was attached whole."""
    payload = part.get_payload()
    inner = payload[0] if isinstance(payload, list) and payload else None
    if not isinstance(inner, Message):
        return _file(part, part.get_content_type())
    subject = header_of(inner, "subject") or "message"
    name = name_of(part) or subject.replace("/", "-")
    name = name if name.lower().endswith(".eml") else f"{name}.eml"
    return Part(name, "message/rfc822", content=lambda: [inner.as_bytes()])


def _inner(part: Message) -> list[Message]:
    payload = part.get_payload()
    return [inner for inner in payload if isinstance(inner, Message)] if isinstance(payload, list) else []


def _data(part: Message) -> bytes:
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _ending(kind: str) -> str:
    return mimetypes.guess_extension(kind) or ""
