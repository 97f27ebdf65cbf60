"""Pages that are no file in docs/: the reference, made from the code, and the Markdown files of the project's root."""

import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
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


def on_page_markdown(markdown: str, **_: object) -> str:
    """Lead links to the root's files to their pages in the site."""
    return _redirect_links(markdown, "../")


def _redirect_links(markdown: str, prefix: str) -> str:
    for name, page in ROOT_PAGES.items():
        markdown = markdown.replace(f"]({prefix}{name}", f"]({page}")
    return markdown
