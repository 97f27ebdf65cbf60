"""Mends a DOCX before the library reads it: references to characters, tabs, text boxes and inline formulas get lost."""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from connectors.parsers.text import references, xml

_WORDS = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
_MATHS = (
    "http://schemas.openxmlformats.org/officeDocument/2006/math",
    "http://purl.oclc.org/ooxml/officeDocument/math",
)
_MENDED = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml")
_MAIN = "word/document.xml"
_TARGET = re.compile(rb'<Relationship\b(?=[^>]*/officeDocument")[^>]*\bTarget="/?(word/[\w.-]{1,80}\.xml)"')
_PIECE = 1 << 18
_SIGNS = {"tab": "<{t} xml:space='preserve'> </{t}>", "ptab": "<{t} xml:space='preserve'> </{t}>"} | {
    "cr": "<{br}/>",
    "noBreakHyphen": "<{t}>-</{t}>",
    "softHyphen": "",
}
_LEFT_OUT = ("moveFrom", "footnoteReference", "endnoteReference")
"""What was moved elsewhere, and the marks of notes, which the library writes twice; the notes follow the text."""
_MARKS = {"sup": "^", "sub": "_", "den": "/"}


def readable(path: Path) -> Path:
    """A copy in a folder of its own that the library reads whole; the file itself if it cannot be mended."""
    place = Path(tempfile.mkdtemp()) / "raw"
    try:
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
            _copy(old, new, _renamed(old))
    except (*xml.BROKEN, expat.ExpatError):
        return path
    return place


def _renamed(archive: zipfile.ZipFile) -> Callable[[str], str]:
    """What a part is called in the copy: the library knows the main one by its usual name alone."""
    found = _TARGET.search(archive.read("_rels/.rels")) if "_rels/.rels" in archive.namelist() else None
    main = found[1].decode() if found else _MAIN
    if main == _MAIN or _MAIN in archive.namelist() or main not in archive.namelist():
        return lambda name: name
    relations = f"word/_rels/{main.removeprefix('word/')}.rels"
    return lambda name: {main: _MAIN, relations: "word/_rels/document.xml.rels"}.get(name, name)


def _copy(old: zipfile.ZipFile, new: zipfile.ZipFile, renamed: Callable[[str], str]) -> None:
    for member in old.infolist():
        name = renamed(member.filename)
        with old.open(member) as source, new.open(name, "w", force_zip64=True) as to:
            if _MENDED.fullmatch(name):
                _mend(source, to)
                continue
            while piece := source.read(_PIECE):
                to.write(piece)


def _mend(source: IO[bytes], to: IO[bytes]) -> None:
    parser, mended = expat.ParserCreate(), _Mended()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = mended.start, mended.end
    parser.CharacterDataHandler = mended.data
    parser.StartDoctypeDeclHandler = _refuse
    while piece := source.read(_PIECE):
        parser.Parse(piece, False)  # noqa: FBT003 - expat's signature
        to.write(mended.ready())
    parser.Parse(b"", True)  # noqa: FBT003
    to.write(mended.ready(done=True))


def _refuse(*_declared: object) -> None:
    raise xml.Refused


@dataclass
class _Frame:
    """What is held back until an element ends. `formulas`: places of those in `parts`, and how they read in a line."""

    kind: str
    parts: list[str] = field(default_factory=list)
    formulas: dict[int, str] = field(default_factory=dict)
    line: list[str] = field(default_factory=list)
    worded: bool = False


