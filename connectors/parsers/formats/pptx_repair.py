"""Puts the slides of a PPTX into the order in which they are shown: the library goes by the names of their parts."""

from __future__ import annotations

import posixpath
import re
import tempfile
import zipfile
from pathlib import Path

from connectors.parsers.text import xml

_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_RELATION = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"
_SLIDE = re.compile(r"ppt/slides/slide(\d+)\.xml")


def shown(archive: zipfile.ZipFile) -> list[str]:
    """The slides' parts in the order of the presentation; [] if it does not say."""
    try:
        relations = xml.root(archive, "ppt/_rels/presentation.xml.rels")
        targets = {one.get("Id"): one.get("Target", "") for one in relations.iter(_RELATION)}
        listed = [targets.get(one.get(_ID), "") for one in xml.root(archive, "ppt/presentation.xml").iter(f"{_P}sldId")]
    except xml.BROKEN:
        return []
    return [posixpath.normpath(posixpath.join("/ppt", target)).lstrip("/") for target in listed if target]


def in_order(path: Path) -> Path:
    """A copy in a folder of its own with the slides in order; the file itself if they are, or cannot be put so."""
    try:
        with zipfile.ZipFile(path) as old:
            slides = shown(old)
            named = sorted(slides, key=_number)
            if slides == named or not set(slides) <= set(old.namelist()) or not all(map(_SLIDE.fullmatch, slides)):
                return path
            names = {one: to for one, to in zip(slides, named, strict=True)}  # noqa: C416 - of equal length
            names |= {_relations(one): _relations(to) for one, to in names.items()}
            place = Path(tempfile.mkdtemp()) / "raw"
            with zipfile.ZipFile(place, "w") as new:
                for member in old.infolist():
                    data = old.read(member) if member.filename.endswith((".xml", ".rels")) else b""
                    new.writestr(names.get(member.filename, member.filename), data)
            return place
    except xml.BROKEN:
        return path


def _number(slide: str) -> int:
    found = _SLIDE.fullmatch(slide)
    return int(found[1]) if found else 0


def _relations(slide: str) -> str:
    folder, name = posixpath.split(slide)
    return f"{folder}/_rels/{name}.rels"
