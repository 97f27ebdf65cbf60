"""Read LyX documents: headings, paragraphs, lists, tables, formulas, notes and references."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final

from lxml import etree

from connectors.parsers import detect, inline_forms
from connectors.parsers.detect import Kind
from connectors.parsers.document import Document, damaged_file, strip_invisible
from connectors.parsers.formats import grids, markup_tables
from connectors.parsers.formats.blocks import join_blocks
from connectors.parsers.formats.sheet_tables import link_cell
from connectors.parsers.messages import Task

_HEADING_LEVELS: Final = {
    "part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5, "subparagraph": 6,
    "frametitle": 2, "frame": 2, "addchap": 1, "addsec": 2, "addpart": 1,
}  # fmt: skip
_LIST_MARKS: Final = {"itemize": "-", "enumerate": "1.", "description": "-", "labeling": "-", "list": "-"}
_VERBATIM_LAYOUTS: Final = frozenset(("lyx-code", "verbatim", "code"))
_SPECIAL_CHARACTERS: Final = {
    "ldots": "…", "menuseparator": "→", "endofsentence": ".", "softhyphen": "", "ligaturebreak": "", "slash": "/",
    "nobreakdash": "-", "breakableslash": "/", "allowbreak": "", "textcompwordmark": "", "LyX": "LyX", "TeX": "TeX",
    "LaTeX": "LaTeX", "LaTeX2e": "LaTeX2e",
}  # fmt: skip
_QUOTES: Final = {"l": "“", "r": "”"}
# Insets that neither a reader of the output nor of the screen sees.
_HIDDEN_INSETS: Final = ("note note", "note comment", "index", "argument:", "phantom", "branch")
_BOXED_INSETS: Final = ("foot", "marginal", "ert", "listings", "float", "caption", "script", *_HIDDEN_INSETS)
_PART_STARTS, _PART_ENDS = ("\\begin_inset", "\\begin_layout"), ("\\end_inset", "\\end_layout")
_ACTIVE_BRANCH: Final = re.compile(r"^\\branch (.+)\n\\selected 1$", re.MULTILINE)
_SPACING_INSETS: Final = {"space": " ", "newline": "\n", "newpage": "\n", "vspace": "\n", "separator": "\n"}
_SKIPPED_COMMANDS: Final = frozenset(("label", "toc", "index_print", "nomencl_print", "bibtex", "line"))
_FORMULA_LABEL: Final = re.compile(r"\\label\{[^{}]*\}")
_SPECIAL_PATTERN: Final = re.compile(r"\\SpecialChar \\?(\S+)")
_PARAMETER: Final = re.compile(r'\b(\w+) (?:"([^"]*)"|(\S+))')
_NOTE_MARK: Final = re.compile(r" ?\[\d+\]")


def read_document(kind: Kind, path: Path, task: Task) -> Document:
    """Return the text as in the output. Skippable without a body."""
    lines = detect.text_of(path.read_bytes(), task.media_type).split("\n")
    if "\\begin_body" not in lines:
        raise damaged_file(kind)
    start = lines.index("\\begin_body")
    head = "\n".join(lines[:start])
    reader = _Reader(lines, start + 1, {name.lower() for name in _ACTIVE_BRANCH.findall(head)})
    texts = join_blocks(reader.blocks("\\end_body", 0))
    header = dict(re.findall(r'^\\pdf_(title|author) "(.*)"$', head, re.MULTILINE))
    notices = (f"Not read: pictures ({len(reader.pictures):,}): {', '.join(reader.pictures)[:300]}.",)
    latex = (f"Not read: pieces of LaTeX code ({reader.latex:,}).",)
    files = (f"Not read: files that the document includes: {', '.join(reader.files)[:300]}.",)
    hidden = (f"Not read: notes and inactive branches ({reader.hidden:,}).",)
    return Document(
        strip_invisible("\n\n".join([*texts, *reader.notes]) + "\n"),
        title=reader.title or header.get("title", ""),
        author=reader.author or header.get("author", ""),
        warnings=(
            (notices if reader.pictures else ())
            + (files if reader.files else ())
            + (latex if reader.latex else ())
            + (hidden if reader.hidden else ())
        ),
    )


class _Reader:
    def __init__(self, lines: list[str], start: int, branches: AbstractSet[str]) -> None:
        self._lines = lines
        self._at = start
        self._branches = branches
        self.title = self.author = ""
        self.notes: list[str] = []
        self.pictures: list[str] = []
        self.files: list[str] = []
        self.latex = self.hidden = 0

    def blocks(self, end: str, level: int) -> Iterator[tuple[str, bool]]:
        """Yield the paragraphs up to the line `end`. `level`: depth of the list around them."""
        while (line := self._next_line()) is not None and line != end:
            if line.startswith("\\begin_layout"):
                yield from self._paragraph(line.partition(" ")[2].strip(), level)
            elif line == "\\begin_deeper":
                yield from self.blocks("\\end_deeper", level + 1)

    def _next_line(self) -> str | None:
        if self._at >= len(self._lines):
            return None
        self._at += 1
        return self._lines[self._at - 1]

    def _paragraph(self, layout: str, level: int) -> Iterator[tuple[str, bool]]:
        name = layout.lower().rstrip("*").strip()
        outer: list[str] = []
        text = self._text("\\end_layout", outer)
        words = "\n".join(filter(None, (" ".join(part.split()) for part in inline_forms.write_forms(text).split("\n"))))
        if name in _VERBATIM_LAYOUTS:
            words = f"```\n{text.strip(chr(10))}\n```" if words else ""
        if words and name == "title":
            self.title = self.title or detect.one_line(_NOTE_MARK.sub("", words))
            yield f"# {detect.one_line(words)}", False
        elif words and name in _HEADING_LEVELS:
            yield f"{'#' * _HEADING_LEVELS[name]} {detect.one_line(words)}", False
        elif words and name in _LIST_MARKS:
            yield f"{'  ' * level}{_LIST_MARKS[name]} {words}".replace("\n", " "), True
        elif words:
            self.author = (
                detect.one_line(_NOTE_MARK.sub("", words)) if name == "author" and not self.author else self.author
            )
            yield words, False
        yield from ((block, False) for block in outer)

    def _text(self, end: str, outer: list[str]) -> str:
        """Return the text up to the line `end`; blocks such as tables go to `outer`."""
        pieces: list[str] = []
        form = inline_forms.PLAIN
        while (line := self._next_line()) is not None and line != end:
            if line.startswith("\\begin_inset"):
                pieces.append(self._inset(line.partition(" ")[2].strip(), outer))
            elif line.startswith("\\begin_layout"):
                pieces.append(f"{self._text(chr(92) + 'end_layout', outer)}\n")
            elif line == "\\backslash":
                pieces.append("\\")
            elif line.startswith(("\\strikeout", "\\xout")):
                form = inline_forms.Form(form.script, not line.endswith(("off", "default")))
            elif line.startswith("\\change_deleted"):
                self._skip_deleted()
            elif not line.startswith("\\") or line.startswith("\\SpecialChar"):
                pieces.append(form.mark(line) if line else "")
            else:
                continue
            if "\\SpecialChar" in (pieces[-1] if pieces else ""):
                pieces[-1] = _replace_special(pieces[-1])
        return "".join(pieces)

    def _skip_deleted(self) -> None:
        """Skip text and insets that a tracked change deletes, up to the next change or the end of the paragraph."""
        depth = 0
        while self._at < len(self._lines):
            line = self._lines[self._at]
            depth += line.startswith(_PART_STARTS) - line.startswith(_PART_ENDS)
            if depth < 0 or (depth == 0 and line.startswith("\\change_")):
                return
            self._at += 1

    def _inset(self, kind: str, outer: list[str]) -> str:
        name, _, rest = kind.partition(" ")
        if name.lower() in _SPACING_INSETS:
            self._content()
            return _SPACING_INSETS[name.lower()]
        readers: dict[str, Callable[[], str]] = {
            "Formula": lambda: self._formula(rest),
            "Tabular": lambda: self._add_table(outer),
            "CommandInset": lambda: self._command(rest, self._parameters()),
            "Graphics": self._picture,
            "External": self._picture,
            "Info": lambda: self._parameters().get("arg", ""),
            "Quotes": lambda: _QUOTES.get(rest[1:2], '"') + self._content()[:0],
        }
        if name in readers:
            return readers[name]()
        is_active = name == "Branch" and rest.strip().lower() in self._branches
        if kind.lower().startswith(_BOXED_INSETS) and not is_active:
            return self._boxed(kind.lower(), outer)
        self._skip_status()
        return self._text("\\end_inset", outer).strip("\n")

    def _picture(self) -> str:
        self.pictures.append(self._parameters().get("filename", "picture"))
        return ""

    def _add_table(self, outer: list[str]) -> str:
        outer.append(self._table())
        return ""

    def _boxed(self, name: str, outer: list[str]) -> str:
        inner: list[str] = []
        self._skip_status()
        text = self._text("\\end_inset", inner).strip("\n")
        words = " ".join(inline_forms.write_forms(text).split())
        if name.startswith((*_HIDDEN_INSETS, "ert")):
            self.latex += name.startswith("ert")
            self.hidden += bool(words) and name.startswith(("note", "branch"))
            return ""
        if name.startswith("foot"):
            number = str(len(self.notes) + 1)
            self.notes.append(f"Footnote [{number}]: {words}")
            return inline_forms.footnote_mark(number)
        if name.startswith("script"):
            return inline_forms.subscript(words) if name.endswith("subscript") else inline_forms.superscript(words)
        if name.startswith("listings"):
            outer.append(f"```\n{text}\n```")
            return ""
        outer += [words, *inner] if name.startswith(("caption", "marginal")) else [*inner, words]
        outer[:] = [block for block in outer if block]
        return ""

    def _skip_status(self) -> None:
        """Skip the properties of an inset before its text."""
        while self._at < len(self._lines) and not self._lines[self._at].startswith(("\\begin_", "\\end_inset")):
            self._at += 1

    def _content(self) -> str:
        lines = []
        while (line := self._next_line()) is not None and line != "\\end_inset":
            lines.append(line)
        return "\n".join(lines)

    def _parameters(self) -> dict[str, str]:
        return {match[1]: match[2] or match[3] or "" for match in _PARAMETER.finditer(self._content())}

    def _formula(self, start: str) -> str:
        formula = f"{start}\n{self._content()}".strip()
        if formula.startswith("$") and formula.endswith("$"):
            return formula.replace("\n", " ")
        formula = _FORMULA_LABEL.sub("", formula).removeprefix("\\[").removesuffix("\\]")
        return f"\n$${' '.join(formula.split())}$$\n"

    def _command(self, kind: str, values: dict[str, str]) -> str:
        words = values.get("name", "")
        if kind in _SKIPPED_COMMANDS:
            return ""
        if kind == "href":
            return link_cell(words, values.get("target", ""))
        if kind == "include":
            self.files.append(values.get("filename", "?"))
            return ""
        if kind in ("citation", "bibitem"):
            return f"[{values.get('label') or values.get('key', '')}] "[: None if kind == "bibitem" else -1]
        return words or values.get("target") or values.get("reference", "")

    def _table(self) -> str:
        """Return a table, whose cells are texts within elements."""
        root = etree.Element("table")
        row: Any = None
        while (line := self._next_line()) is not None and line != "\\end_inset":
            if line.startswith("<row"):
                row = etree.SubElement(root, "tr")
            elif line.startswith("<cell") and row is not None:
                self._cell(row, line)
        return grids.grid_markdown(markup_tables.read_rows(root, lambda cell: cell.get("text", "")))

    def _cell(self, row: Any, line: str) -> None:
        inner: list[str] = []
        while (part := self._next_line()) is not None and not part.startswith(("\\begin_inset", "</cell")):
            pass
        text = self._text("\\end_inset", inner) if part and part.startswith("\\begin_inset") else ""
        words = " ".join([inline_forms.write_forms(text), *inner]).split()
        if 'multicolumn="2"' in line and len(row):
            row[-1].set("colspan", str(int(row[-1].get("colspan", "1")) + 1))
        else:
            etree.SubElement(row, "td", text=strip_invisible(" ".join(words)))


def _replace_special(line: str) -> str:
    return _SPECIAL_PATTERN.sub(lambda match: _SPECIAL_CHARACTERS.get(match[1], match[1]), line)