class _Mended:
    """One part of a document as it is written anew; the names of elements are those of the file."""

    def __init__(self) -> None:
        self._frames = [_Frame("part")]
        self._names: list[str] = []
        self._skipped = 0
        self._after: list[str] = []
        self._kinds: dict[str, str] = {}
        self._prefix = ""
        self._opened = ""

    def ready(self, *, done: bool = False) -> bytes:
        """What is complete, once. What was written last may still turn out to be an empty element."""
        parts = self._frames[0].parts
        complete = "".join(parts if done else parts[:-1])
        del parts[: len(parts) if done else -1]
        return complete.encode()

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._names:
            self._learn(attributes)
        self._names.append(name)
        kind = self._kinds.get(name, "")
        if self._skipped or kind == "left out" or (kind in _SIGNS and self._kinds.get(self._names[-2]) == "run"):
            if not self._skipped and kind in _SIGNS:
                self._write(_SIGNS[kind].format(t=f"{self._prefix}t", br=f"{self._prefix}br"))
            self._skipped += 1
            return
        within = self._frames[-1]
        if kind == "box":
            self._frames.append(_Frame("box"))
            return
        if kind in ("paragraph", "formula", "block") and within.kind not in ("formula", "block"):
            self._frames.append(_Frame(kind))
        elif kind in _MARKS and within.kind == "formula":
            within.line.append(_MARKS[kind])
        self._opened = f"<{name}{''.join(f' {key}={quoteattr(value)}' for key, value in attributes.items())}>"
        self._write(self._opened)

    def data(self, data: str) -> None:
        if self._skipped:
            return
        frame, kind = self._frames[-1], self._kinds.get(self._names[-1])
        frame.worded = frame.worded or (kind == "text" and not data.isspace())
        if kind == "symbols":
            frame.line.append(references.held(data))
        self._write(references.held(data))

    def end(self, name: str) -> None:
        self._names.pop()
        if self._skipped:
            self._skipped -= 1
            return
        kind = self._kinds.get(name, "")
        parts = self._frames[-1].parts
        if parts and parts[-1] is self._opened:
            parts[-1] = f"{self._opened[:-1]}/>"
        elif kind != "box":
            self._write(f"</{name}>")
        if kind == self._frames[-1].kind:
            self._close(self._frames.pop())

    def _close(self, frame: _Frame) -> None:
        above = self._frames[-1]
        if frame.kind == "box":
            self._after.append("".join(frame.parts))
        elif frame.kind in ("formula", "block") and above.kind == "paragraph":
            above.formulas[len(above.parts)] = "".join(frame.line) if frame.kind == "formula" else ""
            above.parts.append("".join(frame.parts))
        else:
            above.parts.append(self._paragraph(frame))
        if not any(one.kind == "paragraph" for one in self._frames):
            above.parts += self._after
            self._after = []

    def _paragraph(self, frame: _Frame) -> str:
        """Beside words, a formula is read within its line, and one that stands apart after them."""
        for place, line in frame.formulas.items() if frame.worded else ():
            whole, frame.parts[place] = frame.parts[place], ""
            if line:
                run, text = f"{self._prefix}r", f"{self._prefix}t"
                frame.parts[place] = f"<{run}><{text} xml:space='preserve'>{line}</{text}></{run}>"
            else:
                self._after.append(f"<{self._prefix}p>{whole}</{self._prefix}p>")
        return "".join(frame.parts)

    def _write(self, text: str) -> None:
        self._frames[-1].parts.append(text)

    def _learn(self, attributes: dict[str, str]) -> None:
        """Which elements are which, by the prefixes that the part declares."""
        known = {value: key.partition(":")[2] for key, value in attributes.items() if key.startswith("xmlns")}
        prefixes = {value: f"{prefix}:" if prefix else "" for value, prefix in known.items()}
        for space in _WORDS:
            if space in prefixes:
                self._prefix = prefix = prefixes[space]
                self._kinds |= {f"{prefix}{name}": name for name in _SIGNS}
                self._kinds |= {f"{prefix}p": "paragraph", f"{prefix}r": "run", f"{prefix}t": "text"}
                self._kinds |= {f"{prefix}txbxContent": "box"}
                self._kinds |= dict.fromkeys((f"{prefix}{name}" for name in _LEFT_OUT), "left out")
        for space in _MATHS:
            if space in prefixes:
                prefix = prefixes[space]
                self._kinds |= {f"{prefix}{name}": name for name in _MARKS}
                self._kinds |= {f"{prefix}oMath": "formula", f"{prefix}oMathPara": "block", f"{prefix}t": "symbols"}
        self._kinds["mc:Fallback"] = "left out"
