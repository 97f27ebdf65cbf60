"""Links between the project's Markdown files lead somewhere, and the site of docs/ loads nothing from other hosts."""

import re

import yaml

from retrieval.settings import PROJECT_ROOT

# The site's hook generates pages and operations; `make docs` checks links to them.
REFERENCE_FOLDER = PROJECT_ROOT / "docs" / "reference"
MARKDOWN_PAGES = sorted(
    [*PROJECT_ROOT.glob("*.md"), *(PROJECT_ROOT / "docs").rglob("*.md"), *(PROJECT_ROOT / ".github").rglob("*.md")]
)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(text):
    """Return the page without code blocks."""
    return re.sub(r"^( *)```.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    """Return the heading anchors of a page in the style of GitHub and the site."""
    headings = re.findall(r"^#+ (.+)$", prose(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def broken_links(page):
    """Return links of a page to missing files or headings."""
    for link in LINK.findall(prose(page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_generated = not target.exists() or (anchor and anchor not in anchors(target))
        is_made = (
            is_generated and target.is_relative_to(REFERENCE_FOLDER) and page.is_relative_to(PROJECT_ROOT / "docs")
        )
        if re.match(r"https?:|mailto:", link) or is_made:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield f"{page.relative_to(PROJECT_ROOT)}: {link}"


def test_links_lead_somewhere():
    broken = [link for page in MARKDOWN_PAGES for link in broken_links(page)]
    assert not broken, "Correct these links, or the headings that they name."


def test_every_page_has_a_place_in_the_site():
    site = yaml.safe_load((PROJECT_ROOT / "mkdocs.yml").read_text())
    linked = {
        page
        for page in re.findall(r"[\w/-]+\.md", str(site["nav"]))
        if not page.startswith("reference/") or (PROJECT_ROOT / "docs" / page).exists()
    }
    assert {
        str(page.relative_to(PROJECT_ROOT / "docs"))
        for page in MARKDOWN_PAGES
        if page.is_relative_to(PROJECT_ROOT / "docs")
    } == (
        linked
        - {"contributing.md", "changelog.md", "code-of-conduct.md", "security.md"}  # made of the files at the root
    ), "Add the page to `nav` in mkdocs.yml, or remove its line there."


def test_the_site_loads_nothing_from_other_hosts():
    site = yaml.safe_load((PROJECT_ROOT / "mkdocs.yml").read_text())
    assert site["theme"]["font"] is False
    assert "extra_javascript" not in site
    assert all((PROJECT_ROOT / "docs" / sheet).is_file() for sheet in site["extra_css"])
    pictures = [
        image_url for page in MARKDOWN_PAGES for image_url in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text())
    ]
    remote = [picture for picture in pictures if "//" in picture]
    assert not remote, "Put these pictures into docs/pictures."


NAMED_PATH = re.compile(r"`((?:api|connectors|flows|local|migrations|retrieval|ui)/[^`]*)`((?:,? `[A-Za-z_]\w*`)*)")


def missing_code(text):
    """Return paths of a text that do not exist, and the names after a path that its file does not hold."""
    for pattern, names in NAMED_PATH.findall(text):
        start, brace, choices = pattern.partition("{")
        middle, _, end = choices.partition("}")
        for path in [start + choice + end for choice in middle.split(",")] if brace else [pattern]:
            if not any(PROJECT_ROOT.glob(path.rstrip("/"))):
                yield path
        code = PROJECT_ROOT / pattern
        for name in re.findall(r"\w+", names):
            if code.is_file() and not re.search(rf"\b{name}\b", code.read_text(encoding="utf-8")):
                yield f"{pattern} {name}"


def test_files_and_names_of_the_architecture_page_exist():
    missing = list(missing_code((PROJECT_ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")))
    assert not missing, "Correct these paths and names in docs/architecture.md."
