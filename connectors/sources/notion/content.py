"""Conversion of Notion's "enhanced" Markdown to plain Markdown."""

# Notion writes one block per line, indents children by tabs, and uses tags for everything else (its guide "Enhanced
# markdown"). Signatures of file addresses are removed: they change with each fetch, and every page would look changed.
# GET /v1/pages/{id}/markdown omits blocks beyond some 20,000 and unshared ones, and names both; an omitted block is
# requested like a page, and answers 404 if it is unshared.

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from posixpath import basename
from typing import Any
from urllib.parse import unquote, urlsplit

from connectors.sources.notion import blocks
from connectors.sources.notion.transport import Answer, BadRequest, Forbidden, NotFound, Request, RequestSender
from retrieval.errors import Retryable, Skippable

_FENCE_PATTERN = re.compile(r"\t*(`{3,}|~{3,})")
_URL_PATTERN = re.compile(r"https?://[^\s\"<>()]+")
_SIGNATURE_PATTERN = re.compile(r"X-Amz-|[Ss]ignature=|expirationTimestamp=")
_BREAK_PATTERN = re.compile(r"<br ?/?>")
_CELL_PATTERN = re.compile(r"<td\b[^<>]*>")
_ATTRIBUTES_PATTERN = re.compile(r"(?<!\\)\{[a-z-]+=\"[^\"]*\"(?: [a-z-]+=\"[^\"]*\")*\}[ \t]*$", re.MULTILINE)
_LINK_TAGS = (
    "page|database|mention-page|mention-database|mention-data-source|mention-user|mention-agent"
    "|file|video|audio|pdf|image"
)
_CONTAINER_TAGS = (
    "callout|columns|column|column_list|details|summary|span|synced_block_reference|synced_block|meeting-notes|notes"
    "|transcript|table_of_contents|empty-block|breadcrumb|unknown|tab|tabs"
)
_INLINE_PATTERN = re.compile(
    r"(?P<code>`[^`\n]+`)"
    r"|\\(?P<escaped>[${}^])|(?P<backslash>\\.)"
    rf"|<(?P<link>{_LINK_TAGS})\b(?P<attributes>[^<>\n]*?)(?:/>|>(?P<text>[^<\n]*)</(?P=link)>)"
    r"|<mention-date (?P<date>[^<>\n]*?)/?>"
    r"|(?P<break><br ?/?>)"
    rf"|</?(?:{_CONTAINER_TAGS})\b[^<>\n]*>"
)
_ADDRESS_PATTERN = re.compile(r"(?:url|src|source)=\"([^\"]*)\"")
_DAY_PATTERN = re.compile(r"(?:start|end|startTime|endTime)=\"([^\"]*)\"")
_ITEM_PATTERN = re.compile(r"(?:[-*+]|\d+[.)]) ")
_PERSON_TAGS = {"mention-user", "mention-agent"}


def tidy_markdown(text: str) -> str:
    """Return plain Markdown with an empty line between blocks; code is unchanged."""
    return "\n".join(_separate_blocks(_split_code(text))).strip()


def _split_code(text: str) -> Iterator[tuple[str, bool]]:
    """Yield stretches of prose and code as (text, is code)."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE_PATTERN.match(line)
        if not fence and mark:
            yield _convert_prose("\n".join(lines)), False
            lines, fence = [line], mark[1]
        elif fence and line.strip() == fence:
            yield "\n".join([*lines, line]), True
            lines, fence = [], ""
        else:
            lines.append(line)
    yield ("\n".join(lines), True) if fence else (_convert_prose("\n".join(lines)), False)


def _convert_prose(text: str) -> str:
    text = _URL_PATTERN.sub(_without_signature, text)
    if "</table>" in text:
        text = "\n".join(_convert_tables(text.split("\n")))
    return _INLINE_PATTERN.sub(_replace_tag, _ATTRIBUTES_PATTERN.sub("", text))


def _without_signature(url: re.Match[str]) -> str:
    """Return the address of a file without the signature."""
    address, _, query = url[0].partition("?")
    return address if _SIGNATURE_PATTERN.search(query) else url[0]


def _convert_tables(lines: list[str]) -> Iterator[str]:
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
    """Convert a table; the first row is the head."""
    table_rows = [row.split("</td>")[:-1] for row in _BREAK_PATTERN.sub(" ", text).split("</tr>")[:-1]]
    rows = [
        [" ".join(_CELL_PATTERN.split(cell)[-1].replace("\\|", "|").replace("|", "\\|").split()) for cell in row]
        for row in table_rows
    ]
    wide = max(map(len, rows), default=0)
    if not wide:
        return ""
    lines = ["| " + " | ".join([*row, *[""] * (wide - len(row))]) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * wide, *lines[1:]])


def _replace_tag(match: re.Match[str]) -> str:
    """Return the text of a tag: a link, a person's name, or a date."""
    if match["code"] or match["backslash"] or match["escaped"]:
        return str(match["code"] or match["backslash"] or match["escaped"])
    if match["date"]:
        return " to ".join(_DAY_PATTERN.findall(match["date"]))
    if match["break"]:
        return "\n"
    if not match["link"]:
        return ""
    address, text = _ADDRESS_PATTERN.search(match["attributes"]), (match["text"] or "").strip()
    if match["link"] in _PERSON_TAGS or address is None:
        return text
    return f"[{text or unquote(basename(urlsplit(address[1]).path))}]({address[1]})"


