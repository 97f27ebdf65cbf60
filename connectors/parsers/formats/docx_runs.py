"""Read runs of Word documents: position, strike-through, note numbers, and characters of symbol fonts."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree.ElementTree import Element

from connectors.parsers import inline_forms
from connectors.parsers.formats.blocks import attribute_value, whole_number, write_number
from connectors.parsers.inline_forms import Form

# ruff: noqa: RUF001 - signs that look like others are what this is about


_GREEK_LETTERS = "αβχδεφγηιϕκλμνοπθρστυϖωξψζ"
_GREEK_CAPITALS = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ"
_SYMBOL_SIGNS = (
    dict(zip(range(0x61, 0x7B), _GREEK_LETTERS, strict=True))
    | dict(zip(range(0x41, 0x5B), _GREEK_CAPITALS, strict=True))
    | dict(zip(range(0xA3, 0xC0), "≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵", strict=True))
    | dict(zip(range(0xC4, 0xD8), "⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅", strict=True))
    | dict(zip(range(0xD8, 0xDF), "¬∧∨⇔⇐⇑⇒", strict=True))
    | dict(zip(range(0xDF, 0xE6), "⇓◊⟨®©™∑", strict=True))
    | dict(zip(range(0xE6, 0xF0), "⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪", strict=True))
    | dict(zip(range(0xF1, 0xFF), "⟩∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭", strict=True))
    | dict(zip(range(0xA0, 0xA3), "€ϒ′", strict=True))
    | dict(zip(range(0xC0, 0xC4), "ℵℑℜ℘", strict=True))
    | {ord(sign): sign for sign in "!#%&()+,./0123456789:;<=>?[]_{|}"}
    | {0x22: "∀", 0x24: "∃", 0x27: "∋", 0x2A: "∗", 0x2D: "−", 0x40: "≅", 0x5C: "∴", 0x5E: "⊥", 0x60: "‾", 0x7E: "∼"}
)
_WINGDINGS_SIGNS = {
    0x4A: "☺", 0x4C: "☹", 0x6C: "●", 0x6E: "■", 0x6F: "☐", 0xA7: "▪", 0xA8: "☐", 0xD8: "➢", 0xDF: "←", 0xE0: "→",
    0xE1: "↑", 0xE2: "↓", 0xFB: "✘", 0xFC: "✔", 0xFD: "☒", 0xFE: "☑",
}  # fmt: skip
_SYMBOL_FONTS = {"symbol": _SYMBOL_SIGNS, "wingdings": _WINGDINGS_SIGNS}


def symbol_sign(font: str, code: int) -> str:
    """Return the character of a symbol code, also from U+F000 on; "" without a known font."""
    code = code - 0xF000 if 0xF000 <= code <= 0xF0FF else code
    return _SYMBOL_FONTS.get(font.lower(), {}).get(code, "")


_W_NS = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SCRIPT_POSITIONS = {"superscript": 1, "subscript": -1, "baseline": 0}
NOTE_MARKS = {f"{_W_NS}footnoteReference": "footnote", f"{_W_NS}endnoteReference": "endnote"}
# Letters of an initial; longer frames hold words of their own.
_MAX_INITIAL_LENGTH = 6
_NOTE_FORMS = {"footnote": "decimal", "endnote": "lowerRoman"}


class RunForms:
    """Forms of runs, with character styles."""

    def __init__(self, styles: Mapping[str, Element]) -> None:
        self._styles = styles
        self._forms: dict[str, Form] = {}

    def form(self, properties: Element) -> Form:
        """Return the form of a run by its properties."""
        style = attribute_value(properties.find(f"{_W_NS}rStyle"))
        form = self._style_form(style) if style else inline_forms.PLAIN
        return _merge_form(form, properties)

    def _style_form(self, name: str, depth: int = 0) -> Form:
        if name in self._forms or depth > 20 or name not in self._styles:
            return self._forms.get(name, inline_forms.PLAIN)
        style = self._styles[name]
        form = self._style_form(attribute_value(style.find(f"{_W_NS}basedOn")), depth + 1)
        properties = style.find(f"{_W_NS}rPr")
        self._forms[name] = form if properties is None else _merge_form(form, properties)
        return self._forms[name]


def is_initial(paragraph: Element, words: str) -> bool:
    """Check for the first letters of the next paragraph, drawn large in a frame."""
    frame = paragraph.find(f"{_W_NS}pPr/{_W_NS}framePr")
    drop = "none" if frame is None else frame.get(f"{_W_NS}dropCap", "none")
    return drop != "none" and 0 < len(words) <= _MAX_INITIAL_LENGTH


class NoteNumbers:
    """Numbers of footnotes and endnotes in order of their marks."""

    def __init__(self, settings: Element | None) -> None:
        self.labels: dict[tuple[str, str], str] = {}
        self._forms = dict(_NOTE_FORMS)
        self._counts = dict.fromkeys(_NOTE_FORMS, 0)
        if settings is None:
            return
        for kind in _NOTE_FORMS:
            properties = f"{_W_NS}{kind}Pr"
            self._forms[kind] = attribute_value(settings.find(f"{properties}/{_W_NS}numFmt")) or self._forms[kind]
            self._counts[kind] = whole_number(attribute_value(settings.find(f"{properties}/{_W_NS}numStart")), 1) - 1

    def mark(self, reference: Element) -> str:
        """Return the mark of a note; "" if a custom mark follows as text."""
        if reference.get(f"{_W_NS}customMarkFollows") in ("1", "true", "on"):
            return ""
        kind = NOTE_MARKS[reference.tag]
        self._counts[kind] += 1
        label = write_number(self._counts[kind], self._forms[kind])
        return inline_forms.footnote_mark(self.labels.setdefault((kind, reference.get(f"{_W_NS}id", "")), label))


def _merge_form(form: Form, properties: Element) -> Form:
    """Apply the properties of a run to a form."""
    script = _SCRIPT_POSITIONS.get(attribute_value(properties.find(f"{_W_NS}vertAlign")), form.script)
    # Text raised by points is a script only with a size; at the usual size it is a matter of layout.
    raised = whole_number(attribute_value(properties.find(f"{_W_NS}position")))
    if raised and not script and properties.find(f"{_W_NS}sz") is not None:
        script = 1 if raised > 0 else -1
    lines = [line for name in ("strike", "dstrike") if (line := properties.find(f"{_W_NS}{name}")) is not None]
    return Form(script, any(map(is_on, lines)) if lines else form.struck)


def is_on(switch: Element | None) -> bool:
    """Check a switch property."""
    return switch is not None and attribute_value(switch) not in ("0", "false", "off")
