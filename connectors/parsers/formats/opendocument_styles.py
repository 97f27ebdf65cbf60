"""Styles of OpenDocument: forms of text, and hidden text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final
from xml.etree.ElementTree import Element

from connectors.parsers import inline_forms
from connectors.parsers.inline_forms import Form

_ODF_PREFIX: Final = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT_NS, _STYLE_NS = f"{{{_ODF_PREFIX}text:1.0}}", f"{{{_ODF_PREFIX}style:1.0}}"
_PARAGRAPH_TAGS: Final = frozenset({f"{_TEXT_NS}p", f"{_TEXT_NS}h"})
# Styles that a style is based on, at most.
_MAX_DEPTH: Final = 12


def style_forms(roots: Iterable[Element]) -> dict[str, Form]:
    """Return forms of text styles by name, without plain styles."""
    forms: dict[str, Form] = {}
    for name, lineage in _style_lineages(roots):
        form = inline_forms.PLAIN
        for ancestor in reversed(lineage):
            form = _merge_form(form, ancestor.find(f"{_STYLE_NS}text-properties"))
        if form != inline_forms.PLAIN:
            forms[name] = form
    return forms


def _style_lineages(roots: Iterable[Element]) -> Iterator[tuple[str, list[Element]]]:
    """Yield the name of each style, and the style followed by its base styles."""
    styles = {style.get(f"{_STYLE_NS}name", ""): style for root in roots for style in root.iter(f"{_STYLE_NS}style")}
    for name, style in styles.items():
        lineage = [style]
        while (above := styles.get(lineage[-1].get(f"{_STYLE_NS}parent-style-name", ""))) is not None:
            if len(lineage) > _MAX_DEPTH:
                break
            lineage.append(above)
        yield name, lineage


def _hidden_styles(roots: Iterable[Element]) -> frozenset[str]:
    path = f"{_STYLE_NS}text-properties[@{_TEXT_NS}display]"
    displays = {
        name: next(
            (properties.get(f"{_TEXT_NS}display") for style in lineage if (properties := style.find(path)) is not None),
            "",
        )
        for name, lineage in _style_lineages(roots)
    }
    return frozenset(name for name, display in displays.items() if display == "none")


def drop_hidden(content: Element, roots: Iterable[Element]) -> None:
    """Remove hidden sections, paragraphs and texts, as the reader of Word does. `roots`: elements with the styles."""
    _drop_hidden(content, _hidden_styles(roots))


def _drop_hidden(node: Element, styles: Collection[str]) -> None:
    previous: Element | None = None
    for part in list(node):
        if _is_hidden(part, styles):
            node.remove(part)
            if previous is None:
                node.text = (node.text or "") + (part.tail or "")
            else:
                previous.tail = (previous.tail or "") + (part.tail or "")
        else:
            previous = part
            _drop_hidden(part, styles)


def _is_hidden(part: Element, styles: Collection[str]) -> bool:
    if part.get(f"{_TEXT_NS}is-hidden") == "true" or (
        part.tag == f"{_TEXT_NS}section" and part.get(f"{_TEXT_NS}display") == "none"
    ):
        return True
    field = part.find(f"{_TEXT_NS}hidden-paragraph") if part.tag in _PARAGRAPH_TAGS else None
    is_switched = field is not None and field.get(f"{_TEXT_NS}is-hidden") == "true"
    return is_switched or (part.tag.startswith(_TEXT_NS) and part.get(f"{_TEXT_NS}style-name", "") in styles)


def _merge_form(form: Form, properties: Element | None) -> Form:
    if properties is None:
        return form
    position = properties.get(f"{_STYLE_NS}text-position", "").split(" ")[0]
    script = form.script
    if position:
        script = -1 if position == "sub" or position.startswith("-") else int(position.strip("0%") != "")
    line = properties.get(f"{_STYLE_NS}text-line-through-style") or properties.get(f"{_STYLE_NS}text-line-through-type")
    return Form(script, line != "none" if line else form.struck)
