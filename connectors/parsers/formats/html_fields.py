"""Fields of HTML forms, and numbers in attributes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from connectors.parsers import inline_forms

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

# Input types without a displayed value.
_HIDDEN_INPUT_TYPES = frozenset(("hidden", "password", "checkbox", "radio", "file", "image", "color", "range", "reset"))
_NUMBER_PATTERN = re.compile(r"-?\d{1,6}")


def field_text(tag: str, attributes: Mapping[str, str | None]) -> str:
    """Return the value of a field that a browser shows, between spaces."""
    if tag != "input":
        return " "
    kind = attributes.get("type")
    box = inline_forms.tick("checked" in attributes) if kind == "checkbox" and "disabled" in attributes else ""
    value = "" if kind in _HIDDEN_INPUT_TYPES else attributes.get("value") or ""
    return f"{box} {value} "  # a disabled box is of a list of tasks


def shown_options(node: LexborNode) -> str:
    """Return the chosen option of a list, or all options of a list that a browser shows open."""
    options = [(" ".join(option.text().split()), "selected" in option.attributes) for option in node.css("option")]
    if "multiple" in node.attributes or number_attribute(node, "size", 1) > 1:
        return f" {' '.join(f'{inline_forms.tick(is_chosen)} {text}' for text, is_chosen in options)} "
    chosen = [text for text, is_chosen in options if is_chosen] or [text for text, _ in options[:1]]
    return f" {chosen[-1]} " if chosen else ""


def number_attribute(node: LexborNode, name: str, usual: int) -> int:
    match = _NUMBER_PATTERN.match((node.attributes.get(name) or "").strip())
    return int(match[0]) if match else usual
