"""Reader of a web page in a parser child: the selected elements, or the main text."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.charsets import decoding
from connectors.http import html
from connectors.parsers import detect
from connectors.parsers.document import tidy_markdown
from connectors.parsers.formats import html_text
from connectors.parsers.messages import Page, Reply, Task
from retrieval.errors import Skippable
from retrieval.jobs.web_pages import SHELL_PROPERTY

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_SILENT = "script, style, noscript, template, svg, canvas, iframe, object, embed, [hidden], input, select, button"
_FURNITURE = (
    "nav, aside, header:not(main header, article header, [role=main] header), form,"
    " footer:not(main footer, article footer, [role=main] footer), [role=navigation], [role=banner], [role=search],"
    " [role=contentinfo], .headerlink, .breadcrumb, .breadcrumbs"
)
_MAIN = "main, [role=main]"
_CONSENT = '[id*="cookie" i], [class*="cookie" i], [id*="consent" i], [class*="consent" i], [aria-modal="true"]'
_ANSWERS = "button, [role=button], input[type=button], input[type=submit]"
_BLOCKS = frozenset({"ul", "ol", "dl", "div", "section", "table", "tbody", "tr", "td", "p", "center", "map"})
_PROSE = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "blockquote", "table", "article", "main"})
_MENU_LINKS = 4
# Minimum share of link text in a menu.
_MENU_SHARE = 0.6
_SCRIPTS = 'script[src], script[type="module"], body script:not([type])'
_ANY_SCRIPT = 'script:not([type*="json" i])'
_UNSEEN = "script, style, noscript, template"
# Maximum letters of an application shell, such as `Loading …`, before its scripts run.
_SHELL_LETTERS = 60
_EMPTY = "The page holds no text."
_SCRIPTED = (
    "The page holds no text but scripts that fill it in a browser (an application shell). BUILTIN does not run"
    " scripts: ingest it with a webScraperConfig whose provider does, such as FIRECRAWL."
)
# Minimum share of the page's text without menus for its articles, or trafilatura's result, as main text.
_ARTICLE_SHARE = 1 / 3


def read_page(task: Task, page: Page) -> Reply:
    """Convert a page to Markdown. Skippable if nothing remains."""
    data = Path(task.path).read_bytes()
    if len(data) > html.MAX_PAGE_BYTES:
        raise Skippable(
            f"The page has {len(data) / 2**20:.1f} MiB; a web page may have {html.MAX_PAGE_BYTES // 2**20} MiB."
            " Ingest the pages that it consists of, or upload it in parts."
        )
    parsed = html.parse_page(data, task.media_type)
    about = html.read_about(parsed, page.url)
    shell = _drop_scripts(parsed)
    try:
        text = decoding.require_readable(_text(parsed, page, shell=shell))
    except ValueError as error:
        raise Skippable("A CSS selector of scrapeOptions is not valid. Correct it and ingest again.") from error
    properties: dict[str, str | int] = {"mimeType": "text/html", "fileSize": len(data)}
    page_properties = {"language": about.language, "canonicalUrl": about.canonical, "description": about.description}
    properties.update({key: detect.make_storable(value) for key, value in page_properties.items() if value})
    if shell:
        properties[SHELL_PROPERTY] = 1
    return Reply(text=text, title=detect.one_line(about.title) or detect.first_heading(text), properties=properties)


def _drop_scripts(parsed: LexborHTMLParser) -> bool:
    """Remove scripts and their placeholders. Return True for an almost empty application shell."""
    scripted, any_script = (parsed.css_first(selector) is not None for selector in (_SCRIPTS, _ANY_SCRIPT))
    _drop(parsed, _UNSEEN)
    body = parsed.body
    if body is None or not _letters(body):
        return any_script
    return scripted and _letters(body) <= _SHELL_LETTERS and not any(map(_letters, body.css("a[href]")))


def _text(parsed: LexborHTMLParser, page: Page, *, shell: bool) -> str:
    for node in html.select_elements(parsed, page.exclude):
        node.decompose()
    if page.include:
        chosen = html.select_elements(parsed, page.include)
        if not chosen:
            raise Skippable("The page has no element that includeSelectors name.")
        _drop(parsed, _SILENT)
        text = _markdown(chosen)
    else:
        text = _main_text(parsed)
    if not text.strip():
        raise Skippable(_SCRIPTED if shell else _EMPTY)
    return text


def _main_text(parsed: LexborHTMLParser) -> str:
    """Return the marked main part, else the articles, else everything except menus."""
    # The share of link text decides, not the length: on a page of one sentence the menu is longer.
    _drop_consent(parsed)
    _drop(parsed, _SILENT)
    whole = parsed.html or ""
    _drop(parsed, _FURNITURE)
    marked = [node for node in html.select_elements(parsed, [_MAIN]) if _letters(node)]
    if marked:
        return _markdown(_unlinked(parsed, marked))
    if parsed.body is None or not _letters(parsed.body):
        return _found(whole)
    everything = parsed.body.html or ""
    _drop_menus(parsed.body)
    if not _letters(parsed.body):
        return _markdown([_body(everything)])
    articles = [node for node in html.select_elements(parsed, ["article"]) if _letters(node)]
    if articles and sum(map(_own_letters, articles)) >= _ARTICLE_SHARE * _own_letters(parsed.body):
        return _markdown(articles)
    extracted = _found(parsed.html or "")
    if sum(map(str.isalnum, extracted)) >= _ARTICLE_SHARE * _letters(parsed.body):
        return extracted
    return _markdown([parsed.body])


def _unlinked(parsed: LexborHTMLParser, marked: list[LexborNode]) -> list[LexborNode]:
    """Return the articles of a main part of mostly links, else the part."""
    letters, unlinked_letters = sum(map(_letters, marked)), sum(map(_own_letters, marked))
    articles = [node for node in html.select_elements(parsed, ["main article, [role=main] article"]) if _letters(node)]
    if unlinked_letters > (1 - _MENU_SHARE) * letters or not articles:
        return marked
    return articles if sum(map(_own_letters, articles)) >= _ARTICLE_SHARE * unlinked_letters else marked


def _drop_consent(parsed: LexborHTMLParser) -> None:
    """Remove consent dialogs: blocks with a button outside the page's main part."""
    for node in html.select_elements(parsed, [_CONSENT]):
        if node.css_first(_ANSWERS) is not None and node.css_first(f"{_MAIN}, article, h1") is None:
            node.decompose()


