"""Unsupported formats by their first bytes, with advice for the user."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final


@dataclass(frozen=True, slots=True)
class ForeignFormat:
    """Unsupported format. `remedy`: a sentence or ""."""

    name: str
    remedy: str = ""


_PDF_ADVICE: Final = "Save it as PDF and upload that."
_OFFICE_ADVICE: Final = "Save it as DOCX, XLSX or PDF and upload that."
_TABLE_ADVICE: Final = "Export its tables as CSV or XLSX and upload those."
_PICTURE_ADVICE: Final = "Export it as PNG or PDF and upload that with the OCR strategy STANDARD_OCR."
_RECORDING_ADVICE: Final = "Upload a transcript of it, as text or subtitles (VTT, SRT)."
_ARCHIVE_ADVICE: Final = "Unpack it and upload its files, in a ZIP archive for example."
_UTF8_ADVICE: Final = "Convert it to UTF-8 and upload that."
# What puremagic does not know, or by too short a signature.
_BINARY_FORMATS: Final = tuple(
    (re.compile(pattern, re.DOTALL), ForeignFormat(name, remedy))
    for pattern, name, remedy in (
        (rb"\xfe[\x32\x34\x37]\x00[\x00-\x30]", "Word for Macintosh document", _OFFICE_ADVICE),
        (rb"\xdb\xa5[\x2d\x69]\x00|\x9b\xa5\x21\x00", "Word 1 or 2 document", _OFFICE_ADVICE),
        (rb"[\x31\x32]\xbe\x00\x00\x00\xab", "Microsoft Write document", _OFFICE_ADVICE),
        (rb"\xffWPC", "WordPerfect document", _OFFICE_ADVICE),
        (rb"\x1f\x8b\x08", "gzip archive", "Unpack it and upload the file in it."),
        (rb"PAR1", "Parquet table", _TABLE_ADVICE),
        (rb"ORC[\x00-\x1f\x80-\xff]", "ORC table", _TABLE_ADVICE),
        (rb"Obj\x01", "Avro data", _TABLE_ADVICE),
        (rb"\x89HDF\r\n", "HDF5 data", _TABLE_ADVICE),
        (rb"CDF[\x01\x02\x05]", "NetCDF data", _TABLE_ADVICE),
        (rb"\x93NUMPY", "NumPy array", _TABLE_ADVICE),
        (rb"\x00asm", "WebAssembly program", ""),
        (rb"\x00\x00\x27\x0a\x00{20}", "ESRI shapefile", _TABLE_ADVICE),
        (rb"\xff[\xe2\xe3\xf2\xf3\xfa\xfb]", "MP3 recording", _RECORDING_ADVICE),
        (rb".{32768}[\x00-\xff]CD001", "ISO 9660 disk image", _ARCHIVE_ADVICE),
        (rb"\x01\x00\x00\x00.{36} EMF", "Windows metafile (EMF)", _PICTURE_ADVICE),
        (rb"\xd7\xcd\xc6\x9a|[\x01\x02]\x00\x09\x00\x00[\x01\x03]", "Windows metafile (WMF)", _PICTURE_ADVICE),
        (rb"[\x00-\xff]{2}\x0d\x0a[\x00-\x03]\x00\x00\x00", "compiled Python program", ""),
        (rb"\x80[\x02-\x05][\x63\x5d\x7d\x95\x8c\x28]", "Python pickle", _TABLE_ADVICE),
        (rb"\xde\x12\x04\x95|\x95\x04\x12\xde", "message catalog (gettext)", "Upload its source (PO) as text."),
        (rb"\xac\xed\x00\x05", "serialized Java object", ""),
    )
)
_TEXT_FORMATS: Final = tuple(
    (re.compile(pattern), ForeignFormat(name, remedy))
    for pattern, name, remedy in (
        (rb"\x04?%!PS", "PostScript document", _PDF_ADVICE),
        (rb"\x1b%-12345X|\x1bE\x1b&", "print job (PCL)", _PDF_ADVICE),
        (rb"(?:\s*999\r?\n.*\r?\n)*\s*0\r?\nSECTION\r?\n|AutoCAD Binary DXF", "DXF drawing", _PDF_ADVICE),
        (rb"ID;P[^\r\n]*\r?\n(?:[A-Z]+;|;)", "SYLK spreadsheet", "Save it as XLSX or CSV and upload that."),
        (rb"TABLE\r?\n0,1\r?\n\"", "DIF spreadsheet", "Save it as XLSX or CSV and upload that."),
        (rb"ISO-10303-21;", "STEP model", "Upload its drawing as PDF."),
        (rb"solid [^\n]*\n\s*facet normal", "STL model", "Upload its drawing as PDF."),
        (rb"/\* XPM \*/|P[1-6]\s+\d+\s+\d+\s", "bitmap picture", _PICTURE_ADVICE),
        (rb"-----BEGIN [A-Z0-9 ]*(?:CERTIFICATE|KEY|CRL|PARAMETERS)[A-Z0-9 ]*-----", "key or certificate (PEM)", ""),
        (rb"\(This file must be converted with BinHex", "BinHex archive", _ARCHIVE_ADVICE),
        (rb"(?::[0-9A-Fa-f]{10,}\r?\n){3}|(?:S[0-9][0-9A-Fa-f]{8,}\r?\n){3}", "memory image", ""),
        (rb"begin(?:-base64)? [0-7]{3,4} \S", "encoded file (uuencode)", "Decode it and upload the file in it."),
    )
)
_WIDE_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
_MIN_CONFIDENCE: Final = 0.4
_REMEDIES_BY_NAME: Final = (
    (re.compile(r"(?i)audio|video|sound|music|movie|midi"), _RECORDING_ADVICE),
    (re.compile(r"(?i)font"), "Fonts hold no text."),
    (re.compile(r"PostScript"), _PDF_ADVICE),
    (re.compile(r"(?i)image|icon|picture|photo|bitmap|drawing|AutoCAD"), _PICTURE_ADVICE),
    (re.compile(r"(?i)archive|compress|cabinet|zip|disk|package"), _ARCHIVE_ADVICE),
    (re.compile(r"(?i)database|\bAccess\b|SQL"), _TABLE_ADVICE),
    (re.compile(r"(?i)Outlook|\bPST\b"), "Export its mails as MSG, EML or MBOX and upload those."),
    (re.compile(r"(?i)Word|Works|Lotus|document|spreadsheet|presentation|book|help|note|DjVu"), _OFFICE_ADVICE),
)


def list_refused() -> list[ForeignFormat]:
    """Return the formats named here, in alphabetical order."""
    formats = {known.name: known for _, known in (*_BINARY_FORMATS, *_TEXT_FORMATS)}
    return sorted(formats.values(), key=lambda known: known.name.casefold())


def name_binary(head: bytes, name: str) -> ForeignFormat | None:
    """Return the format of binary data; None if unknown."""
    return _match_tables(head) or _match_puremagic(head, name, is_text=False)


def name_doubtful(head: bytes, name: str) -> ForeignFormat | None:
    """Return the format of bytes decodable as text; None for plain text."""
    for pattern, text_format in _TEXT_FORMATS:
        if pattern.match(head):
            return text_format
    if _is_plain(head) or any(head.startswith(mark) for mark in _WIDE_MARKS):
        return None
    if _is_ebcdic(head):
        return ForeignFormat("EBCDIC text", _UTF8_ADVICE)
    return _match_tables(head) or _match_puremagic(head, name, is_text=True)


def _match_tables(head: bytes) -> ForeignFormat | None:
    for pattern, binary_format in _BINARY_FORMATS:
        if pattern.match(head):
            return binary_format
    return ForeignFormat("dBase table (DBF)", _TABLE_ADVICE) if _is_dbase(head) else None


def _match_puremagic(head: bytes, name: str, *, is_text: bool) -> ForeignFormat | None:
    import puremagic

    ending = PurePath(name).suffix.lower()
    try:
        candidates = puremagic.magic_string(head, name or None)
    except (puremagic.PureError, ValueError):
        return None
    for candidate in candidates:
        signature = bytes(candidate.byte_match or b"")
        # Signatures of zeros, of two bytes, or of words that a text may begin with prove nothing by themselves.
        is_sure = len(signature) >= 4 and len(set(signature) - {0}) > 1 and candidate.confidence >= _MIN_CONFIDENCE
        if is_text and (not is_sure or (signature.isascii() and b"\0" not in head)):
            continue
        if (is_sure or (candidate.extension == ending and len(signature) >= 2)) and candidate.name:
            text = f"{candidate.name} {candidate.mime_type}"
            remedy = next((remedy for pattern, remedy in _REMEDIES_BY_NAME if pattern.search(text)), "")
            return ForeignFormat(" ".join(candidate.name.split()), remedy)
    return None


def _is_plain(head: bytes) -> bool:
    """Check for UTF-8 without control characters."""
    return not re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]", head) and _is_utf8(head)


def _is_utf8(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 3
    return True


_COMPOUND_STREAMS: Final = tuple(
    (re.compile(pattern), ForeignFormat(name, remedy))
    for pattern, name, remedy in (
        (r"VisioDocument", "Visio drawing (VSD)", "Save it as VSDX or PDF and upload that."),
        (r"PP40", "PowerPoint 4 presentation", _OFFICE_ADVICE),
        (r"Quill", "Publisher document (PUB)", _PDF_ADVICE),
        (r"Props(?:9|12|14)|   [12]\d{2}", "Microsoft Project plan (MPP)", "Save it as PDF or XLSX and upload that."),
        (
            r"\x05HwpSummaryInformation|BodyText|HwpDoc",
            "Hancom document (HWP)",
            "Save it as DOCX or PDF and upload that.",
        ),
        (r"MatOST|MM|WksSSWorkBook", "Microsoft Works document", _OFFICE_ADVICE),
        (r"StarWriterDocument|StarCalcDocument|StarDrawDocument\d?", "StarOffice document", _OFFICE_ADVICE),
        (r"SwDocContentMgr.*|Contents/CMgr.*", "SolidWorks model", "Upload its drawing as PDF."),
        (r"!_?StringData|\u4840.*", "Windows installer (MSI)", ""),
        (r"Catalog", "thumbnails of Windows (Thumbs.db)", ""),
        (r"EquationNative|Equation Native", "formula (Equation Editor)", _PDF_ADVICE),
    )
)


def name_compound(names: Iterable[str]) -> ForeignFormat | None:
    """Return the format of a compound file by its streams and storages; None if unknown."""
    names = list(names)
    return next((compound for pattern, compound in _COMPOUND_STREAMS if any(map(pattern.fullmatch, names))), None)


_EBCDIC_LETTERS: Final = frozenset((*range(0x81, 0x8A), *range(0x91, 0x9A), *range(0xA2, 0xAA))) | frozenset(
    (*range(0xC1, 0xCA), *range(0xD1, 0xDA), *range(0xE2, 0xEA))
)
_EBCDIC_TEXT: Final = _EBCDIC_LETTERS | frozenset(
    (*range(0xF0, 0xFA), *b"\x40\x4b\x6b\x60\x61\x7a\x7d\x4d\x5d\x15\x25\x0d\x05")
)
_EBCDIC_SHARE: Final = 0.85


def _is_ebcdic(head: bytes) -> bool:
    """Check for EBCDIC letters, digits and spaces: 0x40 is the space, 0x20 is unused."""
    spaces = head.count(0x40)
    if len(head) < 16 or spaces * 40 < len(head) or head.count(0x20) * 4 > spaces:
        return False
    letters = sum(byte in _EBCDIC_LETTERS for byte in head)
    return letters * 4 > len(head) - spaces and sum(byte in _EBCDIC_TEXT for byte in head) > _EBCDIC_SHARE * len(head)


_DBASE_VERSIONS: Final = frozenset(b"\x02\x03\x04\x05\x30\x31\x32\x43\x63\x7b\x83\x8b\x8c\x8e\xcb\xe5\xf5\xfb")


def _is_dbase(head: bytes) -> bool:
    """Check for a dBase header: version, date, and fields of 32 bytes up to a carriage return."""
    if len(head) < 65 or head[0] not in _DBASE_VERSIONS or not (0 < head[2] <= 12 and 0 < head[3] <= 31):
        return False
    size = int.from_bytes(head[8:10], "little")
    fields = range(32, min(size, len(head)) - 32, 32)
    kinds = [head[start + 11 : start + 12] for start in fields if head[start] != 0x0D]
    return size >= 65 and all(kind in b"CNDLMFBGPYTIVX+@O" for kind in kinds) and (size - 1) % 32 in (0, 7)
