"""Convert presentations before 2007 (PPT, [MS-PPT]) slide by slide, with shapes in reading order."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from connectors.parsers import detect
from connectors.parsers.detect import Kind
from connectors.parsers.document import Document, damaged_file, strip_invisible
from connectors.parsers.formats import blocks, grids
from connectors.parsers.formats.blocks import Bounds
from connectors.parsers.formats.containers.ledger import DAMAGE_ERRORS
from connectors.parsers.messages import Task
from retrieval.errors import Skippable

_SLIDE_ATOM, _PERSIST_ATOM, _DRAWING_CONTAINER, _SLIDE_LIST = 1007, 1011, 1036, 4080
_PLACEHOLDER_ATOM, _OUTLINE_REF, _TEXT_HEADER, _TEXT_CHARACTERS, _TEXT_BYTES, _FOOTERS, _STRING_ATOM, _TEXT_STYLE = (
    3011,
    3998,
    3999,
    4000,
    4008,
    4057,
    4026,
    4001,
)
_GROUP_CONTAINER, _SHAPE_CONTAINER, _FRAME_ATOM, _CHILD_ANCHOR, _SHAPE_OPTIONS, _MORE_OPTIONS = (
    0xF003,
    0xF004,
    0xF010,
    0xF00F,
    0xF00B,
    0xF122,
)
# Property of a group of shapes that forms a table.
_TABLE_PROPERTY = 0x039F
# Placeholder types: titles, and dates, numbers and pictures of slides.
_TITLE_PLACEHOLDERS, _FURNITURE_PLACEHOLDERS = frozenset({13, 15, 17}), frozenset({7, 8, 9, 10, 11})
# Text types: titles, and texts with bulleted paragraphs.
_TITLE_TEXTS, _BULLETED_TEXTS = frozenset({0, 6}), frozenset({1, 7, 8})
_TABS_BEFORE, _TAB_STOPS = 0x8000, 0x100000
# Paragraph style fields in order ([MS-PPT] 2.9.20): mask bits and size.
_STYLE_FIELDS = (
    (0xF, 2), (0x80, 2), (0x10, 2), (0x40, 2), (0x20, 4), (0x800, 2), (0x1000, 2), (0x2000, 2), (0x4000, 2), (0x100, 2),
    (0x400, 2), (_TABS_BEFORE, 2), (0x10000, 2), (0xE0000, 2), (0x200000, 2),
)  # fmt: skip
_MAX_DEPTH = 30
# Storage with the slides of PowerPoint 97 in files which PowerPoint 95 opens too.
_DUAL_STORAGE = "PP97_DUALSTORAGE/"
_POWERPOINT_95 = (
    "Presentations of PowerPoint 95 are not read. "
    "Open it in PowerPoint or LibreOffice, save it as PPTX and upload that."
)
# Year of an unset date.
_UNSET_YEAR = 1601


@dataclass(frozen=True, slots=True)
class _Record:
    """Record of the file: type, instance and content."""

    kind: int
    instance: int
    data: bytes

    def inner(self) -> Iterator[_Record]:
        yield from _parse_records(self.data)

    def first_record(self, kind: int) -> _Record | None:
        return next((record for record in self.inner() if record.kind == kind), None)

    def find_records(self, *kinds: int, depth: int = 0) -> Iterator[_Record]:
        """Yield records of these types at any depth."""
        for record in self.inner():
            if record.kind in kinds:
                yield record
            elif record.instance & 0x10000 and depth < _MAX_DEPTH:
                yield from record.find_records(*kinds, depth=depth + 1)


def _parse_records(data: bytes) -> Iterator[_Record]:
    at = 0
    while at + 8 <= len(data):
        version, kind, size = struct.unpack_from("<HHI", data, at)
        container = 0x10000 if version & 0xF == 0xF else 0
        yield _Record(kind, version >> 4 | container, data[at + 8 : at + 8 + size])
        at += 8 + size


def read_document(kind: Kind, path: Path, _task: Task) -> Document:
    """Return the slides as Markdown pages. Skippable if damaged."""
    import olefile

    try:
        with olefile.OleFileIO(str(path)) as file:
            folder = _DUAL_STORAGE if file.exists(f"{_DUAL_STORAGE}PowerPoint Document") else ""
            if not folder and file.exists("Text_Content"):
                raise Skippable(_POWERPOINT_95)
            with (
                file.openstream(f"{folder}Current User") as user,
                file.openstream(f"{folder}PowerPoint Document") as stream,
            ):
                slides = list(_Deck(stream.read(), struct.unpack_from("<I", user.read(), 16)[0]).slides())
            about = file.get_metadata()
    except (*DAMAGE_ERRORS, StopIteration) as error:
        raise damaged_file(kind) from error
    text, pages = "", []
    for slide in slides:
        pages.append(len(text))
        text += f"{slide}\n\n" if slide else ""
    document = Document(text, pages=tuple(pages), page_count=len(slides))
    moments = (about.create_time, about.last_saved_time)
    dates = [moment.isoformat() if moment and moment.year > _UNSET_YEAR else "" for moment in moments]
    return replace(
        document,
        title=_decode_property(about.title, about.codepage),
        author=_decode_property(about.author, about.codepage),
        created_at=dates[0],
        modified_at=dates[1],
    )


def _decode_property(value: bytes | str | None, code_page: int | None) -> str:
    if isinstance(value, str):
        return value.strip("\0 ")
    codec = "utf-8" if code_page in (None, 65001) else f"cp{code_page & 0xFFFF}"
    try:
        return (value or b"").decode(codec, "replace").strip("\0 ")
    except LookupError:
        return ""


class _Deck:
    """Records of a presentation by number; each save may replace some."""

    def __init__(self, data: bytes, edit: int) -> None:
        self._data = data
        self._places: dict[int, int] = {}
        self._footers: set[str] = set()
        number, visited = 0, set[int]()
        while edit and edit not in visited:
            visited.add(edit)
            previous_edit, directory, document = struct.unpack_from("<III", data, edit + 16)
            number = number or document
            entries = next(_parse_records(data[directory:])).data
            at = 0
            while at + 4 <= len(entries):
                (head,) = struct.unpack_from("<I", entries, at)
                places = struct.unpack_from(f"<{head >> 20}I", entries, at + 4)
                for offset, position in enumerate(places):
                    self._places.setdefault((head & 0xFFFFF) + offset, position)
                at += 4 + 4 * len(places)
            edit = previous_edit
        self._lists = {
            record.instance & 0xFFFF: record
            for record in self._find_record(number).inner()
            if record.kind == _SLIDE_LIST
        }

    def _find_record(self, number: int) -> _Record:
        return next(_parse_records(self._data[self._places[number] :]))

    def slides(self) -> Iterator[str]:
        notes = {slide: number for number, slide, _ in self._slide_texts(2)}
        for at, (number, _, texts) in enumerate(self._slide_texts(0), 1):
            slide = self._find_record(number)
            blocks = _slide_blocks(slide, texts)
            footers = (
                record for part in slide.inner() if part.kind == _FOOTERS for record in part.find_records(_STRING_ATOM)
            )
            for words in (_decode_utf16(record.data) for record in footers if record.instance == 2):
                blocks += [words] if words not in self._footers else []
                self._footers.add(words)
            atom = slide.first_record(_SLIDE_ATOM)
            (noted,) = struct.unpack_from("<I", atom.data, 16) if atom else (0,)
            if noted in notes and (
                words := "\n".join(_slide_blocks(self._find_record(notes[noted]), [], titled=False))
            ):
                blocks.append(f"Notes on slide {at}: {words}")
            yield strip_invisible("\n\n".join(blocks))

    def _slide_texts(self, instance: int) -> Iterator[tuple[int, int, list[tuple[int, str]]]]:
        """Return number, id and texts of each slide or notes page, in order."""
        entry: tuple[int, int, list[tuple[int, str]]] | None = None
        for record in self._lists[instance].inner() if instance in self._lists else ():
            if record.kind == _PERSIST_ATOM:
                if entry:
                    yield entry
                entry = (*struct.unpack_from("<I8xI", record.data), [])
            elif entry:
                _add_text(entry[2], record)
        if entry:
            yield entry


def _add_text(texts: list[tuple[int, str]], record: _Record) -> None:
    """Append a text record: the type of the next text, or its letters."""
    if record.kind == _TEXT_HEADER:
        texts.append((struct.unpack_from("<I", record.data)[0], ""))
    elif record.kind in (_TEXT_CHARACTERS, _TEXT_BYTES) and texts:
        text = _decode_utf16(record.data) if record.kind == _TEXT_CHARACTERS else record.data.decode("latin-1")
        texts[-1] = texts[-1][0], text


def _decode_utf16(data: bytes) -> str:
    return data.decode("utf-16-le", "replace")


def _slide_blocks(slide: _Record, outline: list[tuple[int, str]], *, titled: bool = True) -> list[str]:
    """Return the title and other texts of a slide in reading order."""
    drawing = slide.first_record(_DRAWING_CONTAINER)
    root = None if drawing is None else next(drawing.find_records(_GROUP_CONTAINER), None)
    titles: list[str] = []
    items: list[blocks.Boxed] = []
    for part in () if root is None else root.inner():
        if part.kind == _GROUP_CONTAINER:
            items += _group_text(part, outline)
        elif part.kind == _SHAPE_CONTAINER:
            kind, text = _shape_text(part, outline)
            if kind in _TITLE_TEXTS and text and titled:
                titles.append(f"## {detect.one_line(text)}")
            elif text:
                items.append((text, _shape_bounds(part)))
    return titles + blocks.order_boxes(items)


def _group_text(group: _Record, outline: list[tuple[int, str]], depth: int = 0) -> list[blocks.Boxed]:
    """Return the text of a group, as a table if marked, and its bounds."""
    parts = list(group.inner())
    shapes = [part for part in parts if part.kind == _SHAPE_CONTAINER]
    if not shapes or depth > _MAX_DEPTH:
        return []
    frame, *shapes = shapes
    texts = [(_shape_text(shape, outline)[1], _shape_bounds(shape)) for shape in shapes]
    if _is_table_group(frame):
        text = _table_markdown(texts)
    else:
        inner = [
            item for part in parts if part.kind == _GROUP_CONTAINER for item in _group_text(part, outline, depth + 1)
        ]
        text = "\n\n".join(blocks.order_boxes([item for item in texts if item[0]] + inner))
    return [(text, _shape_bounds(frame))] if text else []


def _is_table_group(frame: _Record) -> bool:
    for options in frame.inner():
        if options.kind in (_SHAPE_OPTIONS, _MORE_OPTIONS):
            entries = struct.iter_unpack("<HI", options.data[: 6 * (options.instance & 0xFFFF)])
            if any(entry & 0x3FFF == _TABLE_PROPERTY for entry, _ in entries):
                return True
    return False


def _table_markdown(cells: list[blocks.Boxed]) -> str:
    """Render cells by rows of equal top edge."""
    cells = [
        (text, (start, top, right, bottom))
        for text, (start, top, right, bottom) in cells
        if start < right and top < bottom
    ]
    lefts, tops = sorted({bounds[0] for _, bounds in cells}), sorted({bounds[1] for _, bounds in cells})
    rows: list[list[grids.Cell]] = [[] for _ in tops]
    for text, (start, top, right, bottom) in sorted(cells, key=lambda cell: (cell[1][1], cell[1][0])):
        height = sum(top <= line < bottom for line in tops)
        width = sum(start <= line < right for line in lefts)
        rows[tops.index(top)].append((" ".join(text.split()), height, width))
    return grids.grid_markdown(rows)


def _letter_bullets(style: bytes, letters: int) -> Iterator[tuple[bool | None, int]]:
    """Return per letter the paragraph's bullet flag (None: by text type) and level."""
    at, read = 0, 0
    while at + 10 <= len(style) and read <= letters:
        count, level, mask = struct.unpack_from("<IHI", style, at)
        at += 10
        flags = struct.unpack_from("<H", style, at)[0] if mask & 0xF else 0
        for bits, size in _STYLE_FIELDS:
            at += size if mask & bits else 0
            if bits == _TABS_BEFORE and mask & _TAB_STOPS:
                at += 2 + 4 * int(struct.unpack_from("<H", style, at)[0])
        read += count
        yield from [(bool(flags & 1) if mask & 1 else None, level)] * min(count, letters + 1)


