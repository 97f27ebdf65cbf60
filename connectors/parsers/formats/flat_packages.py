"""Office documents in a single XML file, converted to ZIP packages for their readers."""

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
_PACKAGE: Final = "{http://schemas.microsoft.com/office/2006/xmlPackage}"
_WORD_2003: Final = "{http://schemas.microsoft.com/office/word/2003/wordml}"
_HINTS_2003: Final = "{http://schemas.microsoft.com/office/word/2003/auxHint}"
_ANNOTATIONS: Final = "{http://schemas.microsoft.com/aml/2001/core}"
_OFFICE_PROPERTIES: Final = "{urn:schemas-microsoft-com:office:office}"
_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_RELATION: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_ODF: Final = "urn:oasis:names:tc:opendocument:xmlns:"
_OFFICE, _DRAW = f"{{{_ODF}office:1.0}}", f"{{{_ODF}drawing:1.0}}"
_LINK: Final = "{http://www.w3.org/1999/xlink}href"
_MARKS: Final = tuple(mark.strip("{}").encode() for mark in (_PACKAGE, _WORD_2003, _OFFICE))
Parts = dict[str, bytes]


@contextmanager
def packed_copy(path: Path) -> Iterator[Path | None]:
    """Yield a temporary ZIP package of a flat document; None for other XML."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    parts = _read_parts(path) if any(mark in head for mark in _MARKS) else None
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
    """Split Flat OPC of Word 2007 and later."""
    parts: Parts = {}
    for part in root.iter(f"{_PACKAGE}part"):
        name = part.get(f"{_PACKAGE}name", "").lstrip("/")
        content = part.find(f"{_PACKAGE}xmlData")
        if content is not None and len(content):
            parts[name] = etree.tostring(content[0], encoding="utf-8", xml_declaration=True, with_tail=False)
        elif (data := part.findtext(f"{_PACKAGE}binaryData")) is not None:
            parts[name] = _decode_base64(data)
    return {"[Content_Types].xml": b"<Types/>", **parts}


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return b""


def _split_open_document(root: Any) -> Parts:
    """Split Flat OpenDocument: embedded documents get folders, pictures names only."""
    parts: Parts = {}
    for number, inner in enumerate(root.iterfind(f".//{_DRAW}object/{_OFFICE}document"), 1):
        holder = inner.getparent()
        holder.set(_LINK, f"./Object {number}")
        holder.remove(inner)
        parts[f"Object {number}/content.xml"] = _serialized(inner)
    for number, picture in enumerate(list(root.iter(f"{_OFFICE}binary-data")), 1):
        picture.getparent().remove(picture)
        parts[f"Pictures/picture{number}.png"] = b""
    content = _serialized(root)
    meta = root.find(f"{_OFFICE}meta")
    parts |= {"content.xml": content, "styles.xml": content}
    parts |= {} if meta is None else {"meta.xml": _serialized(meta)}
    return {"mimetype": root.get(f"{_OFFICE}mimetype", "").encode(), **parts}


def _split_word_2003(root: Any) -> Parts:
    """Convert Word 2003 XML to Word 2007 with separate parts for notes, lists and headers."""
    _rename(root)
    pictures = list(root.iter(f"{_W}binData"))
    for picture in pictures:
        picture.getparent().remove(picture)
    parts = {f"word/media/picture{number}.png": b"" for number in range(1, len(pictures) + 1)}
    comments = _take_annotations(root)
    relations = _link_targets(root)
    for kind in ("footnote", "endnote"):
        notes = [note for note in root.iter(f"{_W}{kind}") if note.getparent().tag == f"{_W}r"]
        parts |= _moved(notes, f"{kind}s")
    parts |= _moved(comments, "comments")
    for kind, name in (("hdr", "header"), ("ftr", "footer")):
        for number, part in enumerate(list(root.iter(f"{_W}{kind}")), 1):
            parts[f"word/{name}{number}.xml"] = _serialized(part)
            part.getparent().remove(part)
    for name, node in (("styles", root.find(f"{_W}styles")), ("numbering", root.find(f"{_W}lists"))):
        if node is not None:
            parts[f"word/{name}.xml"] = _serialized(node)
    holder = etree.Element(f"{_W}document")
    holder.extend(root.findall(f"{_W}body"))
    about = {"title": "Title", "creator": "Author", "created": "Created", "modified": "LastSaved"}
    core = etree.Element("core")
    for name, old in about.items():
        etree.SubElement(core, name).text = root.findtext(
            f"{_OFFICE_PROPERTIES}DocumentProperties/{_OFFICE_PROPERTIES}{old}"
        )
    main = f'<Relationship Id="d" Type="{_RELATION}/officeDocument" Target="word/document.xml"/>'
    return {
        "[Content_Types].xml": b"<Types/>",
        "_rels/.rels": f"<Relationships>{main}</Relationships>".encode(),
        "word/document.xml": _serialized(holder),
        "word/_rels/document.xml.rels": relations,
        "docProps/core.xml": _serialized(core),
        **parts,
    }


_NAMES_2007: Final = {
    "listPr": "numPr", "ilfo": "numId", "vmerge": "vMerge", "hlink": "hyperlink", "listDef": "abstractNum",
    "list": "num", "ilst": "abstractNumId", "nfc": "numFmt",
}  # fmt: skip
_ATTRIBUTES_2007: Final = {"listDefId": "abstractNumId", "ilfo": "numId"}
_NUMBER_FORMATS: Final = {"0": "decimal", "1": "upperRoman", "2": "lowerRoman", "3": "upperLetter", "4": "lowerLetter",
                          "22": "decimalZero", "23": "bullet", "255": "none"}  # fmt: skip


def _rename(root: Any) -> None:
    for node in root.iter(etree.Element):
        if not node.tag.startswith(_WORD_2003):
            continue
        name = node.tag.removeprefix(_WORD_2003)
        for key, value in node.items():
            if key.startswith(_WORD_2003):
                local = key.removeprefix(_WORD_2003)
                del node.attrib[key]
                node.set(f"{_W}{_ATTRIBUTES_2007.get(local, local)}", value)
        if name == "nfc":
            node.set(f"{_W}val", _NUMBER_FORMATS.get(node.get(f"{_W}val", ""), "decimal"))
        # Tabs of a paragraph's form are w:tab there, too; those of its text are in runs.
        node.tag = f"{_W}{_NAMES_2007.get(name, name)}"
    for level in root.iter(f"{_W}lvl"):
        if level.find(f"{_W}numFmt") is None:
            etree.SubElement(level, f"{_W}numFmt").set(f"{_W}val", "decimal")
    wrappers = (f"{_HINTS_2003}{name}" for name in ("sect", "sub-section", "pBdrGroup", "apo"))
    etree.strip_tags(root, *wrappers)


def _take_annotations(root: Any) -> list[Any]:
    """Accept tracked changes and return the comments."""
    comments = []
    for annotation in list(root.iter(f"{_ANNOTATIONS}annotation")):
        kind = annotation.get(f"{_W}type", "") or annotation.get(f"{_WORD_2003}type", "")
        if kind == "Word.Deletion":
            annotation.getparent().remove(annotation)
        elif kind == "Word.Comment":
            comment = etree.Element(f"{_W}comment")
            if author := annotation.get(f"{_ANNOTATIONS}author"):
                comment.set(f"{_W}author", author)
            for content in annotation.findall(f"{_ANNOTATIONS}content"):
                comment.extend(list(content))
            comments.append(comment)
            annotation.getparent().remove(annotation)
    etree.strip_tags(root, f"{_ANNOTATIONS}annotation", f"{_ANNOTATIONS}content")
    return comments


def _link_targets(root: Any) -> bytes:
    relations = etree.Element("Relationships")
    for number, link in enumerate(root.iter(f"{_W}hyperlink"), 1):
        link.set(f"{{{_RELATION}}}id", f"link{number}")
        attributes = {"Id": f"link{number}", "Type": f"{_RELATION}/hyperlink", "Target": link.get(f"{_W}dest", "")}
        etree.SubElement(relations, "Relationship", {**attributes, "TargetMode": "External"})
    return _serialized(relations)


def _moved(notes: list[Any], name: str) -> Parts:
    """Return a part with these notes, replaced by references in the text."""
    if not notes:
        return {}
    holder = etree.Element(f"{_W}{name}")
    for number, note in enumerate(notes, 1):
        if (run := note.getparent()) is not None:
            etree.SubElement(run, f"{_W}{name[:-1]}Reference").set(f"{_W}id", str(number))
        note.set(f"{_W}id", str(number))
        holder.append(note)
    return {f"word/{name}.xml": _serialized(holder)}


def _serialized(node: Any) -> bytes:
    return bytes(etree.tostring(node, encoding="utf-8", xml_declaration=True, with_tail=False))


_SPLITTERS: Final[dict[str, Callable[[Any], Parts]]] = {
    f"{_PACKAGE}package": _split_package,
    f"{_OFFICE}document": _split_open_document,
    f"{_WORD_2003}wordDocument": _split_word_2003,
}
