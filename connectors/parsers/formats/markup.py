"""XML of any vocabulary as Markdown: headings, paragraphs with inline elements, lists, tables, labelled values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from lxml import etree

from connectors.parsers import detect, document, inline_forms, xml
from connectors.parsers.detect import Kind
from connectors.parsers.document import Document, strip_invisible
from connectors.parsers.formats import grids, html_text, markup_tables
from connectors.parsers.formats import markup_elements as elements
from connectors.parsers.messages import Task

_DECLARATION: Final = re.compile(r"^\s*<\?xml[^>]*\?>")
_LABELLED_CHARACTERS: Final = 200
"""A leaf's text up to this length has the name of its element before it; a longer one is prose."""
_MAX_DEPTH: Final = 100
"""Elements within each other whose structure is read; those within are read as plain text."""
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\r\n\t ]{80,}={0,2}")
_ENCODED_SIGNS: Final = tuple(map(re.compile, ("[0-9]", "[A-Z]", "[a-z]")))
_BASE64_LINE: Final = 40
_HTML_TAG: Final = re.compile(
    r"<(/?)(p|div|a|b|i|em|strong|ul|ol|li|table|span|h[1-6]|br)(?:\s[^<>]*)?/?>", re.IGNORECASE
)
_RAISED, _LOWERED = (inline_forms.RAISED,), (inline_forms.LOWERED,)
_SCRIPTS: Final = {
    "sup": _RAISED, "superscript": _RAISED, "msup": _RAISED, "sub": _LOWERED, "subscript": _LOWERED, "msub": _LOWERED,
    "msubsup": _LOWERED + _RAISED, "mfrac": (), "msqrt": (),
}  # fmt: skip
_SHOWN: Final = str.maketrans({"\0": "\n", "\x01": "  "})


