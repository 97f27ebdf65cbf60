"""Links between the project's Markdown files lead somewhere, and the site of docs/ loads nothing from other hosts."""

import re
from pathlib import Path

import yaml

PROJECT = Path(__file__).resolve().parents[2]
GENERATED = PROJECT / "docs" / "reference"
"""Pages that the site's hook makes: `make docs` checks links to them."""
PAGES = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md"), *(PROJECT / ".github").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(text):
    """Without blocks of code, whose lines may look like headings and links."""
    return re.sub(r"^( *)```.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    """The anchors of a page's headings, as hosts of repositories and the site make them."""
    headings = re.findall(r"^#+ (.+)$", prose(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def broken_links(page):
    """Those of a page that lead to no file, or to no heading of it."""
    for link in LINK.findall(prose(page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_made = target.is_relative_to(GENERATED) and page.is_relative_to(PROJECT / "docs")
        if re.match(r"https?:|mailto:", link) or is_made:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield f"{page.relative_to(PROJECT)}: {link}"


def test_links_lead_somewhere():
    broken = [link for page in PAGES for link in broken_links(page)]
    assert not broken, "Correct these links, or the headings that they name."


def test_every_page_has_a_place_in_the_site():
    site = yaml.safe_load((PROJECT / "mkdocs.yml").read_text())
    linked = {page for page in re.findall(r"[\w/-]+\.md", str(site["nav"])) if not page.startswith("reference/")}
    assert {str(page.relative_to(PROJECT / "docs")) for page in PAGES if page.is_relative_to(PROJECT / "docs")} == (
        linked - {"contributing.md", "changelog.md"}  # made of the files at the root
    ), "Add the page to `nav` in mkdocs.yml, or remove its line there."


def test_the_site_loads_nothing_from_other_hosts():
    site = yaml.safe_load((PROJECT / "mkdocs.yml").read_text())
    assert site["theme"]["font"] is False
    assert not {"extra_css", "extra_javascript"} & set(site)
    pictures = [image_url for page in PAGES for image_url in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text())]
    remote = [picture for picture in pictures if "//" in picture]
    assert not remote, "Put these pictures into docs/pictures."
