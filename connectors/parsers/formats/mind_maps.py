"""Read mind maps of FreeMind and Freeplane, and OPML, as outlines with notes, values and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from lxml import etree

from connectors.parsers import detect
from connectors.parsers.document import Document, strip_invisible
from connectors.parsers.formats import html_text
from connectors.parsers.formats import markup_elements as elements
from connectors.parsers.formats.sheet_tables import link_cell

_MAX_INDENT: Final = 20
_ADDRESS_NAMES: Final = ("htmlUrl", "url", "xmlUrl")
_LETTER_NAMES: Final = frozenset(("b", "i", "u", "em", "strong", "font"))
_HIDING_STYLE: Final = re.compile(r"display|visibility|decoration|vertical", re.IGNORECASE)
_PICTURE_PATTERN: Final = re.compile(r"""<img\s[^<>]{0,400}?src=["']([^"'<>]{1,300})""")


def is_outline(root: Any) -> bool:
    return bool(root.tag == "opml" and root.find("body") is not None)


def read_outline(root: Any) -> Document:
    """Return the topics of an OPML file (https://opml.org/spec2.opml) as those of a mind map."""
    title = " ".join(root.findtext("head/title", "").split())
    center = etree.Element("node", TEXT=title or "Outline")
    for topic in list(root.iter("outline")):
        words = topic.get("text") or topic.get("title") or ""
        topic.tag = "node"
        topic.set("TEXT", f"<html>{words}" if "<" in words else words)
        topic.set("LINK", next((topic.get(key) for key in _ADDRESS_NAMES if topic.get(key)), ""))
        if note := topic.get("_note"):
            etree.SubElement(topic, "richcontent", TYPE="NOTE").text = note
    center.extend(list(root.find("body")))
    top = etree.Element("map")
    top.append(center)
    return replace(read_document(top), title=title)


def is_mind_map(root: Any) -> bool:
    return bool(root.tag == "map" and root.get("version") and root.find("node") is not None)


def read_document(root: Any) -> Document:
    """Return the central topic as heading, its branches as headings, and their topics as a list."""
    words_of = {part: _topic_words(part) for part in root.iter("node")}
    names = {part.get("ID"): words for part, words in words_of.items() if part.get("ID")}
    lines: list[str] = []
    pictures: list[str] = []
    locked = 0
    title = ""
    # Topics that follow, with their depths; recursion would end with deep maps.
    topics = [(part, 0) for part in reversed(root.findall("node"))]
    while topics:
        topic, depth = topics.pop()
        children = topic.findall("node")
        topics += [(child, depth + 1) for child in reversed(children)]
        words = _linked(words_of[topic], topic.get("LINK", ""), names)
        title = title or detect.one_line(words_of[topic])
        is_heading = depth == 0 or (depth == 1 and bool(children))
        indent = "  " * min(max(depth - 2, 0), _MAX_INDENT)
        if words and is_heading:
            lines += ["", f"{'#' * (depth + 1)} {words}", ""]
        elif words:
            lines.append(f"{indent}- {words}")
        for further in _further_lines(topic, names):
            lines += [further, ""] if is_heading else [f"{indent}  {further}"]
        pictures += _pictures(topic)
        locked += topic.get("ENCRYPTED_CONTENT") is not None
    warnings = [f"Not read: pictures ({len(pictures):,}): {', '.join(pictures)[:300]}."] if pictures else []
    warnings += [f"Not read: encrypted topics ({locked:,})."] if locked else []
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return Document(strip_invisible(f"{text}\n"), title=title, warnings=tuple(warnings))


def _topic_words(topic: Any) -> str:
    words = topic.get("TEXT") or next((_rich_words(part) for part in _rich_parts(topic, "node")), "")
    if words.startswith("<html"):
        words = html_text.page_body(words)
    return " ".join((words or topic.get("LOCALIZED_TEXT", "").replace("_", " ")).split())


def _further_lines(topic: Any, names: dict[str, str]) -> Iterator[str]:
    """Yield details, notes, attributes, formulas and connections of a topic."""
    for kind, label in (("details", ""), ("note", "Note: ")):
        for part in _rich_parts(topic, kind):
            if words := _rich_words(part):
                yield f"{label}{words}"
    for part in topic:
        name = elements.local_name(part)
        if name == "attribute" and part.get("NAME"):
            yield f"{part.get('NAME')}: {' '.join(part.get('VALUE', '').split())}"
        elif name == "hook" and part.get("EQUATION"):
            yield f"$${part.get('EQUATION')}$$"
        elif name == "hook" and part.get("NAME", "").endswith("NodeNote.properties"):
            yield f"Note: {' '.join(''.join(part.itertext()).split())}"
        elif name == "arrowlink" and names.get(part.get("DESTINATION", "")):
            label = next(
                (part.get(key) for key in ("MIDDLE_LABEL", "SOURCE_LABEL", "TARGET_LABEL") if part.get(key)), ""
            )
            yield f"→ {names[part.get('DESTINATION')]}" + (f" ({label})" if label else "")


def _pictures(topic: Any) -> list[str]:
    addresses = [hook.get("URI", "") for hook in topic.findall("hook") if hook.get("NAME") == "ExternalObject"]
    texts = [
        topic.get("TEXT", ""),
        *(etree.tostring(part, encoding="unicode") for part in topic.findall("richcontent")),
    ]
    return addresses + [address for text in texts for address in _PICTURE_PATTERN.findall(text)]


def _rich_parts(topic: Any, kind: str) -> Iterator[Any]:
    return (part for part in topic.findall("richcontent") if part.get("TYPE", "").lower() == kind)


def _rich_words(part: Any) -> str:
    """Return a text of HTML or, in newer files, of plain characters."""
    if len(part) and elements.local_name(part[0]) == "html":
        # A page of plain paragraphs needs no parser of HTML: 0.4 ms for each topic.
        body = part[0].find("body")
        if body is not None and all(map(_is_plain, body.iter(etree.Element))) and not (body.text or "").strip():
            return " ".join(" ".join("".join(line.itertext()) + (line.tail or "") for line in body).split())
        return " ".join(html_text.page_body(etree.tostring(part[0], encoding="unicode", with_tail=False)).split())
    return " ".join("".join(part.itertext()).split())


def _is_plain(node: Any) -> bool:
    """Check for the body, a paragraph in it, or a letter form in a paragraph, without a place for hidden text."""
    name, parent = elements.local_name(node), elements.local_name(node.getparent())
    is_placed = name == "body" or (parent == "body" if name == "p" else parent != "body" and name in _LETTER_NAMES)
    return is_placed and "hidden" not in node.attrib and not _HIDING_STYLE.search(node.get("style", ""))


def _linked(words: str, address: str, names: dict[str, str]) -> str:
    if not address or address.startswith("menuitem:"):
        return words
    if address.startswith("#"):
        return f"{words} → {names[address[1:]]}" if names.get(address[1:]) else words
    return link_cell(words, address) if address.startswith(("http://", "https://")) else f"{words} ({address})"
