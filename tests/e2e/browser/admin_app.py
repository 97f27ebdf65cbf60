"""The admin app as a process, and its pages in a browser."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Browser, Page

from local import environment, instance, roles
from local.roles import PROJECT_ROOT
from retrieval.settings import Settings

# The first page of a new app loads about 110 scripts from it while the app imports pandas and its pages: a second on an
# idle machine, 50 s on one with a tenth of a core to spare.
WAIT_SECONDS = 150
WAIT_MILLISECONDS = WAIT_SECONDS * 1000


def choose_port() -> int:
    return instance.settle_ports({"RETRIEVAL_UI_PORT": ("127.0.0.1", 0)})["RETRIEVAL_UI_PORT"]


@contextmanager
def serve_app(home: Path, api: str, port: int | None = None) -> Iterator[str]:
    """Start the admin app for an API address, with the log `ui.log` below `home`; yield its URL."""
    settings = Settings(home=home, ui_port=port or choose_port())
    url = f"http://127.0.0.1:{settings.ui_port}"
    with (home / "ui.log").open("wb") as log:
        process = subprocess.Popen(
            roles.list_commands(settings)["ui"],
            cwd=PROJECT_ROOT,
            env=environment.build_ui(settings, api),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while not _is_healthy(url):
            assert time.monotonic() < deadline, (home / "ui.log").read_text()
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def _is_healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/_stcore/health", trust_env=False, timeout=90).is_success
    except httpx.HTTPError:
        return False


def open_page(browser: Browser, width: int = 1280, height: int = 900, **options: str) -> Page:
    page = browser.new_page(viewport={"width": width, "height": height}, **options)
    page.set_default_timeout(WAIT_MILLISECONDS)
    return page


def sign_in(page: Page, address: str, key: str) -> None:
    """Open an address of the app and sign in with a key."""
    page.goto(address)
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
