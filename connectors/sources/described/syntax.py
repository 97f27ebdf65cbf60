"""Syntax of the patterns, templates and expressions of a description."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from jinja2 import TemplateError

from connectors.sources.described import templates
from connectors.sources.described.description import Description

_PATTERNS: Final = {"keep", "when", "active", "patterns"}
"""Fields with patterns, or with mappings to patterns."""
_EXPRESSIONS: Final = {
    "fields",
    "properties",
    "reread_by",
    "by",
    "created",
    "parent",
    "time",
    "item_name",
    "version",
    "count",
    "each",
}
"""Fields with expressions or mappings to expressions, distinguished from names by a `|`."""


def check_syntax(about: Description) -> None:
    """Raise ValueError with the first pattern, template or expression that cannot be compiled."""
    look_ups = tuple(about.look_ups)
    streams_and_parents = msgspec.to_builtins({"streams": about.streams, "parents": about.parents})
    for name, text in (*_iter_patterns(about), *_iter_texts(streams_and_parents, "")):
        try:
            if "{{" in text or "{%" in text:
                templates.compile_template(text, look_ups)
            elif name in _PATTERNS:
                re.compile(text)
            elif name in _EXPRESSIONS and "|" in text:
                templates.compile_expression(text)
        except (re.error, TemplateError) as error:
            raise ValueError(f"{about.title}: {name} {text[:80]!r} cannot be read: {error}") from error


def _iter_patterns(about: Description) -> Iterator[tuple[str, str]]:
    """Yield patterns and expressions outside of lists."""
    for edition in about.editions:
        yield "patterns", f"(?P<url>{edition.url})(?:{edition.rest})"
    for limit in about.rate.limits:
        yield from (("patterns", limit.value), ("patterns", limit.body))
    yield from (("patterns", pattern) for pattern in about.refused.values())
    yield from (("by", look_up.value) for look_up in about.look_ups.values())


def _iter_texts(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield the texts below a value, with the names of their fields; texts of a mapping have the mapping's name."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            is_mapping_of_texts = name in _PATTERNS | _EXPRESSIONS and isinstance(inner, str)
            yield from _iter_texts(inner, name if is_mapping_of_texts else key)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _iter_texts(inner, name)
