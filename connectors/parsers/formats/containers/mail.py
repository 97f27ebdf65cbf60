"""Mails: headers, displayed parts, attachments, and the content of signed mails."""

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

_ARMOUR_PATTERN = re.compile(rb"-----BEGIN (?:PKCS7|CMS)-----\s+([A-Za-z0-9+/=\s]+?)-----END ")
ENCRYPTED_MAIL = (
    "It is encrypted (S/MIME), and the service has no key. Decrypt it in the mail program, save it and upload that."
)
_NO_CONTENT = "It is a signature or a list of certificates and holds no content. Upload the file that was signed."
_DAMAGED_SIGNATURE = (
    "The signed file is damaged and cannot be read. Save it again from the program that made it and upload that."
)


def signed_content(data: bytes) -> bytes:
    """Return the signed or compressed content. Skippable if encrypted, missing or damaged."""
    from asn1crypto import cms

    if armour := _ARMOUR_PATTERN.search(data):
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
        raise Skippable(ENCRYPTED_MAIL)
    if not isinstance(content, bytes) or not content:
        raise Skippable(_NO_CONTENT)
    return content


MAX_MAIL_DEPTH = 50
_SIGNATURE_TYPES = frozenset(
    {"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"}
)
_WORDLESS_TYPES = frozenset({"text/css", "text/javascript", "application/javascript", "application/applefile"})
_CMS_TYPES = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime"})
_TNEF_TYPES = frozenset({"application/ms-tnef", "application/vnd.ms-tnef"})
_DISPLAYED_TYPES = frozenset(
    {"text/plain", "text/html", "text/markdown", "text/enriched", "text/richtext", "text/calendar"}
)
_MESSAGE_TYPES = frozenset({"message/rfc822", "message/global"})
_REPORT_TYPES = frozenset(
    {"message/delivery-status", "message/disposition-notification", "message/feedback-report", "text/rfc822-headers"}
)
_EXTERNAL_REFERENCE = "The mail holds only a reference to it, no content. Upload the file itself."
_MESSAGE_FRAGMENT = (
    "It is a fragment of a message that was sent in several mails. Save the whole message and upload that."
)
_TOO_DEEP = (
    f"The mail is nested more than {MAX_MAIL_DEPTH} levels deep; what lies deeper was not read. Upload it separately."
)
_PGP_ENCRYPTED = (
    "It is encrypted (PGP), and the service has no key to it. Decrypt it in the mail program, save it and upload that."
)
_BROKEN_OFF = "The file winmail.dat is damaged: what follows in it could not be read. Ask for the files themselves."
# Maximum size of a picture taken for a logo or tracking pixel, unless it is an attachment.
_DECORATION_BYTES = 10_000
_INLINE_PICTURES = "pictures within the text"
_EMPTY_ATTACHMENTS = "empty attachments"
_CUT_OFF = "what follows where the mail is cut off"
_PGP_BLOCK = re.compile(r"^-----BEGIN PGP MESSAGE-----$.*?(?:^-----END PGP MESSAGE-----$|\Z)", re.DOTALL | re.MULTILINE)
_UU_BLOCK = re.compile(r"^begin [0-7]{3,4} (\S[^\n]*)\n((?:[ -`]{1,62}\n)+)end$", re.MULTILINE)
_HEADER_FIELD = re.compile(rb"^[A-Za-z][A-Za-z0-9-]{0,60}:[ \t]")


def is_message(content: bytes) -> bool:
    """Check for a mail part with headers, as opposed to a file."""
    return bool(_HEADER_FIELD.match(content))


class PartRole(Enum):
    """Use of a part within its message."""

    # Displayed in the message.
    TEXT = auto()
    FILE = auto()
    # An attached message.
    MESSAGE = auto()
    # A decoration of the text.
    PICTURE = auto()
    # Read by programs only: signatures, styles, alternative versions of the text.
    MACHINE = auto()


@dataclass(slots=True)
class Mail:
    """Message with opened wrappers: signed content and winmail.dat are replaced by their contents."""

    message: Message
    # Causes of unreadable parts.
    errors: dict[Message, str] = field(default_factory=dict)


def open_wrappers(data: bytes) -> Mail:
    """Parse a message and open its wrappers. Skippable if fully encrypted."""
    if apple := _APPLE_MAIL.match(data):
        data = data[apple.end() :][: int(apple[1])]
    mail = Mail(_unwrap_message(email.message_from_bytes(data)))
    _open_part(mail, mail.message, 0)
    if reason := mail.errors.get(mail.message):
        raise Skippable(reason.replace("It is", "The message is", 1))
    return mail


# First line of Apple Mail's EMLX: the length of the mail in bytes; a property list follows the mail.
_APPLE_MAIL = re.compile(rb"\s*(\d{1,10})[ \t]*\r?\n(?=[A-Za-z][A-Za-z0-9-]*:)")


