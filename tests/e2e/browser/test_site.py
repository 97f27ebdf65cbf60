"""The site of the documentation in Chromium, at the width of a phone."""

import functools
import os
import subprocess
import sys
import threading
import tomllib
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
PHONE = {"width": 390, "height": 844}
WIDE_TABLES = """[...document.querySelectorAll("table")].filter(
    table => table.getBoundingClientRect().right > window.innerWidth + 1).length"""
REPOSITORY = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]

pytestmark = [pytest.mark.slow, pytest.mark.service]


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format, *arguments):  # noqa: A002 - the name of the overridden method
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Address of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=PROJECT, env=environment, check=True, timeout=300)
    handler = functools.partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def phone(browser):
    page = browser.new_page(viewport=PHONE)
    yield page
    page.close()


@pytest.mark.parametrize("path", ["reference/settings/", "reference/api/errors/", "operations/messages/"])
def test_a_table_fits_a_phone_and_names_each_cell(site, phone, path):
    phone.goto(f"{site}/{path}")
    phone.locator("table").first.wait_for()
    assert phone.evaluate(WIDE_TABLES) == 0
    cell = phone.locator("table td").nth(1)
    head = phone.locator("table th").nth(1).text_content()
    assert cell.evaluate("cell => getComputedStyle(cell, '::before').content").strip('"') == f"{head}: "


def test_the_landing_page_has_cards_tabs_and_links_to_its_source(site, phone):
    phone.goto(site)
    assert phone.locator(".grid.cards li").count() >= 6
    assert phone.locator(".tabbed-labels label").all_text_contents() == ["Command line", "Python", "curl"]
    assert phone.locator("a.md-content__button").first.get_attribute("href") == f"{REPOSITORY}/edit/main/docs/index.md"
    assert phone.locator(".md-logo img").count() > 0
