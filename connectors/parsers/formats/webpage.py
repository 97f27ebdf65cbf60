"""Reading one web page inside of a parser child: the elements that are asked for, or else its main text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import kreuzberg

from connectors.charsets import decoding
from connectors.http import html
from connectors.parsers.detect import plain
from connectors.parsers.formats import html_repair
from connectors.parsers.messages import Page, Reply, Task
from connectors.parsers.text.cleanup import tidied
from retrieval.errors import Skippable

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_SILENT = "script, style, noscript, template, svg, canvas, iframe, object, embed, [hidden], input, select, button"
_FURNITURE = (
    "nav, aside, header:not(main header, article header, [role=main] header), form,"
    " footer:not(main footer, article footer, [role=main] footer), [role=navigation], [role=banner], [role=search],"
    " [role=contentinfo], .headerlink, .breadcrumb, .breadcrumbs"
)
_MAIN = ("main, [role=main]", "article")
_FEW_CHARACTERS = 200
"""Less than this is no main text: a page that names an empty element, or a teaser."""


def read(task: Task, page: Page) -> Reply:
    """The page as Markdown. Skippable if nothing is left of it."""
    data = Path(task.path).read_bytes()
    parsed = html.tree(data, task.media_type)
    about = html.about(parsed, page.url)
    try:
        text = decoding.require_readable(_text(parsed, page))
    except ValueError as error:
        raise Skippable("A CSS selector of scrapeOptions is not valid. Correct it and ingest again.") from error
    except kreuzberg.KreuzbergError as error:
        raise Skippable("The page is damaged and cannot be read.") from error
    known: dict[str, str | int] = {"mimeType": "text/html", "fileSize": len(data)}
    said = {"language": about.language, "canonicalUrl": about.canonical, "description": about.description}
    known.update({key: plain.storable(value) for key, value in said.items() if value})
    return Reply(text=text, title=plain.one_line(about.title) or plain.first_heading(text), properties=known)


def _text(parsed: LexborHTMLParser, page: Page) -> str:
    for node in html.select(parsed, page.exclude):
        node.decompose()
    if page.include:
        chosen = html.select(parsed, page.include)
        if not chosen:
            raise Skippable("The page has no element that includeSelectors name.")
        _drop(parsed, _SILENT)
        text = _markdown(chosen)
    else:
        text = _main_text(parsed)
    if not text.strip():
        raise Skippable("The page holds no text; it may be made by scripts, which are not run.")
    return text


def _main_text(parsed: LexborHTMLParser) -> str:
    """What the page marks as its main part, whole; else what trafilatura finds; else all but the furniture."""
    _drop(parsed, _SILENT)
    whole = parsed.html or ""
    _drop(parsed, _FURNITURE)
    for selector in _MAIN:
        marked = html.select(parsed, [selector])
        if len(marked) == 1 and len(text := _markdown(marked)) >= _FEW_CHARACTERS:
            return text
    found = _found(whole)
    if len(found) >= _FEW_CHARACTERS:
        return found
    return max(found, _markdown([parsed.body] if parsed.body else []), key=len)


def _found(page: str) -> str:
    import trafilatura

    text = trafilatura.extract(
        page, output_format="markdown", include_comments=False, include_tables=True, favor_recall=True
    )
    return tidied(text or "")


def _markdown(nodes: list[LexborNode]) -> str:
    """Links keep their words only: addresses in a text help no search."""
    for node in nodes:
        node.unwrap_tags(["a"])
    source = "\n".join(node.html or "" for node in nodes)
    config = kreuzberg.ExtractionConfig(  # type: ignore[call-arg]  # its stub lacks disable_ocr
        output_format="markdown",
        use_cache=False,
        disable_ocr=True,
        enable_quality_processing=False,
        concurrency=kreuzberg.ConcurrencyConfig(max_threads=1),
    )
    page = f'<!doctype html><html><head><meta charset="utf-8"></head><body>{html_repair.flat(source)}</body></html>'
    return tidied(kreuzberg.extract_bytes_sync(page.encode(), "text/html", config=config).content)


def _drop(parsed: LexborHTMLParser, selector: str) -> None:
    for node in html.select(parsed, [selector]):
        node.decompose()