def _separate_blocks(parts: Iterator[tuple[str, bool]]) -> Iterator[str]:
    """Separate blocks by empty lines, except lines of a list, quote or table."""
    # Four spaces of indentation would make code of a nested paragraph.
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
            kind = _line_kind(bare)
            if kind != previous or kind == "text":
                yield ""
            yield " " * 4 * (len(line) - len(line.lstrip("\t"))) + bare if kind == "list" else bare
            previous = kind


def _line_kind(line: str) -> str:
    if _ITEM_PATTERN.match(line):
        return "list"
    return {">": "quote", "|": "table"}.get(line[0], "text")


# Limit for one page; at Notion's rate of requests these take three minutes.
MAX_PAGE_REQUESTS = 500
MAX_BLOCK_DEPTH = 12
_PAGE_TAG = re.compile(r"\balt=\"(?:child_)?(?:page|database)\"")
TOO_LARGE_MESSAGE = "The page is too large to be fetched whole: split it into several pages."


@dataclass(slots=True)
class PageContent:
    """Reader of one page's content; `max_bytes`: limit of the Markdown."""

    send: RequestSender
    max_bytes: int
    _requests: int = 0

    def read_markdown(self, page_id: str) -> str:
        """Return the page's Markdown. Skippable if too large; NotFound or Forbidden if unreadable."""
        try:
            return tidy_markdown(self._render(page_id, set()))
        except NotFound:
            return tidy_markdown(self._walk_blocks(page_id))

    def _render(self, block_id: str, rendered_ids: set[str]) -> str:
        """Convert with Notion's Markdown endpoint and insert the blocks it omits."""
        rendered_ids.add(block_id)
        try:
            answer = self._send(lambda client, token: client.pages.retrieve_markdown(block_id, auth=token))
        except BadRequest:
            return self._walk_blocks(block_id)
        text, omitted_ids = answer.get("markdown"), answer.get("unknown_block_ids") or []
        if not isinstance(text, str) or not isinstance(omitted_ids, list):
            raise Retryable("Notion's answer holds no Markdown.")
        if answer.get("truncated") is True and not omitted_ids:
            return self._walk_blocks(block_id)
        for omitted_id in map(str, omitted_ids):
            text = _insert_block(
                text,
                omitted_id,
                ""
                if omitted_id in rendered_ids or _is_page(text, omitted_id)
                else self._read_omitted(omitted_id, rendered_ids),
            )
            if len(text) > self.max_bytes:
                raise Skippable(TOO_LARGE_MESSAGE)
        return text

    def _read_omitted(self, block_id: str, rendered_ids: set[str]) -> str:
        """Return the Markdown of an omitted block; "" if it is unshared."""
        try:
            return self._render(block_id, rendered_ids)
        except (NotFound, Forbidden):
            self._requests -= 1
            return ""
        except BadRequest:
            return ""

    def _walk_blocks(self, block_id: str) -> str:
        lines: list[str] = []
        size = 0
        for line in self._lines(block_id, 0):
            lines.append(line)
            size += len(line)
            if size > self.max_bytes:
                raise Skippable(TOO_LARGE_MESSAGE)
        return "\n".join(lines)

    def _lines(self, block_id: str, depth: int) -> Iterator[str]:
        """Yield a line for each block below, with children indented."""
        for block in blocks.list_children(self._send, block_id):
            kind = str(block.get("type"))
            content = block.get(kind)
            shape = _BLOCK_FORMATS.get(kind, _format_text)
            line = shape(content) if isinstance(content, Mapping) else ""
            yield from ("\t" * depth + text_line for text_line in line.split("\n") if line)
            if kind == "table":
                yield from self._table(str(block["id"]))
            elif block.get("has_children") is True and kind not in _DOCUMENT_BLOCKS and depth < MAX_BLOCK_DEPTH:
                yield from self._lines(str(block["id"]), depth + (kind not in _UNINDENTED_BLOCKS))

    def _table(self, block_id: str) -> Iterator[str]:
        """Yield a table's rows; the first one is the head."""
        for number, line in enumerate(self._lines(block_id, 0)):
            yield line
            if number == 0:
                yield "|" + " --- |" * len(re.findall(r"(?<!\\)\|", line[1:]))

    def _send(self, request: Request) -> Answer:
        if self._requests == MAX_PAGE_REQUESTS:
            raise Skippable(TOO_LARGE_MESSAGE)
        self._requests += 1
        return self.send(request)


