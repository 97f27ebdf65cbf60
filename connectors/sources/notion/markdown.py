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
_URL = re.compile(r"https?://[^\s\"<>()]+")
_SIGNATURE = re.compile(r"X-Amz-|[Ss]ignature=|expirationTimestamp=")
_BREAK = re.compile(r"<br ?/?>")
_CELL = re.compile(r"<td\b[^<>]*>")
_ATTRIBUTES = re.compile(r"(?<!\\)\{[a-z-]+=\"[^\"]*\"(?: [a-z-]+=\"[^\"]*\")*\}[ \t]*$", re.MULTILINE)
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
    text = _URL.sub(_lasting, text)
    if "</table>" in text:
        text = "\n".join(_with_tables(text.split("\n")))
    return _INLINE.sub(_inline, _ATTRIBUTES.sub("", text))


def _lasting(url: re.Match[str]) -> str:
    """A file's address without the signature that lets it be fetched for an hour."""
    address, _, query = url[0].partition("?")
    return address if _SIGNATURE.search(query) else url[0]


def _with_tables(lines: list[str]) -> Iterator[str]:
    table: list[str] = []
    for line in lines:
        if not table and not line.lstrip("\t").startswith("<table"):
            yield line
            continue
        table.append(line)
        if line.endswith("</table>"):
            yield from ("", _table("\n".join(table)), "")
            table = []
    yield from table


def _table(text: str) -> str:
    """Its first row is the head."""
    found = [row.split("</td>")[:-1] for row in _BREAK.sub(" ", text).split("</tr>")[:-1]]
    rows = [
        [" ".join(_CELL.split(cell)[-1].replace("\\|", "|").replace("|", "\\|").split()) for cell in row]
        for row in found
    ]
    wide = max(map(len, rows), default=0)
    if not wide:
        return ""
    lines = ["| " + " | ".join([*row, *[""] * (wide - len(row))]) + " |" for row in rows]
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
