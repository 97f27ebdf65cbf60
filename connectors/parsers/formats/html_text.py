"""Convert HTML to Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.parsers import detect, inline_forms
from connectors.parsers.detect import Kind
from connectors.parsers.document import Document, strip_invisible
from connectors.parsers.formats import html_fields, shown_elements
from connectors.parsers.formats.blocks import write_number
from connectors.parsers.formats.grids import MAX_SPAN, Cell, grid_markdown
from connectors.parsers.formats.html_fields import number_attribute
from connectors.parsers.formats.mathml import formula_line
from connectors.parsers.inline_forms import Form, write_forms
from connectors.parsers.messages import Task
from retrieval.errors import Skippable

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode


_SILENT_TAGS = frozenset(
    (
        "script", "style", "template", "head", "title", "noscript", "video", "audio", "canvas",
        "defs", "desc", "metadata", "annotation", "annotation-xml", "rp", "object", "iframe", "datalist",
    )
)  # fmt: skip
_BLOCK_TAGS = frozenset(
    (
        "p", "div", "section", "article", "main", "header", "footer", "aside", "nav", "address", "figure", "figcaption",
        "details", "summary", "form", "fieldset", "legend", "dl", "dt", "center", "body", "html", "caption", "hgroup",
        "tbody", "thead", "tfoot", "menu", "dir", "search", "dialog", "text",
    )
)  # fmt: skip
_HEADING_TAGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_LIST_TAGS = frozenset(("ul", "ol", "menu", "dir"))
_FRAME_TAGS = _HEADING_TAGS | _LIST_TAGS | {"li", "table", "tr", "td", "th", "pre", "blockquote"}
_FIELD_TAGS = frozenset(("button", "input", "textarea"))
_TAG_FORMS = {
    "sup": inline_forms.RAISED, "sub": inline_forms.LOWERED,
    "s": inline_forms.STRUCK, "strike": inline_forms.STRUCK, "del": inline_forms.STRUCK,
}  # fmt: skip
_STYLE_FORMS = re.compile(
    r"vertical-align\s*:\s*(?:(super)|sub)\b|text-decoration[\w-]*\s*:[^;]*line-(through)", re.IGNORECASE
)
_ROW_GROUPS = {"thead": 0, "tfoot": 2}
_NUMBER_FORMS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
# Inline formatting ends at this nesting depth; deeper elements become blocks.
_MAX_INLINE_DEPTH = 60
_SPACE_PATTERN = re.compile(r"[ \t\n\r\f]+")
_BLANKS_PATTERN = re.compile("  +")
_BREAK_PATTERN = re.compile(r" ?\n ?")


@dataclass(slots=True)
class _Block:
    """Piece of Markdown, in block form and in one line for table cells."""

    text: str
    line: str
    # Explicit number of a list item; 0 without one.
    number: int = 0


@dataclass(slots=True)
class _Frame:
    """Open element with its finished blocks and the words of the current paragraph."""

    node: LexborNode
    kind: str
    blocks: list[_Block] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    rows: list[list[tuple[_Frame, Cell]]] = field(default_factory=list)
    # Comments of LibreOffice, which follow the table of their cell.
    comments: list[str] = field(default_factory=list)

    def flush(self) -> None:
        text = write_forms("".join(self.words))
        text = (
            text.strip("\n") if self.kind == "pre" else _BREAK_PATTERN.sub("\n", _BLANKS_PATTERN.sub(" ", text)).strip()
        )
        self.words.clear()
        if text:
            self.blocks.append(_Block(text, text))

    def line(self) -> str:
        return " ".join(block.line for block in self.blocks)

    def nested(self) -> list[_Block]:
        """Return the multi-row tables in a cell."""
        return [block for block in self.blocks if block.text.startswith("|") and block.text.count("\n") > 1]


def read_html(_kind: Kind, path: Path, task: Task) -> Document:
    return page_markdown(detect.text_of(path.read_bytes(), task.media_type, markup=True))


def page_markdown(source: str) -> Document:
    """Return a page as Markdown with its title as first heading, unless present."""
    parsed = _parse_html(source)
    if frames := [node.attributes.get("src") or "" for node in parsed.css("frameset frame[src]")]:
        raise Skippable(
            f"The page is a frame set without text of its own. Upload its pages: {', '.join(frames)[:500]}."
        )
    warnings = tuple(shown_elements.keep_shown(parsed))
    head, html = parsed.css_first("head > title"), parsed.css_first("html")
    title = "" if head is None else detect.one_line(head.text())
    text = "" if parsed.body is None else html_markdown(parsed.body)
    if title and detect.first_heading(text) != title:
        text = f"# {title}\n\n{text}"
    return Document(
        f"{text}\n", title=title, language=(html.attributes.get("lang") or "") if html else "", warnings=warnings
    )


def page_body(source: str) -> str:
    """Return the content of a page without its title."""
    parsed = _parse_html(source)
    if shown_elements.HIDING_MARKS.search(source):
        shown_elements.keep_shown(parsed)
    return "" if parsed.body is None else html_markdown(parsed.body)


def _parse_html(source: str) -> LexborHTMLParser:
    from selectolax.lexbor import LexborHTMLParser, SelectolaxError

    try:
        return LexborHTMLParser(source)
    except SelectolaxError as error:  # any text is HTML; only memory can be missing
        raise MemoryError from error


def html_markdown(root: LexborNode) -> str:
    return strip_invisible("\n\n".join(block.text for block in _Writer(root).blocks()))


class _Writer:
    """Writes the elements of a page."""

    def __init__(self, root: LexborNode) -> None:
        self._root = root
        self._frames = [_Frame(root, "root")]
        self._links: list[tuple[int, list[str], int, str]] = []
        self._forms: list[tuple[int, Form]] = []
        # Readings of the open ruby element.
        self._readings: list[str] = []

    def blocks(self) -> list[_Block]:
        # Without recursion: pages may be nested thousands of levels deep, beyond Python's limit.
        node: LexborNode | None = self._root
        while node is not None:
            entered = self._open_element(node)
            inner = node.child if entered else None
            while inner is None:
                if entered:
                    self._close_element(node)
                if node.mem_id == self._root.mem_id:
                    node = None
                    break
                inner, entered = node.next, True
                if inner is None:
                    node = node.parent or self._root
            node = inner
        first = self._frames[0]
        first.flush()
        return first.blocks + [_Block(comment, comment) for comment in first.comments]

    def _open_element(self, node: LexborNode) -> bool:
        """Open the element. Return True to read its content."""
        tag, frame = node.tag or "", self._frames[-1]
        if tag == "-text":
            text = node.text_content or ""
            text = text if frame.kind == "pre" else _SPACE_PATTERN.sub(" ", text)
            frame.words.append(self._current_form().mark(text) if self._forms else text)
            return False
        if tag in _SILENT_TAGS or tag.startswith(("-", "!")):
            return False
        attributes = node.attributes
        if tag == "comment":
            words = " ".join((node.text() or "").split())
            frame.comments += [f"Comment: {words}"] if words else []
            return False
        if tag in _ONE_LINE_HANDLERS:
            frame.words.append(_ONE_LINE_HANDLERS[tag](node))
            return False
        if tag == "rt":
            self._readings.append(node.text())
            return False
        if form := _element_form(tag, attributes):
            self._forms.append((node.mem_id, form | self._forms[-1][1] if self._forms else form))
        if tag in _FRAME_TAGS:
            frame.flush()
            if len(self._frames) < _MAX_INLINE_DEPTH:
                self._frames.append(_Frame(node, tag))
        elif tag in _BLOCK_TAGS:
            frame.flush()
        elif tag in ("br", "dd"):
            frame.words.append("\n")
        elif tag == "hr":
            frame.flush()
            frame.blocks.append(_Block("---", ""))
        else:
            self._open_inline(node, tag, attributes)
        return True

    def _open_inline(self, node: LexborNode, tag: str, attributes: dict[str, str | None]) -> None:
        frame = self._frames[-1]
        if tag == "img":
            words = " ".join((attributes.get("alt") or "").split())
            # Images of signs, such as emoji and stars, are read as text.
            frame.words.append(inline_forms.picture(words) if any(map(str.isalpha, words)) else words)
        elif tag == "a":
            self._links.append((node.mem_id, frame.words, len(frame.words), attributes.get("href") or ""))
        elif tag in _FIELD_TAGS:
            frame.words.append(html_fields.field_text(tag, attributes))

    def _current_form(self) -> Form:
        """Return the form of the following text; a superscript link into the page is a note mark."""
        form = self._forms[-1][1]
        is_note = form.script > 0 and self._links and self._links[-1][3].startswith("#")
        return replace(form, note=True) if is_note else form

    def _close_element(self, node: LexborNode) -> None:
        tag, frame = node.tag, self._frames[-1]
        if self._forms and self._forms[-1][0] == node.mem_id:
            self._forms.pop()
        if tag == "a" and self._links and self._links[-1][0] == node.mem_id:
            _, words, start, address = self._links.pop()
            text = "".join(words[start:]).strip()
            if words is frame.words and text and address.startswith(("http:", "https:")) and "\n" not in text:
                words[start:] = [f"[{text}]({address})" if address != text else text]
        elif tag in _FRAME_TAGS and len(self._frames) > 1 and frame.node.mem_id == node.mem_id:
            frame.flush()
            self._frames.pop()
            _CLOSE_HANDLERS.get(frame.kind, _close_heading)(frame, self._frames[-1])
            self._frames[-1].comments += frame.comments
        elif tag in _BLOCK_TAGS or tag in _FRAME_TAGS:
            frame.flush()
        elif tag == "ruby":
            frame.words.append(inline_forms.reading(*self._readings))
            self._readings.clear()
        elif tag in _FIELD_TAGS:
            frame.words.append(" ")


_ONE_LINE_HANDLERS: dict[str, Callable[[LexborNode], str]] = {"math": formula_line, "select": html_fields.shown_options}


def _element_form(tag: str, attributes: dict[str, str | None]) -> Form | None:
    form = _TAG_FORMS.get(tag)
    if form or "style" not in attributes or not (match := _STYLE_FORMS.search(attributes["style"] or "")):
        return form
    if match[2]:
        return inline_forms.STRUCK
    # In a table cell, vertical-align places the whole block.
    return (
        None if tag in _FRAME_TAGS or tag in _BLOCK_TAGS else inline_forms.RAISED if match[1] else inline_forms.LOWERED
    )


def _close_heading(frame: _Frame, above: _Frame) -> None:
    if line := frame.line().replace("\n", " "):
        above.blocks.append(_Block(f"{'#' * int(frame.kind[1])} {line}", line))


def _close_item(frame: _Frame, above: _Frame) -> None:
    above.blocks += frame.blocks if above.kind not in _LIST_TAGS else []
    if above.kind in _LIST_TAGS and frame.blocks:
        number = number_attribute(frame.node, "value", 0)
        above.blocks.append(_Block("\n".join(block.text for block in frame.blocks), frame.line(), number))


def _close_list(frame: _Frame, above: _Frame) -> None:
    backwards, form = (
        "reversed" in frame.node.attributes,
        _NUMBER_FORMS.get(frame.node.attributes.get("type") or "", ""),
    )
    number = number_attribute(frame.node, "start", len(frame.blocks) if backwards else 1)
    for item in frame.blocks:
        number = item.number or number
        mark = f"{write_number(number, form)}." if frame.kind == "ol" else "-"
        number += -1 if backwards else 1
        first, *following = item.text.split("\n")
        item.text = "\n".join([f"{mark} {first}", *(f"{' ' * (len(mark) + 1)}{line}" for line in following)])
        item.line = f"{mark} {item.line}"
    if frame.blocks:
        above.blocks.append(_Block("\n".join(item.text for item in frame.blocks), frame.line()))


def _close_code(frame: _Frame, above: _Frame) -> None:
    text = "\n".join(block.text for block in frame.blocks)
    if text:
        above.blocks.append(_Block(f"```\n{text}\n```", text.replace("\n", " ")))


def _close_quote(frame: _Frame, above: _Frame) -> None:
    text = "\n\n".join(block.text for block in frame.blocks)
    if text:
        above.blocks.append(_Block("\n".join(f"> {line}".rstrip() for line in text.split("\n")), frame.line()))


def _close_cell(frame: _Frame, above: _Frame) -> None:
    apart = frame.nested() if above.kind == "tr" else []
    line = "\n".join(block.line for block in frame.blocks if block not in apart)
    cell = (line, _row_span(frame.node), number_attribute(frame.node, "colspan", 1))
    frame.comments = [f"Comment on {' '.join(line.split())}:{words[8:]}" if line else words for words in frame.comments]
    if above.kind == "tr":
        above.rows.append([(frame, cell)])
    else:
        above.blocks += frame.blocks


def _row_span(cell: LexborNode) -> int:
    """Return the number of rows of a cell; 0 in the file is all rows of its group."""
    if rows := number_attribute(cell, "rowspan", 1):
        return rows
    row = cell.parent
    while row is not None and rows < MAX_SPAN:
        rows += row.tag == "tr"
        row = row.next
    return rows


def _close_row(frame: _Frame, above: _Frame) -> None:
    above.blocks += frame.blocks  # of cells that are nested too deep
    if above.kind == "table":
        above.rows.append([cell for cells in frame.rows for cell in cells])
    else:
        above.blocks += [block for cells in frame.rows for cell, _ in cells for block in cell.blocks]


def _close_table(frame: _Frame, above: _Frame) -> None:
    above.blocks += frame.blocks  # its caption
    if _is_layout_table(frame):
        above.blocks += [block for row in frame.rows for cell, _ in row for block in cell.blocks]
        return
    # Groups are shown in this order, wherever they stand.
    frame.rows.sort(key=lambda row: _ROW_GROUPS.get(_group_tag(row), 1))
    header_rows = sum(1 for _ in takewhile(_names_columns, frame.rows))
    rows = [[cell for _, cell in row] for row in frame.rows]
    if text := grid_markdown(rows, _nested_tables(frame), header_rows=header_rows):
        line = " ".join(cell[0] for row in frame.rows for _, cell in row if cell[0])
        above.blocks.append(_Block(text, " ".join(line.split())))
    above.blocks += [_Block(comment, comment) for comment in frame.comments]
    frame.comments = []


def _names_columns(row: list[tuple[_Frame, Cell]]) -> bool:
    """Check for a row of column headers; if all are tall, they name rows instead."""
    is_tall = bool(row) and all(height > 1 for _, (_, height, _) in row)
    return not is_tall and all(cell.kind == "th" for cell, _ in row)


def _group_tag(row: list[tuple[_Frame, Cell]]) -> str:
    line = row[0][0].node.parent if row else None
    return (line.parent.tag or "") if line is not None and line.parent is not None else ""


def _nested_tables(table: _Frame) -> dict[int, list[str]]:
    """Return nested tables by row number, each under the name of its cell or row."""
    nested: dict[int, list[str]] = {}
    for at, row in enumerate(table.rows):
        for frame, (text, _, _) in row:
            for block in frame.nested():
                name = " ".join((text or next((words for _, (words, _, _) in row if words), "")).split())
                nested.setdefault(at, []).extend([f"{name}:" if name else "", block.text])
    return nested


def _is_layout_table(table: _Frame) -> bool:
    """Check for a layout table, as in e-mails."""
    if table.node.attributes.get("role") in ("presentation", "none"):
        return True
    cells = [cell for row in table.rows for cell, _ in row]
    if any(cell.kind == "th" for cell in cells):
        return False
    if max(map(len, table.rows), default=0) < 2:
        return True
    if not any(block.text.startswith(("|", "#")) for cell in cells for block in cell.blocks):
        return False
    plain_rows = sum(sum(map(_is_plain_cell, (cell for cell, _ in row))) > 1 for row in table.rows)
    return 2 * plain_rows < len(table.rows)


def _is_plain_cell(cell: _Frame) -> bool:
    return len(cell.blocks) == 1 and not cell.blocks[0].text.startswith(("|", "#"))


_CLOSE_HANDLERS: dict[str, Callable[[_Frame, _Frame], None]] = {
    "li": _close_item, "ul": _close_list, "ol": _close_list, "menu": _close_list, "dir": _close_list,
    "pre": _close_code, "blockquote": _close_quote, "td": _close_cell, "th": _close_cell, "tr": _close_row,
    "table": _close_table,
}  # fmt: skip
