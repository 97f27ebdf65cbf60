"""Convert Outlook's winmail.dat (TNEF, [MS-OXTNEF]) to an e-mail with text and attachments."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage

from connectors.charsets import decoding

MARK = b"\x78\x9f\x3e\x22"
_ATTACHMENT_START, _ATTACHMENT_TITLE, _ATTACHMENT_DATA = 0x9002, 0x8010, 0x800F
_MESSAGE_PROPERTIES, _ATTACHMENT_PROPERTIES = 0x9003, 0x9005
_SUBJECT_ATTRIBUTE, _BODY_ATTRIBUTE, _CODE_PAGE = 0x8004, 0x800C, 0x9007
_PLAIN_BODY, _RTF_BODY, _HTML_BODY, _SUBJECT_PROPERTY = 0x1000, 0x1009, 0x1013, 0x0037
_ATTACHED_BYTES, _LONG_NAME, _SHORT_NAME, _MEDIA_TYPE, _CHARSET_PROPERTY = 0x3701, 0x3707, 0x3704, 0x370E, 0x3FDE
_FIXED_SIZES = {0x0001: 0, 0x0002: 4, 0x0003: 4, 0x0004: 4, 0x0005: 8, 0x0006: 8, 0x0007: 8, 0x000A: 4, 0x000B: 4}
_FIXED_SIZES |= {0x0014: 8, 0x0040: 8, 0x0048: 16}
_OBJECT_TYPE, _ANSI_TYPE, _UNICODE_TYPE, _MULTIPLE_FLAG = 0x000D, 0x001E, 0x001F, 0x1000
_MAX_DEPTH = 8
_TEXT_TYPES = frozenset({0x001E, 0x001F})

Values = dict[int, "bytes | str"]


@dataclass(slots=True)
class _Attachment:
    title: str = ""
    data: bytes = b""
    properties: Values = field(default_factory=dict)


class Damaged(ValueError):
    """Part of the file is unreadable; `mail` holds the readable rest."""

    def __init__(self, mail: EmailMessage) -> None:
        super().__init__("damaged TNEF")
        self.mail = mail


def read_mail(data: bytes, depth: int = 0) -> EmailMessage:
    """Return the message as an e-mail. Damaged if truncated."""
    properties: Values = {}
    attached: list[_Attachment] = []
    charset, broken = "cp1252", not data.startswith(MARK)
    try:
        for name, value in _read_attributes(data):
            if name == _CODE_PAGE:
                charset = decoding.code_page(*struct.unpack_from("<I", value))
            elif name == _ATTACHMENT_START:
                attached.append(_Attachment())
            elif name == _MESSAGE_PROPERTIES:
                properties |= _read_mapi(value, charset)
            elif name in (_SUBJECT_ATTRIBUTE, _BODY_ATTRIBUTE):
                properties.setdefault(
                    _SUBJECT_PROPERTY if name == _SUBJECT_ATTRIBUTE else _PLAIN_BODY, _decode_words(value, charset)
                )
            elif attached and name == _ATTACHMENT_TITLE:
                attached[-1].title = _decode_words(value, charset)
            elif attached and name == _ATTACHMENT_DATA:
                attached[-1].data = value
            elif attached and name == _ATTACHMENT_PROPERTIES:
                attached[-1].properties |= _read_mapi(value, charset)
    except (struct.error, ValueError):
        broken = True
    whole, complete = _assemble_mail(properties, attached, depth, charset)
    if broken or not complete:
        raise Damaged(whole)
    return whole


def _read_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield identifiers and values of the attributes (2.1.3.3)."""
    at = 6
    while at < len(data):
        _level, name, _kind, size = struct.unpack_from("<BHHI", data, at)
        if at + 11 + size > len(data):
            raise ValueError("An attribute is cut off.")
        yield name, data[at + 9 : at + 9 + size]
        at += 11 + size


