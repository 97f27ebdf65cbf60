"""Formulas and form fields of RTF."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from xml.etree.ElementTree import Element, SubElement

from connectors.parsers.formats import ooxml

FIELD_WORDS: Final = frozenset(("fftype", "ffres", "ffdefres"))
_CHECK_BOX, _LIST = 1, 2
# Result of a field that nobody filled in.
_NO_RESULT: Final = 25
# Properties with a sign as text.
_SIGN_NAMES: Final = frozenset(f"{ooxml.M}{name}" for name in ("chr", "begChr", "endChr", "sepChr"))


@dataclass(slots=True)
class FormField:
    """Check box or list, with the value in properties instead of text."""

    values: dict[str, int] = field(default_factory=dict)
    choices: list[str] = field(default_factory=list)

    def shown_value(self) -> str:
        chosen = self.values.get("ffres", _NO_RESULT)
        chosen = self.values.get("ffdefres", 0) if chosen == _NO_RESULT else chosen
        if self.values.get("fftype") == _CHECK_BOX:
            return "\u2612" if chosen else "\u2610"
        is_list = self.values.get("fftype") == _LIST
        return self.choices[chosen] if is_list and 0 <= chosen < len(self.choices) else ""


class Formula:
    """Formula of nested groups, named as in Office Open XML after an `m`."""

    def __init__(self) -> None:
        # Element of each open group, None for groups of formatting; start of its text in the letters.
        self._groups: list[tuple[Element | None, int]] = []

    @property
    def is_open(self) -> bool:
        return bool(self._groups)

    def begin(self, start: int) -> None:
        """Begin a formula in the current group."""
        self._groups = self._groups or [(Element(f"{ooxml.M}oMath"), start)]

    def open_group(self, start: int) -> None:
        if self._groups:
            self._groups.append((None, start))

    def name_group(self, word: str) -> None:
        """Name the innermost group by its first control word."""
        if self._groups[-1][0] is None:
            parent = next(element for element, _ in reversed(self._groups) if element is not None)
            self._groups[-1] = SubElement(parent, f"{ooxml.M}{word[1:]}"), self._groups[-1][1]

    def close_group(self, letters: list[str]) -> None:
        """Move the text of a group into the formula; write the formula at the end of the outermost one."""
        if not self._groups:
            return
        element, start = self._groups.pop()
        if element is None:
            return
        text = "".join(letters[start:])
        del letters[start:]
        if element.tag in _SIGN_NAMES:
            element.set(f"{ooxml.M}val", text.strip())
        elif text.strip():
            SubElement(element, f"{ooxml.M}t").text = text
        if not self._groups:
            letters.append(ooxml.formula_line(element))
