"""Fields of Word documents: formulas of EQ fields, values of forms."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from xml.etree.ElementTree import Element

from connectors.parsers import inline_forms
from connectors.parsers.formats.blocks import attribute_value, whole_number
from connectors.parsers.formats.docx_runs import is_on

_W_NS = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"

_FIELD_NAME: Final = re.compile(r"\s*EQ(?=[\s\\])", re.IGNORECASE)
# Options of the whole field, which Word writes for readings above words.
_FIELD_OPTION: Final = re.compile(r'\\\*\s*(?:"[^"]*"|\w+)\s*')
# A switch with its options, such as `\s\up 9(` or `\b\lc\[(`.
_SWITCH: Final = re.compile(r"\\([a-z])((?:\s*\\[a-z]{2}\s*(?:\\[^a-z]|-?\d+)?)*)\s*\(", re.IGNORECASE)
_BRACKET_OPTION: Final = re.compile(r"\\([lrb])c\s*\\(.)", re.IGNORECASE)
_CLOSING_BRACKETS: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}
_CIRCLES: Final = "\u25cb\u25ef\u3007"
_CIRCLED_NUMBERS: Final = dict(zip(map(str, range(1, 21)), map(chr, range(0x2460, 0x2474)), strict=True))
_MAX_DEPTH: Final = 20


class FieldCode:
    """Code of the current field, in parts."""

    def __init__(self) -> None:
        self._code = ""

    def read(self, part: Element) -> str:
        """Add an element. Return the formula of an EQ field at its end, else ""."""
        if part.tag == f"{_W_NS}instrText":
            self._code += part.text or ""
        if part.get(f"{_W_NS}fldCharType") != "end":
            return ""
        code, self._code = self._code, ""
        return equation_line(code)


def equation_line(code: str) -> str:
    """Write the code of an EQ field in one line; "" for other fields."""
    match = _FIELD_NAME.match(code)
    return " ".join(_write_code(_FIELD_OPTION.sub("", code[match.end() :])).split()) if match else ""


def _write_code(code: str, depth: int = 0) -> str:
    text, at = "", 0
    while at < len(code):
        if depth < _MAX_DEPTH and (switch := _SWITCH.match(code, at)):
            values, at = _split_values(code, switch.end())
            text += _write_switch(switch[1].lower(), switch[2].lower(), values, depth + 1)
        else:
            at += code[at] == "\\"
            text += code[at : at + 1]
            at += 1
    return text.strip()


def _split_values(code: str, start: int) -> tuple[list[str], int]:
    """Return the values in brackets, and the end of the brackets."""
    values, depth, at = [""], 0, start
    while at < len(code) and (depth or code[at] != ")"):
        sign = code[at : at + 2] if code[at] == "\\" else code[at]
        depth += (sign == "(") - (sign == ")")
        if sign in (",", ";") and not depth:
            values.append("")
        else:
            values[-1] += sign
        at += len(sign)
    return values, at + 1


def _write_switch(name: str, options: str, codes: Sequence[str], depth: int) -> str:
    values = [_write_code(code, depth) for code in codes]
    first, last = values[0], values[-1]
    text = ", ".join(filter(None, values)) if name in "al" else "".join(values)
    if name == "f" and len(values) > 1:
        text = inline_forms.fraction(first, last)
    elif name == "r":
        text = f"{inline_forms.superscript(first) if len(values) > 1 and first else ''}\u221a({last})"
    elif name == "i" and len(values) > 2:
        text = f"{_sum_sign(options)}{inline_forms.subscript(first)}{inline_forms.superscript(values[1])} {last}"
    elif name == "s":
        text = _write_scripts(options, values)
    elif name == "b":
        text = _write_brackets(options, text)
    elif name == "o" and codes[0].lstrip().lower().startswith("\\s"):
        text = last + inline_forms.reading(first.removeprefix("^(").removesuffix(")"))
    elif name == "o" and first and first in _CIRCLES:
        text = _CIRCLED_NUMBERS.get(last, f"({last})")
    return text


def _write_brackets(options: str, text: str) -> str:
    signs = dict(_BRACKET_OPTION.findall(options))
    opening = signs.get("l", signs.get("b", "" if signs else "("))
    closing = signs.get("r", _CLOSING_BRACKETS.get(signs.get("b", ""), "" if signs else ")"))
    return f"{opening}{text}{closing}"


def _sum_sign(options: str) -> str:
    return "\u2211" if "\\su" in options else "\u220f" if "\\pr" in options else "\u222b"


def _write_scripts(options: str, values: Sequence[str]) -> str:
    """Write one value above or below the line, or the first above the second."""
    if len(values) > 1:
        return f"{inline_forms.superscript(values[0])}{inline_forms.subscript(values[1])}"
    if not values[0]:
        return ""
    return inline_forms.subscript(values[0]) if "\\do" in options else inline_forms.superscript(values[0])


def chosen_value(form: Element | None) -> str:
    """Return the selection of a form's list or checkbox, absent from the text."""
    if form is None:
        return ""
    if (choices := form.find(f"{_W_NS}ddList")) is not None:
        entries = [attribute_value(entry) for entry in choices.findall(f"{_W_NS}listEntry")]
        chosen = whole_number(
            attribute_value(choices.find(f"{_W_NS}result")) or attribute_value(choices.find(f"{_W_NS}default"))
        )
        return entries[chosen] if 0 <= chosen < len(entries) else ""
    if (tick := next((part for part in form if part.tag.lower().endswith("}checkbox")), None)) is not None:
        checked = tick.find(f"{_W_NS}checked")
        return "☒" if is_on(tick.find(f"{_W_NS}default") if checked is None else checked) else "☐"
    return ""
