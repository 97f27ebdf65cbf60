"""Repack single-file XML Office documents as ZIP packages for the usual readers."""

from __future__ import annotations

import base64
import binascii
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from lxml import etree

from connectors.parsers import detect, document

_HEAD_BYTES: Final = 65_536
_PACKAGE_NS: Final = "{http://schemas.microsoft.com/office/2006/xmlPackage}"
_WORD_2003: Final = "{http://schemas.microsoft.com/office/word/2003/wordml}"
_HINTS_2003: Final = "{http://schemas.microsoft.com/office/word/2003/auxHint}"
_ANNOTATIONS: Final = "{http://schemas.microsoft.com/aml/2001/core}"
_OFFICE_PROPERTIES: Final = "{urn:schemas-microsoft-com:office:office}"
_W_NS: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_RELATION_PREFIX: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_ODF_PREFIX: Final = "urn:oasis:names:tc:opendocument:xmlns:"
_OFFICE_NS, _DRAW_NS = f"{{{_ODF_PREFIX}office:1.0}}", f"{{{_ODF_PREFIX}drawing:1.0}}"
_LINK_ATTRIBUTE: Final = "{http://www.w3.org/1999/xlink}href"
_FORMAT_MARKS: Final = tuple(mark.strip("{}").encode() for mark in (_PACKAGE_NS, _WORD_2003, _OFFICE_NS))
Parts = dict[str, bytes]


