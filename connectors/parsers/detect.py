"""Kinds of files by content, ending and media type, and decoding of plain text."""

from __future__ import annotations

import codecs
import io
import re
import struct
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from connectors.charsets import decoding
from connectors.parsers import signatures
from connectors.parsers.signatures import ForeignFormat
from retrieval.errors import Skippable

if TYPE_CHECKING:
    import olefile


_LONE_SURROGATES = re.compile("[\ud800-\udfff]")
_CODE_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_HEADING_LINE = re.compile(r" {0,3}#{1,6}[ \t]+(.+)")


def text_of(data: bytes, media_type: str = "", *, markup: bool = False) -> str:
    r"""Decode a file's text with `\n` line endings. `markup`: it may declare a charset. Skippable if mostly
    undecodable.
    """
    text = decoding.decode_text(data, decoding.read_charset(media_type), markup=markup).removeprefix("\ufeff")
    return decoding.require_readable(make_storable(text.replace("\r\n", "\n").replace("\r", "\n")))


def decode_start(head: bytes) -> str | None:
    """Return the characters at the start of a file; None for binary data."""
    if any(head.startswith(mark) for mark, _ in decoding.BYTE_ORDER_MARKS) or decoding.wide_codec(head):
        return decoding.decode_text(head)
    control = sum(byte in decoding.CONTROL_BYTES for byte in head) / max(len(head), 1)
    allowed = 0.2
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        allowed = 0.02
    if control > allowed or head.count(0) > 0.3 * len(head):
        return None
    return head.decode("latin-1")


def make_storable(text: str) -> str:
    """Remove NUL characters and lone surrogates, refused by PostgreSQL."""
    if "\0" in text:
        text = text.replace("\0", "")
    try:
        text.encode()
    except UnicodeEncodeError:
        return _LONE_SURROGATES.sub("\ufffd", text)
    return text


def first_heading(markdown: str) -> str:
    """Return the first `#` heading outside code within 200 lines, or ""."""
    fenced = False
    for line in markdown[:20_000].split("\n")[:200]:
        if _CODE_FENCE.match(line):
            fenced = not fenced
        match = None if fenced else _HEADING_LINE.match(line)
        if match:
            return one_line(re.sub(r"[*_`]{1,3}|\\(?=\W)|\s#+\s*$", "", match[1]))
    return ""


def one_line(text: str) -> str:
    """Collapse white space and cut to 300 characters."""
    return " ".join(make_storable(text).split())[:300]


HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Kind:
    """Kind of file. `text`: characters in some encoding; `packed`: a ZIP of parts."""

    label: str
    media_type: str
    endings: tuple[str, ...]
    text: bool = False
    packed: bool = False
    readable: bool = True


_OFFICE_TYPE = "application/vnd.openxmlformats-officedocument."
_ODF_TYPE = "application/vnd.oasis.opendocument."

