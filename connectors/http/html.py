"""Decoding, parsing, links and metadata of HTML pages."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from connectors.charsets import decoding

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

# A larger page exceeds the memory of a parser process.
MAX_PAGE_BYTES = 10 * 1024 * 1024
HTML = frozenset({"text/html", "application/xhtml+xml"})
_VALUED = ("max-snippet", "max-image-preview", "max-video-preview", "unavailable_after")
_REFRESH = re.compile(r"""[;,]\s*(?:url\s*=\s*)?(?:["']([^"']+)|([^"'\s]\S*))""", re.IGNORECASE)


_SCRIPT_LEAD = re.compile(
    r"""\blocation(?:\.href)?\s*=\s*["']([^"'\s]+)["']|\blocation\.(?:replace|assign)\(\s*["']([^"'\s]+)["']"""
)
_LEAD_LETTERS, _LEAD_SECONDS = 300, 10
_SCRIPT_LEAD_LETTERS = 60


@dataclass(frozen=True, slots=True)
class About:
    """Metadata of a page, with absolute URLs; `index` and `follow` are permissions of the robots `meta`."""

    title: str
    language: str
    canonical: str
    description: str
    base: str
    index: bool = True
    follow: bool = True


def is_html(media_type: str) -> bool:
    return media_type.partition(";")[0].strip().lower() in HTML


def looks_like(head: bytes) -> bool:
    """Detect HTML by the sniffing rule of browsers."""
    start = head.removeprefix(codecs.BOM_UTF8).lstrip(b" \t\r\n\f").lower()
    start = re.sub(rb"^(<\?xml[^>]*>|<!--.*?-->|\s+)*", b"", start, flags=re.DOTALL)
    return re.match(rb"<(!doctype html|html|head|body|title|script|h1|div|p|table|a|br|meta)[\s>]", start) is not None


def decode_page(data: bytes, media_type: str = "") -> str:
    """Decode a page by the charset of the header or of the page. Never fails."""
    return decoding.decode_text(data, decoding.read_charset(media_type), markup=True)


def parse_page(data: bytes, media_type: str = "") -> LexborHTMLParser:
    from selectolax.lexbor import LexborHTMLParser

    return LexborHTMLParser(decode_page(data, media_type).replace("\0", ""))


def select_elements(parsed: LexborHTMLParser, selectors: Sequence[str]) -> list[LexborNode]:
    """Return the matching elements in order, without nested matches. ValueError for invalid CSS."""
    from selectolax.lexbor import SelectolaxError

    try:
        nodes = parsed.css(", ".join(selectors)) if selectors else []
    except SelectolaxError as error:
        raise ValueError("one of the selectors is no CSS") from error
    chosen: dict[int, LexborNode] = {node.mem_id: node for node in nodes}
    return [node for node in chosen.values() if not _inside(node, chosen)]


def is_selector(text: str) -> bool:
    from selectolax.lexbor import LexborHTMLParser

    try:
        select_elements(LexborHTMLParser(""), [text])
    except ValueError:
        return False
    return True


def _inside(node: LexborNode, others: dict[int, LexborNode]) -> bool:
    above = node.parent
    while above is not None:
        if above.mem_id in others:
            return True
        above = above.parent
    return False


def read_about(parsed: LexborHTMLParser, url: str) -> About:
    """Read the metadata of a page from `url`."""
    base = absolute_link(url, _attribute(parsed, "base[href]", "href")) or url
    robots_content = ", ".join(node.attributes.get("content") or "" for node in parsed.css('meta[name="robots" i]'))
    directives = read_robots(robots_content)
    return About(
        title=_line(_words(parsed, "title") or _meta(parsed, "og:title") or _words(parsed, "h1")),
        language=_line(_attribute(parsed, "html[lang]", "lang"))[:35],
        canonical=absolute_link(base, _attribute(parsed, 'link[rel~="canonical" i][href]', "href")),
        description=_line(_meta(parsed, "description") or _meta(parsed, "og:description"), 1000),
        base=base,
        index="noindex" not in directives,
        follow="nofollow" not in directives,
    )


def read_robots(said: str, name: str = "") -> frozenset[str]:
    """Read `noindex` and `nofollow` for the crawler `name` from a robots meta tag or an X-Robots-Tag header."""
    rules, applies = set[str](), True
    for part in said.lower().split(","):
        agent, colon, words = part.partition(":")
        scoped = bool(colon) and agent.strip() not in _VALUED
        if scoped:
            applies = agent.strip() in ("*", name.lower())
        if applies:
            rules.update((words if scoped else part).split())
    both = {"noindex", "nofollow"}
    return frozenset(both if "none" in rules else rules & both)


def find_links(parsed: LexborHTMLParser, page: About) -> list[str]:
    """Return the absolute links without fragments, duplicates and nofollow links; none of a nofollow page."""
    addresses = {
        absolute_link(page.base, node.attributes.get("href") or ""): None
        for node in parsed.css("a[href], area[href]")
        if "nofollow" not in (node.attributes.get("rel") or "").lower().split()
    }
    addresses |= {absolute_link(page.base, node.attributes.get("src") or ""): None for node in parsed.css("frame[src]")}
    for node in parsed.css('meta[http-equiv="refresh" i]'):
        if moved := _REFRESH.search(node.attributes.get("content") or ""):
            addresses[absolute_link(page.base, moved[1] or moved[2])] = None
    addresses.pop("", None)
    return list(addresses) if page.follow else []


def find_lead(parsed: LexborHTMLParser, url: str) -> str:
    """Return the redirect of a nearly empty page, by `meta refresh` or script, or ""."""
    base = absolute_link(url, _attribute(parsed, "base[href]", "href")) or url
    scripts = "\n".join(node.text() for node in parsed.css("script:not([src])"))
    refresh = next((node.attributes.get("content") or "" for node in parsed.css('meta[http-equiv="refresh" i]')), "")
    for node in parsed.css("script, style, noscript, template"):
        node.decompose()
    letters = sum(map(str.isalnum, parsed.body.text())) if parsed.body else 0
    delay = re.match(r"\s*(\d+)", refresh)
    moved = _REFRESH.search(refresh)
    if moved and letters <= _LEAD_LETTERS and (delay is None or int(delay[1]) <= _LEAD_SECONDS):
        return absolute_link(base, moved[1] or moved[2])
    script = _SCRIPT_LEAD.search(scripts) if letters <= _SCRIPT_LEAD_LETTERS else None
    return absolute_link(base, script[1] or script[2]) if script else ""


_UNSHOWN_SELECTOR = "head, script, style, template, noscript, title, [hidden]"
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_CELLS = frozenset({"td", "th"})
# Elements between empty lines.
_SPACED = frozenset({"blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "p", "pre"})
_INLINE_TAGS = """
    a abbr b bdi bdo big cite code data del dfn em font i img ins kbd label mark o:p q s samp small span strike strong
    sub sup time tt u var wbr
"""
_INLINE = frozenset(_INLINE_TAGS.split())


def read_text(data: bytes, media_type: str = "") -> str:
    """Return the visible text of a page as lines, those of quotes behind `>`."""
    parsed = parse_page(data[:MAX_PAGE_BYTES], media_type)
    for node in parsed.css(_UNSHOWN_SELECTOR):
        node.decompose()
    for node in parsed.css("[style]"):
        if _HIDDEN_STYLE.search(node.attributes.get("style") or ""):
            node.decompose()
    lines, words, depth = list[str](), list[str](), 0

    def end_line() -> None:
        line = " ".join("".join(words).split())
        lines.append(f"{'>' * depth} {line}".strip() if depth else line)
        words.clear()

    # Nodes to begin, and tags to end: recursion would fail on deep pages.
    pending: list[LexborNode | str] = [parsed.body] if parsed.body else []
    while pending:
        step = pending.pop()
        tag = step if isinstance(step, str) else str(step.tag)
        if tag == "-text":
            words.append("" if isinstance(step, str) else step.text_content or "")
            continue
        if tag in _CELLS:
            words.append(" ")
        elif tag not in _INLINE and (words or tag == "br"):
            end_line()
        if tag in _SPACED:
            lines.append(">" * depth)
        if isinstance(step, str):
            depth -= tag == "blockquote"
            continue
        depth += tag == "blockquote"
        words += ["- "] if tag == "li" else []
        pending += [] if tag == "br" else [tag, *reversed(list(step.iter(include_text=True)))]
    end_line()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def absolute_link(base: str, href: str) -> str:
    """Return the absolute http(s) URL without a fragment; "" if invalid or above 2048 characters."""
    try:
        url = urljoin(base, re.sub(r"[\t\n\r]", "", href.strip())) if href.strip() else ""
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        return ""
    if not usable or len(url) > 2048:
        return ""
    path = re.sub(r"[\x00-\x20\x7f]", lambda found: f"%{ord(found[0]):02X}", parts.path or "/").replace("\\", "/")
    return parts._replace(path=path, query=parts.query.replace(" ", "%20"), fragment="").geturl()


def _words(parsed: LexborHTMLParser, selector: str) -> str:
    node = parsed.css_first(selector)
    return node.text().strip() if node is not None else ""


def _meta(parsed: LexborHTMLParser, name: str) -> str:
    return _attribute(parsed, f'meta[name="{name}" i], meta[property="{name}" i]', "content")


def _attribute(parsed: LexborHTMLParser, selector: str, name: str) -> str:
    node = parsed.css_first(selector)
    return (node.attributes.get(name) or "").strip() if node is not None else ""


def _line(text: str, most: int = 300) -> str:
    return " ".join(text.split())[:most]
