"""A page's content as Markdown: as Notion renders it, completed where it left blocks out, or from its blocks.

GET /v1/pages/{id}/markdown is one request a page. It leaves out what lies beyond some 20,000 blocks and what is not
shared, and names both; a block that it names is asked for like a page, and not there if it is not shared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from connectors.sources.notion import blocks
from connectors.sources.notion.markdown import tidied
from connectors.sources.notion.transport import Answer, Closed, Missing, Request, Unfit
from retrieval.errors import Retryable, Skippable

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
        """Skippable if it is too large; Missing or Closed if it cannot be had."""
        try:
            return tidied(self._rendered(page_id, set()))
        except Missing:
            return tidied(self._walked(page_id))

    def _rendered(self, block_id: str, seen: set[str]) -> str:
        """By Notion, with what it left out put in its place."""
        seen.add(block_id)
        try:
            answer = self._ask(lambda client, token: client.pages.retrieve_markdown(block_id, auth=token))
        except Unfit:
            return self._walked(block_id)
        text, left_out = answer.get("markdown"), answer.get("unknown_block_ids") or []
        if not isinstance(text, str) or not isinstance(left_out, list):
            raise Retryable("Notion's answer holds no Markdown.")
        if answer.get("truncated") is True and not left_out:
            return self._walked(block_id)
        for one in map(str, left_out):
            text = _put(text, one, "" if one in seen or _is_page(text, one) else self._left_out(one, seen))
            if len(text) > self.largest:
                raise Skippable(TOO_LARGE)
        return text

    def _left_out(self, block_id: str, seen: set[str]) -> str:
        """What is not shared is not there, and is no part of what may be asked for."""
        try:
            return self._rendered(block_id, seen)
        except (Missing, Closed):
            self._asked -= 1
            return ""
        except Unfit:
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
        for block in blocks.children(self._ask, block_id):
            kind = str(block.get("type"))
            held = block.get(kind)
            shape = _SHAPES.get(kind, _text)
            line = shape(held) if isinstance(held, Mapping) else ""
            yield from ("\t" * depth + one for one in line.split("\n") if line)
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
    """Where the block was left out, or at the end."""
    filled, times = _place(block_id).subn(lambda _: found, text, count=1)
    return filled if times or not found else f"{text}\n{found}"


def _is_page(text: str, block_id: str) -> bool:
    """Whether a page or a database was left out: it is a document of its own, if it is shared."""
    place = _place(block_id).search(text)
    return place is not None and _PAGE.search(place[0]) is not None


def _place(block_id: str) -> re.Pattern[str]:
    plain = re.escape(block_id.replace("-", ""))
    return re.compile(rf"<unknown\b[^<>\n]*?(?:{plain}|{re.escape(block_id)})[^<>\n]*?/>")


def _text(held: Mapping[str, Any]) -> str:
    return "".join(str(one.get("plain_text", "")) for one in held.get("rich_text") or ()).replace("<", "\\<")


def _code(held: Mapping[str, Any]) -> str:
    text = "".join(str(one.get("plain_text", "")) for one in held.get("rich_text") or ())
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`{3,}", text))])
    return f"{fence}{held.get('language') or ''}\n{text}\n{fence}"


def _cells(held: Mapping[str, Any]) -> str:
    cells = ["".join(str(one.get("plain_text", "")) for one in cell) for cell in held.get("cells") or ()]
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def _linked(held: Mapping[str, Any]) -> str:
    """A bookmark or an attached file: its caption and where it lies."""
    caption = "".join(str(one.get("plain_text", "")) for one in held.get("caption") or ()) or held.get("name")
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
