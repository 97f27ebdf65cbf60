"""Read a web page in a parser child: the selected elements, else the main text."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.charsets import decoding
from connectors.http import html
from connectors.parsers import detect
from connectors.parsers.document import tidy_markdown
from connectors.parsers.formats import html_text, shown_elements
from connectors.parsers.messages import Page, Reply, Task
from retrieval.errors import Skippable
from retrieval.jobs.web_pages import SHELL_PROPERTY

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_SILENT_SELECTOR = "script, style, noscript, template, svg, canvas, iframe, object, embed, input, select, button"
_FURNITURE_SELECTOR = (
    "nav, aside, header:not(main header, article header, [role=main] header), form,"
    " footer:not(main footer, article footer, [role=main] footer), [role=navigation], [role=banner], [role=search],"
    " [role=contentinfo], .headerlink, .breadcrumb, .breadcrumbs"
)
_MAIN_SELECTOR = "main, [role=main]"
_CONSENT_SELECTOR = (
    '[id*="cookie" i], [class*="cookie" i], [id*="consent" i], [class*="consent" i], [aria-modal="true"]'
)
_BUTTON_SELECTOR = "button, [role=button], input[type=button], input[type=submit]"
_TITLE_BUTTON_SELECTOR = (
    ":is(h1, h2, h3, h4, h5, h6, dt, summary, [role=heading]) button,"
    " button:is([aria-expanded], [data-bs-target], [data-target]):not([aria-haspopup])"
)
_OPENED_SELECTOR = f"[{shown_elements.OPENED_ATTRIBUTE}], [role=tabpanel], details"
_PART_LETTERS = 40
_BLOCK_TAGS = frozenset({"ul", "ol", "dl", "div", "section", "table", "tbody", "tr", "td", "p", "center", "map"})
_PROSE_TAGS = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "blockquote", "table", "article", "main"})
_MIN_MENU_LINKS = 4
# Blocks with some links and at least this share of link text are menus.
_MIN_MENU_SHARE = 0.6
_SCRIPT_SELECTOR = 'script[src], script[type="module"], body script:not([type])'
_ANY_SCRIPT_SELECTOR = 'script:not([type*="json" i])'
_UNSEEN_SELECTOR = "script, style, noscript, template"
# Maximum letters of an application shell, such as `Loading …`, before its scripts run.
_MAX_SHELL_LETTERS = 60
_EMPTY_PAGE = "The page holds no text."
_SCRIPTED_PAGE = (
    "The page holds no text but scripts that fill it in a browser (an application shell). BUILTIN does not run"
    " scripts: ingest it with a webScraperConfig whose provider does, such as FIRECRAWL."
)
# Articles, or trafilatura's result, with at least this share of the text without menus are the main text.
_MIN_ARTICLE_SHARE = 1 / 3


def read_page(task: Task, page: Page) -> Reply:
    """Return the page as Markdown. Skippable if empty."""
    data = Path(task.path).read_bytes()
    if len(data) > html.MAX_PAGE_BYTES:
        raise Skippable(
            f"The page has {len(data) / 2**20:.1f} MiB; a web page may have {html.MAX_PAGE_BYTES // 2**20} MiB."
            " Ingest the pages that it consists of, or upload it in parts."
        )
    parsed = html.parse_page(data, task.media_type)
    about = html.read_about(parsed, page.url)
    warnings = shown_elements.keep_shown(parsed)
    shell = _drop_scripts(parsed)
    try:
        text = decoding.require_readable(_page_text(parsed, page, shell=shell))
    except ValueError as error:
        raise Skippable("A CSS selector of scrapeOptions is not valid. Correct it and ingest again.") from error
    properties: dict[str, str | int] = {"mimeType": "text/html", "fileSize": len(data)}
    page_properties = {"language": about.language, "canonicalUrl": about.canonical, "description": about.description}
    properties.update({key: detect.make_storable(value) for key, value in page_properties.items() if value})
    if warnings:
        properties["notice"] = " ".join(warnings)
    if shell:
        properties[SHELL_PROPERTY] = 1
    return Reply(text=text, title=detect.one_line(about.title) or detect.first_heading(text), properties=properties)


def _keep_button_titles(parsed: LexborHTMLParser) -> None:
    """Unwrap the buttons that are titles of parts, as in accordions."""
    for node in html.select_elements(parsed, [_TITLE_BUTTON_SELECTOR]):
        node.unwrap()


def _drop_scripts(parsed: LexborHTMLParser) -> bool:
    """Drop scripts and their placeholders; return True for an almost empty application shell."""
    scripted, any_script = (
        parsed.css_first(selector) is not None for selector in (_SCRIPT_SELECTOR, _ANY_SCRIPT_SELECTOR)
    )
    _drop_elements(parsed, _UNSEEN_SELECTOR)
    body = parsed.body
    if body is None or not _count_letters(body):
        return any_script
    return scripted and _count_letters(body) <= _MAX_SHELL_LETTERS and not any(map(_count_letters, body.css("a[href]")))


def _page_text(parsed: LexborHTMLParser, page: Page, *, shell: bool) -> str:
    _keep_button_titles(parsed)
    for node in html.select_elements(parsed, page.exclude):
        node.decompose()
    if page.include:
        chosen = html.select_elements(parsed, page.include)
        if not chosen:
            raise Skippable("The page has no element that includeSelectors name.")
        _drop_elements(parsed, _SILENT_SELECTOR)
        text = _nodes_markdown(chosen)
    else:
        text = _main_text(parsed)
    if not text.strip():
        raise Skippable(_SCRIPTED_PAGE if shell else _EMPTY_PAGE)
    return text


def _main_text(parsed: LexborHTMLParser) -> str:
    """Return the marked main part, else the articles, else the text without menus."""
    # The share of link text decides, not the length: on a page of one sentence the menu is longer.
    _drop_consent(parsed)
    _drop_elements(parsed, _SILENT_SELECTOR)
    whole = parsed.html or ""
    _drop_elements(parsed, _FURNITURE_SELECTOR)
    marked = [node for node in html.select_elements(parsed, [_MAIN_SELECTOR]) if _count_letters(node)]
    if marked:
        return _nodes_markdown(_unlinked_parts(parsed, marked))
    if parsed.body is None or not _count_letters(parsed.body):
        return _trafilatura_text(whole)
    everything = parsed.body.html or ""
    _drop_menus(parsed.body)
    if not _count_letters(parsed.body):
        return _nodes_markdown([_page_body(everything)])
    articles = [node for node in html.select_elements(parsed, ["article"]) if _count_letters(node)]
    if articles and sum(map(_count_own_letters, articles)) >= _MIN_ARTICLE_SHARE * _count_own_letters(parsed.body):
        return _nodes_markdown(articles)
    extracted = _trafilatura_text(parsed.html or "")
    is_most = sum(map(str.isalnum, extracted)) >= _MIN_ARTICLE_SHARE * _count_letters(parsed.body)
    if is_most and _holds_parts(extracted, parsed.body):
        return extracted
    return _nodes_markdown([parsed.body])


def _holds_parts(extracted: str, body: LexborNode) -> bool:
    """Check that the extracted text has all parts opened by clicks; trafilatura drops short ones."""
    letters = "".join(filter(str.isalnum, extracted))
    parts = ("".join(filter(str.isalnum, node.text())) for node in body.css(_OPENED_SELECTOR))
    return all(part[:_PART_LETTERS] in letters for part in parts)


def _unlinked_parts(parsed: LexborHTMLParser, marked: list[LexborNode]) -> list[LexborNode]:
    """Return the articles of a main part of mostly links, else the part."""
    letters, unlinked_letters = sum(map(_count_letters, marked)), sum(map(_count_own_letters, marked))
    articles = [
        node for node in html.select_elements(parsed, ["main article, [role=main] article"]) if _count_letters(node)
    ]
    if unlinked_letters > (1 - _MIN_MENU_SHARE) * letters or not articles:
        return marked
    return articles if sum(map(_count_own_letters, articles)) >= _MIN_ARTICLE_SHARE * unlinked_letters else marked


def _drop_consent(parsed: LexborHTMLParser) -> None:
    """Drop consent dialogs: elements with a button, outside of the main part."""
    for node in html.select_elements(parsed, [_CONSENT_SELECTOR]):
        if node.css_first(_BUTTON_SELECTOR) is not None and node.css_first(f"{_MAIN_SELECTOR}, article, h1") is None:
            node.decompose()


def _drop_menus(body: LexborNode) -> None:
    """Drop blocks of links, innermost first."""
    letters, linked, links, prose = Counter[int](), Counter[int](), Counter[int](), set[int]()
    for node in reversed(list(body.traverse(include_text=True))):
        key, parent = node.mem_id, node.parent
        if parent is None or key == body.mem_id:
            continue
        if node.tag == "-text":
            letters[key] = _count_letters(node)
        elif node.tag == "a":
            linked[key], links[key] = letters[key], 1
        unlinked_letters = letters[key] - linked[key]
        is_menu = links[key] >= _MIN_MENU_LINKS and linked[key] >= _MIN_MENU_SHARE * letters[key] and key not in prose
        if is_menu and node.tag in _BLOCK_TAGS:
            node.decompose()
            continue
        if key in prose or (node.tag in _PROSE_TAGS and unlinked_letters):
            prose.add(parent.mem_id)
        for counts in (letters, linked, links):
            counts[parent.mem_id] += counts[key]


def _page_body(source: str) -> LexborNode:
    from selectolax.lexbor import LexborHTMLParser

    body = LexborHTMLParser(source).body
    if body is None:
        raise Skippable(_EMPTY_PAGE)
    return body


def _count_letters(node: LexborNode) -> int:
    return sum(map(str.isalnum, node.text()))


def _count_own_letters(node: LexborNode) -> int:
    """Count letters and digits outside of links."""
    return _count_letters(node) - sum(map(_count_letters, node.css("a")))


def _trafilatura_text(page: str) -> str:
    import trafilatura

    text = trafilatura.extract(
        page, output_format="markdown", include_comments=False, include_tables=True, favor_recall=True
    )
    return tidy_markdown(text or "")


def _nodes_markdown(nodes: list[LexborNode]) -> str:
    """Render nodes with words of links but without addresses."""
    # Addresses add nothing to search.
    for node in nodes:
        node.unwrap_tags(["a"])
    return "\n\n".join(filter(None, map(html_text.html_markdown, nodes)))


def _drop_elements(parsed: LexborHTMLParser, selector: str) -> None:
    for node in html.select_elements(parsed, [selector]):
        node.decompose()
