"""Drawn PDFs of known truth: columns, tables, right-to-left, fonts without Unicode, clauses, charts."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from bench.parse.measures import Table

FONT_FOLDER = Path("/usr/share/fonts/truetype/dejavu")
LANGUAGE_TEXTS: dict[str, str] = json.loads(Path(__file__).with_name("languages.json").read_text())
CODE_LINES = (
    "def merge(left: list[int], right: list[int]) -> list[int]:", "    i, j, out = 0, 0, []",
    "    while i < len(left) and j < len(right):", "        if left[i] <= right[j]: out.append(left[i]); i += 1",
    "        else: out.append(right[j]); j += 1", "    return out + left[i:] + right[j:]",
    "#define MAX_BUF 4096", "static int fd_dup(struct file *fp, int nr) { return fp->f_op->dup(fp, nr); }",
    "SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.cid WHERE o.qty > 3;",
)  # fmt: skip
PERSON_NAMES = (
    "Wojciechowski Szczepan, Nguyễn Thị Bích, O'Shaughnessy Caoimhe, Þorgrímsdóttir Hrafnhildur, Xhemajli Shqipe"
)


@dataclass(frozen=True)
class Drawing:
    """Drawn page with its truth; `readable` False requires a refusal."""

    name: str
    kind: str
    words: str = ""
    tables: tuple[Table, ...] = ()
    headings: tuple[str, ...] = ()
    readable: bool | None = None


def draw_files(folder: Path, seed: int) -> list[tuple[Path, Drawing]]:
    """Draw all kinds in several variants; the seed varies texts and sizes."""
    makers: Sequence[Callable[[Path, Random], Iterator[tuple[Path, Drawing]]]] = (
        draw_columns, draw_tables, draw_right_to_left, draw_ciphers,
        draw_clauses, draw_charts, draw_odd_pages, draw_languages,
    )  # fmt: skip
    # Names of the kinds are part of the seed.
    return [
        drawn_file
        for maker in makers
        for drawn_file in maker(folder, Random(f"{seed} {maker.__name__.removeprefix('draw_')}"))
    ]


def draw_columns(folder: Path, random: Random) -> Iterator[tuple[Path, Drawing]]:
    """Draw one to three columns, by row or column, with and without a title."""
    for count in (1, 2, 3):
        for order in ("rows", "columns"):
            for face in range(3):
                page = _Page(folder / f"columns-{count}-{order}-{face}.pdf")
                size, leading = random.choice((8, 9, 10)), random.choice((12, 13, 15))
                width = (500 - 24 * (count - 1)) / count
                stories = [page.wrap_text(make_story(random, 60 * 3 // count), size, width) for _ in range(count)]
                title = "Report on the harbour of the north" if face != 1 else ""
                if title:
                    page.write(50, 790, title, 18, bold=True)
                positions = [(row, column) for column, story in enumerate(stories) for row in range(len(story))]
                for row, column in sorted(positions) if order == "rows" else positions:
                    page.write(50 + column * (width + 24), 750 - leading * row, stories[column][row], size)
                text = " ".join([title, *(" ".join(story) for story in stories)])
                yield (
                    page.save_page(),
                    Drawing(page.name, f"columns by {order}", text, headings=(title,) if title else ()),
                )


def draw_tables(folder: Path, random: Random) -> Iterator[tuple[Path, Drawing]]:
    """Draw tables with grid, rules or neither; merged headers, blank and two-line cells."""
    for style in ("grid", "rules", "plain"):
        for feature in ("simple", "merged", "blank", "lines"):
            for face in range(3):
                page = _Page(folder / f"table-{style}-{feature}-{face}.pdf")
                rows = make_rows(random, feature)
                before, after = make_story(random, 25), make_story(random, 20)
                y = page.write_paragraph(50, 780, before, 10)
                y = draw_table(page, y - 20, rows, style, random)
                page.write_paragraph(50, y - 20, after, 10)
                cells = " ".join(cell for row in rows for cell in row if cell)
                truth = Table.of_rows(rows)
                yield page.save_page(), Drawing(page.name, f"tables, {style}", f"{before} {cells} {after}", (truth,))


def make_rows(random: Random, feature: str) -> list[list[str | None]]:
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


def draw_table(page: _Page, y: float, rows: Sequence[Sequence[str | None]], style: str, random: Random) -> float:
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
            for line_number, line in enumerate((cell or "").split("\n")):
                base = y - size - 2 - line_number * (size + 3)
                x = (
                    edges[column] + 4
                    if column == 0 or number == 0
                    else edges[last + 1] - 4 - page.text_width(line, size)
                )
                page.write(x, base, line, size, bold=number == 0)
            if style == "grid" and cell is not None:
                page.canvas.rect(edges[column], bottom, edges[last + 1] - edges[column], y - bottom)
        if style == "rules":
            page.canvas.line(edges[0], bottom, edges[-1], bottom)
        y = bottom
    return y


def draw_right_to_left(folder: Path, random: Random) -> Iterator[tuple[Path, Drawing]]:
    """Draw Hebrew and Arabic with glyphs stored in both directions."""
    for language in ("he", "ar"):
        for storage in ("right", "left"):
            for face in range(2):
                page = _Page(folder / f"rtl-{language}-{storage}-{face}.pdf")
                page.font = "DejaVu"
                spoken = LANGUAGE_TEXTS[language].split()
                lines = [spoken[n : n + 8] for n in range(0, len(spoken), 8)]
                lines[1].insert(3, str(random.randint(1000, 9999)))
                if face:
                    lines[2].insert(2, "Python")
                for number, words in enumerate(lines):
                    page.write_from_right(545, 780 - 18 * number, words, 12, backwards=storage == "left")
                yield page.save_page(), Drawing(page.name, "right to left", " ".join(w for line in lines for w in line))


def draw_ciphers(folder: Path, random: Random) -> Iterator[tuple[Path, Drawing]]:
    """Draw fonts that map letters to other letters, to none or to meaningless codes."""
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
            spoken = LANGUAGE_TEXTS[language].split()
            lines = [" ".join(spoken[n : n + 9]) for n in range(0, len(spoken), 9)]
            path.write_bytes(make_cipher_pdf(lines, to_unicode))
            yield path, Drawing(path.stem, "ciphers", " ".join(lines), readable=False)


def draw_clauses(folder: Path, random: Random) -> Iterator[tuple[Path, Drawing]]:
    """Draw numbered clauses with larger headings, or bold headings of equal size."""
    names = ("Scope", "Definitions", "Delivery of goods", "Liability", "Payment", "Final provisions")
    for face in range(6):
        page = _Page(folder / f"clauses-{face}.pdf")
        y, texts, heads = 780.0, [], []
        for number, name in enumerate(random.sample(names, 4), 1):
            head, body = f"{number}. {name}", f"{number}.1 {make_story(random, 30)}"
            page.write(50, y, head, 10 if face % 2 else 14, bold=True)
            y = page.write_paragraph(50, y - 20, body, 10) - 14
            texts += [head, body]
            heads.append(head)
        yield page.save_page(), Drawing(page.name, "clauses", " ".join(texts), headings=tuple(heads))


def draw_charts(folder: Path, random: Random) -> Iterator[tuple[Path, Drawing]]:
    """Draw bars with labels and values, below a text."""
    for face in range(4):
        page = _Page(folder / f"chart-{face}.pdf")
        text, labels = make_story(random, 40), ("North", "South", "East", "West")
        y = page.write_paragraph(50, 780, text, 10)
        values = [random.randint(10, 99) for _ in labels]
        for number, (label, value) in enumerate(zip(labels, values, strict=True)):
            page.canvas.rect(80 + 90 * number, y - 220, 50, value * 1.8, fill=1)
            page.write(90 + 90 * number, y - 215 + value * 1.8, str(value), 9)
            page.write(85 + 90 * number, y - 236, label, 9)
        yield (
            page.save_page(),
            Drawing(page.name, "charts", " ".join([text, *map(str, values), *labels]), readable=True),
        )


def draw_odd_pages(folder: Path, random: Random) -> Iterator[tuple[Path, Drawing]]:
    """Draw correct pages that look unusual: listings, figures, part numbers, names."""
    parts = [f"{random.choice('ABKXQZ')}{random.choice('TRWK')}-{random.randint(100, 999)}/{n}" for n in range(120)]
    pages = {
        "code": list(CODE_LINES) * 3,
        "figures": [" ".join(str(random.randint(0, 99999)) for _ in range(9)) for _ in range(40)],
        "parts": [" ".join(parts[n : n + 6]) for n in range(0, 120, 6)],
        "names": PERSON_NAMES.split(", ") * 4,
        "genome": ["".join(random.choice("ACGT") for _ in range(60)) for _ in range(30)],
    }
    for name, lines in pages.items():
        page = _Page(folder / f"odd-{name}.pdf")
        page.font = "DejaVu"
        for number, line in enumerate(lines):
            page.write(50, 790 - 14 * number, line, 9)
        yield page.save_page(), Drawing(page.name, "odd pages", " ".join(lines), readable=True)


def draw_languages(folder: Path, random: Random) -> Iterator[tuple[Path, Drawing]]:
    """Draw each language, and pairs of languages."""
    left_to_right = [language for language in LANGUAGE_TEXTS if language not in ("he", "ar")]
    for group in [*([language] for language in left_to_right), *(random.sample(left_to_right, 2) for _ in range(4))]:
        page = _Page(folder / f"language-{'-'.join(group)}.pdf")
        page.font, y = "DejaVu", 780.0
        for language in group:
            y = page.write_paragraph(50, y, LANGUAGE_TEXTS[language], 10) - 16
        text = " ".join(LANGUAGE_TEXTS[language] for language in group)
        yield page.save_page(), Drawing(page.name, "languages", text, readable=True)


def make_story(random: Random, count: int) -> str:
    spoken = LANGUAGE_TEXTS["en"].split()
    start = random.randrange(len(spoken))
    return " ".join((spoken * (count // len(spoken) + 2))[start : start + count])


class _Page:
    def __init__(self, path: Path) -> None:
        from reportlab.pdfbase import pdfmetrics
        from reportlab.pdfbase.ttfonts import TTFont
        from reportlab.pdfgen.canvas import Canvas

        for name, file in (("DejaVu", "DejaVuSans.ttf"), ("DejaVu-Bold", "DejaVuSans-Bold.ttf")):
            pdfmetrics.registerFont(TTFont(name, FONT_FOLDER / file))
        self._path, self.name, self.font = path, path.stem, "Helvetica"
        self.canvas: Any = Canvas(str(path), pagesize=(595, 842))

    def write(self, x: float, y: float, text: str, size: float, *, bold: bool = False) -> None:
        self.canvas.setFont(f"{self.font}-Bold" if bold else self.font, size)
        self.canvas.drawString(x, y, text)

    def text_width(self, text: str, size: float) -> float:
        return float(self.canvas.stringWidth(text, self.font, size))

    def wrap_text(self, text: str, size: float, width: float) -> list[str]:
        lines = [""]
        for word in text.split():
            extended = f"{lines[-1]} {word}".strip()
            if self.text_width(extended, size) <= width:
                lines[-1] = extended
            else:
                lines.append(word)
        return lines

    def write_paragraph(self, x: float, y: float, text: str, size: float) -> float:
        for line in self.wrap_text(text, size, 495):
            self.write(x, y, line, size)
            y -= size + 3
        return y

    def write_from_right(self, x: float, y: float, words: Sequence[str], size: float, *, backwards: bool) -> None:
        """Write a line from right to left; `backwards` stores glyphs from left to right."""
        glyphs: list[tuple[float, str]] = []
        for word in words:
            letters = word if word[0] > "\u0590" else word[::-1]
            for letter in (*letters, " "):
                x -= self.text_width(letter, size)
                glyphs.append((x, letter))
        for glyph_x, letter in sorted(glyphs) if backwards else glyphs:
            self.write(glyph_x, y, letter, size)

    def save_page(self) -> Path:
        self.canvas.save()
        return self._path


def make_cipher_pdf(lines: Sequence[str], to_unicode: Callable[[int], int] | None) -> bytes:
    """Build a PDF with glyph codes and a wrong map to Unicode."""
    from reportlab.pdfbase.ttfonts import TTFontFile

    font = TTFontFile(str(FONT_FOLDER / "DejaVuSans.ttf"))
    codes = {letter: font.charToGlyph[ord(letter)] for line in lines for letter in line}
    text_operators = "".join(f"<{''.join(f'{codes[letter]:04x}' for letter in line)}> Tj 0 -16 Td\n" for line in lines)
    widths = " ".join(f"{codes[letter]} [{round(font.charWidths[ord(letter)])}]" for letter in codes)
    pairs = [f"<{code:04x}> <{to_unicode(ord(letter)):04x}>" for letter, code in codes.items()] if to_unicode else []
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def 1 begincodespacerange <0000>"
        f" <ffff> endcodespacerange {len(pairs)} beginbfchar {' '.join(pairs)} endbfchar endcmap end end"
    )
    link = "/ToUnicode 8 0 R" if pairs else ""
    streams = {4: f"BT /F 11 Tf 50 780 Td\n{text_operators}ET".encode(), 8: cmap.encode()}
    file = zlib.compress((FONT_FOLDER / "DejaVuSans.ttf").read_bytes())
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
