"""Outlook's winmail.dat (TNEF, [MS-OXTNEF]) as an e-mail with text and attached files."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage

from connectors.charsets import decoding

MARK = b"\x78\x9f\x3e\x22"
_ATTACHMENT, _TITLE, _DATA = 0x9002, 0x8010, 0x800F
_MESSAGE_PROPERTIES, _ATTACHMENT_PROPERTIES = 0x9003, 0x9005
_SUBJECT, _BODY, _CODE_PAGE = 0x8004, 0x800C, 0x9007
_PLAIN, _RTF, _PAGE, _TOPIC = 0x1000, 0x1009, 0x1013, 0x0037
_BYTES, _LONG_NAME, _SHORT_NAME, _MEDIA_TYPE, _CHARSET = 0x3701, 0x3707, 0x3704, 0x370E, 0x3FDE
_FIXED = {0x0001: 0, 0x0002: 4, 0x0003: 4, 0x0004: 4, 0x0005: 8, 0x0006: 8, 0x0007: 8, 0x000A: 4, 0x000B: 4}
_FIXED |= {0x0014: 8, 0x0040: 8, 0x0048: 16}
_OBJECT, _ANSI, _WIDE, _MULTIPLE = 0x000D, 0x001E, 0x001F, 0x1000
_DEEPEST = 8
_TEXT = frozenset({0x001E, 0x001F})

Values = dict[int, "bytes | str"]


@dataclass(slots=True)
class _Attached:
    title: str = ""
    data: bytes = b""
    properties: Values = field(default_factory=dict)


class Damaged(ValueError):
    """The message is damaged; `mail` holds the readable part."""

    def __init__(self, mail: EmailMessage) -> None:
        super().__init__("damaged TNEF")
        self.mail = mail


def read_mail(data: bytes, depth: int = 0) -> EmailMessage:
    """Convert the message to an e-mail. Damaged if truncated."""
    properties: Values = {}
    attached: list[_Attached] = []
    charset, broken = "cp1252", not data.startswith(MARK)
    try:
        for name, value in _attributes(data):
            if name == _CODE_PAGE:
                charset = decoding.code_page(*struct.unpack_from("<I", value))
            elif name == _ATTACHMENT:
                attached.append(_Attached())
            elif name == _MESSAGE_PROPERTIES:
                properties |= _mapi(value, charset)
            elif name in (_SUBJECT, _BODY):
                properties.setdefault(_TOPIC if name == _SUBJECT else _PLAIN, _words(value, charset))
            elif attached and name == _TITLE:
                attached[-1].title = _words(value, charset)
            elif attached and name == _DATA:
                attached[-1].data = value
            elif attached and name == _ATTACHMENT_PROPERTIES:
                attached[-1].properties |= _mapi(value, charset)
    except (struct.error, ValueError):
        broken = True
    whole, complete = _assembled(properties, attached, depth, charset)
    if broken or not complete:
        raise Damaged(whole)
    return whole


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield names and values of the attributes (2.1.3.3)."""
    at = 6
    while at < len(data):
        _level, name, _kind, size = struct.unpack_from("<BHHI", data, at)
        if at + 11 + size > len(data):
            raise ValueError("An attribute is cut off.")
        yield name, data[at + 9 : at + 9 + size]
        at += 11 + size


def _mapi(data: bytes, charset: str) -> Values:
    """Return text and binary properties by number (2.1.3.4)."""
    (count,), at = struct.unpack_from("<I", data), 4
    values: Values = {}
    for _ in range(count):
        kind, name = struct.unpack_from("<HH", data, at)
        at += 4
        if name >= 0x8000:
            (is_named,) = struct.unpack_from("<I", data, at + 16)
            (size,) = struct.unpack_from("<I", data, at + 20)
            at += 24 + (_padded(size) if is_named else 0)
        several, kind = bool(kind & _MULTIPLE), kind & ~_MULTIPLE
        repeats = 1
        if several or kind not in _FIXED:
            (repeats,) = struct.unpack_from("<I", data, at)
            at += 4
        for _ in range(repeats):
            if kind in _FIXED:
                at += _FIXED[kind]
                continue
            (size,) = struct.unpack_from("<I", data, at)
            value = data[at + 4 : at + 4 + size]
            if len(value) < size:
                raise ValueError("A property is cut off.")
            at += 4 + _padded(size)
            if kind == _OBJECT:
                value = value[16:]  # after the id of its interface
            values[name] = value
            if kind in _TEXT:
                text = value.decode("utf-16-le", "replace") if kind == _WIDE else _words(value, charset)
                values[name] = text.rstrip("\0")
    return values


def _padded(size: int) -> int:
    return -(-size // 4) * 4


def _assembled(properties: Values, attached: list[_Attached], depth: int, charset: str) -> tuple[EmailMessage, bool]:
    """Return the e-mail; and False with a damaged inner message."""
    whole = EmailMessage()
    if subject := " ".join(str(properties.get(_TOPIC, "")).split()):
        whole["Subject"] = subject
    text, page = properties.get(_PLAIN, ""), properties.get(_PAGE, b"")
    page = page if isinstance(page, str) else decoding.decode_text(page, charset, markup=True)
    rtf = properties.get(_RTF, b"")
    if page.strip():
        whole.set_content(page, subtype="html")
    else:
        whole.set_content(text if isinstance(text, str) else _words(text, charset))
    whole.make_mixed()
    if isinstance(rtf, bytes) and rtf and not page.strip() and not text.strip():
        whole.add_attachment(decompress_rtf(rtf), "application", "rtf", filename="message.rtf")
    complete = [_attach(whole, attachment, number, depth) for number, attachment in enumerate(attached, 1)]
    return whole, all(complete)


def _attach(whole: EmailMessage, one: _Attached, number: int, depth: int) -> bool:
    properties = one.properties
    names = (properties.get(_LONG_NAME), one.title, properties.get(_SHORT_NAME))
    name = next((name for name in names if isinstance(name, str) and name.strip()), f"attachment {number}")
    content = properties.get(_BYTES, b"")
    data = one.data or (content if isinstance(content, bytes) else content.encode())
    if data.startswith(MARK) and depth < _DEEPEST:
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


def _words(value: bytes, charset: str) -> str:
    return decoding.decode_text(value.rstrip(b"\0"), charset)
