"""PDFs of known truth, drawn here: columns, tables, right-to-left, fonts without Unicode, clauses, charts."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from bench.parse.measures import Table

FONTS = Path("/usr/share/fonts/truetype/dejavu")
TEXTS: dict[str, str] = json.loads(Path(__file__).with_name("languages.json").read_text())
CODE = (
    "def merge(left: list[int], right: list[int]) -> list[int]:", "    i, j, out = 0, 0, []",
    "    while i < len(left) and j < len(right):", "        if left[i] <= right[j]: out.append(left[i]); i += 1",
    "        else: out.append(right[j]); j += 1", "    return out + left[i:] + right[j:]",
    "#define MAX_BUF 4096", "static int fd_dup(struct file *fp, int nr) { return fp->f_op->dup(fp, nr); }",
    "SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.cid WHERE o.qty > 3;",
)  # fmt: skip
NAMES = "Wojciechowski Szczepan, Nguyễn Thị Bích, O'Shaughnessy Caoimhe, Þorgrímsdóttir Hrafnhildur, Xhemajli Shqipe"


@dataclass(frozen=True)
class Drawing:
    """A page that was drawn, and its truth. `readable`: what must stand in the text, or a refusal if it is False."""

    name: str
    kind: str
    words: str = ""
    tables: tuple[Table, ...] = ()
    headings: tuple[str, ...] = ()
    readable: bool | None = None


def draw(folder: Path, seed: int) -> list[tuple[Path, Drawing]]:
    """Every kind in several faces; another seed gives other texts and measures of the same kinds."""
    makers: Sequence[Callable[[Path, Random], Iterator[tuple[Path, Drawing]]]] = (
        columns, tables, right_to_left, ciphers, clauses, charts, odd_pages, languages,
    )  # fmt: skip
    return [made for maker in makers for made in maker(folder, Random(f"{seed} {maker.__name__}"))]


def columns(folder: Path, random: Random) -> Iterator[tuple[Path, Drawing]]:
    """One to three columns, drawn row by row and column by column, with a title across and without."""
    for count in (1, 2, 3):
        for order in ("rows", "columns"):
            for face in range(3):
                page = _Page(folder / f"columns-{count}-{order}-{face}.pdf")
                size, leading = random.choice((8, 9, 10)), random.choice((12, 13, 15))
                width = (500 - 24 * (count - 1)) / count
                stories = [page.wrapped(_story(random, 60 * 3 // count), size, width) for _ in range(count)]
                title = "Report on the harbour of the north" if face != 1 else ""
                if title:
                    page.write(50, 790, title, 18, bold=True)
                places = [(row, column) for column, story in enumerate(stories) for row in range(len(story))]
                for row, column in sorted(places) if order == "rows" else places:
                    page.write(50 + column * (width + 24), 750 - leading * row, stories[column][row], size)
                text = " ".join([title, *(" ".join(story) for story in stories)])
                yield page.saved(), Drawing(page.name, f"columns by {order}", text, headings=(title,) if title else ())


def tables(folder: Path, random: Random) -> Iterator[tuple[Path, Drawing]]:
    """Tables with a grid, rules between rows, or none; with merged headers, blank cells and cells of two lines."""
    for style in ("grid", "rules", "plain"):
        for feature in ("simple", "merged", "blank", "lines"):
            for face in range(3):
                page = _Page(folder / f"table-{style}-{feature}-{face}.pdf")
                rows = _rows(random, feature)
                before, after = _story(random, 25), _story(random, 20)
                y = page.paragraph(50, 780, before, 10)
                y = _table(page, y - 20, rows, style, random)
                page.paragraph(50, y - 20, after, 10)
                cells = " ".join(cell for row in rows for cell in row if cell)
                truth = Table.of_rows(rows)
                yield page.saved(), Drawing(page.name, f"tables, {style}", f"{before} {cells} {after}", (truth,))


def _rows(random: Random, feature: str) -> list[list[str | None]]:
    width, height = random.randint(4, 6), random.randint(5, 12)
    goods = ("Rope", "Anchor", "Buoy, red", "Lamp oil", "Deck paint", "Chain 8 mm", "Winch", "Sail cloth", "Tar")
    rows: list[list[str | None]] = [["Article", *(f"Year {2019 + n}" for n in range(width - 1))]]
    if feature == "merged":
        rows = [["", "Sold in spring", None, *["Sold in autumn", *[None] * (width - 4)]], *rows]
    for _ in range(height):
        figures = [f"{random.randint(1, 9999):,}" for _ in range(width - 1)]
        rows.append([f"{random.choice(goods)} {random.randint(10, 99)}", *figures])
    for row in rows[-height:] if feature == "blank" else ():
        row[random.randrange(1, width)] = ""
    for row in rows[-height::2] if feature == "lines" else ():
        row[0] = f"{row[0]}\nfrom the northern yard"
    return [[cell.replace("\n", "\n") if cell else cell for cell in row] for row in rows]


def _table(page: _Page, y: float, rows: Sequence[Sequence[str | None]], style: str, random: Random) -> float:
    width, left = len(rows[0]), 50.0
    wide, size = 130.0, random.choice((8, 9, 10))
    edges = [left, *(left + wide + n * (370 / (width - 1)) for n in range(width))]
    for number, row in enumerate(rows):
        lines = max(cell.count("\n") + 1 for cell in row if cell is not None)
        bottom = y - 5 - (size + 3) * lines
        for column, cell in enumerate(row):
            last = column
            while last + 1 < width and row[last + 1] is None:
                last += 1
            for place, line in enumerate((cell or "").split("\n")):
                base = y - size - 2 - place * (size + 3)
                x = edges[column] + 4 if column == 0 or number == 0 else edges[last + 1] - 4 - page.width(line, size)
                page.write(x, base, line, size, bold=number == 0)
            if style == "grid" and cell is not None:
                page.canvas.rect(edges[column], bottom, edges[last + 1] - edges[column], y - bottom)
        if style == "rules":
            page.canvas.line(edges[0], bottom, edges[-1], bottom)
        y = bottom
    return y


def right_to_left(folder: Path, random: Random) -> Iterator[tuple[Path, Drawing]]:
    """Hebrew and Arabic, glyphs stored from the right (as programs do) and from the left, with numbers and Latin."""
    for language in ("he", "ar"):
        for storage in ("right", "left"):
            for face in range(2):
                page = _Page(folder / f"rtl-{language}-{storage}-{face}.pdf")
                page.font = "DejaVu"
                spoken = TEXTS[language].split()
                lines = [spoken[n : n + 8] for n in range(0, len(spoken), 8)]
                lines[1].insert(3, str(random.randint(1000, 9999)))
                if face:
                    lines[2].insert(2, "Python")
                for number, words in enumerate(lines):
                    page.write_from_right(545, 780 - 18 * number, words, 12, backwards=storage == "left")
                yield page.saved(), Drawing(page.name, "right to left", " ".join(w for line in lines for w in line))


def ciphers(folder: Path, random: Random) -> Iterator[tuple[Path, Drawing]]:
    """Fonts whose letters lead to other letters, to none, or to nothing that has a meaning."""
    for language in ("en", "de", "ru"):
        shift = random.randint(2, 9)
        maps: dict[str, Callable[[int], int] | None] = {
            "none": None,
            "shifted": shift.__add__,
            "private": lambda code: 0xE000 + code % 4096,
            "unknown": lambda _: 0xFFFD,
        }
        for name, to_unicode in maps.items():
            path = folder / f"cipher-{language}-{name}.pdf"
            spoken = TEXTS[language].split()
            lines = [" ".join(spoken[n : n + 9]) for n in range(0, len(spoken), 9)]
            path.write_bytes(_identity(lines, to_unicode))
            yield path, Drawing(path.stem, "ciphers", " ".join(lines), readable=False)


def clauses(folder: Path, random: Random) -> Iterator[tuple[Path, Drawing]]:
    """Numbered clauses: headings are larger, or bold and of the same size."""
    names = ("Scope", "Definitions", "Delivery of goods", "Liability", "Payment", "Final provisions")
    for face in range(6):
        page = _Page(folder / f"clauses-{face}.pdf")
        y, texts, heads = 780.0, [], []
        for number, name in enumerate(random.sample(names, 4), 1):
            head, body = f"{number}. {name}", f"{number}.1 {_story(random, 30)}"
            page.write(50, y, head, 10 if face % 2 else 14, bold=True)
            y = page.paragraph(50, y - 20, body, 10) - 14
            texts += [head, body]
            heads.append(head)
        yield page.saved(), Drawing(page.name, "clauses", " ".join(texts), headings=tuple(heads))


def charts(folder: Path, random: Random) -> Iterator[tuple[Path, Drawing]]:
    """Bars with labels below and values above, a text around."""
    for face in range(4):
        page = _Page(folder / f"chart-{face}.pdf")
        text, labels = _story(random, 40), ("North", "South", "East", "West")
        y = page.paragraph(50, 780, text, 10)
        values = [random.randint(10, 99) for _ in labels]
        for number, (label, value) in enumerate(zip(labels, values, strict=True)):
            page.canvas.rect(80 + 90 * number, y - 220, 50, value * 1.8, fill=1)
            page.write(90 + 90 * number, y - 215 + value * 1.8, str(value), 9)
            page.write(85 + 90 * number, y - 236, label, 9)
        yield page.saved(), Drawing(page.name, "charts", " ".join([text, *map(str, values), *labels]), readable=True)


def odd_pages(folder: Path, random: Random) -> Iterator[tuple[Path, Drawing]]:
    """Pages that no language model likes and that are right: listings, figures, part numbers, names."""
    parts = [f"{random.choice('ABKXQZ')}{random.choice('TRWK')}-{random.randint(100, 999)}/{n}" for n in range(120)]
    pages = {
        "code": list(CODE) * 3,
        "figures": [" ".join(str(random.randint(0, 99999)) for _ in range(9)) for _ in range(40)],
        "parts": [" ".join(parts[n : n + 6]) for n in range(0, 120, 6)],
        "names": NAMES.split(", ") * 4,
        "genome": ["".join(random.choice("ACGT") for _ in range(60)) for _ in range(30)],
    }
    for name, lines in pages.items():
        page = _Page(folder / f"odd-{name}.pdf")
        page.font = "DejaVu"
        for number, line in enumerate(lines):
            page.write(50, 790 - 14 * number, line, 9)
        yield page.saved(), Drawing(page.name, "odd pages", " ".join(lines), readable=True)


def languages(folder: Path, random: Random) -> Iterator[tuple[Path, Drawing]]:
    """Each language alone, and two of them on a page."""
    left_to_right = [language for language in TEXTS if language not in ("he", "ar")]
    for group in [*([one] for one in left_to_right), *(random.sample(left_to_right, 2) for _ in range(4))]:
        page = _Page(folder / f"language-{'-'.join(group)}.pdf")
        page.font, y = "DejaVu", 780.0
        for language in group:
            y = page.paragraph(50, y, TEXTS[language], 10) - 16
        text = " ".join(TEXTS[language] for language in group)
        yield page.saved(), Drawing(page.name, "languages", text, readable=True)


def _story(random: Random, count: int) -> str:
    spoken = TEXTS["en"].split()
    start = random.randrange(len(spoken))
    return " ".join((spoken * (count // len(spoken) + 2))[start : start + count])


class _Page:
    def __init__(self, path: Path) -> None:
        from reportlab.pdfbase import pdfmetrics
        from reportlab.pdfbase.ttfonts import TTFont
        from reportlab.pdfgen.canvas import Canvas

        for name, file in (("DejaVu", "DejaVuSans.ttf"), ("DejaVu-Bold", "DejaVuSans-Bold.ttf")):
            pdfmetrics.registerFont(TTFont(name, FONTS / file))
        self._path, self.name, self.font = path, path.stem, "Helvetica"
        self.canvas: Any = Canvas(str(path), pagesize=(595, 842))

    def write(self, x: float, y: float, text: str, size: float, *, bold: bool = False) -> None:
        self.canvas.setFont(f"{self.font}-Bold" if bold else self.font, size)
        self.canvas.drawString(x, y, text)

    def width(self, text: str, size: float) -> float:
        return float(self.canvas.stringWidth(text, self.font, size))

    def wrapped(self, text: str, size: float, width: float) -> list[str]:
        lines = [""]
        for word in text.split():
            longer = f"{lines[-1]} {word}".strip()
            if self.width(longer, size) <= width:
                lines[-1] = longer
            else:
                lines.append(word)
        return lines

    def paragraph(self, x: float, y: float, text: str, size: float) -> float:
        for line in self.wrapped(text, size, 495):
            self.write(x, y, line, size)
            y -= size + 3
        return y

    def write_from_right(self, x: float, y: float, words: Sequence[str], size: float, *, backwards: bool) -> None:
        """A line whose first word is at the right; `backwards`: its glyphs are stored from left to right."""
        glyphs: list[tuple[float, str]] = []
        for word in words:
            letters = word if word[0] > "\u0590" else word[::-1]
            for letter in (*letters, " "):
                x -= self.width(letter, size)
                glyphs.append((x, letter))
        for place, letter in sorted(glyphs) if backwards else glyphs:
            self.write(place, y, letter, size)

    def saved(self) -> Path:
        self.canvas.save()
        return self._path


def _identity(lines: Sequence[str], to_unicode: Callable[[int], int] | None) -> bytes:
    """A PDF whose font is addressed by glyph numbers, with a map to Unicode of which only the range is right."""
    from reportlab.pdfbase.ttfonts import TTFontFile

    font = TTFontFile(str(FONTS / "DejaVuSans.ttf"))
    codes = {letter: font.charToGlyph[ord(letter)] for line in lines for letter in line}
    shown = "".join(f"<{''.join(f'{codes[letter]:04x}' for letter in line)}> Tj 0 -16 Td\n" for line in lines)
    widths = " ".join(f"{codes[letter]} [{round(font.charWidths[ord(letter)])}]" for letter in codes)
    pairs = [f"<{code:04x}> <{to_unicode(ord(letter)):04x}>" for letter, code in codes.items()] if to_unicode else []
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def 1 begincodespacerange <0000>"
        f" <ffff> endcodespacerange {len(pairs)} beginbfchar {' '.join(pairs)} endbfchar endcmap end end"
    )
    link = "/ToUnicode 8 0 R" if pairs else ""
    streams = {4: f"BT /F 11 Tf 50 780 Td\n{shown}ET".encode(), 8: cmap.encode()}
    file = zlib.compress((FONTS / "DejaVuSans.ttf").read_bytes())
    objects = {
        1: b"<</Type/Catalog/Pages 2 0 R>>",
        2: b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        3: b"<</Type/Page/Parent 2 0 R/Media#42ox[0 0 595 842]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
        5: f"<</Type/Font/Subtype/Type0/BaseFont/Own/Encoding/Identity-H/DescendantFonts[6 0 R]{link}>>".encode(),
        6: b"<</Type/Font/Subtype/CIDFontType2/BaseFont/Own/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)"
        b"/Supplement 0>>/FontDescriptor 7 0 R/CIDToGIDMap/Identity/W[" + widths.encode() + b"]>>",
        7: b"<</Type/FontDescriptor/FontName/Own/Flags 4/FontB#42ox[0 0 1000 1000]/Ascent 900/Descent -200/StemV 80"
        b"/ItalicAngle 0/CapHeight 700/FontFile2 9 0 R>>",
        9: b"<</Filter/FlateDecode/Length %d>>stream\n" % len(file) + file + b"\nendstream",
        **{n: b"<</Length %d>>stream\n" % len(data) + data + b"\nendstream" for n, data in streams.items()},
    }
    body, offsets = b"%PDF-1.7\n", {}
    for number in sorted(objects):
        offsets[number] = len(body)
        body += b"%d 0 obj\n" % number + objects[number] + b"\nendobj\n"
    table = b"".join(b"%010d 00000 n \n" % offsets[number] for number in sorted(objects))
    start = len(body)
    return (
        body
        + b"xref\n0 10\n0000000000 65535 f \n"
        + table
        + b"trailer<</Size 10/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % start
    )
