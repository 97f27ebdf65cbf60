"""Pages made from the code, and the Markdown files of the project's root.

A page of the API reference begins with the file in docs/reference/api, if any, followed by the operations. Each page is
also written as Markdown next to the HTML, and llms.txt lists all pages by the tabs of the site.
"""

import json
import logging
import re
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path

from jinja2 import Environment
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure import StructureItem
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
ROOT_PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "SECURITY.md": "security.md",
}
_NAVIGATION: list[Navigation] = []
_OPERATIONS: dict[str, str] = {}
# Strict builds count the warnings of this logger.
_LOG = logging.getLogger("mkdocs.plugins.hooks")
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "generators")]

import api_reference  # noqa: E402
import file_kinds  # noqa: E402
import postman_collection  # noqa: E402
import settings_reference  # noqa: E402
from api.app import ROUTE_HANDLERS  # noqa: E402
from api.oidc.roles import ROLE_SCOPES  # noqa: E402
from api.openapi import describe_handlers  # noqa: E402
from api.permissions import OPERATION_PERMISSIONS  # noqa: E402


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Link the repository and the source of each page, by the address in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config.repo_url, config.repo_name = project["urls"]["Repository"], "Repository"
    config.edit_uri = "edit/main/docs/"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the reference and the root's pages, with the latter's links changed from the root to docs/."""
    document = describe_handlers(ROUTE_HANDLERS)
    pages = api_reference.render_pages(document)
    pages["reference/permissions.md"] = api_reference.render_permissions(OPERATION_PERMISSIONS, ROLE_SCOPES)
    pages["reference/settings.md"] = settings_reference.render_settings()
    pages["reference/file-kinds.md"] = file_kinds.render_kinds()
    pages["reference/cli.md"] = settings_reference.render_commands()
    for name, page in ROOT_PAGES.items():
        text = re.sub(r"\]\(docs/", "](", (ROOT / name).read_text(encoding="utf-8"))
        pages[page] = _redirect_links(text, "", "")
    collection = json.dumps(postman_collection.build_collection(document), indent=2, ensure_ascii=False)
    files.append(File.generated(config, "reference/postman_collection.json", content=collection))
    for page, text in pages.items():
        if files.get_file_from_path(page):
            _OPERATIONS[page] = text.partition("\n")[2]
        else:
            files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Lead links to the root's files to their pages in the site, and write the page's Markdown twin."""
    to_docs = "../" * page.file.src_uri.count("/")
    text = _redirect_links(markdown + _OPERATIONS.get(page.file.src_uri, ""), f"{to_docs}../", to_docs)
    twin = Path(config.site_dir, page.file.src_uri)
    twin.parent.mkdir(parents=True, exist_ok=True)
    twin.write_text(text, encoding="utf-8")
    return text


def on_page_content(html: str, page: Page, **_: object) -> str:
    """Label table cells for phones; warn about code fences and headings rendered as prose."""
    rendered = _RenderedPage()
    rendered.feed(html)
    fence = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
    source, fences = fence.subn("", page.markdown or "")
    if "```" in rendered.prose or rendered.code_blocks < fences:
        _LOG.warning('%s: a code fence is rendered as text; write a file name as title="…"', page.file.src_uri)
    headings = {_letters(heading) for heading in rendered.headings}
    for heading in re.findall(r"^##+ (.+)$", source, re.MULTILINE):
        if _letters(re.sub(r"\]\([^)]*\)", "", heading)) not in headings:
            _LOG.warning('%s: the heading "%s" is not rendered as one', page.file.src_uri, heading)
    return re.sub(r"<table>.*?</table>", _label_cells, html, flags=re.DOTALL)


def _label_cells(table: re.Match[str]) -> str:
    """Add the column's head to each cell, shown by the stylesheet on narrow screens."""
    heads = [
        re.sub("<[^>]+>", "", head).replace('"', "&quot;") for head in re.findall(r"<th[^>]*>(.*?)</th>", table[0])
    ]

    def label_row(row: re.Match[str]) -> str:
        labels = iter(heads)
        return re.sub(r"<td", lambda _: f'<td data-label="{label}"' if (label := next(labels, "")) else "<td", row[0])

    return re.sub(r"<tr>.*?</tr>", label_row, table[0], flags=re.DOTALL)


class _RenderedPage(HTMLParser):
    """Text outside of code blocks, and the text of each heading."""

    def __init__(self) -> None:
        super().__init__()
        self.prose = ""
        self.headings: list[str] = []
        self._in_heading = False
        self.code_blocks = 0
        self._code_depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self._code_depth += tag == "pre"
        self.code_blocks += tag == "pre"
        if re.fullmatch("h[1-6]", tag):
            self._in_heading = True
            self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        self._code_depth -= tag == "pre"
        self._in_heading = self._in_heading and not re.fullmatch("h[1-6]", tag)

    def handle_data(self, data: str) -> None:
        if self._in_heading:
            self.headings[-1] += data
        if not self._code_depth:
            self.prose += data


def _letters(text: str) -> str:
    return re.sub(r"[\W_]", "", text)


def on_env(env: Environment, config: MkDocsConfig, **_: object) -> Environment:
    """Write llms.txt: pages with titles, by tab."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for tab in _NAVIGATION[-1].items:
        lines += ["", f"## {tab.title}", "", *_list_pages(tab)]
    Path(config.site_dir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return env


def on_nav(nav: Navigation, **_: object) -> Navigation:
    """Keep the navigation for llms.txt: pages get their titles after this."""
    _NAVIGATION.append(nav)
    return nav


def _list_pages(item: StructureItem) -> list[str]:
    if isinstance(item, Page):
        return [f"- [{item.title}]({item.file.src_uri})"]
    return [line for child in item.children for line in _list_pages(child)] if isinstance(item, Section) else []


def _redirect_links(markdown: str, to_root: str, to_docs: str) -> str:
    for name, page in ROOT_PAGES.items():
        markdown = markdown.replace(f"]({to_root}{name}", f"]({to_docs}{page}")
    return markdown
