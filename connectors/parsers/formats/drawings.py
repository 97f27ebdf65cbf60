"""Read the title, description and visible texts of SVG drawings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from lxml import etree

from connectors.parsers import inline_forms
from connectors.parsers.document import Document, NoText, strip_invisible
from connectors.parsers.formats import html_text
from connectors.parsers.formats import markup_elements as elements
from connectors.parsers.formats.blocks import Bounds, Boxed

ROOT_NAME: Final = "svg"
_UNDRAWN_NAMES: Final = frozenset((
    "defs", "symbol", "clippath", "mask", "pattern", "marker", "metadata", "script", "style", "title", "desc", "filter",
    "font", "glyph", "lineargradient", "radialgradient", "namedview",
))  # fmt: skip
_HIDING_STYLE: Final = re.compile(
    r"(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|(?<![-\w])opacity\s*:\s*(?:0+(?:\.0*)?|\.0+)\s*(?:;|$))"
)
_CLASS_PATTERN: Final = re.compile(r"(?:^|,)\s*\w*([.#][\w-]+)\s*(?=,|$)")
_TRANSFORM_PATTERN: Final = re.compile(r"(matrix|translate|scale|rotate)\s*\(([^()]{0,400})\)")
_NUMBER_PATTERN: Final = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_FONT_SIZE: Final = re.compile(r"(\d{0,9}\.?\d{1,9})(?=px|pt|em|mm|\s*$)")
_MAX_FONT_LENGTH: Final = 200
# Width of a letter, in heights.
_LETTER_WIDTH: Final = 0.52
_WORD_GAP: Final = 0.2
_USUAL_SIZE: Final = 16.0
# Elements drawn by `use` beyond those of the file.
_MAX_COPIES: Final = 100_000
_PAGE_PLACES: Final = (
    ("x", re.compile(r"margin-left\s*:\s*(\d+(?:\.\d+)?)px")),
    ("y", re.compile(r"padding-top\s*:\s*(\d+(?:\.\d+)?)px")),
)
# Classes of LibreOffice.
_SLIDE_CLASS, _PARAGRAPH_CLASS = "Slide", "TextParagraph"
_REMEDY: Final = "Export it as PNG and upload that with the OCR strategy STANDARD_OCR."
# Coefficients a to f of an affine transform.
_Matrix = tuple[float, float, float, float, float, float]
_IDENTITY: Final[_Matrix] = (1, 0, 0, 1, 0, 0)


def read_document(root: Any) -> Document:
    """Return the texts of a drawing in reading order. NoText without any."""
    title, description = (_own_text(root, name) for name in ("title", "desc"))
    drawing = _Drawing(root)
    main = [*drawing.texts()]
    pages = ["\n".join(_ordered(texts)) for texts in (main, *drawing.slides)]
    lines = [f"# {title}" if title else "", description, *pages]
    text = strip_invisible("\n\n".join(filter(None, lines)))
    if not any(map(str.isalnum, text)):
        raise NoText(f"The file holds no text: the SVG drawing consists of shapes. {_REMEDY}")
    pictures = ("Not read: pictures within the drawing.",) if _holds_pictures(root) else ()
    copies = (f"Not read: copies of parts of the drawing beyond {_MAX_COPIES:,}.",) if drawing.is_cut else ()
    return Document(f"{text}\n", title=title, warnings=pictures + copies)


def _stack_lines(texts: Iterable[Boxed]) -> Iterator[Boxed]:
    """Join texts of a group that stand under each other, such as the lines of a label."""
    block: Boxed | None = None
    for text, box in texts:
        if block is not None and _is_next_line(block[1], box, text):
            above = block[1]
            block = f"{block[0]}\n{text}", (min(above[0], box[0]), above[1], max(above[2], box[2]), box[3])
            continue
        if block is not None:
            yield block
        block = text, box
    if block is not None:
        yield block


def _is_next_line(above: Bounds, below: Bounds, text: str) -> bool:
    height = (below[3] - below[1]) / (text.count("\n") + 1)
    is_below = -0.3 * height < below[1] - above[3] < 0.5 * height
    return (
        is_below and abs(above[0] + above[2] - below[0] - below[2]) < max(above[2] - above[0], below[2] - below[0]) / 2
    )


def _ordered(texts: list[Boxed]) -> Iterator[str]:
    """Yield texts from the top; texts of a row are joined to a line."""
    row: list[Boxed] = []
    for text in sorted(dict.fromkeys(texts), key=lambda item: (item[1][1] + item[1][3], item[1][0])):
        if row and ("\n" in row[-1][0] + text[0] or not _is_same_row(row[-1][1], text[1])):
            yield _join_row(row)
            row = []
        row.append(text)
    yield _join_row(row)


def _join_row(row: list[Boxed]) -> str:
    return " | ".join(text for text, _ in sorted(row, key=lambda item: item[1][0]))


def _is_same_row(first: Bounds, second: Bounds) -> bool:
    lower_height = min(first[3] - first[1], second[3] - second[1])
    return abs(first[1] + first[3] - second[1] - second[3]) < 0.8 * lower_height


def _own_text(root: Any, name: str) -> str:
    part = next((part for part in root if elements.local_name(part) == name), None)
    return "" if part is None else " ".join("".join(part.itertext()).split())


def _holds_slide(part: Any) -> bool:
    return any(child.get("class") == _SLIDE_CLASS for page in part for child in page)


def _holds_pictures(root: Any) -> bool:
    return any(elements.local_name(part) == "image" for part in root.iter(etree.Element))


class _Drawing:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._by_id = {part.get("id"): part for part in root.iter(etree.Element) if part.get("id")}
        self._hidden_by_rule = _hidden_selectors(root)
        self._elements_left = _MAX_COPIES + sum(1 for _ in root.iter(etree.Element))
        self.is_cut = False
        # Texts of each slide, which a script shows one after the other.
        self.slides: list[list[Boxed]] = []

    def texts(self) -> Iterator[Boxed]:
        yield from self._walk(self._root, _IDENTITY, _USUAL_SIZE, ())

    def _walk(self, part: Any, matrix: _Matrix, size: float, path: tuple[Any, ...]) -> Iterator[Boxed]:
        """Yield texts with their boxes. `path`: enclosing `use` elements. RecursionError for a deep drawing."""
        self._elements_left -= 1
        name = elements.local_name(part)
        if self._elements_left < 0:
            self.is_cut = True
            return
        if part.get("class") == _SLIDE_CLASS:
            texts = (self._walk(child, matrix, size, (*path, part)) for child in part)
            self.slides.append([text for texts_of_child in texts for text in texts_of_child])
            return
        if self._is_hidden(part) and not _holds_slide(part):
            return
        matrix = _multiply(matrix, _read_transform(part.get("transform", "")))
        size = _font_size(part, size)
        if name == "text":
            yield from self._read_lines(part, matrix, size)
        elif name == "foreignobject":
            page = etree.tostring(part, encoding="unicode", with_tail=False)
            # draw.io moves each page by its style.
            x, y = (
                _first_number(part, side) + sum(map(float, pattern.findall(page)[:1])) for side, pattern in _PAGE_PLACES
            )
            yield from self._place(" ".join(html_text.page_body(page).split()), x, y, matrix, size)
        elif name == "use":
            target = self._by_id.get(_target(part))
            if target is not None and target not in path:
                shift = (1, 0, 0, 1, _first_number(part, "x"), _first_number(part, "y"))
                inner = [target] if elements.local_name(target) != "symbol" else list(target)
                for child in inner:
                    yield from self._walk(child, _multiply(matrix, shift), size, (*path, target))
        elif name == "switch":
            # A viewer of any language shows the first alternative without a condition of language.
            alternative = next((child for child in part if child.get("systemLanguage") is None), None)
            yield from (
                self._walk(part[0] if alternative is None else alternative, matrix, size, (*path, part))
                if len(part)
                else ()
            )
        else:
            drawn = (
                text
                for child in part
                if elements.local_name(child) not in _UNDRAWN_NAMES
                for text in self._walk(child, matrix, size, (*path, part))
            )
            yield from _stack_lines(drawn) if name == "g" else drawn

    def _is_hidden(self, part: Any) -> bool:
        style = part.get("style", "")
        if part.get("display") == "none" or part.get("visibility") in ("hidden", "collapse"):
            return True
        if part.get("opacity") in ("0", "0.0") or (style and _HIDING_STYLE.search(style)):
            return True
        selectors = {f"#{part.get('id')}", *(f".{name}" for name in part.get("class", "").split())}
        return not self._hidden_by_rule.isdisjoint(selectors)

    def _read_lines(self, node: Any, matrix: _Matrix, size: float) -> Iterator[Boxed]:
        line = _Line(_first_number(node, "x"), _first_number(node, "y"))
        self._collect(node, line, size)
        lines = (" ".join(words.split()) for words in inline_forms.write_forms("".join(line.pieces)).split("\n"))
        yield from self._place("\n".join(filter(None, lines)), line.x, line.y, matrix, line.size or size)

    def _collect(self, node: Any, line: _Line, size: float) -> None:
        line.add(node.text, size)
        for part in node:
            name = elements.local_name(part)
            if name not in _UNDRAWN_NAMES and not self._is_hidden(part):
                inner = _font_size(part, size)
                line.move(part, size)
                form = _script_form(part)
                if form is not None:
                    line.pieces.append(form.mark("".join(part.itertext())))
                else:
                    self._collect(part, line, inner)
            line.add(part.tail, size)

    def _place(self, text: str, x: float, y: float, matrix: _Matrix, size: float) -> Iterator[Boxed]:
        if not text:
            return
        a, b, c, d, e, f = matrix
        lines = text.split("\n")
        width, bottom = size * _LETTER_WIDTH * max(map(len, lines)), y + size * (len(lines) - 1)
        corners = [(x, y - size), (x + width, y - size), (x, bottom), (x + width, bottom)]
        xs, ys = [a * x + c * y + e for x, y in corners], [b * x + d * y + f for x, y in corners]
        box = [_whole(value * 10) for value in (min(xs), min(ys), max(xs), max(ys))]
        yield text, (box[0], box[1], box[2], box[3])


class _Line:
    """Text of an element, with spaces between distant parts."""

    def __init__(self, x: float, y: float) -> None:
        self.x, self.y, self.size = x, y, 0.0
        self.pieces: list[str] = []
        self._end, self._base = x, y

    def add(self, text: str | None, size: float) -> None:
        if text:
            self.size = max(self.size, size) if text.strip() else self.size
            words = re.sub(r"\s+", " ", text)
            self.pieces.append(words)
            self._end += len(words.strip()) * size * _LETTER_WIDTH

    def move(self, part: Any, size: float) -> None:
        """Begin a part; a new line or a gap is a space."""
        is_far = part.get("x") is not None and _first_number(part, "x") - self._end > _WORD_GAP * size
        is_new_line = (
            part.get("class") == _PARAGRAPH_CLASS
            or (part.get("y") is not None and abs(_first_number(part, "y") - self._base) > size / 2)
            or (abs(_first_number(part, "dy")) > size / 2 or (part.get("dy") or "").strip().endswith("em"))
        )
        if not any(map(str.strip, self.pieces)):
            self.x = _first_number(part, "x") if part.get("x") is not None else self.x
            self.y = _first_number(part, "y") if part.get("y") is not None else self.y
        elif is_far or (is_new_line and part.get("baseline-shift") is None):
            self.pieces.append("\n" if part.get("class") == _PARAGRAPH_CLASS else " ")
        self._end = _first_number(part, "x") if part.get("x") is not None else self._end
        self._base = _first_number(part, "y") if part.get("y") is not None else self._base


def _script_form(part: Any) -> inline_forms.Form | None:
    shift = part.get("baseline-shift", "") + part.get("style", "")
    match = re.search(r"(?:^|baseline-shift\s*:\s*)(super|sub)\b", shift)
    return None if match is None else inline_forms.RAISED if match[1] == "super" else inline_forms.LOWERED


def _hidden_selectors(root: Any) -> set[str]:
    """Return the classes and ids that style sheets hide."""
    sheets = ("".join(part.itertext()) for part in root.iter(etree.Element) if elements.local_name(part) == "style")
    return {
        selector
        for sheet in sheets
        for selectors, _, style in (rule.rpartition("{") for rule in sheet.split("}"))
        if _HIDING_STYLE.search(style)
        for selector in _CLASS_PATTERN.findall(selectors.rpartition("{")[2].strip())
    }


def _target(part: Any) -> str:
    address = next((value for key, value in part.items() if key.rpartition("}")[2] == "href"), "")
    return address.removeprefix("#")


def _first_number(part: Any, name: str) -> float:
    match = _NUMBER_PATTERN.match(part.get(name, "").strip())
    return float(match[0]) if match else 0.0


def _font_size(part: Any, usual: float) -> float:
    if part.get("font-size"):
        return _first_number(part, "font-size") or usual
    declarations = (declaration.partition(":") for declaration in part.get("style", "").split(";"))
    values = {name.strip(): value for name, _, value in declarations}
    match = _FONT_SIZE.search(values.get("font-size", values.get("font", ""))[:_MAX_FONT_LENGTH])
    return (float(match[1]) if match else 0) or usual


def _whole(value: float) -> int:
    return round(max(-1e9, min(value, 1e9))) if math.isfinite(value) else 0


def _read_transform(text: str) -> _Matrix:
    matrix = _IDENTITY
    for name, arguments in _TRANSFORM_PATTERN.findall(text):
        numbers = [float(number) for number in _NUMBER_PATTERN.findall(arguments)]
        if name == "matrix" and len(numbers) == 6:
            a, b, c, d, e, f = numbers
            matrix = _multiply(matrix, (a, b, c, d, e, f))
        elif name == "translate" and numbers:
            matrix = _multiply(matrix, (1, 0, 0, 1, numbers[0], (*numbers, 0)[1]))
        elif name == "scale" and numbers:
            matrix = _multiply(matrix, (numbers[0], 0, 0, (*numbers, numbers[0])[1], 0, 0))
        elif name == "rotate" and numbers:
            cosine, sine = math.cos(math.radians(numbers[0])), math.sin(math.radians(numbers[0]))
            x, y = numbers[1:3] if len(numbers) == 3 else (0, 0)
            around = _multiply((1, 0, 0, 1, x, y), (cosine, sine, -sine, cosine, 0, 0))
            matrix = _multiply(matrix, _multiply(around, (1, 0, 0, 1, -x, -y)))
    return matrix


def _multiply(outer: _Matrix, inner: _Matrix) -> _Matrix:
    a, b, c, d, e, f = outer
    g, h, i, j, k, m = inner
    return (a * g + c * h, b * g + d * h, a * i + c * j, b * i + d * j, a * k + c * m + e, b * k + d * m + f)