def _unwrap_message(message: Message) -> Message:
    """Return the inner mail of a bare wrapper; a forwarding mail keeps it as a part."""
    if message.get_content_type() not in _MESSAGE_TYPES or not _inner_messages(message):
        return message
    _decode_message(message)
    (inner, *_) = _inner_messages(message)
    if not any(name in message for name in ("subject", "from", "to")):
        return _unwrap_message(inner)
    part = Message()
    part["Content-Type"] = "message/rfc822"
    part.set_payload([inner])
    message.set_type("multipart/mixed")
    message.set_payload([part])
    return message


def _decode_message(part: Message) -> None:
    """Decode a message attached in base64 or quoted-printable, against the standard."""
    encoding = str(part.get("content-transfer-encoding", "")).strip().lower()
    if encoding not in ("base64", "quoted-printable") or not (inner := _inner_messages(part)):
        return
    file = io.BytesIO()
    BytesGenerator(file, mangle_from_=False, maxheaderlen=0).flatten(inner[0])
    raw = file.getvalue()
    try:
        data = base64.b64decode(raw) if encoding == "base64" else quopri.decodestring(raw)
    except ValueError:
        return
    if _HEADER_FIELD.match(data.lstrip()):
        part.set_payload([email.message_from_bytes(data.lstrip())])
        del part["content-transfer-encoding"]


def _open_part(mail: Mail, part: Message, depth: int) -> None:
    kind = part.get_content_type()
    if depth > MAX_MAIL_DEPTH:
        return
    if kind in _MESSAGE_TYPES:
        _decode_message(part)
    if kind == "multipart/encrypted":
        mail.errors[part] = _PGP_ENCRYPTED
    elif kind == "message/rfc822" and depth:
        return  # a file of its own, which is opened when that is read
    elif part.is_multipart():
        for inner in _inner_messages(part):
            _open_part(mail, inner, depth + 1)
    elif kind in _CMS_TYPES:
        _open_signed(mail, part, depth)
    elif kind in _TNEF_TYPES or name_of(part).lower() == "winmail.dat":
        _open_tnef(mail, part, depth)


def _open_signed(mail: Mail, part: Message, depth: int) -> None:
    try:
        content = signed_content(_part_data(part))
    except Skippable as error:
        mail.errors[part] = str(error)
        return
    if is_message(content):
        _replace_content(part, email.message_from_bytes(content))
        _open_part(mail, part, depth + 1)


def _open_tnef(mail: Mail, part: Message, depth: int) -> None:
    data = _part_data(part)
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
    text, *files = _inner_messages(inner)
    is_repeated = depth and (not _part_data(text).strip() or _is_repeated_text(mail.message, text))
    attachments: list[Message | str] = [*files] if is_repeated else [text, *files]
    inner.set_payload(attachments)
    _replace_content(part, inner)
    for inner_part in _inner_messages(part):
        _open_part(mail, inner_part, depth + 1)


def _is_repeated_text(mail_message: Message, text: Message) -> bool:
    """Check that the mail contains the text of winmail.dat in another version."""
    text_parts = [part for part in mail_message.walk() if part.get_content_type() in ("text/plain", "text/html")]
    words = re.findall(r"\w+", re.sub(r"<[^>]*>", " ", decode_text(text)))
    body_words = {word for part in text_parts for word in re.findall(r"\w+", decode_text(part))}
    return body_words.issuperset(words)


def _replace_content(part: Message, inner: Message) -> None:
    """Replace the content of a part by that of `inner`; other headers stay."""
    for name in [name for name in part if name.lower().startswith("content-")]:
        del part[name]
    for name, value in inner.raw_items():
        if name.lower().startswith("content-"):
            part[name] = str(value)
    part.set_payload(inner.get_payload())


def role_of_part(part: Message, within: str, depth: int) -> PartRole:
    """Return the role of a leaf part at `depth`, in a parent of type `within`."""
    kind, main = part.get_content_type(), part.get_content_maintype()
    attachment = part.get_content_disposition() == "attachment"
    if kind in _SIGNATURE_TYPES or kind in _WORDLESS_TYPES or main == "font":
        return PartRole.MACHINE
    if kind in _REPORT_TYPES or main == "multipart" or (kind in _MESSAGE_TYPES and depth):
        return PartRole.MESSAGE if kind in _MESSAGE_TYPES else PartRole.TEXT
    if main == "image" and not attachment:
        is_inline = within == "multipart/related" and ("content-id" in part or "content-location" in part)
        return (
            PartRole.PICTURE if depth and (is_inline or len(_part_data(part)) <= _DECORATION_BYTES) else PartRole.FILE
        )
    is_version = within == "multipart/alternative" and main == "text" and not attachment
    if kind in _DISPLAYED_TYPES and not attachment and (is_version or not depth or not name_of(part)):
        return PartRole.TEXT
    return PartRole.MACHINE if is_version else PartRole.FILE