PLAIN = Kind("plain text", "text/plain", ("txt", "text", "rst"), text=True)
LOG = Kind("logs", "text/plain", ("log",), text=True)
MARKDOWN = Kind("Markdown", "text/markdown", ("md", "markdown", "mdown", "mkd"), text=True)
HTML = Kind("HTML", "text/html", ("html", "htm", "xhtml"), text=True)
_XML_ENDINGS = "xml fodt fods fodp fodg fb2 nxml dbk docbook dita tei kml rss atom abw opml"
XML = Kind("XML", "application/xml", tuple(_XML_ENDINGS.split()), text=True)
SVG = Kind("SVG", "image/svg+xml", ("svg",), text=True)
# By content: `.mm` is also the ending of programs.
MIND_MAP = Kind("mind map (FreeMind, Freeplane)", "application/x-freemind", (), text=True)
LYX = Kind("LyX", "application/x-lyx", ("lyx",), text=True)
CSV = Kind("CSV", "text/csv", ("csv",), text=True)
TSV = Kind("TSV", "text/tab-separated-values", ("tsv", "tab"), text=True)
JSON = Kind("JSON", "application/json", ("json",), text=True)
JSONL = Kind("JSONL", "application/x-ndjson", ("jsonl", "ndjson"), text=True)
NOTEBOOK = Kind("Jupyter notebook", "application/x-ipynb+json", ("ipynb",), text=True)
SUBTITLES = Kind(
    "subtitles (SRT, VTT)", "text/vtt", ("vtt", "srt", "sbv", "ass", "ssa", "sub", "smi", "lrc"), text=True
)
PDF = Kind("PDF", "application/pdf", ("pdf",))
RTF = Kind("RTF", "application/rtf", ("rtf",))
EML = Kind("EML", "message/rfc822", ("eml", "emlx", "mht", "mhtml"))
MBOX = Kind("MBOX", "application/mbox", ("mbox", "mbx"))
DOCX = Kind("DOCX", _OFFICE_TYPE + "wordprocessingml.document", ("docx", "docm", "dotx", "dotm"), packed=True)
PPTX = Kind(
    "PPTX", _OFFICE_TYPE + "presentationml.presentation", ("pptx", "pptm", "ppsx", "ppsm", "potx", "potm"), packed=True
)
XLSX = Kind("XLSX", _OFFICE_TYPE + "spreadsheetml.sheet", ("xlsx", "xlsm", "xlsb", "xltx", "xltm", "xlam"), packed=True)
VSDX = Kind(
    "Visio drawing", "application/vnd.ms-visio.drawing", ("vsdx", "vsdm", "vstx", "vstm", "vssx", "vssm"), packed=True
)
ODT = Kind("ODT", _ODF_TYPE + "text", ("odt", "ott", "oth", "odm"), packed=True)
ODP = Kind("ODP", _ODF_TYPE + "presentation", ("odp", "otp"), packed=True)
ODS = Kind("ODS", _ODF_TYPE + "spreadsheet", ("ods", "ots"), packed=True)
ODG = Kind("ODG", _ODF_TYPE + "graphics", ("odg", "otg"), packed=True)
EPUB = Kind("EPUB", "application/epub+zip", ("epub",), packed=True)
DOC = Kind("DOC", "application/msword", ("doc",))
PPT = Kind("PPT", "application/vnd.ms-powerpoint", ("ppt",))
XLS = Kind("XLS", "application/vnd.ms-excel", ("xls",))
MSG = Kind("MSG", "application/vnd.ms-outlook", ("msg",))
ICS = Kind("iCalendar", "text/calendar", ("ics",), text=True)
VCF = Kind("vCard", "text/vcard", ("vcf",), text=True)
TNEF = Kind("winmail.dat", "application/ms-tnef", ("tnef",))
SIGNED = Kind("P7M", "application/pkcs7-mime", ("p7m",))
IMAGE = Kind("image", "image/*", ("png", "jpg", "jpeg", "tif", "tiff", "bmp", "webp", "gif"))
ZIP = Kind("ZIP", "application/zip", ("zip",), packed=True)
COMPOUND = Kind("compound", "application/x-ole-storage", (), readable=False)

ALL_KINDS = (
    PDF,
    DOCX,
    DOC,
    ODT,
    RTF,
    PPTX,
    PPT,
    ODP,
    XLSX,
    XLS,
    ODS,
    VSDX,
    ODG,
    CSV,
    TSV,
    HTML,
    XML,
    SVG,
    MIND_MAP,
    LYX,
    JSON,
    JSONL,
    NOTEBOOK,
    SUBTITLES,
    MARKDOWN,
    LOG,
    PLAIN,  # after the logs, of the same media type
    EML,
    MBOX,
    MSG,
    TNEF,
    SIGNED,
    ICS,
    VCF,
    EPUB,
    IMAGE,
    ZIP,
)
_KINDS_BY_ENDING = {ending: kind for kind in ALL_KINDS for ending in kind.endings}
_KINDS_BY_MEDIA_TYPE = {kind.media_type: kind for kind in ALL_KINDS}
ACCEPTED_LABELS = ", ".join(kind.label for kind in ALL_KINDS if kind.readable)

