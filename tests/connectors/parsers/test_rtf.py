"""RTF keeps addresses of links, rows without an end, bullets and signs of any font, and names pictures."""

from __future__ import annotations

import pytest

from tests.connectors.parsers.conftest import Read


def rtf(body: str) -> bytes:
    fonts = r"{\fonttbl{\f0\fcharset0 Arial;}{\f3\fcharset128 OpenSymbol;}}"
    return rf"{{\rtf1\ansi\ansicpg1252{fonts}{body}}}".encode("ascii")


def field(instruction: str, result: str) -> str:
    return rf"{{\field{{\*\fldinst {{\rtlch {instruction} }}}}{{\fldrslt {{\ul {result}}}}}}}"


def test_a_link_keeps_its_address(read: Read) -> None:
    link = field('HYPERLINK "https://example.org/a?b=1"', "the tide tables")
    page, above = field(r"PAGEREF _Toc1 \\h", "42"), field(r'HYPERLINK \\l "top"', "above")
    text = read("a.rtf", rtf(rf"See {link}, page {page}, or {above}.\par")).text
    assert text == "See [the tide tables](https://example.org/a?b=1), page 42, or above.\n"


def test_cells_without_the_end_of_their_row_are_read(read: Read) -> None:
    assert "| Fax | Phone |" in read("a.rtf", rtf(r"{Fax\cell Phone\cell }")).text


@pytest.mark.parametrize("bullet", [r"\loch\f3 \'96", r"\u8211\'96", r"\'b7", "o"])
def test_a_sign_before_a_list_item_is_a_bullet(read: Read, bullet: str) -> None:
    items = "".join(rf"\pard{{\listtext\pard\plain {bullet}\tab}}\ls2 {word}\par" for word in ("rope", "tar"))
    assert read("a.rtf", rtf(items)).text == "- rope\n- tar\n"


@pytest.mark.parametrize(
    ("charset", "code", "letter"),
    [("mac", "8e", "é"), ("mac\\ansicpg10000", "8e", "é"), ("pc", "82", "é"), ("pca", "82", "é"), ("ansi", "e9", "é")],
)
def test_letters_are_in_the_charset_of_the_document(read: Read, charset: str, code: str, letter: str) -> None:
    data = f"{{\\rtf1\\{charset}\\deff0{{\\fonttbl{{\\f0 Times;}}}} Le chalutier avait lanc\\'{code} ses filets.\\par}}"
    assert f"lanc{letter} ses filets" in read("a.rtf", data.encode()).text


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (r"{\f5 \u61537 ?}-particle", "\u03b1-particle"),
        (r"{\f5 \u-3999 ?}-particle", "\u03b1-particle"),
        (r"{\f5 a}-particle", "\u03b1-particle"),
        (r"p {\f5\'a3} 5 {\f0\'a3}", "p \u2264 5 \u00a3"),
        (r"done {\f6\'fc} {\f6\'26}", "done \u2714 \u2022"),
        (r"{\field{\*\fldinst SYMBOL 109 \\f " + '"Symbol"' + r" \\s 12}{\fldrslt\f5\fs24}}m", "\u03bcm"),
        (r"{\field{\*\fldinst {SYMBOL 0xF061 \\f Symbol}}{\fldrslt{\f5 a}}} rays", "\u03b1 rays"),
    ],
)
def test_signs_of_symbol_fonts_are_read(read: Read, body: str, words: str) -> None:
    fonts = r"{\fonttbl{\f0 Arial;}{\f5\fcharset2{\*\panose 05}Symbol;}{\f6\fcharset2 Wingdings;}}"
    assert read("a.rtf", rf"{{\rtf1\ansi{fonts}\f0 {body}\par}}".encode()).text == f"{words}\n"


def test_pictures_are_named_once(read: Read) -> None:
    copies = r"{\*\shppict{\pict{\*\picprop{\sp{\sn a}}}\pngblip 89504e}}{\nonshppict{\pict\wmetafile8 0100}}"
    formula = r"{\mmathPict{\*\shppict{\pict\emfblip 01}}}"
    parsed = read("a.rtf", rtf(rf"Pump{copies} valve{{\pict\jpegblip ffd8}}{formula}\par"))
    assert parsed.text == "Pump valve\n"
    assert parsed.properties["notice"] == "Not read: pictures (2): picture 1.png, picture 2.jpg."


FRACTION = r"{\mf{\mfPr{\mtype bar}}{\mnum{\mr a+b}}{\mden{\mr c}}}"
FORMULA = rf"{{\mmath{{\*\moMath{{\mr\mscr0 x}}{{\msSup{{\me{{\mr y}}}}{{\msup{{\mr 2}}}}}}{FRACTION}}}}}"
CHOICES = r"{\field{\*\fldinst FORMDROPDOWN{\*\formfield{\fftype2\ffres1{\*\ffl Red}{\*\ffl Blue}}}}{\fldrslt}}"
CHECK = r"{\field{\*\fldinst FORMCHECKBOX{\*\formfield{\fftype1\ffres25\ffdefres1}}}{\fldrslt}}"
NOTES = r"Sea{\super\chftn}{\footnote{\super\chftn} Low}. Wind{\super\chftn}{\footnote\ftnalt{\super\chftn} High}."
ROWS = r"\trowd\clmgf\cellx1000\clmrg\cellx2000\cellx3000\pard\intbl Sea\cell\cell Sum\cell\row"
ROWS += r"\trowd\cellx1000\cellx2000\cellx3000\pard\intbl East\cell 2\cell 3\cell\row\pard "


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (r"{\upr{plain ?text}{\*\ud{\u1050?\u1080?\u1090?}}} end", "Кит end"),
        (f"Of {FORMULA}", "Of xy^(2)(a+b)/c"),
        (f"Boat {CHOICES} {CHECK}", "Boat Blue ☒"),
        (NOTES, "Sea [1]. Wind [i].\n\nFootnote [1]: Low\n\nEndnote [i]: High"),
        (r"Sea{\*\atnauthor Ann}\chatn{\*\annotation Deep?}", "Sea\n\nComment by Ann: Deep?"),
        (r"One\column Two\lbr0 Three", "One\nTwo\nThree"),
        (r"Sea {\*\do\dobxpage\dptxbx{\dptxbxtext \pard Box\par}}end", "Sea Box\n\nend"),
        (r"{\shp{\*\shpinst{\shptxt Box}}{\shprslt{\*\do\dptxbx{\dptxbxtext Box}}}} end", "Box end"),
        (ROWS, "| Sea | Sea | Sum |\n| --- | --- | --- |\n| East | 2 | 3 |"),
        (r"{\stylesheet{\s3 Title;}}{\pard\s3 Tides\par}Text", "# Tides\n\nText"),
    ],
)
def test_parts_of_rtf_that_are_not_plain_text_are_read(read: Read, body: str, text: str) -> None:
    assert read("a.rtf", rf"{{\rtf1\ansi {body}\par}}".encode()).text == f"{text}\n"
