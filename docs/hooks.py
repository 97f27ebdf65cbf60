"""Takes CONTRIBUTING.md and CHANGELOG.md of the project's root into the site, and leads links to them there."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the root's pages; their links begin at the root, those of the site in docs/."""
    root = Path(config.config_file_path).parent
    for name, page in ROOT_PAGES.items():
        text = re.sub(r"\]\(docs/", "](", (root / name).read_text(encoding="utf-8"))
        files.append(File.generated(config, page, content=_led(text, "")))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    return _led(markdown, "../")


def _led(markdown: str, prefix: str) -> str:
    for name, page in ROOT_PAGES.items():
        markdown = markdown.replace(f"]({prefix}{name}", f"]({page}")
    return markdown