@contextmanager
def packed_copy(path: Path) -> Iterator[Path | None]:
    """Yield a temporary ZIP package with the content of a flat document; None for other XML."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    parts = _read_parts(path) if any(mark in head for mark in _FORMAT_MARKS) else None
    if parts is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "raw"
        with zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, data in parts.items():
                archive.writestr(name, data)
        yield copy


def _read_parts(path: Path) -> Parts | None:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True, remove_comments=True)
    try:
        root = etree.parse(str(path), parser).getroot()
    except etree.XMLSyntaxError as error:
        raise document.damaged_file(detect.XML) from error
    split = _SPLITTERS.get(root.tag)
    return None if split is None else split(root)


def _split_package(root: Any) -> Parts:
    """Split Flat OPC, saved by Word 2007 and later."""
    parts: Parts = {}
    for part in root.iter(f"{_PACKAGE_NS}part"):
        name = part.get(f"{_PACKAGE_NS}name", "").lstrip("/")
        content = part.find(f"{_PACKAGE_NS}xmlData")
        if content is not None and len(content):
            parts[name] = etree.tostring(content[0], encoding="utf-8", xml_declaration=True, with_tail=False)
        elif (data := part.findtext(f"{_PACKAGE_NS}binaryData")) is not None:
            parts[name] = _decode_base64(data)
    return {"[Content_Types].xml": b"<Types/>", **parts}


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return b""


def _split_open_document(root: Any) -> Parts:
    """Split flat OpenDocument: embedded documents into folders, pictures as names only."""
    parts: Parts = {}
    for number, inner in enumerate(root.iterfind(f".//{_DRAW_NS}object/{_OFFICE_NS}document"), 1):
        holder = inner.getparent()
        holder.set(_LINK_ATTRIBUTE, f"./Object {number}")
        holder.remove(inner)
        parts[f"Object {number}/content.xml"] = _serialize_node(inner)
    for number, picture in enumerate(list(root.iter(f"{_OFFICE_NS}binary-data")), 1):
        picture.getparent().remove(picture)
        parts[f"Pictures/picture{number}.png"] = b""
    content = _serialize_node(root)
    meta = root.find(f"{_OFFICE_NS}meta")
    parts |= {"content.xml": content, "styles.xml": content}
    parts |= {} if meta is None else {"meta.xml": _serialize_node(meta)}
    return {"mimetype": root.get(f"{_OFFICE_NS}mimetype", "").encode(), **parts}


def _split_word_2003(root: Any) -> Parts:
    """Split Word 2003 XML under the names of Word 2007, with notes, lists and headers in separate parts."""
    _rename_elements(root)
    pictures = list(root.iter(f"{_W_NS}binData"))
    for picture in pictures:
        picture.getparent().remove(picture)
    parts = {f"word/media/picture{number}.png": b"" for number in range(1, len(pictures) + 1)}
    comments = _take_annotations(root)
    relations = _link_targets(root)
    for kind in ("footnote", "endnote"):
        notes = [note for note in root.iter(f"{_W_NS}{kind}") if note.getparent().tag == f"{_W_NS}r"]
        parts |= _move_notes(notes, f"{kind}s")
    parts |= _move_notes(comments, "comments")
    for kind, name in (("hdr", "header"), ("ftr", "footer")):
        for number, part in enumerate(list(root.iter(f"{_W_NS}{kind}")), 1):
            parts[f"word/{name}{number}.xml"] = _serialize_node(part)
            part.getparent().remove(part)
    for name, node in (("styles", root.find(f"{_W_NS}styles")), ("numbering", root.find(f"{_W_NS}lists"))):
        if node is not None:
            parts[f"word/{name}.xml"] = _serialize_node(node)
    holder = etree.Element(f"{_W_NS}document")
    holder.extend(root.findall(f"{_W_NS}body"))
    about = {"title": "Title", "creator": "Author", "created": "Created", "modified": "LastSaved"}
    core = etree.Element("core")
    for name, old in about.items():
        etree.SubElement(core, name).text = root.findtext(
            f"{_OFFICE_PROPERTIES}DocumentProperties/{_OFFICE_PROPERTIES}{old}"
        )
    main = f'<Relationship Id="d" Type="{_RELATION_PREFIX}/officeDocument" Target="word/document.xml"/>'
    return {
        "[Content_Types].xml": b"<Types/>",
        "_rels/.rels": f"<Relationships>{main}</Relationships>".encode(),
        "word/document.xml": _serialize_node(holder),
        "word/_rels/document.xml.rels": relations,
        "docProps/core.xml": _serialize_node(core),
        **parts,
    }


_NAMES_2007: Final = {
    "listPr": "numPr", "ilfo": "numId", "vmerge": "vMerge", "hlink": "hyperlink", "listDef": "abstractNum",
    "list": "num", "ilst": "abstractNumId", "nfc": "numFmt",
}  # fmt: skip
_ATTRIBUTES_2007: Final = {"listDefId": "abstractNumId", "ilfo": "numId"}
_NUMBER_FORMATS: Final = {"0": "decimal", "1": "upperRoman", "2": "lowerRoman", "3": "upperLetter", "4": "lowerLetter",
                          "22": "decimalZero", "23": "bullet", "255": "none"}  # fmt: skip


def _rename_elements(root: Any) -> None:
    for node in root.iter(etree.Element):
        if not node.tag.startswith(_WORD_2003):
            continue
        name = node.tag.removeprefix(_WORD_2003)
        for key, value in node.items():
            if key.startswith(_WORD_2003):
                local = key.removeprefix(_WORD_2003)
                del node.attrib[key]
                node.set(f"{_W_NS}{_ATTRIBUTES_2007.get(local, local)}", value)
        if name == "nfc":
            node.set(f"{_W_NS}val", _NUMBER_FORMATS.get(node.get(f"{_W_NS}val", ""), "decimal"))
        # Tabs of a paragraph's form are w:tab there, too; those of its text are in runs.
        node.tag = f"{_W_NS}{_NAMES_2007.get(name, name)}"
    for level in root.iter(f"{_W_NS}lvl"):
        if level.find(f"{_W_NS}numFmt") is None:
            etree.SubElement(level, f"{_W_NS}numFmt").set(f"{_W_NS}val", "decimal")
    wrappers = (f"{_HINTS_2003}{name}" for name in ("sect", "sub-section", "pBdrGroup", "apo"))
    etree.strip_tags(root, *wrappers)


def _take_annotations(root: Any) -> list[Any]:
    """Accept tracked changes; return the comments."""
    comments = []
    for annotation in list(root.iter(f"{_ANNOTATIONS}annotation")):
        kind = annotation.get(f"{_W_NS}type", "") or annotation.get(f"{_WORD_2003}type", "")
        if kind == "Word.Deletion":
            annotation.getparent().remove(annotation)
        elif kind == "Word.Comment":
            comment = etree.Element(f"{_W_NS}comment")
            if author := annotation.get(f"{_ANNOTATIONS}author"):
                comment.set(f"{_W_NS}author", author)
            for content in annotation.findall(f"{_ANNOTATIONS}content"):
                comment.extend(list(content))
            comments.append(comment)
            annotation.getparent().remove(annotation)
    etree.strip_tags(root, f"{_ANNOTATIONS}annotation", f"{_ANNOTATIONS}content")
    return comments


def _link_targets(root: Any) -> bytes:
    relations = etree.Element("Relationships")
    for number, link in enumerate(root.iter(f"{_W_NS}hyperlink"), 1):
        link.set(f"{{{_RELATION_PREFIX}}}id", f"link{number}")
        attributes = {
            "Id": f"link{number}",
            "Type": f"{_RELATION_PREFIX}/hyperlink",
            "Target": link.get(f"{_W_NS}dest", ""),
        }
        etree.SubElement(relations, "Relationship", {**attributes, "TargetMode": "External"})
    return _serialize_node(relations)


def _move_notes(notes: list[Any], name: str) -> Parts:
    """Move notes to a part and leave references in the text."""
    if not notes:
        return {}
    holder = etree.Element(f"{_W_NS}{name}")
    for number, note in enumerate(notes, 1):
        if (run := note.getparent()) is not None:
            etree.SubElement(run, f"{_W_NS}{name[:-1]}Reference").set(f"{_W_NS}id", str(number))
        note.set(f"{_W_NS}id", str(number))
        holder.append(note)
    return {f"word/{name}.xml": _serialize_node(holder)}


def _serialize_node(node: Any) -> bytes:
    return bytes(etree.tostring(node, encoding="utf-8", xml_declaration=True, with_tail=False))


_SPLITTERS: Final[dict[str, Callable[[Any], Parts]]] = {
    f"{_PACKAGE_NS}package": _split_package,
    f"{_OFFICE_NS}document": _split_open_document,
    f"{_WORD_2003}wordDocument": _split_word_2003,
}