def _drop_menus(body: LexborNode) -> None:
    """Remove blocks of links, innermost first."""
    letters, linked, links, prose = Counter[int](), Counter[int](), Counter[int](), set[int]()
    for node in reversed(list(body.traverse(include_text=True))):
        key, parent = node.mem_id, node.parent
        if parent is None or key == body.mem_id:
            continue
        if node.tag == "-text":
            letters[key] = _letters(node)
        elif node.tag == "a":
            linked[key], links[key] = letters[key], 1
        unlinked_letters = letters[key] - linked[key]
        is_menu = links[key] >= _MENU_LINKS and linked[key] >= _MENU_SHARE * letters[key] and key not in prose
        if is_menu and node.tag in _BLOCKS:
            node.decompose()
            continue
        if key in prose or (node.tag in _PROSE and unlinked_letters):
            prose.add(parent.mem_id)
        for counts in (letters, linked, links):
            counts[parent.mem_id] += counts[key]


def _body(source: str) -> LexborNode:
    from selectolax.lexbor import LexborHTMLParser

    body = LexborHTMLParser(source).body
    if body is None:
        raise Skippable(_EMPTY)
    return body


def _letters(node: LexborNode) -> int:
    return sum(map(str.isalnum, node.text()))


def _own_letters(node: LexborNode) -> int:
    """Count letters and digits outside links."""
    return _letters(node) - sum(map(_letters, node.css("a")))


def _found(page: str) -> str:
    import trafilatura

    text = trafilatura.extract(
        page, output_format="markdown", include_comments=False, include_tables=True, favor_recall=True
    )
    return tidy_markdown(text or "")


def _markdown(nodes: list[LexborNode]) -> str:
    """Convert to Markdown without link addresses, useless in search."""
    for node in nodes:
        node.unwrap_tags(["a"])
    return "\n\n".join(filter(None, map(html_text.html_markdown, nodes)))


def _drop(parsed: LexborHTMLParser, selector: str) -> None:
    for node in html.select_elements(parsed, [selector]):
        node.decompose()
