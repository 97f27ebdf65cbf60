"""Kinds of ZIP packages: documents, refused formats, or archives of files."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable
from pathlib import PurePath
from typing import Final

from connectors.parsers import detect, xml
from connectors.parsers.detect import Kind
from retrieval.errors import Skippable

_ODF_TYPE: Final = "application/vnd.oasis.opendocument."
_KINDS_BY_MIMETYPE: Final = {
    f"{_ODF_TYPE}text-template": detect.ODT,
    f"{_ODF_TYPE}text-web": detect.ODT,
    f"{_ODF_TYPE}text-master": detect.ODT,
    f"{_ODF_TYPE}text-master-template": detect.ODT,
    f"{_ODF_TYPE}spreadsheet-template": detect.ODS,
    f"{_ODF_TYPE}presentation-template": detect.ODP,
    f"{_ODF_TYPE}graphics-template": detect.ODG,
    **{kind.media_type: kind for kind in (detect.ODT, detect.ODS, detect.ODP, detect.ODG, detect.EPUB)},
}
_OPC_FOLDERS: Final = {"word/": detect.DOCX, "ppt/": detect.PPTX, "xl/": detect.XLSX, "visio/": detect.VSDX}
_OPC_TYPES: Final = "[content_types].xml"
# Types of main parts, of packages without these folders.
_OPC_KINDS: Final = (
    (re.compile(rb"wordprocessingml\.(?:document|template)\.|ms-word\.(?:document|template)\.macro"), detect.DOCX),
    (re.compile(rb"spreadsheetml\.(?:sheet|template)\.main|ms-excel\.(?:sheet|template)\."), detect.XLSX),
    (re.compile(rb"presentationml\.(?:presentation|slideshow|template)\.|ms-powerpoint\.\w+\.macro"), detect.PPTX),
)

_AS_PDF: Final = "Save it as PDF and upload that."
_AS_IMAGE: Final = "Export it as PNG and upload that with the OCR strategy STANDARD_OCR."
_AS_FILES: Final = "Unpack it and upload the documents in it."
_REFUSALS_BY_MIMETYPE: Final = {
    f"{_ODF_TYPE}formula": ("OpenDocument formulas (ODF)", _AS_PDF),
    f"{_ODF_TYPE}formula-template": ("OpenDocument formulas (OTF)", _AS_PDF),
    f"{_ODF_TYPE}base": ("OpenDocument databases (ODB)", "Save its tables as ODS or CSV and upload those."),
    f"{_ODF_TYPE}database": ("OpenDocument databases (ODB)", "Save its tables as ODS or CSV and upload those."),
    f"{_ODF_TYPE}chart": ("OpenDocument charts (ODC)", _AS_PDF),
    f"{_ODF_TYPE}image": ("OpenDocument images (ODI)", _AS_IMAGE),
    "application/vnd.sun.xml.writer": ("Texts of OpenOffice.org 1 (SXW)", "Save it as ODT and upload that."),
    "application/vnd.sun.xml.calc": ("Spreadsheets of OpenOffice.org 1 (SXC)", "Save it as ODS and upload that."),
    "application/vnd.sun.xml.impress": ("Presentations of OpenOffice.org 1 (SXI)", "Save it as ODP and upload that."),
    "application/vnd.sun.xml.draw": ("Drawings of OpenOffice.org 1 (SXD)", "Save it as ODG and upload that."),
    "application/x-krita": ("Krita pictures (KRA)", _AS_IMAGE),
    "image/openraster": ("OpenRaster pictures (ORA)", _AS_IMAGE),
    "application/hwp+zip": ("Hancom documents (HWPX)", "Save it as DOCX or PDF and upload that."),
    "application/vnd.adobe.indesign-idml-package": ("InDesign documents (IDML)", _AS_PDF),
    "application/vnd.recordare.musicxml": ("MusicXML scores (MXL)", _AS_PDF),
    "application/vnd.etsi.asic-e+zip": ("Signed containers (ASiC-E)", "Upload the files that were signed."),
    "application/vnd.etsi.asic-s+zip": ("Signed containers (ASiC-S)", "Upload the file that was signed."),
}
_IWORK_MEMBER: Final = re.compile(r"Index/[^/]+\.iwa|Index\.zip|index\.apxl(?:\.gz)?|buildVersionHistory\.plist")
_IWORK_APPS: Final = (("pages", "Pages"), ("numbers", "Numbers"), ("key", "Keynote"))
_IWORK_REMEDY: Final = "Export it as PDF, or as a Word, Excel or PowerPoint file, and upload that."
_REFUSALS_BY_MEMBER: Final = tuple(
    (re.compile(pattern), subject, remedy)
    for pattern, subject, remedy in (
        (r"[^/]+\.fdseq", "XPS documents", _AS_PDF),
        (r"3D/[^/]+\.model", "3D models (3MF)", "Upload its documentation as PDF or text."),
        (r"[^/]+\.nuspec", "NuGet packages", _AS_FILES),
        (r"extension\.vsixmanifest", "Visual Studio extensions (VSIX)", _AS_FILES),
        (r"Appx(?:Bundle)?Manifest\.xml|AppxMetadata/.+", "Windows apps (APPX, MSIX)", _AS_FILES),
        (r"DataModel|Report/Layout|Report/definition/.+", "Power BI reports (PBIX)", _AS_PDF),
        (r"dwf/documents/.+", "DWF drawings", _AS_PDF),
        (r"AndroidManifest\.xml|base/manifest/AndroidManifest\.xml", "Android apps (APK)", _AS_FILES),
        (r"Payload/[^/]+\.app/.+", "iOS apps (IPA)", _AS_FILES),
        (r"META-INF/MANIFEST\.MF", "Java programs (JAR)", _AS_FILES),
        (r"[^/]+\.dist-info/WHEEL|EGG-INFO/PKG-INFO", "Python packages", _AS_FILES),
        (r"[^/]+\.kml", "Google Earth maps (KMZ)", "Unpack it and upload the KML file in it."),
        (r"\[Content_Types\]\.xml", "Open Packaging packages of this kind", _AS_PDF),
    )
)
_ARCHIVE_ENDINGS: Final = frozenset((".zip", ".zipx", ".bak", ".old", ".orig", ".tmp", ".part", ".bin", ".dat"))
_ARCHIVE_MEDIA_TYPES: Final = frozenset(("application/zip", "application/x-zip-compressed", "application/x-zip"))
_PROGRAM_ENDING: Final = re.compile(r"\.[a-z][a-z0-9]{1,9}")
_MANIFEST_PATH: Final = "META-INF/manifest.xml"
_MANIFEST_BYTES: Final = 2**20


def kind_of_zip(archive: zipfile.ZipFile, name: str, media_type: str) -> Kind:
    """Return the kind of a ZIP by its members. Skippable for an unsupported or encrypted package."""
    members = archive.namelist()
    if (mimetype := _declared_type(archive)) in _KINDS_BY_MIMETYPE:
        return _KINDS_BY_MIMETYPE[mimetype]
    if mimetype in _REFUSALS_BY_MIMETYPE:
        raise refuse_format(*_REFUSALS_BY_MIMETYPE[mimetype])
    if types := next((member for member in members if member.lower() == _OPC_TYPES), ""):
        for folder, kind in _OPC_FOLDERS.items():
            if any(member.startswith(folder) for member in members):
                return kind
        declared = archive.read(types) if archive.getinfo(types).file_size < _MANIFEST_BYTES else b""
        for pattern, kind in _OPC_KINDS:
            if pattern.search(declared):
                return kind
    if "META-INF/container.xml" in members:
        return detect.EPUB
    if refusal := _foreign_refusal(members, name):
        raise refusal
    if mimetype:
        raise refuse_format(f"Files of the type {mimetype}", _AS_PDF)
    _require_archive(members, name, media_type)
    return detect.ZIP


def refuse_format(subject: str, remedy: str) -> Skippable:
    """Return the refusal of a known format. `subject`: its name in the plural."""
    return Skippable(f"{subject} are not read. {remedy}")


def _foreign_refusal(members: Iterable[str], name: str) -> Skippable | None:
    members = list(members)
    if any(map(_IWORK_MEMBER.fullmatch, members)):
        return refuse_format(f"{_iwork_app(members, name)} documents (Apple iWork)", _IWORK_REMEDY)
    for pattern, subject, remedy in _REFUSALS_BY_MEMBER:
        if any(map(pattern.fullmatch, members)):
            return refuse_format(subject, remedy)
    return None


def _iwork_app(members: Iterable[str], name: str) -> str:
    for ending, app in _IWORK_APPS:
        if name.lower().endswith(f".{ending}"):
            return app
    joined = "\n".join(members)
    return "Keynote" if "/Slide" in joined or ".apxl" in joined else "Numbers" if "/Calcul" in joined else "Pages"


def _require_archive(members: Iterable[str], name: str, media_type: str) -> None:
    """Refuse a ZIP named as the file of a program."""
    ending = PurePath(name).suffix.lower()
    promised = detect.kind_by_name(name, "")
    is_text = promised is not None and promised.text
    if ending in _ARCHIVE_ENDINGS or is_text or not _PROGRAM_ENDING.fullmatch(ending):
        return
    if promised is not None or media_type.partition(";")[0].strip().lower() not in _ARCHIVE_MEDIA_TYPES:
        reasons = packages_in_folders(members)  # Finder packs the folder of a document with it
        raise Skippable(next(iter(reasons.values()))) if reasons else detect.unknown_kind(name)


def _declared_type(archive: zipfile.ZipFile) -> str:
    """Return the declared type of an OpenDocument, EPUB or similar file, or "". Skippable if encrypted."""
    members = {member.filename: member for member in archive.infolist()}
    declared = ""
    if (manifest := members.get(_MANIFEST_PATH)) and manifest.file_size < _MANIFEST_BYTES:
        if b"encryption-data" in archive.read(manifest):
            raise Skippable(detect.NOT_OPENED)
        declared = _manifest_type(archive)
    entry = members.get("mimetype")
    if entry is None or entry.file_size >= 200:
        return declared
    return archive.read(entry).decode("ascii", "replace").strip("\ufffd\0 \r\n\t") or declared


def _manifest_type(archive: zipfile.ZipFile) -> str:
    data = re.sub(rb"<!DOCTYPE[^>]*>", b"", archive.read(_MANIFEST_PATH), count=1)
    try:
        entries = list(xml.parse_xml(data))
    except xml.PARSE_ERRORS:
        return ""
    # OpenOffice.org 1 has another namespace.
    attributes = ({key.rpartition("}")[2]: value for key, value in entry.items()} for entry in entries)
    return next((entry.get("media-type", "") for entry in attributes if entry.get("full-path") == "/"), "")


_UNPACKED_FOLDER: Final = re.compile(r"(?P<root>(?:.+/)?[^/]+)/(?:\[Content_Types\]\.xml|META-INF/manifest\.xml)")
_IWORK_FOLDER: Final = re.compile(rf"(?P<root>(?:.+/)?[^/]+)/(?:{_IWORK_MEMBER.pattern})")
_PACK_AGAIN: Final = (
    "It is the unpacked content of one document. Pack the content again with the ending of its kind, or save it again "
    "from the program that made it, and upload that."
)


def packages_in_folders(members: Iterable[str]) -> dict[str, str]:
    """Map folders with the unpacked content of one document to the reason for refusal."""
    reasons: dict[str, str] = {}
    for member in members:
        if match := _IWORK_FOLDER.fullmatch(member):
            app = _iwork_app([member], match["root"])
            reasons[match["root"]] = str(refuse_format(f"{app} documents (Apple iWork)", _IWORK_REMEDY))
        elif match := _UNPACKED_FOLDER.fullmatch(member):
            reasons[match["root"]] = _PACK_AGAIN
    return reasons
