"""Pages that are no file in docs/: the reference, made from the code, and the Markdown files of the project's root.

Every page is written as Markdown beside its HTML, and llms.txt lists them by the tabs of the site."""

import re
import sys
from pathlib import Path

from jinja2 import Environment
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure import StructureItem
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_NAVIGATION: list[Navigation] = []
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "generators")]

import api_reference  # noqa: E402
import settings_reference  # noqa: E402
from api.app import HANDLERS  # noqa: E402
from api.oidc.roles import ROLE_SCOPES  # noqa: E402
from api.openapi import describe_handlers  # noqa: E402
from api.permissions import PERMISSIONS  # noqa: E402


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the reference and the root's pages; links of the latter begin at the root, those of the site in docs/."""
    pages = api_reference.render_pages(describe_handlers(HANDLERS))
    pages["reference/permissions.md"] = api_reference.render_permissions(PERMISSIONS, ROLE_SCOPES)
    pages["reference/settings.md"] = settings_reference.render_settings()
    pages["reference/cli.md"] = settings_reference.render_commands()
    for name, page in ROOT_PAGES.items():
        text = re.sub(r"\]\(docs/", "](", (ROOT / name).read_text(encoding="utf-8"))
        pages[page] = _redirect_links(text, "")
    for page, text in pages.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Lead links to the root's files to their pages in the site, and write the page's Markdown twin."""
    text = _redirect_links(markdown, "../")
    twin = Path(config.site_dir, page.file.src_uri)
    twin.parent.mkdir(parents=True, exist_ok=True)
    twin.write_text(text, encoding="utf-8")
    return text


def on_env(env: Environment, config: MkDocsConfig, **_: object) -> Environment:
    """Write llms.txt: every page with its title, below the tab that holds it."""
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


def _redirect_links(markdown: str, prefix: str) -> str:
    for name, page in ROOT_PAGES.items():
        markdown = markdown.replace(f"]({prefix}{name}", f"]({page}")
    return markdown
