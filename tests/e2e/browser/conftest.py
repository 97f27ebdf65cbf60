"""A real browser before a real service: Debian's Chromium, headless."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.e2e.browser.admin_app import WAIT_MILLISECONDS, serve_app

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture
def browser() -> Iterator[Browser]:
    """Headless Chromium; its pages end with the test."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    expect.set_options(timeout=WAIT_MILLISECONDS)
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=WAIT_MILLISECONDS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def admin_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Return a function: the URL of the admin app for an API address, one app per module and address."""
    with ExitStack() as stack:
        yield functools.cache(lambda api: stack.enter_context(serve_app(tmp_path_factory.mktemp("app"), api)))


@pytest.fixture(scope="session")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder for the tour's screenshots: `SCREENSHOTS`, or a temporary one."""
    screenshot_folder = os.environ.get("SCREENSHOTS")
    folder = Path(screenshot_folder) if screenshot_folder else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