def _insert_block(text: str, block_id: str, markdown: str) -> str:
    """Insert the text at the tag of the omitted block, or at the end."""
    filled, times = _omission_tag(block_id).subn(lambda _: markdown, text, count=1)
    return filled if times or not markdown else f"{text}\n{markdown}"


def _is_page(text: str, block_id: str) -> bool:
    """Return True if the omitted block is a page or a database."""
    # Shared pages are documents of their own.
    match = _omission_tag(block_id).search(text)
    return match is not None and _PAGE_TAG.search(match[0]) is not None


def _omission_tag(block_id: str) -> re.Pattern[str]:
    plain = re.escape(block_id.replace("-", ""))
    return re.compile(rf"<unknown\b[^<>\n]*?(?:{plain}|{re.escape(block_id)})[^<>\n]*?/>")


def _format_text(content: Mapping[str, Any]) -> str:
    return "".join(str(span.get("plain_text", "")) for span in content.get("rich_text") or ()).replace("<", "\\<")


def _format_code(content: Mapping[str, Any]) -> str:
    text = "".join(str(span.get("plain_text", "")) for span in content.get("rich_text") or ())
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`{3,}", text))])
    return f"{fence}{content.get('language') or ''}\n{text}\n{fence}"


def _format_row(content: Mapping[str, Any]) -> str:
    cells = ["".join(str(span.get("plain_text", "")) for span in cell) for cell in content.get("cells") or ()]
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def _format_link(content: Mapping[str, Any]) -> str:
    """Format a bookmark or an attached file as a link with caption."""
    caption = "".join(str(span.get("plain_text", "")) for span in content.get("caption") or ()) or content.get("name")
    address = content.get("url") or (content.get(str(content.get("type"))) or {}).get("url")
    return f"[{caption or address}]({address})" if address else str(caption or "")


def _prefixed(mark: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda content: mark + _format_text(content).replace("\n", " ")


_BLOCK_FORMATS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "heading_1": _prefixed("# "),
    "heading_2": _prefixed("## "),
    "heading_3": _prefixed("### "),
    "heading_4": _prefixed("#### "),
    "bulleted_list_item": _prefixed("- "),
    "numbered_list_item": _prefixed("1. "),
    "to_do": lambda content: ("- [x] " if content.get("checked") else "- [ ] ") + _format_text(content),
    "quote": _prefixed("> "),
    "code": _format_code,
    "equation": lambda content: f"$$ {content.get('expression', '')} $$",
    "divider": lambda _content: "---",
    "table_row": _format_row,
    "child_page": lambda content: str(content.get("title") or ""),
    "child_database": lambda content: str(content.get("title") or ""),
    **dict.fromkeys(("bookmark", "embed", "link_preview", "image", "video", "audio", "file", "pdf"), _format_link),
}
_DOCUMENT_BLOCKS = {"child_page", "child_database"}
_UNINDENTED_BLOCKS = {"column_list", "column", "synced_block", "toggle", "callout"}
