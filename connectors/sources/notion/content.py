"""Conversion of Notion's "enhanced" Markdown to plain Markdown.

Notion writes a block a line, indents children by tabs, and has tags for what Markdown lacks (its guide "Enhanced
markdown"). Here tags leave their text, tables become Markdown's, and addresses of files lose their signatures, which
are others at each fetch and would make every page look changed.

GET /v1/pages/{id}/markdown is one request a page. It leaves out blocks beyond some 20,000 and what is not
shared, and names both; a block that it names is requested like a page, and not there if it is not shared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from posixpath import basename
from typing import Any
from urllib.parse import unquote, urlsplit

from connectors.sources.notion import blocks
from connectors.sources.notion.transport import Answer, BadRequest, Forbidden, NotFound, Request
from retrieval.errors import Retryable, Skippable

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


def tidy_markdown(text: str) -> str:
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
    table_rows = [row.split("</td>")[:-1] for row in _BREAK.sub(" ", text).split("</tr>")[:-1]]
    rows = [
        [" ".join(_CELL.split(cell)[-1].replace("\\|", "|").replace("|", "\\|").split()) for cell in row]
        for row in table_rows
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
    """Lay out lines: those of lists, quotes and tables are adjacent, all others apart; nested ones are no code."""
    previous = ""
    for text, is_code in parts:
        if is_code:
            yield ""
            indent = len(text) - len(text.lstrip("\t"))
            yield from (re.sub(rf"^\t{{0,{indent}}}", "", line) for line in text.split("\n"))
            previous = "code"
            continue
        for line in text.split("\n"):
            bare = line.strip()
            if not bare:
                continue
            kind = _kind(bare)
            if kind != previous or kind == "text":
                yield ""
            yield " " * 4 * (len(line) - len(line.lstrip("\t"))) + bare if kind == "list" else bare
            previous = kind


def _kind(line: str) -> str:
    if _ITEM.match(line):
        return "list"
    return {">": "quote", "|": "table"}.get(line[0], "text")


REQUESTS = 500
"""For one page; at Notion's rate they take three minutes."""
DEPTH = 12
_PAGE = re.compile(r"\balt=\"(?:child_)?(?:page|database)\"")
TOO_LARGE = "The page is too large to be fetched whole: split it into several pages."


@dataclass(slots=True)
class Content:
    """One page's. `ask` makes a request in the name of the connection; `largest`: bytes of Markdown at most."""

    ask: Callable[[Request], Answer]
    largest: int
    _asked: int = 0

    def of(self, page_id: str) -> str:
        """Skippable if it is too large; NotFound or Forbidden if it cannot be had."""
        try:
            return tidy_markdown(self._rendered(page_id, set()))
        except NotFound:
            return tidy_markdown(self._walked(page_id))

    def _rendered(self, block_id: str, seen: set[str]) -> str:
        """By Notion, with what it left out put in its place."""
        seen.add(block_id)
        try:
            answer = self._ask(lambda client, token: client.pages.retrieve_markdown(block_id, auth=token))
        except BadRequest:
            return self._walked(block_id)
        text, left_out = answer.get("markdown"), answer.get("unknown_block_ids") or []
        if not isinstance(text, str) or not isinstance(left_out, list):
            raise Retryable("Notion's answer holds no Markdown.")
        if answer.get("truncated") is True and not left_out:
            return self._walked(block_id)
        for missing_id in map(str, left_out):
            text = _put(
                text,
                missing_id,
                "" if missing_id in seen or _is_page(text, missing_id) else self._left_out(missing_id, seen),
            )
            if len(text) > self.largest:
                raise Skippable(TOO_LARGE)
        return text

    def _left_out(self, block_id: str, seen: set[str]) -> str:
        """Insert the blocks that Notion left out. Unshared blocks cannot be requested."""
        try:
            return self._rendered(block_id, seen)
        except (NotFound, Forbidden):
            self._asked -= 1
            return ""
        except BadRequest:
            return ""

    def _walked(self, block_id: str) -> str:
        lines: list[str] = []
        size = 0
        for line in self._lines(block_id, 0):
            lines.append(line)
            size += len(line)
            if size > self.largest:
                raise Skippable(TOO_LARGE)
        return "\n".join(lines)

    def _lines(self, block_id: str, depth: int) -> Iterator[str]:
        """The blocks below, a line each, children further in."""
        for block in blocks.list_children(self._ask, block_id):
            kind = str(block.get("type"))
            content = block.get(kind)
            shape = _SHAPES.get(kind, _text)
            line = shape(content) if isinstance(content, Mapping) else ""
            yield from ("\t" * depth + text_line for text_line in line.split("\n") if line)
            if kind == "table":
                yield from self._table(str(block["id"]))
            elif block.get("has_children") is True and kind not in _APART and depth < DEPTH:
                yield from self._lines(str(block["id"]), depth + (kind not in _FLAT))

    def _table(self, block_id: str) -> Iterator[str]:
        """Its first row as the head."""
        for number, line in enumerate(self._lines(block_id, 0)):
            yield line
            if number == 0:
                yield "|" + " --- |" * len(re.findall(r"(?<!\\)\|", line[1:]))

    def _ask(self, request: Request) -> Answer:
        if self._asked == REQUESTS:
            raise Skippable(TOO_LARGE)
        self._asked += 1
        return self.ask(request)