def read_xml(kind: Kind, path: Path, task: Task) -> Document:
    """The text of the elements, without entities, which may be outside of the file. Skippable if damaged."""
    source = detect.text_of(path.read_bytes(), task.media_type, markup=True)
    parser = etree.XMLParser(
        recover=True, resolve_entities=False, no_network=True, huge_tree=True, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(_DECLARATION.sub("", source).encode(), parser)
    except etree.XMLSyntaxError as error:
        raise document.damaged_file(kind) from error
    # A parser that recovers keeps what it has read by then and drops the rest.
    errors = (etree.XMLSyntaxError(entry.message, entry.type, entry.line, entry.column) for entry in parser.error_log)
    lost = next((error for error in errors if xml.is_out_of_memory(error) or xml.is_too_deep(error)), None)
    if root is None or lost:
        raise document.damaged_file(kind) from lost
    return _Writer(root).document()


class _Writer:
    """Writes one document."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._document_title = ""
        self._notes: list[str] = []
        self._lines: list[str] = []
        self._skipped: list[str] = []
        self._label = ""
        self._depth = 0

    def document(self) -> Document:
        self._document_title = title = self._title()
        self._lines = [f"# {title or elements.spelled_name(self._root)}", ""]
        self._write(self._root, 1)
        if not any(map(str.isalnum, "".join(self._lines[2:]))):
            self._lines += _attribute_lines(self._root)
        if len(self._lines) == 2 and not title:
            return Document("", warnings=self._warnings())
        text = strip_invisible(re.sub(r"\n{3,}", "\n\n", "\n".join(self._lines)).strip() + "\n")
        return Document(text, title=title, warnings=self._warnings())

    def _title(self) -> str:
        """The title that belongs to the root or its front matter, not to a section or record of it."""
        return next(
            (line for part in elements.front_titles(self._root) if (line := detect.one_line(self._inline(part)))),
            "",
        )

    def _warnings(self) -> tuple[str, ...]:
        if not self._skipped:
            return ()
        names = ", ".join(dict.fromkeys(self._skipped))
        return (f"Not read: embedded files in base64 ({len(self._skipped):,}): {names}.",)

    def _write(self, node: Any, depth: int) -> None:
        """Write an element that holds blocks. `depth`: of its titles."""
        for part in node:
            name, spelled = elements.element_names(part.tag)
            if name not in elements.STRUCTURAL_NAMES and len(part):
                self._nested(part, name, depth)
                continue
            if name not in elements.STRUCTURAL_NAMES:
                text = part.text
                if (
                    text is not None
                    and len(text) < _BASE64_LINE
                    and name not in elements.UNLABELLED_NAMES
                    and not self._label
                ):
                    self._lines += [f"{spelled}: {' '.join(text.split())}"] if not text.isspace() else []
                else:
                    self._leaf(part, name)
                continue
            if name in elements.SKIPPED_NAMES:
                continue
            if name in elements.TABLE_NAMES and (rows := markup_tables.read_rows(part, self.cell)):
                self._table(part, rows)
            elif name in elements.LIST_NAMES:
                self._paragraphs(self._items(part, 0))
            elif name in elements.VERBATIM_NAMES:
                text = "".join(part.itertext()).strip("\n")
                self._paragraphs([f"```\n{text}\n```"] if text.strip() else [])
            elif name == "label" and not len(part) and part.getnext() is not None:
                self._label = " ".join((part.text or "").split())
            elif name in elements.TITLE_NAMES and (name != "head" or elements.is_paragraph(part) or not len(part)):
                self._heading(part, depth)
            else:
                self._nested(part, name, depth)

    def _nested(self, part: Any, name: str, depth: int) -> None:
        if len(part) and not elements.is_paragraph(part) and self._depth < _MAX_DEPTH and name != "caption":
            self._container(part, name, depth)
        else:
            self._leaf(part, name)

    def _container(self, part: Any, name: str, depth: int) -> None:
        start = len(self._lines)
        has_title = not elements.TITLE_NAMES.isdisjoint(map(elements.local_name, part))
        sheet = next((value for key, value in part.items() if key.endswith("}Name")), "") if name == "worksheet" else ""
        if sheet:
            self._paragraphs([f"## {detect.one_line(sheet)}"])
        self._depth += 1
        self._write(part, depth + has_title)
        self._depth -= 1
        if name in elements.NOTE_NAMES and len(self._lines) > start:
            note = " ".join(filter(None, self._lines[start:]))
            self._lines[start:] = [f"Footnote: {note}", ""]
        if self._lines[-1]:
            self._lines.append("")

    def _heading(self, part: Any, depth: int) -> None:
        words = detect.one_line(f"{self._pending_label()} {self._inline(part)}")
        if words and words == self._document_title:
            self._document_title = ""  # it is written once
        elif words:
            self._paragraphs([f"{'#' * min(max(depth, 2), 6)} {words}"])
        self._write_notes()

    def _leaf(self, part: Any, name: str) -> None:
        text = self._inline(part) if len(part) else " ".join((part.text or "").split())
        if len(text) >= _BASE64_LINE and self._is_binary(part):
            return
        if not text:
            return
        is_page = name in elements.PAGE_NAMES and not len(part) and _is_html(text)
        text = html_text.page_body(text) if is_page else text
        label = self._pending_label()
        text = f"{label} {text}" if label else text
        if name in elements.PROSE_NAMES or is_page or len(part) or len(text) > _LABELLED_CHARACTERS or "\n" in text:
            self._paragraphs([text])
        else:
            self._lines.append(f"{elements.spelled_name(part)}: {text}")
        if self._notes:
            self._write_notes()

    def _write_notes(self) -> None:
        notes, self._notes = self._notes, []
        self._paragraphs(notes)

    def _pending_label(self) -> str:
        label, self._label = self._label, ""
        return label

    def _paragraphs(self, texts: Iterable[str]) -> None:
        for text in texts:
            if self._lines[-1]:
                self._lines.append("")
            self._lines += [text, ""]

    def _is_binary(self, part: Any) -> bool:
        """Base64 of a file, which is left out and reported."""
        text = part.text or ""
        if len(part) or not _BASE64.fullmatch(text.strip()) or not all(sign.search(text) for sign in _ENCODED_SIGNS):
            return False
        if min(map(len, text.split()[:-1]), default=_BASE64_LINE) < _BASE64_LINE:
            return False  # words
        label = next((value for key, value in part.items() if key.rpartition("}")[2] in ("id", "name")), "")
        self._skipped.append(detect.one_line(label or elements.spelled_name(part)))
        return True

    def _inline(self, node: Any) -> str:
        """The text of a paragraph; blocks within it are separated by line ends."""
        if not len(node):
            return " ".join((node.text or "").split())
        if self._depth >= _MAX_DEPTH:
            return " ".join(" ".join(node.itertext()).split())
        self._depth += 1
        text = "".join(self._pieces(node))
        self._depth -= 1
        lines = (" ".join(line.split()) for line in text.split("\n"))
        return inline_forms.write_forms("\n".join(filter(None, lines))).translate(_SHOWN)

    def _pieces(self, node: Any) -> Iterator[str]:
        yield _spaced(node.text)
        joint = " " if elements.holds_values(node) else ""
        for part in node:
            yield from self._piece(part, elements.local_name(part))
            yield joint
            yield _spaced(part.tail)

    def _piece(self, part: Any, name: str) -> Iterator[str]:
        if name in elements.TABLE_NAMES and (rows := markup_tables.read_rows(part, self.cell)):
            yield f"\n{_protected(grids.grid_markdown(rows))}\n"
        elif name in elements.LIST_NAMES:
            yield "\n" + _protected("\n".join(self._items(part, 0))) + "\n"
        elif name in elements.BREAK_NAMES:
            yield "\n"
        elif name in _SCRIPTS and (len(part) or (part.text or "").strip()):
            yield from self._script(part, name)
        elif name in elements.NOTE_NAMES:
            if words := " ".join(self._inline(part).split()):
                self._notes.append(f"Footnote: {words}")
        elif name not in elements.SKIPPED_NAMES and not self._is_binary(part):
            edge = "\n" if name in elements.BLOCK_NAMES else ""
            yield edge
            yield from self._nested_pieces(part)
            yield edge

    def _nested_pieces(self, part: Any) -> Iterator[str]:
        if self._depth >= _MAX_DEPTH:
            yield " ".join(part.itertext())
            return
        self._depth += 1
        yield from self._pieces(part)
        self._depth -= 1

    def _script(self, part: Any, name: str) -> Iterator[str]:
        """Superscripts, subscripts and fractions, as they are typed."""
        texts = ["".join(self._nested_pieces(child)).strip() for child in part] if name.startswith("m") else []
        if name == "mfrac" and len(texts) == 2:
            yield inline_forms.fraction(*texts)
        elif len(texts) > 1:
            yield texts[0]
            yield from (form.mark(text) for form, text in zip(_SCRIPTS[name], texts[1:], strict=False))
        else:
            words = "".join(self._nested_pieces(part)).strip()
            yield f"√({words})" if name == "msqrt" else _SCRIPTS[name][0].mark(words) if _SCRIPTS[name] else words

    def _items(self, node: Any, level: int) -> Iterator[str]:
        is_ordered = elements.local_name(node) in elements.ORDERED_LIST_NAMES or node.get("list-type", "") == "order"
        number = 0
        lines = []
        for part in node:
            if elements.local_name(part) in elements.TITLE_NAMES and (words := self._inline(part)):
                lines.append(words)
                continue
            inner = [child for child in part.iter(etree.Element) if child is not part and elements.is_list(child)]
            nested = [
                child
                for child in inner
                if not any(elements.is_list(above) for above in elements.ancestors_below(child, part))
            ]
            for child in nested:
                elements.detach_element(child)
            if words := " ".join(self._inline(part).split()):
                number += 1
                mark = f"{number}." if is_ordered else "-"
                lines.append(f"{'  ' * level}{mark} {words}")
            self._depth += 1
            for child in nested:
                is_shown = self._depth < _MAX_DEPTH
                lines += self._items(child, level + 1) if is_shown else [" ".join(" ".join(child.itertext()).split())]
            self._depth -= 1
        yield from ["\n".join(lines)] if lines else []

    def _table(self, part: Any, rows: list[list[grids.Cell]]) -> None:
        titles = (child for child in part if elements.local_name(child) in (*elements.TITLE_NAMES, "caption"))
        captions = [words for child in titles if (words := self._inline(child))]
        self._paragraphs([f"{self._pending_label()} {' '.join(captions)}".strip()] if captions else [])
        text = grids.grid_markdown(rows)
        self._paragraphs([text] if text else [])

    def cell(self, node: Any) -> str:
        return " ".join(self._inline(node).split())


def _is_html(text: str) -> bool:
    """Tell by an element that begins and ends, or by a line break."""
    starts: set[str] = set()
    for match in _HTML_TAG.finditer(text):
        name = match[2].lower()
        if name == "br" or (match[1] and name in starts):
            return True
        starts |= {name} if not match[1] else set()
    return False


def _spaced(text: str | None) -> str:
    return text.replace("\n", " ") if text else ""


def _protected(markdown: str) -> str:
    """Lines whose ends and indents stay as they are when the white space of a paragraph is collapsed."""
    return markdown.replace("\n", "\0").replace("  ", "\x01")


def _attribute_lines(root: Any) -> Iterator[str]:
    """Values that are in attributes only, a line for each element; numbers of drawings are no text."""
    for node in root.iter(etree.Element) if elements.local_name(root) not in elements.DRAWING_NAMES else ():
        values = [f"{key.rpartition('}')[2]}: {value}" for key, value in node.items() if value.strip()]
        if values:
            yield f"{elements.spelled_name(node)}: {'; '.join(values)}"