_MAGIC_NUMBERS: tuple[tuple[bytes, Kind], ...] = (
    (b"%PDF-", PDF),
    (b"{\\rtf", RTF),
    (b"PK\x03\x04", ZIP),
    (b"PK\x05\x06", ZIP),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", COMPOUND),
    (b"\x78\x9f\x3e\x22", TNEF),
    (b"\x89PNG\r\n\x1a\n", IMAGE),
    (b"\xff\xd8\xff", IMAGE),
    (b"II*\x00", IMAGE),
    (b"MM\x00*", IMAGE),
    (b"GIF8", IMAGE),
)
_HTML_START = re.compile(
    r"(?:<\?xml[^>]{0,200}>\s*)?(?:<!--[^>]{0,500}-->\s*)*<(?:!doctype\s+html|html)\b", re.IGNORECASE
)
_MIND_MAP_START = re.compile(
    r"(?:<\?xml[^>]{0,200}>\s*)?(?:<!--[^>]{0,500}-->\s*)*<map\s+(?:\w+=[^<>]{0,200}\s)?version="
)
_NOTEBOOK_START = re.compile(r'\s*\{\s*"(?:cells|metadata|nbformat|nbformat_minor|worksheets)"\s*:')
_SUBTITLES_START = re.compile(
    r"WEBVTT(?:\s|$)|\s*(?:\d+[ \t]*\r?\n)?[ \t]*(?:\d{1,3}:)?\d{1,2}:\d\d[.,]\d{1,3}[ \t]*-->|\[Script Info\]"
    r"|\{\d+\}\{\d*\}|<SAMI\b",
    re.IGNORECASE,
)
# Start of a CMS message (RFC 5652): its type, after one or two lengths.
_SIGNED_START = re.compile(
    rb"\x30.{1,12}?\x06[\x09\x0b]\x2a\x86\x48\x86\xf7\x0d\x01(?:\x07[\x01-\x06]|\x09\x10\x01)"
    rb"|-----BEGIN (?:PKCS7|CMS)-----",
    re.DOTALL,
)
# Colours of a terminal, or a time at the start of each of four lines.
_LOG_START = re.compile(
    r".{0,2000}?\x1b\[[\d;]*m|(?:\W{0,2}(?:\d{4}[-/]\d\d[-/]\d\d[T ]|[A-Z][a-z]{2} [ \d]\d )\d\d:\d\d:\d\d[^\n]*\n){4}",
    re.DOTALL,
)
_ROTATION = re.compile(r"(?<=\.log)\.\d{1,8}$")  # number of an older log: `service.log.1`
_MAILBOX_START = re.compile(
    rb"From \S+ +(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [^\r\n]*\d{4}"
    rb"|[^\r\n]*\r?\n>?[A-Za-z][A-Za-z0-9-]*(?::| [^\r\n]*\r?\n[A-Za-z][A-Za-z0-9-]*:))"
)
_HEADER_START = re.compile(rb"[A-Za-z][A-Za-z0-9-]*: ?\S")
_MAIL_START = re.compile(
    rb"(?:Received|Return-Path|Delivered-To|MIME-Version): |Content-Type: multipart/"
    rb"|(?:[A-Za-z][A-Za-z0-9-]*:[^\r\n]*\r?\n(?:[ \t][^\r\n]*\r?\n)*){1,60}?MIME-Version: 1\.0\b"
)


