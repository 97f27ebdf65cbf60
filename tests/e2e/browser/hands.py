"""A person's hands in the admin app: what they do is counted, and how long it takes until the page shows it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Locator, Page, expect


@dataclass(frozen=True)
class Task:
    """What somebody wanted to get done: clicks (drops of files and presses of Enter among them), and seconds."""

    name: str
    clicks: int
    seconds: float


@dataclass
class Hands:
    """One person at one page of the browser."""

    page: Page
    done: list[Task] = field(default_factory=list)
    clicks: int = 0

    @contextmanager
    def task(self, name: str) -> Iterator[None]:
        before, began = self.clicks, time.monotonic()
        yield
        self.done.append(Task(name, self.clicks - before, time.monotonic() - began))

    def click(self, where: Locator) -> None:
        where.click()
        self.clicks += 1

    def button(self, name: str, within: Locator | None = None) -> None:
        self.click((within or self.page).get_by_role("button", name=name, exact=True).first)

    def only(self, where: Locator) -> None:
        """What stands there once: while the page is built again, what was there before stands beside it."""
        expect(where).to_have_count(1)
        self.click(where.first)

    def tab(self, name: str) -> None:
        self.only(self.page.get_by_role("tab", name=name, exact=True))

    def row(self, number: int = 0) -> None:
        """A row of the first table, which is drawn on a canvas: rows are 35 pixels high, below a header of 35."""
        table = self.page.get_by_test_id("stDataFrame").first
        expect(table).to_be_visible()
        box = table.bounding_box()
        assert box
        self.page.mouse.click(box["x"] + 60, box["y"] + 35 + 35 * number + 17)
        self.clicks += 1

    def choose(self, label: str, option: str) -> None:
        self.click(self.page.get_by_label(label, exact=True).first)
        self.click(self.page.get_by_role("option", name=option, exact=True))

    def type(self, label: str, text: str, *, enter: bool = False) -> None:
        field_ = self.page.get_by_label(label, exact=True).first
        field_.fill(text)
        if enter:
            field_.press("Enter")
            self.clicks += 1

    def drop(self, files: list[Path]) -> None:
        self.page.locator("input[type=file]").first.set_input_files(files)
        self.clicks += 1

    def go(self, name: str) -> None:
        """Another page, by the navigation; the address keeps no state of the one before."""
        self.click(self.page.get_by_test_id("stSidebarNav").get_by_role("link", name=name, exact=True))
        expect(self.page.get_by_role("heading", name=name, exact=True, level=1)).to_be_visible()

    def sees(self, text: str | re.Pattern[str], seconds: float = 60) -> None:
        expect(self.page.get_by_text(text).first).to_be_visible(timeout=seconds * 1000)


def table(tasks: list[Task]) -> str:
    """The tasks as Markdown."""
    rows = [f"| {task.name} | {task.clicks} | {task.seconds:.1f} |" for task in tasks]
    return "\n".join(["| Task | Clicks | Seconds |", "|---|---|---|", *rows])
