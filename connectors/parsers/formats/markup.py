"""Convert any XML to Markdown: headings, paragraphs with inline elements, lists, tables, labelled values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from lxml import etree

from connectors.parsers import detect, document, inline_forms, xml
from connectors.parsers.detect import Kind
from connectors.parsers.document import Document, strip_invisible
from connectors.parsers.formats import drawings, excel_2003, grids, html_text, markup_synopses, markup_tables, mind_maps
from connectors.parsers.formats import markup_elements as elements
from connectors.parsers.messages import Task

_OUTSIDE_ENTITY: Final = re.compile(
    r"""<!ENTITY\s+([\w.-]{1,80})\s+(?:SYSTEM|PUBLIC\s+["'][^"']{0,400}["'])\s+["']([^"']{0,400})["']"""
)
_DECLARATION_PATTERN: Final = re.compile(r"^\s*<\?xml[^>]*\?>")
# Leaf texts up to this length get their element name as label; longer texts are prose.
_MAX_LABELLED_LENGTH: Final = 200
# Deeper elements are read as plain text.
_MAX_DEPTH: Final = 100
_BASE64_PATTERN: Final = re.compile(r"[A-Za-z0-9+/\r\n\t ]{80,}={0,2}")
_BASE64_CHARACTERS: Final = tuple(map(re.compile, ("[0-9]", "[A-Z]", "[a-z]")))
_BASE64_LINE_LENGTH: Final = 40
_RAISED_FORM, _LOWERED_FORM, _STRUCK_FORM = (inline_forms.RAISED,), (inline_forms.LOWERED,), (inline_forms.STRUCK,)
_SCRIPT_FORMS: Final = {
    "sup": _RAISED_FORM, "superscript": _RAISED_FORM, "msup": _RAISED_FORM,
    "sub": _LOWERED_FORM, "subscript": _LOWERED_FORM, "msub": _LOWERED_FORM,
    "strike": _STRUCK_FORM, "strikethrough": _STRUCK_FORM, "del": _STRUCK_FORM,
    "msubsup": _LOWERED_FORM + _RAISED_FORM, "mfrac": (), "msqrt": (),
}  # fmt: skip
_XML_NAMESPACE: Final = "http://www.w3.org/XML/1998/namespace"
_RESTORED_SPACE: Final = str.maketrans({"\0": "\n", "\x01": "  "})


def read_xml(kind: Kind, path: Path, task: Task) -> Document:
    """Return the text of elements, with entities of the file itself. Skippable if damaged or a bomb of entities."""
    source = detect.text_of(path.read_bytes(), task.media_type, markup=True)
    has_entities = "<!ENTITY" in source
    # A parser for huge trees does not limit the growth by entities.
    parser = etree.XMLParser(
        recover=True, resolve_entities="internal", no_network=True, huge_tree=not has_entities, remove_comments=True,
        remove_pis=True,
    )  # fmt: skip
    try:
        root = xml.parse_fragments(_DECLARATION_PATTERN.sub("", xml.resolve_html_entities(source)), parser)
    except etree.XMLSyntaxError as error:
        raise document.damaged_file(kind) from error
    # With `recover`, the parser keeps the part before such an error and drops the rest.
    errors = (etree.XMLSyntaxError(entry.message, entry.type, entry.line, entry.column) for entry in parser.error_log)
    lost = next((error for error in errors if xml.is_out_of_memory(error) or xml.is_too_deep(error)), None)
    if lost and "amplification" in lost.msg:
        raise document.damaged_file(kind) from xml.EntitiesRefused()
    if root is None or lost:
        raise document.damaged_file(kind) from lost
    outside = [address for name, address in _OUTSIDE_ENTITY.findall(source) if f"&{name};" in source]
    written = _read_root(root)
    warnings = (f"Not read: other files that the XML includes: {', '.join(outside)[:300]}.",) if outside else ()
    return replace(written, warnings=(*written.warnings, *warnings))


def _read_root(root: Any) -> Document:
    if root.tag == excel_2003.WORKBOOK_TAG:
        return excel_2003.read_document(root)
    if elements.local_name(root) == drawings.ROOT_NAME:
        return drawings.read_document(root)
    if root.tag.endswith("FictionBook"):
        etree.strip_elements(root, *elements.BOOK_DATA_NAMES, with_tail=False)
    if mind_maps.is_outline(root):
        return mind_maps.read_outline(root)
    return mind_maps.read_document(root) if mind_maps.is_mind_map(root) else _Writer(root).document()


class _Writer:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._document_title = ""
        self._notes: list[str] = []
        self._lines: list[str] = []
        self._skipped: list[str] = []
        self._label = ""
        self._depth = 0

    def document(self) -> Document:
        self._document_title = title = self._find_title()
        self._lines = [f"# {title or elements.spelled_name(self._root)}", ""]
        self._write_blocks(self._root, 1)
        if not any(map(str.isalnum, "".join(self._lines[2:]))):
            self._lines += elements.attribute_lines(self._root)
        if len(self._lines) == 2 and not title:
            return Document("", warnings=self._warning_lines())
        text = strip_invisible(re.sub(r"\n{3,}", "\n\n", "\n".join(self._lines)).strip() + "\n")
        return Document(text, title=title, warnings=self._warning_lines())

    def _find_title(self) -> str:
        """Return the title of the root or front matter, not of a section or record."""
        return next(
            (line for part in elements.front_titles(self._root) if (line := detect.one_line(self._title_text(part)))),
            "",
        )

    def _title_text(self, part: Any) -> str:
        is_page = elements.local_name(part) == "refmeta"
        return markup_synopses.page_reference(part) if is_page else self._inline_text(part)

    def _warning_lines(self) -> tuple[str, ...]:
        if not self._skipped:
            return ()
        names = ", ".join(dict.fromkeys(self._skipped))
        return (f"Not read: embedded files in base64 ({len(self._skipped):,}): {names}.",)

    def _write_blocks(self, node: Any, depth: int) -> None:
        """Write an element with blocks. `depth`: heading level."""
        self._write_stray(node.text)
        for part in node:
            self._write_block(part, depth)
            self._write_stray(part.tail)

    def _write_stray(self, text: str | None) -> None:
        """Write text between sections."""
        if text is not None and not text.isspace() and (words := " ".join(text.split())):
            self._write_paragraphs([words])

    def _write_block(self, part: Any, depth: int) -> None:
        name, spelled = elements.element_names(part.tag)
        if name not in elements.STRUCTURAL_NAMES and len(part):
            self._write_nested(part, name, depth)
            return
        if name not in elements.STRUCTURAL_NAMES:
            text = part.text
            if (
                text is not None
                and len(text) < _BASE64_LINE_LENGTH
                and name not in elements.UNLABELLED_NAMES
                and not self._label
            ):
                values = f" ({self._values(part)})" if part.attrib and self._values(part) else ""
                self._lines += [f"{spelled}: {' '.join(text.split())}{values}"] if not text.isspace() else []
            else:
                self._write_leaf(part, name)
                self._lines += [f"{spelled}: {values}"] if text is None and (values := self._values(part)) else []
            return
        if name in elements.SKIPPED_NAMES:
            return
        if name in elements.TABLE_NAMES and (rows := markup_tables.read_rows(part, self.cell)):
            self._write_table(part, rows)
        elif name in elements.LIST_NAMES:
            self._write_paragraphs(self._list_items(part, 0))
        elif name in elements.VERBATIM_NAMES:
            is_synopsis = name in elements.SYNOPSIS_NAMES
            text = markup_synopses.read_synopsis(part) if is_synopsis else "".join(part.itertext()).strip("\n")
            self._write_paragraphs([f"```\n{text}\n```"] if text.strip() else [])
        elif name == "label" and not len(part) and part.getnext() is not None:
            self._label = " ".join((part.text or "").split())
        elif name == "refnamediv":
            self._write_paragraphs(filter(None, [markup_synopses.name_purpose(part)]))
        elif name == "refmeta" or (
            name in elements.TITLE_NAMES and (name != "head" or elements.is_paragraph(part) or not len(part))
        ):
            self._write_heading(part, depth)
        else:
            self._write_nested(part, name, depth)

    def _write_nested(self, part: Any, name: str, depth: int) -> None:
        if len(part) and not elements.is_paragraph(part) and self._depth < _MAX_DEPTH and name != "caption":
            self._write_container(part, name, depth)
        else:
            self._write_leaf(part, name)

    def _write_container(self, part: Any, name: str, depth: int) -> None:
        start = len(self._lines)
        has_title = not elements.TITLE_NAMES.isdisjoint(map(elements.local_name, part))
        self._depth += 1
        self._write_blocks(part, depth + has_title)
        self._depth -= 1
        if values := self._values(part):
            while start < len(self._lines) and (not self._lines[start] or self._lines[start].startswith("#")):
                start += 1
            self._lines.insert(start, f"{elements.spelled_name(part)}: {values}")
        if name in elements.NOTE_NAMES and len(self._lines) > start:
            note = " ".join(filter(None, self._lines[start:]))
            self._lines[start:] = [f"Footnote: {note}", ""]
        if self._lines[-1]:
            self._lines.append("")

    def _write_heading(self, part: Any, depth: int) -> None:
        words = detect.one_line(f"{self._pending_label()} {self._title_text(part)}")
        if words and words == self._document_title:
            self._document_title = ""  # it is written once
        elif words:
            self._write_paragraphs([f"{'#' * min(max(depth, 2), 6)} {words}"])
        self._write_notes()

    def _write_leaf(self, part: Any, name: str) -> None:
        text = self._inline_text(part) if len(part) else " ".join((part.text or "").split())
        if len(text) >= _BASE64_LINE_LENGTH and self._is_binary(part):
            return
        if not text:
            return
        is_page = name in elements.PAGE_NAMES and not len(part) and elements.is_html(text)
        text = html_text.page_body(text) if is_page else text
        label = self._pending_label()
        text = elements.BULLETS.sub(elements.list_mark, f"{label} {text}" if label else text)
        if name in elements.PROSE_NAMES or is_page or len(part) or len(text) > _MAX_LABELLED_LENGTH or "\n" in text:
            self._write_paragraphs([text])
        else:
            self._lines.append(f"{elements.spelled_name(part)}: {text}")
        if self._notes:
            self._write_notes()

    def _write_notes(self) -> None:
        notes, self._notes = self._notes, []
        self._write_paragraphs(notes)

    def _pending_label(self) -> str:
        label, self._label = self._label, ""
        return label

    def _write_paragraphs(self, texts: Iterable[str]) -> None:
        for text in texts:
            if self._lines[-1]:
                self._lines.append("")
            self._lines += [text, ""]

    def _is_binary(self, part: Any) -> bool:
        """Check for Base64 of a file; report and skip the element."""
        text = part.text or ""
        if (
            len(part)
            or not _BASE64_PATTERN.fullmatch(text.strip())
            or not all(sign.search(text) for sign in _BASE64_CHARACTERS)
        ):
            return False
        if min(map(len, text.split()[:-1]), default=_BASE64_LINE_LENGTH) < _BASE64_LINE_LENGTH:
            return False  # words
        label = next((value for key, value in part.items() if key.rpartition("}")[2] in ("id", "name")), "")
        self._skipped.append(detect.one_line(label or elements.spelled_name(part)))
        return True

    def _inline_text(self, node: Any) -> str:
        """Return the text of a paragraph, with nested blocks on separate lines."""
        if not len(node):
            return " ".join((node.text or "").split())
        if self._depth >= _MAX_DEPTH:
            return " ".join(" ".join(node.itertext()).split())
        self._depth += 1
        text = "".join(self._inline_pieces(node))
        self._depth -= 1
        lines = (" ".join(line.split()) for line in text.split("\n"))
        return inline_forms.write_forms("\n".join(filter(None, lines))).translate(_RESTORED_SPACE)

    def _inline_pieces(self, node: Any) -> Iterator[str]:
        yield _collapse_space(node.text)
        joint = " " if elements.holds_values(node) else ""
        for part in node:
            yield from self._inline_piece(part, elements.local_name(part))
            yield joint
            yield _collapse_space(part.tail)

    def _inline_piece(self, part: Any, name: str) -> Iterator[str]:
        if name in elements.TABLE_NAMES and (rows := markup_tables.read_rows(part, self.cell)):
            yield f"\n{_protect_space(grids.grid_markdown(rows))}\n"
        elif name in elements.LIST_NAMES:
            yield "\n" + _protect_space("\n".join(self._list_items(part, 0))) + "\n"
        elif name in elements.BREAK_NAMES:
            yield "\n"
        elif name in _SCRIPT_FORMS and (len(part) or (part.text or "").strip()):
            yield from self._script_text(part, name)
        elif name in elements.STYLED_NAMES and (form := elements.styled_form(part)):
            yield form.mark("".join(self._nested_pieces(part)).strip())
        elif name == "citerefentry":
            yield markup_synopses.page_reference(part)
        elif name == "xref" and not len(part) and not (part.text or "").strip():
            yield self._referred_title(part)
        elif name in elements.NOTE_NAMES:
            if words := " ".join(self._inline_text(part).split()):
                self._notes.append(f"Footnote: {words}")
        elif name not in elements.SKIPPED_NAMES and not self._is_binary(part):
            edge = "\n" if name in elements.BLOCK_NAMES else ""
            yield edge
            yield from self._nested_pieces(part)
            yield edge

    def _referred_title(self, part: Any) -> str:
        """Return the title of a reference's target section, else the target's name."""
        target = part.get("linkend") or part.get("href", "").removeprefix("#")
        return self._titles.get(target) or target

    @cached_property
    def _is_data(self) -> bool:
        return next(self._root.iter(*elements.TEXT_TAGS), None) is None

    def _values(self, part: Any) -> str:
        return elements.attribute_values(part) if part.attrib and self._is_data else ""

    @cached_property
    def _titles(self) -> dict[str, str]:
        names = (f"{{{_XML_NAMESPACE}}}id", "id")
        parts = ((next(filter(None, map(part.get, names)), ""), part) for part in self._root.iter(etree.Element))
        titles = ((name, part.get("xreflabel") or part.findtext("{*}title", "")) for name, part in parts if name)
        return {name: " ".join(title.split()) for name, title in titles}

    def _nested_pieces(self, part: Any) -> Iterator[str]:
        if self._depth >= _MAX_DEPTH:
            yield " ".join(part.itertext())
            return
        self._depth += 1
        yield from self._inline_pieces(part)
        self._depth -= 1

    def _script_text(self, part: Any, name: str) -> Iterator[str]:
        """Return superscripts, subscripts and fractions in one line."""
        texts = ["".join(self._nested_pieces(child)).strip() for child in part] if name.startswith("m") else []
        if name == "mfrac" and len(texts) == 2:
            yield inline_forms.fraction(*texts)
        elif len(texts) > 1:
            yield texts[0]
            yield from (form.mark(text) for form, text in zip(_SCRIPT_FORMS[name], texts[1:], strict=False))
        else:
            words = "".join(self._nested_pieces(part)).strip()
            yield (
                f"√({words})"
                if name == "msqrt"
                else _SCRIPT_FORMS[name][0].mark(words)
                if _SCRIPT_FORMS[name]
                else words
            )

    def _list_items(self, node: Any, level: int) -> Iterator[str]:
        is_ordered = elements.local_name(node) in elements.ORDERED_LIST_NAMES or any(
            node.get(name, "").startswith("order") for name in ("list-type", "type")
        )
        number = 0
        lines = []
        for part in node:
            if elements.local_name(part) in elements.TITLE_NAMES and (words := self._inline_text(part)):
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
            if words := self._item_words(part):
                number += 1
                mark = f"{number}." if is_ordered else "-"
                lines.append(f"{'  ' * level}{mark} {words}")
            self._depth += 1
            for child in nested:
                is_shown = self._depth < _MAX_DEPTH
                lines += (
                    self._list_items(child, level + 1) if is_shown else [" ".join(" ".join(child.itertext()).split())]
                )
            self._depth -= 1
        yield from ["\n".join(lines)] if lines else []

    def _item_words(self, part: Any) -> str:
        """Return the text of an item; of a name and a text, with a colon between."""
        first = part[0] if len(part) and elements.local_name(part) in elements.ENTRY_NAMES else None
        name = "" if first is None else " ".join(self._inline_text(first).split())
        if first is None or not name:
            return " ".join(self._inline_text(part).split())
        elements.detach_element(first)
        words = " ".join(self._inline_text(part).split())
        return f"{name.rstrip(':')}: {words}" if words else name

    def _write_table(self, part: Any, rows: list[list[grids.Cell]]) -> None:
        titles = (child for child in part if elements.local_name(child) in (*elements.TITLE_NAMES, "caption"))
        captions = [words for child in titles if (words := self._inline_text(child))]
        self._write_paragraphs([f"{self._pending_label()} {' '.join(captions)}".strip()] if captions else [])
        text = grids.grid_markdown(rows)
        self._write_paragraphs([text] if text else [])

    def cell(self, node: Any) -> str:
        return " ".join(self._inline_text(node).split())


def _collapse_space(text: str | None) -> str:
    return text.replace("\n", " ") if text else ""


def _protect_space(markdown: str) -> str:
    """Protect line ends and indents from the collapse of white space."""
    return markdown.replace("\n", "\0").replace("  ", "\x01")