def _put(text: str, block_id: str, found: str) -> str:
    """Insert the text where the block was left out, or at the end."""
    filled, times = _place(block_id).subn(lambda _: found, text, count=1)
    return filled if times or not found else f"{text}\n{found}"


def _is_page(text: str, block_id: str) -> bool:
    """Tell whether a page or a database was left out: it is a document of its own, if it is shared."""
    match = _place(block_id).search(text)
    return match is not None and _PAGE.search(match[0]) is not None


def _place(block_id: str) -> re.Pattern[str]:
    plain = re.escape(block_id.replace("-", ""))
    return re.compile(rf"<unknown\b[^<>\n]*?(?:{plain}|{re.escape(block_id)})[^<>\n]*?/>")


def _text(held: Mapping[str, Any]) -> str:
    return "".join(str(span.get("plain_text", "")) for span in held.get("rich_text") or ()).replace("<", "\\<")


def _code(held: Mapping[str, Any]) -> str:
    text = "".join(str(span.get("plain_text", "")) for span in held.get("rich_text") or ())
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`{3,}", text))])
    return f"{fence}{held.get('language') or ''}\n{text}\n{fence}"


def _cells(held: Mapping[str, Any]) -> str:
    cells = ["".join(str(span.get("plain_text", "")) for span in cell) for cell in held.get("cells") or ()]
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def _linked(held: Mapping[str, Any]) -> str:
    """Text of a bookmark or an attached file: its caption and its address."""
    caption = "".join(str(span.get("plain_text", "")) for span in held.get("caption") or ()) or held.get("name")
    address = held.get("url") or (held.get(str(held.get("type"))) or {}).get("url")
    return f"[{caption or address}]({address})" if address else str(caption or "")


def _before(mark: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda held: mark + _text(held).replace("\n", " ")


_SHAPES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "heading_1": _before("# "),
    "heading_2": _before("## "),
    "heading_3": _before("### "),
    "heading_4": _before("#### "),
    "bulleted_list_item": _before("- "),
    "numbered_list_item": _before("1. "),
    "to_do": lambda held: ("- [x] " if held.get("checked") else "- [ ] ") + _text(held),
    "quote": _before("> "),
    "code": _code,
    "equation": lambda held: f"$$ {held.get('expression', '')} $$",
    "divider": lambda _held: "---",
    "table_row": _cells,
    "child_page": lambda held: str(held.get("title") or ""),
    "child_database": lambda held: str(held.get("title") or ""),
    **dict.fromkeys(("bookmark", "embed", "link_preview", "image", "video", "audio", "file", "pdf"), _linked),
}
_APART = {"child_page", "child_database"}
_FLAT = {"column_list", "column", "synced_block", "toggle", "callout"}
