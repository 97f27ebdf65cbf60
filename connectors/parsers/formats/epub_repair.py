"""Mends an EPUB before the library reads it: chapters whose names are encoded where the book lists them."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from urllib.parse import quote

from connectors.parsers.text import xml

_CHAPTERS = (".xhtml", ".html", ".htm", ".xml")


def readable(path: Path) -> Path:
    """A copy in a folder of its own that holds such chapters by both names; the file itself if there are none."""
    try:
        with zipfile.ZipFile(path) as old:
            odd = {name for name in old.namelist() if name.endswith(_CHAPTERS) and quote(name) != name}
            if not odd:
                return path
            place = Path(tempfile.mkdtemp()) / "raw"
            with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
                for member in old.infolist():
                    data = old.read(member)
                    for name in {
                        member.filename,
                        quote(member.filename) if member.filename in odd else member.filename,
                    }:
                        new.writestr(name, data)
            return place
    except xml.BROKEN:
        return path
