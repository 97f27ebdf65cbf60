"""Generated files with known content: PDFs with tables, columns and Hebrew, and a price list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

ARTICLE_NAMES = (
    "Rope",
    "Anchor",
    "Buoy",
    "Lamp oil",
    "Deck paint",
    "Chain",
    "Winch",
    "Sail cloth",
    "Tar",
    "Compass",
    "Pump",
)
ARTICLE_COLOURS = ("red", "blue", "grey", "white", "green", "black", "yellow")
ENGLISH_TEXT = """\
The harbour office keeps a record of each vessel that enters before dusk and of the cargo that it unloads
at the northern quay where two cranes lift timber barrels and crates while clerks compare weights with the letters of
the owner and write every difference into a book that an inspector reads on the last day of the month before fees
are due"""
HEBREW_TEXT = """הנמל הצפוני נפתח בשעה שש בבוקר והספינות נכנסות לפי הסדר שנקבע ביום הקודם כל רב חובל מגיש רשימה של המטען
והפקיד בודק את המשקל מול המסמכים של הבעלים אם יש הבדל הוא נרשם בספר והמפקח קורא אותו בסוף החודש לפני התשלום"""
_PAGE_SIZE = (595, 842)
# Width of a Hebrew letter relative to the font size.
_LETTER_WIDTH = 0.6


@dataclass(frozen=True, slots=True)
class Drawing:
    """File with the known content: rows of cells, or words in order."""

    name: str
    kind: str
    data: bytes
    words: str = ""
    rows: tuple[tuple[str, ...], ...] = ()


def draw_files(count: int) -> list[Drawing]:
    """Return `count` files of each kind, reproducibly."""
    makers: Sequence[Callable[[Random, int], Drawing]] = (_draw_table, _draw_columns, _draw_hebrew)
    return [maker(Random(f"1 {maker.__name__} {n}"), n) for maker in makers for n in range(count)]  # noqa: S311


def draw_price_list(rows: int) -> list[tuple[str, ...]]:
    """Return a header and articles with unique numbers and prices."""
    random = Random(1)  # noqa: S311 - no secret
    numbers = random.sample(range(1000, 9999), rows)
    prices = random.sample(range(200, 99999), rows)
    articles = (
        (
            f"{random.choice('ABKXQZ')}{random.choice('TRWK')}-{number}",
            random.choice(ARTICLE_NAMES),
            random.choice(ARTICLE_COLOURS),
        )
        for number in numbers
    )
    return [
        ("Article", "Name", "Colour", "Pack", "Price"),
        *(
            (*article, str(random.choice((1, 5, 10, 50))), f"{price / 100:.2f}")
            for article, price in zip(articles, prices, strict=True)
        ),
    ]


def _draw_table(random: Random, number: int) -> Drawing:
    """Draw a table with a grid, with row rules, or plain."""
    style = ("grid", "rules", "plain")[number % 3]
    width, height = random.randint(4, 6), random.randint(6, 12)
    rows = [("Article", *(f"Year {2019 + n}" for n in range(width - 1)))]
    names = random.sample([f"{name} {n}" for name in ARTICLE_NAMES for n in (12, 34, 56)], height)
    rows += [(name, *(f"{random.randint(1, 9999):,}" for _ in range(width - 1))) for name in names]
    page = _PdfPage()
    page.write_lines(50, 780, _wrap_lines(ENGLISH_TEXT, 80), 10)
    edges = [50.0, *(170 + n * 370 / (width - 1) for n in range(width))]
    y = 660.0
    for row in rows:
        for column, cell in enumerate(row):
            x = (
                edges[column] + 4
                if column == 0 or row is rows[0]
                else edges[column + 1] - 4 - _measure_figure(cell) * 9
            )
            page.write_text(x, y - 11, cell, 9)
            if style == "grid":
                page.shapes.append(f"{edges[column]} {y - 15} {edges[column + 1] - edges[column]} 15 re S")
        if style == "rules":
            page.shapes.append(f"{edges[0]} {y - 15} m {edges[-1]} {y - 15} l S")
        y -= 15
    return Drawing(f"table-{style}-{number}.pdf", "tables", page.build_pdf(), rows=tuple(rows))


def _measure_figure(text: str) -> float:
    """Return the width of digits and commas in Helvetica."""
    return sum(0.278 if letter == "," else 0.556 for letter in text)


def _draw_columns(random: Random, number: int) -> Drawing:
    """Draw two or three columns line by line, so that only the layout shows the order."""
    count = 2 + number % 2
    words = ENGLISH_TEXT.split()
    stories = []
    for _ in range(count):
        start = random.randrange(len(words))
        stories.append(_wrap_lines(" ".join((words * 3)[start : start + 90]), 90 // count - 4))
    page = _PdfPage()
    for line in range(max(map(len, stories))):
        for column, story in enumerate(stories):
            if line < len(story):
                page.write_text(50 + column * 510 / count, 780 - 14 * line, story[line], 10)
    truth = " ".join(" ".join(story) for story in stories)
    return Drawing(f"columns-{count}-{number}.pdf", "columns", page.build_pdf(), words=truth)


def _draw_hebrew(random: Random, number: int) -> Drawing:
    """Draw lines of Hebrew with a number, glyphs stored from either side."""
    lines = [line.split() for line in _wrap_lines(HEBREW_TEXT, 40)]
    lines[1].insert(3, str(random.randint(1000, 9999)))
    page = _PdfPage()
    for row, words in enumerate(lines):
        page.write_from_right(545, 780 - 18 * row, words, 12, is_reversed=number % 2 == 1)
    truth = " ".join(word for words in lines for word in words)
    return Drawing(f"hebrew-{number}.pdf", "right to left", page.build_pdf(), words=truth)


def _wrap_lines(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) < width:
            lines[-1] = f"{lines[-1]} {word}".strip()
        else:
            lines.append(word)
    return lines


class _PdfPage:
    """Page in Helvetica and, for Hebrew, a font of squares that map to Unicode."""

    def __init__(self) -> None:
        self.shapes: list[str] = []
        self.texts: list[str] = []
        self.letters: list[str] = []

    def write_text(self, x: float, y: float, text: str, size: int) -> None:
        literal = text.translate({ord(letter): f"\\{letter}" for letter in "()\\"})
        self.texts.append(f"BT /F1 {size} Tf {x:.1f} {y:.1f} Td ({literal}) Tj ET")

    def write_lines(self, x: float, y: float, lines: Sequence[str], size: int) -> None:
        for number, line in enumerate(lines):
            self.write_text(x, y - (size + 3) * number, line, size)

    def write_from_right(self, x: float, y: float, words: Sequence[str], size: int, *, is_reversed: bool) -> None:
        """Write a line of right-to-left words; `is_reversed` stores glyphs from the left."""
        glyphs = []
        for word in words:
            for letter in (*(word[::-1] if word.isdigit() else word), " "):
                x -= _LETTER_WIDTH * size
                glyphs.append((x, letter))
        for left_edge, letter in sorted(glyphs) if is_reversed else glyphs:
            if letter not in self.letters:
                self.letters.append(letter)
            code = 65 + self.letters.index(letter)
            self.texts.append(f"BT /F2 {size} Tf {left_edge:.1f} {y:.1f} Td <{code:02x}> Tj ET")

    def build_pdf(self) -> bytes:
        content = "\n".join([*self.shapes, *self.texts]).encode()
        pairs = "\n".join(f"<{code:02x}> <{ord(letter):04x}>" for code, letter in enumerate(self.letters, 65))
        mapping = (
            "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def\n"
            "1 begincodespacerange <00> <ff> endcodespacerange\n"
            f"{len(self.letters)} beginbfchar\n{pairs}\nendbfchar endcmap end end"
        ).encode()
        last, width = 64 + len(self.letters), round(1000 * _LETTER_WIDTH)
        widths = " ".join([str(width)] * len(self.letters))
        square = f"{width} 0 60 0 500 600 d1 60 0 440 600 re f".encode()
        bodies = [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {_PAGE_SIZE[0]} {_PAGE_SIZE[1]}]/Contents 4 0 R"
            "/Resources<</Font<</F1 5 0 R/F2 6 0 R>>>>>>".encode(),
            _build_stream(content),
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
            "<</Type/Font/Subtype/Type3/FontBBox[0 0 600 800]/FontMatrix[.001 0 0 .001 0 0]"
            f"/FirstChar 65/LastChar {last}"
            f"/Widths[{widths}]/Encoding<</Type/Encoding/Differences[65{'/square' * len(self.letters)}]>>"
            "/CharProcs<</square 7 0 R>>/ToUnicode 8 0 R/Resources<<>>>>".encode(),
            _build_stream(square),
            _build_stream(mapping),
        ]
        return b"".join(_build_file(bodies))


def _build_stream(content: bytes) -> bytes:
    return b"<</Length %d>>stream\n%b\nendstream" % (len(content), content)


def _build_file(bodies: Sequence[bytes]) -> Iterator[bytes]:
    position = len(header := b"%PDF-1.7\n")
    yield header
    offsets = []
    for number, body in enumerate(bodies, 1):
        offsets.append(position)
        yield (part := b"%d 0 obj\n%b\nendobj\n" % (number, body))
        position += len(part)
    entries = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    yield b"xref\n0 %d\n0000000000 65535 f \n%b" % (len(bodies) + 1, entries)
    yield b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(bodies) + 1, position)