def text_of(part: Message) -> str:
    """Return the words of a text part without encrypted blocks and encoded files."""
    payload = part.get_payload()
    if isinstance(payload, list):  # a report, whose blocks of headers the parser made messages of
        return "\n".join(str(block) for block in payload)
    return _UU_BLOCK.sub("", _PGP_BLOCK.sub("", decode_text(part)))


def find_parts(mail: Mail) -> Iterator[Part]:
    """Yield the parts other than the text of the message."""
    yield from _find_parts(mail, mail.message, within="", depth=0)
    leaves = list(_leaf_parts(mail.message))
    is_open = any(isinstance(defect, CloseBoundaryNotFoundDefect) for defect in _part_defects(mail.message))
    if leaves and (is_open or _is_truncated(leaves[-1])):
        yield Part(name_of(leaves[-1]) or leaves[-1].get_content_type(), notice=_CUT_OFF)


def _leaf_parts(part: Message) -> Iterator[Message]:
    """Yield the leaf parts of this mail."""
    if part.get_content_maintype() == "multipart" and part.is_multipart():
        for inner in _inner_messages(part):
            yield from _leaf_parts(inner)
    else:
        yield part


def _part_defects(part: Message) -> Iterator[Exception]:
    yield from part.defects
    for inner in _inner_messages(part) if part.get_content_maintype() == "multipart" else ():
        yield from _part_defects(inner)


def _is_truncated(part: Message) -> bool:
    """Check for a file truncated within base64."""
    is_encoded = str(part.get("content-transfer-encoding", "")).strip().lower() == "base64"
    return is_encoded and not part.is_multipart() and len("".join(str(part.get_payload()).split())) % 4 > 0


def _find_parts(mail: Mail, part: Message, *, within: str, depth: int) -> Iterator[Part]:
    kind = part.get_content_type()
    if reason := mail.errors.get(part):
        yield Part(name_of(part) or f"encrypted part{_file_ending(kind)}", error=reason)
        return
    if kind.startswith("multipart/") and part.is_multipart():
        if depth >= MAX_MAIL_DEPTH:
            yield Part(f"parts below level {MAX_MAIL_DEPTH}", error=_TOO_DEEP)
            return
        for inner in _inner_messages(part):
            yield from _find_parts(mail, inner, within=kind, depth=depth + 1)
        return
    match role_of_part(part, within, depth):
        case PartRole.TEXT:
            yield from _embedded_parts(part)
        case PartRole.PICTURE:
            yield Part(
                name_of(part) or str(part.get("content-location") or f"picture{_file_ending(kind)}"),
                notice=_INLINE_PICTURES,
            )
        case PartRole.MESSAGE:
            yield _message_part(part)
        case PartRole.FILE:
            yield _file_part(part, kind)


def _embedded_parts(part: Message) -> Iterator[Part]:
    """Yield encrypted blocks and uuencoded files in a text."""
    if part.is_multipart():
        return
    text = decode_text(part)
    for _ in _PGP_BLOCK.findall(text):
        yield Part("encrypted text.asc", error=_PGP_ENCRYPTED)
    for match in _UU_BLOCK.finditer(text):
        yield Part(match[1], content=lambda lines=match[2]: [_decode_uu(lines)])  # type: ignore[misc]


def _decode_uu(lines: str) -> bytes:
    import binascii

    return b"".join(binascii.a2b_uu(line) for line in lines.splitlines())


def _file_part(part: Message, kind: str) -> Part:
    name = name_of(part) or f"attachment{_file_ending(kind)}"
    if kind == "message/external-body":
        return Part(name, error=_EXTERNAL_REFERENCE)
    if kind == "message/partial":
        return Part(name, error=_MESSAGE_FRAGMENT)
    data = _part_data(part)
    return Part(name, kind, content=lambda: [data]) if data else Part(name, notice=_EMPTY_ATTACHMENTS)


def _message_part(part: Message) -> Part:
    """Return an attached message as a part."""
    payload = part.get_payload()
    inner = payload[0] if isinstance(payload, list) and payload else None
    if not isinstance(inner, Message):
        return _file_part(part, part.get_content_type())
    subject = header_of(inner, "subject") or "message"
    name = name_of(part) or subject.replace("/", "-")
    name = name if name.lower().endswith(".eml") else f"{name}.eml"
    return Part(name, "message/rfc822", content=lambda: [inner.as_bytes()])


def _inner_messages(part: Message) -> list[Message]:
    payload = part.get_payload()
    return [inner for inner in payload if isinstance(inner, Message)] if isinstance(payload, list) else []


def _part_data(part: Message) -> bytes:
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _file_ending(kind: str) -> str:
    return mimetypes.guess_extension(kind) or ""