def _read_mapi(data: bytes, charset: str) -> Values:
    """Return text and byte properties by number (2.1.3.4)."""
    (count,), at = struct.unpack_from("<I", data), 4
    values: Values = {}
    for _ in range(count):
        kind, name = struct.unpack_from("<HH", data, at)
        at += 4
        if name >= 0x8000:
            (is_named,) = struct.unpack_from("<I", data, at + 16)
            (size,) = struct.unpack_from("<I", data, at + 20)
            at += 24 + (_padded_size(size) if is_named else 0)
        several, kind = bool(kind & _MULTIPLE_FLAG), kind & ~_MULTIPLE_FLAG
        repeats = 1
        if several or kind not in _FIXED_SIZES:
            (repeats,) = struct.unpack_from("<I", data, at)
            at += 4
        for _ in range(repeats):
            if kind in _FIXED_SIZES:
                at += _FIXED_SIZES[kind]
                continue
            (size,) = struct.unpack_from("<I", data, at)
            value = data[at + 4 : at + 4 + size]
            if len(value) < size:
                raise ValueError("A property is cut off.")
            at += 4 + _padded_size(size)
            if kind == _OBJECT_TYPE:
                value = value[16:]  # after the id of its interface
            values[name] = value
            if kind in _TEXT_TYPES:
                text = value.decode("utf-16-le", "replace") if kind == _UNICODE_TYPE else _decode_words(value, charset)
                values[name] = text.rstrip("\0")
    return values


def _padded_size(size: int) -> int:
    return -(-size // 4) * 4


def _assemble_mail(
    properties: Values, attached: list[_Attachment], depth: int, charset: str
) -> tuple[EmailMessage, bool]:
    """Return the e-mail, and False if a nested message is damaged."""
    whole = EmailMessage()
    if subject := " ".join(str(properties.get(_SUBJECT_PROPERTY, "")).split()):
        whole["Subject"] = subject
    text, page = properties.get(_PLAIN_BODY, ""), properties.get(_HTML_BODY, b"")
    page = page if isinstance(page, str) else decoding.decode_text(page, charset, markup=True)
    rtf = properties.get(_RTF_BODY, b"")
    if page.strip():
        whole.set_content(page, subtype="html")
    else:
        whole.set_content(text if isinstance(text, str) else _decode_words(text, charset))
    whole.make_mixed()
    if isinstance(rtf, bytes) and rtf and not page.strip() and not text.strip():
        whole.add_attachment(decompress_rtf(rtf), "application", "rtf", filename="message.rtf")
    complete = [_attach_file(whole, attachment, number, depth) for number, attachment in enumerate(attached, 1)]
    return whole, all(complete)


def _attach_file(whole: EmailMessage, one: _Attachment, number: int, depth: int) -> bool:
    properties = one.properties
    names = (properties.get(_LONG_NAME), one.title, properties.get(_SHORT_NAME))
    name = next((name for name in names if isinstance(name, str) and name.strip()), f"attachment {number}")
    content = properties.get(_ATTACHED_BYTES, b"")
    data = one.data or (content if isinstance(content, bytes) else content.encode())
    if data.startswith(MARK) and depth < _MAX_DEPTH:
        try:
            inner, complete = read_mail(data, depth + 1), True
        except Damaged as error:
            inner, complete = error.mail, False
        if "Subject" not in inner:
            inner["Subject"] = " ".join(name.split())
        whole.add_attachment(inner)
        return complete
    main, _, sub = str(properties.get(_MEDIA_TYPE) or "application/octet-stream").partition("/")
    if not sub or main in ("multipart", "message"):
        main, sub = "application", "octet-stream"
    whole.add_attachment(data, main, sub, filename=" ".join(name.split()))
    return True


def decompress_rtf(rtf: bytes) -> bytes:
    import compressed_rtf

    return bytes(compressed_rtf.decompress(rtf))


def _decode_words(value: bytes, charset: str) -> str:
    return decoding.decode_text(value.rstrip(b"\0"), charset)