def kind_of(head: bytes, name: str, media_type: str) -> Kind:
    """Return the kind by the first bytes; ZIP and COMPOUND need a second look. Skippable for unknown binaries."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    for magic, kind in _MAGIC_NUMBERS:
        if head.startswith(magic) or (kind in (PDF, RTF) and start.startswith(magic)):
            return kind
    if _SIGNED_START.match(head):
        return SIGNED
    if start.startswith(b"-----BEGIN PGP MESSAGE-----"):
        raise Skippable("The file is encrypted (PGP). Decrypt it and upload that.")
    if head.startswith(b"BM") and head[6:10] == b"\0\0\0\0":
        return IMAGE
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return IMAGE
    declared_kind = kind_by_name(name, media_type)
    promised = _kind_by_media_type(media_type)
    if re.search(rb"%PDF-\d", head[:1024]) and not (declared_kind and declared_kind.text):
        return PDF
    text = decode_start(head)
    foreign = signatures.name_binary(head, name) if text is None else signatures.name_doubtful(head, name)
    if text is None or foreign:
        raise unknown_kind(name, foreign)
    # Of text, a media type of Markdown beats the ending of a page's address; any text type beats that of a binary kind.
    if promised is MARKDOWN or (declared_kind and not declared_kind.text and promised and promised.text):
        declared_kind = promised
    return _kind_of_text(head, text, declared_kind)


def _kind_of_text(head: bytes, text: str, named_kind: Kind | None) -> Kind:
    if kind := _kind_by_content(head, text.lstrip("\ufeff \t\r\n"), named_kind):
        return kind
    # `.doc` was the ending of plain texts too.
    if named_kind is not None and not named_kind.text and named_kind is not DOC:
        raise Skippable(
            f"The file is named like {named_kind.label} but holds no {named_kind.label}: it is damaged or misnamed. "
            "Save it again from the program that made it, or give it the ending of what it is."
        )
    return named_kind if named_kind and named_kind.text else PLAIN


def _kind_by_content(head: bytes, text: str, named_kind: Kind | None) -> Kind | None:
    """Return the kind shown by the first characters, unless the name is more specific."""
    is_unnamed, is_plain = named_kind is None, named_kind in (None, PLAIN)
    checks = (
        (MBOX, (is_plain or named_kind is MBOX) and _MAILBOX_START.match(head)),
        (EML, named_kind is EML or (is_unnamed and _MAIL_START.match(head))),
        (EML, named_kind is MBOX and _HEADER_START.match(head)),
        (HTML, _HTML_START.match(text)),
        (LYX, is_plain and text.startswith("#LyX ")),
        (MIND_MAP, (is_plain or named_kind is XML) and _MIND_MAP_START.match(text)),
        # Word and Excel of 2003 save XML under the endings of their binary formats.
        (XML, (is_plain or (named_kind is not None and not named_kind.text)) and text.startswith("<?xml")),
        (LOG, is_plain and _LOG_START.match(text)),
        (SUBTITLES, is_plain and _SUBTITLES_START.match(text)),
        (NOTEBOOK, (is_unnamed or named_kind is JSON) and _NOTEBOOK_START.match(text) and '"cell_type"' in text),
    )
    return next((kind for kind, is_shown in checks if is_shown), None)


def kind_by_name(name: str, media_type: str) -> Kind | None:
    """Return the kind by the ending of the name, or by the media type."""
    ending = PurePath(_ROTATION.sub("", name.lower())).suffix.removeprefix(".")
    return _KINDS_BY_ENDING.get(ending) or _kind_by_media_type(media_type)


def _kind_by_media_type(media_type: str) -> Kind | None:
    return _KINDS_BY_MEDIA_TYPE.get(media_type.partition(";")[0].strip().lower())


def unknown_kind(name: str, foreign: ForeignFormat | None = None) -> Skippable:
    """Return the refusal of an unsupported kind. `foreign`: the recognised format."""
    ending = PurePath(name).suffix.lower()
    remedy = f" {foreign.remedy}" if foreign and foreign.remedy else ""
    if ending.removeprefix(".") in _KINDS_BY_ENDING:
        label = f": {foreign.name}" if foreign else ""
        return Skippable(
            f"The file is named {ending}, but its content is of another kind{label}.{remedy} "
            f"Kinds that are taken: {ACCEPTED_LABELS}."
        )
    hints = [ending if re.fullmatch(r"\.\w{1,8}", ending) else "", foreign.name if foreign else ""]
    label = ", ".join(filter(None, hints))
    subject = f"Files like this one ({label})" if label else "Files of this unknown kind"
    return Skippable(f"{subject} cannot be read.{remedy} Kinds that are taken: {ACCEPTED_LABELS}.")


NOT_OPENED: Final = "It is protected in a way that no password opens here. Upload it without the protection."


def locked_file(subject: str, password: str = "") -> Skippable:
    """Return the refusal of a locked file or wrong password."""
    if password:
        why = f"{subject} is protected by a password, and the one that was given does not open it."
        return Skippable(f"{why} Give another password, or upload the file without one.")
    return Skippable(f"{subject} is protected by a password. Give the password, or upload the file without one.")


_WORD_97: Final = 0x00C1
_RIGHTS_MANAGED: Final = re.compile(
    b"|".join(re.escape(name.encode("utf-16-le")) for name in ("DRMEncryptedTransform\0", "\tDRMContent\0"))
)
_ENCRYPTED_STREAM: Final = "EncryptedPackage"
_KINDS_BY_STREAM: Final = {
    "WordDocument": DOC,
    "PowerPoint Document": PPT,
    "Workbook": XLS,
    "Book": XLS,
    "__properties_version1.0": MSG,
}
# Byte in the head of a DOC ([MS-DOC] 2.5.2); its lowest bit marks encryption.
_DOC_FLAGS_OFFSET: Final = 11
# Head of a PPT ([MS-PPT] 2.3.2): token of encrypted presentations.
_PPT_TOKEN: Final = slice(12, 16)
_LOCKED_SLIDES: Final = b"\xdf\xc4\xd1\xf3"


def kind_of_compound(data: bytes, name: str) -> Kind:
    """Return the kind by stream names. Skippable if encrypted or unknown."""
    streams, storages, locked = _list_streams(data)
    if _RIGHTS_MANAGED.search(data):
        raise Skippable(NOT_OPENED)
    if locked:
        raise locked_file("The file")
    folded = {stream.lower() for stream in streams}  # some exporters write WORKBOOK
    for stream, kind in _KINDS_BY_STREAM.items():
        if stream.lower() in folded:
            return kind
    raise unknown_kind(name, signatures.name_compound(streams | storages))


def is_word_95(data: bytes) -> bool:
    """Check for a Word document before 1997, by magic number and version ([MS-DOC] 2.5.1)."""
    import olefile

    try:
        with olefile.OleFileIO(io.BytesIO(data)) as file:
            magic, version = struct.unpack_from("<HH", _read_head(file, "WordDocument"))
    except (OSError, ValueError, IndexError):
        return False
    return magic in (0xA5DC, 0xA697, 0xA698, 0xA699) or 0 < version < _WORD_97


def _list_streams(data: bytes) -> tuple[set[str], set[str], bool]:
    """Return the file's top-level streams, storages and lock; for a damaged file, the visible streams."""
    import olefile

    try:
        with olefile.OleFileIO(io.BytesIO(data)) as file:
            entries = file.listdir()
            streams = {entry[0] for entry in entries if len(entry) == 1}
            storages = {entry[0] for entry in entries if len(entry) > 1}
            return streams, storages, _ENCRYPTED_STREAM in streams or _is_locked(file, streams)
    except (OSError, ValueError, IndexError):
        ends = {_ENCRYPTED_STREAM: b"", **dict.fromkeys(_KINDS_BY_STREAM, b"\0\0")}
        streams = {stream for stream, end in ends.items() if stream.encode("utf-16-le") + end in data}
        return streams, set(), _ENCRYPTED_STREAM in streams


def _is_locked(file: olefile.OleFileIO, streams: set[str]) -> bool:
    """Check for encryption within the format, except in workbooks, checked by their reader."""
    if "WordDocument" in streams:
        return bool(_read_head(file, "WordDocument")[_DOC_FLAGS_OFFSET] & 1)
    return "Current User" in streams and _read_head(file, "Current User")[_PPT_TOKEN] == _LOCKED_SLIDES


def _read_head(file: olefile.OleFileIO, stream: str) -> bytes:
    with file.openstream(stream) as opened:
        return bytes(opened.read(16).ljust(16, b"\0"))
