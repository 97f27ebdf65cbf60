"""Classify XML elements by name and content."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from lxml import etree

from connectors.parsers import inline_forms


def _split_names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Names of FictionBook, JATS, DocBook, DITA, TEI, XHTML and patents, in lower case.
PROSE_NAMES: Final = _split_names(
    "p para simpara formalpara v text-author ab lg l line verse quote shortdesc claim-text mixed-citation term dt"
    " def definition entry td th text tspan abstract seg subtitle remark a em strong emphasis"
)
FORMATTING_NAMES: Final = _split_names(
    "b i u s em strong italic bold underline strike emphasis style span hi sc monospace code tt small big font a xref"
    " ext-link ulink link phrase literal sub sup subscript superscript strikethrough overline tspan mi mo mn mtext"
)
FRONT_MATTER_NAMES: Final = _split_names(
    "front article-meta title-group title-info description info articleinfo bookinfo sectioninfo prolog header"
    " teiheader filedesc titlestmt us-bibliographic-data-grant bibliographic-data"
)
TITLE_NAMES: Final = _split_names("title article-title book-title head h1 h2 h3 h4 h5 h6 chapter-title invention-title")
UNORDERED_LIST_NAMES: Final = _split_names(
    "list itemizedlist ul simplelist deflist def-list dl variablelist choices steps-unordered"
)
ORDERED_LIST_NAMES: Final = _split_names("orderedlist ol procedure steps substeps")
LIST_NAMES: Final = UNORDERED_LIST_NAMES | ORDERED_LIST_NAMES
# Items of a name and a text.
ENTRY_NAMES: Final = _split_names("dlentry varlistentry def-item")
ITEM_NAMES: Final = _split_names("list-item listitem li item step member dlentry varlistentry def-item")
TABLE_NAMES: Final = _split_names("table informaltable utable simpletable properties choicetable segmentedlist")
SYNOPSIS_NAMES: Final = _split_names("cmdsynopsis funcsynopsis classsynopsis fieldsynopsis methodsynopsis")
VERBATIM_NAMES: Final = SYNOPSIS_NAMES | _split_names(
    "programlisting screen literallayout pre preformat codeblock synopsis"
)
NOTE_NAMES: Final = _split_names("fn footnote")
BLOCK_NAMES: Final = (
    PROSE_NAMES - _split_names("quote term text tspan seg a em strong emphasis")
    | TITLE_NAMES - _split_names("title article-title book-title chapter-title")
    | UNORDERED_LIST_NAMES
    | ORDERED_LIST_NAMES
    | ITEM_NAMES
    | TABLE_NAMES
    | VERBATIM_NAMES
    | _split_names(
        "fig figure table-wrap disp-quote blockquote note warning tip caution important sec section caption example"
    )
    | _split_names("mediaobject body front back group div tables table-wrap-foot boxed-text")
)
# Elements of texts; in other files, attributes hold values.
TEXT_TAGS: Final = tuple(f"{{*}}{name}" for name in ("p", "para", "simpara", "l", "ab", "claim-text", "topic"))
# Attributes about the XML itself.
_TECHNICAL_ATTRIBUTES: Final = _split_names("class style schemalocation nonamespaceschemalocation type base space lang")
SKIPPED_NAMES: Final = _split_names("script stylesheet object-id indexterm")
SECTION_NAMES: Final = _split_names("section sec chapter body div")
# Head of a reference page of DocBook: its name with a section, and its purpose.
PAGE_HEAD_NAMES: Final = _split_names("refmeta refnamediv")
STRUCTURAL_NAMES: Final = (
    SKIPPED_NAMES | TABLE_NAMES | LIST_NAMES | VERBATIM_NAMES | TITLE_NAMES | PAGE_HEAD_NAMES | {"label"}
)
# Elements with a text that may be a page of HTML, in feeds and site maps.
PAGE_NAMES: Final = _split_names("description content encoded summary body abstract")
UNLABELLED_NAMES: Final = PROSE_NAMES | PAGE_NAMES
# Of FictionBook, about the file.
BOOK_DATA_NAMES: Final = ("{*}document-info", "{*}genre", "{*}lang", "{*}src-lang")
_HTML_TAG_PATTERN: Final = re.compile(
    r"<(/?)(p|div|a|b|i|em|strong|ul|ol|li|table|span|h[1-6]|br)(?:\s[^<>]*)?/?>", re.IGNORECASE
)
# Elements of TEI, DocBook and JATS with the form of their text in an attribute.
STYLED_NAMES: Final = frozenset({"hi", "emphasis", "phrase", "seg", "styled-content"})
_STYLE_ATTRIBUTES: Final = ("rend", "rendition", "role", "style", "style-type")
_STYLE_PATTERN: Final = re.compile(r"\b(super)|\b(sub)(?:script)?\b|strike|line-through", re.IGNORECASE)
# Lists of FictionBook, without elements for them.
BULLETS: Final = re.compile(r"^(?:\u2022 )+")
BREAK_NAMES: Final = _split_names("br break lb linebreak")


def attribute_values(node: Any) -> str:
    """Return the values in attributes, without those about the XML."""
    pairs = ((key.rpartition("}"), value) for key, value in node.items())
    return "; ".join(
        f"{name}: {' '.join(value.split())}"
        for (space, _, name), value in pairs
        if value.strip() and not (name.lower() in _TECHNICAL_ATTRIBUTES and (space or name in ("class", "style")))
    )


def front_titles(root: Any) -> Iterator[Any]:
    """Yield titles directly in the root or its front matter."""
    if local_name(root) in TITLE_NAMES:
        yield root
    levels = [iter(root)]
    while levels:
        part = next(levels[-1], None)
        if part is None:
            levels.pop()
        elif local_name(part) in TITLE_NAMES or local_name(part) == "refmeta":
            yield part
        elif local_name(part) in FRONT_MATTER_NAMES:
            levels.append(iter(part))


def local_name(node: Any) -> str:
    """Return the lower-case element name without namespace; "" for comments and instructions."""
    return element_names(node.tag)[0]


def spelled_name(node: Any) -> str:
    return element_names(node.tag)[1]


@lru_cache(maxsize=4096)
def element_names(tag: Any) -> tuple[str, str]:
    name = tag.rpartition("}")[2].rpartition(":")[2] if isinstance(tag, str) else ""
    return name.lower(), name


def is_title(node: Any) -> bool:
    name = local_name(node)
    return name in TITLE_NAMES and (name != "head" or is_paragraph(node) or not len(node))


def is_paragraph(node: Any) -> bool:
    """Check for mixed content, or for a paragraph by name."""
    if not len(node) or (local_name(node) in PROSE_NAMES and not has_blocks(node)):
        return True
    return has_own_text(node) and SECTION_NAMES.isdisjoint(map(local_name, node)) and not _has_title(node)


def _has_title(node: Any) -> bool:
    """Check for a section by its title; an inline title stands within text."""
    first = node[0]
    return (
        local_name(first) in ("title", "head") and len(node) > 1 and not (node.text or "").strip() and has_blocks(node)
    )


def has_own_text(node: Any) -> bool:
    """Check for text before, between or after child elements."""
    if (text := node.text) and not text.isspace():
        return True
    for part in node:  # noqa: SIM110 - a generator takes twice as long
        if (tail := part.tail) and not tail.isspace():
            return True
    return False


def has_blocks(node: Any) -> bool:
    return any(local_name(part) in BLOCK_NAMES for part in node)


def holds_values(node: Any) -> bool:
    """Check for children with separate values, as opposed to parts of a word or sentence."""
    if len(node) < 2 or has_own_text(node):
        return False
    return not all(local_name(part) in FORMATTING_NAMES or local_name(part).startswith("m") for part in node)


def detach_element(node: Any) -> None:
    """Remove an element but not the text after it."""
    end = etree.Element("br")
    end.tail, node.tail = node.tail, None
    node.getparent().replace(node, end)


def is_list(node: Any) -> bool:
    return local_name(node) in LIST_NAMES


def ancestors_below(node: Any, above: Any) -> Iterator[Any]:
    for parent in node.iterancestors():
        if parent is above:
            return
        yield parent


def is_html(text: str) -> bool:
    """Check for a closed element or a line break of HTML."""
    starts: set[str] = set()
    for match in _HTML_TAG_PATTERN.finditer(text):
        name = match[2].lower()
        if name == "br" or (match[1] and name in starts):
            return True
        starts |= {name} if not match[1] else set()
    return False


def styled_form(part: Any) -> inline_forms.Form | None:
    match = _STYLE_PATTERN.search(" ".join(part.get(name, "") for name in _STYLE_ATTRIBUTES))
    if match is None:
        return None
    return inline_forms.RAISED if match[1] else inline_forms.LOWERED if match[2] else inline_forms.STRUCK


def list_mark(bullets: re.Match[str]) -> str:
    return f"{'  ' * (bullets[0].count(chr(0x2022)) - 1)}- "


def attribute_lines(root: Any) -> Iterator[str]:
    """Return values from attributes, one line per element."""
    for node in root.iter(etree.Element):
        values = [f"{key.rpartition('}')[2]}: {value}" for key, value in node.items() if value.strip()]
        if values:
            yield f"{spelled_name(node)}: {'; '.join(values)}"
