"""Characters of the fonts Symbol and Wingdings, whose codes stand for signs that Unicode has elsewhere."""
# ruff: noqa: RUF001 - signs that look like others are what this is about

from __future__ import annotations

_GREEK = "αβχδεφγηιϕκλμνοπθρστυϖωξψζ"
_CAPITALS = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ"
_SYMBOL = (
    dict(zip(range(0x61, 0x7B), _GREEK, strict=True))
    | dict(zip(range(0x41, 0x5B), _CAPITALS, strict=True))
    | dict(zip(range(0xA3, 0xC0), "≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵", strict=True))
    | dict(zip(range(0xC4, 0xD8), "⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅", strict=True))
    | dict(zip(range(0xD8, 0xDF), "¬∧∨⇔⇐⇑⇒", strict=True))
    | {0xE5: "∑", 0xF2: "∫", 0x22: "∀", 0x24: "∃", 0x40: "≅", 0x5E: "⊥", 0x7E: "∼", 0x2D: "−"}
)
_WINGDINGS = {
    0x6C: "●", 0x6E: "■", 0x6F: "☐", 0xA7: "▪", 0xA8: "☐", 0xD8: "➢", 0xDF: "←", 0xE0: "→", 0xE1: "↑", 0xE2: "↓",
    0xFB: "✘", 0xFC: "✔", 0xFD: "☒", 0xFE: "☑",
}  # fmt: skip
_FONTS = {"symbol": _SYMBOL, "wingdings": _WINGDINGS}


def sign(font: str, code: int) -> str:
    """The character of a code, which may lie in the private use area from U+F000; "" if it is none of a known font."""
    code = code - 0xF000 if 0xF000 <= code <= 0xF0FF else code
    return _FONTS.get(font.lower(), {}).get(code, "")
