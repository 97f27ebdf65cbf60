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