def _shape_text(shape: _Record, outline: list[tuple[int, str]]) -> tuple[int, str]:
    """Return type and letters of a shape's text, inline or from the outline."""
    placeholder = next(shape.find_records(_PLACEHOLDER_ATOM), None)
    kind = placeholder.data[4] if placeholder else 0
    if kind in _FURNITURE_PLACEHOLDERS:
        return -1, ""
    texts: list[tuple[int, str]] = []
    style = b""
    for record in shape.find_records(_TEXT_HEADER, _TEXT_CHARACTERS, _TEXT_BYTES, _OUTLINE_REF, _TEXT_STYLE):
        style = style or record.data * (record.kind == _TEXT_STYLE)
        if record.kind == _OUTLINE_REF:
            (at,) = struct.unpack_from("<I", record.data)
            texts += outline[at : at + 1]
        _add_text(texts, record)
    text_type, text = texts[0] if texts else (-1, "")
    try:
        bullets = list(_letter_bullets(style, len(text)))
    except struct.error:
        bullets = []
    lines, position = [], 0
    for line in () if text == "*" else text.split("\r"):  # "*" stands for the number of the slide
        marked, level = bullets[position] if position < len(bullets) else (None, 0)
        position += len(line) + 1
        mark = "  " * level + "- " if marked or (marked is None and text_type in _BULLETED_TEXTS) else ""
        lines += [mark + words] if (words := " ".join(line.split())) else []
    return 0 if kind in _TITLE_PLACEHOLDERS else text_type, "\n".join(lines)


def _shape_bounds(shape: _Record) -> Bounds:
    for record in shape.inner():
        if record.kind == _CHILD_ANCHOR and len(record.data) >= 16:
            start, top, right, bottom = struct.unpack_from("<4i", record.data)
            return start, top, right, bottom
        if record.kind == _FRAME_ATOM and len(record.data) >= 8:
            top, start, right, bottom = struct.unpack_from("<4i" if len(record.data) >= 16 else "<4h", record.data)
            return start, top, right, bottom
    return blocks.NOWHERE
