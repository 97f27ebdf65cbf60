"""From Notion's "enhanced" Markdown to plain Markdown, as other documents have it.

Notion writes a block a line, indents children by tabs, and has tags for what Markdown lacks (its guide "Enhanced
markdown"). Here tags leave their text, tables become Markdown's, and addresses of files lose their signatures, which
are others at each fetch and would make every page look changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from posixpath import basename
from urllib.parse import unquote, urlsplit

_FENCE = re.compile(r"\t*(`{3,}|~{3,})")
_SIGNED = re.compile(r"(https?://[^\s\"<>()?]+)\?[^\s\"<>()]*(?:X-Amz-|[Ss]ignature=|expirationTimestamp=)[^\s\"<>()]*")
_TABLE = re.compile(r"\t*<table\b[^>]*>(.*?)</table>", re.DOTALL)
_ROW = re.compile(r"<tr\b[^>]*>(.*?)</tr>", re.DOTALL)
_CELL = re.compile(r"<t[dh]\b[^>]*>(.*?)</t[dh]>", re.DOTALL)
_ATTRIBUTES = re.compile(r"[ \t]*(?<!\\)\{[a-z-]+=\"[^\"]*\"(?: [a-z-]+=\"[^\"]*\")*\}[ \t]*$", re.MULTILINE)
_LINKS = (
    "page|database|mention-page|mention-database|mention-data-source|mention-user|mention-agent"
    "|file|video|audio|pdf|image"
)
_TAGS = (
    "callout|columns|column|column_list|details|summary|span|synced_block_reference|synced_block|meeting-notes|notes"
    "|transcript|table_of_contents|empty-block|breadcrumb|unknown|tab|tabs"
)
_INLINE = re.compile(
    r"(?P<code>`[^`\n]+`)"
    r"|\\(?P<escaped>[${}^])|(?P<kept>\\.)"
    rf"|<(?P<link>{_LINKS})\b(?P<attributes>[^<>\n]*?)(?:/>|>(?P<text>[^<\n]*)</(?P=link)>)"
    r"|<mention-date (?P<date>[^<>\n]*?)/?>"
    r"|(?P<break><br ?/?>)"
    rf"|</?(?:{_TAGS})\b[^<>\n]*>"
)
_ADDRESS = re.compile(r"(?:url|src|source)=\"([^\"]*)\"")
_DAY = re.compile(r"(?:start|end|startTime|endTime)=\"([^\"]*)\"")
_ITEM = re.compile(r"(?:[-*+]|\d+[.)]) ")
_PEOPLE = {"mention-user", "mention-agent"}


def tidied(text: str) -> str:
    """Plain Markdown, with an empty line between blocks; code stays as it is."""
    return "\n".join(_laid_out(_parts(text))).strip()


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Stretches of prose, and of code with its fences; (text, whether it is code)."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if not fence and mark:
            yield _prose("\n".join(lines)), False
            lines, fence = [line], mark[1]
        elif fence and line.strip() == fence:
            yield "\n".join([*lines, line]), True
            lines, fence = [], ""
        else:
            lines.append(line)
    yield ("\n".join(lines), True) if fence else (_prose("\n".join(lines)), False)


def _prose(text: str) -> str:
    text = _SIGNED.sub(r"\1", text)
    text = _TABLE.sub(lambda table: "\n" + _table(table[1]) + "\n", text)
    return _INLINE.sub(_inline, _ATTRIBUTES.sub("", text))


def _table(inner: str) -> str:
    rows = [[" ".join(cell.split()) for cell in _CELL.findall(row)] for row in _ROW.findall(inner)]
    wide = max(map(len, rows), default=0)
    if not wide:
        return ""
    lines = [
        "| " + " | ".join(re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in [*row, *[""] * (wide - len(row))]) + " |"
        for row in rows
    ]
    return "\n".join([lines[0], "|" + " --- |" * wide, *lines[1:]])


def _inline(found: re.Match[str]) -> str:
    """A tag's text: a link where the tag leads somewhere, a person's name, a date."""
    if found["code"] or found["kept"] or found["escaped"]:
        return str(found["code"] or found["kept"] or found["escaped"])
    if found["date"]:
        return " to ".join(_DAY.findall(found["date"]))
    if found["break"]:
        return "\n"
    if not found["link"]:
        return ""
    address, text = _ADDRESS.search(found["attributes"]), (found["text"] or "").strip()
    if found["link"] in _PEOPLE or address is None:
        return text
    return f"[{text or unquote(basename(urlsplit(address[1]).path))}]({address[1]})"


def _laid_out(parts: Iterator[tuple[str, bool]]) -> Iterator[str]:
    """Lines of lists, quotes and tables lie beside each other, all others apart; children of others are no code."""
    before = ""
    for text, is_code in parts:
        if is_code:
            yield ""
            indent = len(text) - len(text.lstrip("\t"))
            yield from (re.sub(rf"^\t{{0,{indent}}}", "", line) for line in text.split("\n"))
            before = "code"
            continue
        for line in text.split("\n"):
            bare = line.strip()
            if not bare:
                continue
            kind = _kind(bare)
            if kind != before or kind == "text":
                yield ""
            yield " " * 4 * (len(line) - len(line.lstrip("\t"))) + bare if kind == "list" else bare
            before = kind


def _kind(line: str) -> str:
    if _ITEM.match(line):
        return "list"
    return {">": "quote", "|": "table"}.get(line[0], "text")
