"""Count a user's clicks and seconds in the admin app."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

# Of each task, from the page where it begins.
MAX_CLICKS = 3


@dataclass(frozen=True)
class Task:
    """A task: the page where it begins, clicks (including drops of files and presses of Enter) and seconds."""

    name: str
    begins_on: str
    clicks: int
    seconds: float


@dataclass
class Hands:
    """A user at one page of the browser."""

    page: Page
    done: list[Task] = field(default_factory=list)
    clicks: int = 0

    @contextmanager
    def task(self, name: str, begins_on: str = "", *, stays: bool = False) -> Iterator[None]:
        """Measure a task; its page is opened before, unless the task `stays` on the page that is open."""
        if begins_on and not stays:
            # The link of the page that is open keeps what it shows.
            self.go("Overview")
            self.go(begins_on)
        clicks_before, began = self.clicks, time.monotonic()
        yield
        self.done.append(Task(name, begins_on or "any", self.clicks - clicks_before, time.monotonic() - began))

    def click(self, target: Locator) -> None:
        target.click()
        self.clicks += 1

    def button(self, name: str, within: Locator | None = None) -> None:
        self.click((within or self.page).get_by_role("button", name=name, exact=True).first)

    def only(self, target: Locator) -> None:
        # While the page is rebuilt, the old element is still present.
        expect(target).to_have_count(1)
        self.click(target.first)

    def tab(self, name: str) -> None:
        self.only(self.page.get_by_role("tab", name=name, exact=True))

    def row(self, number: int = 0) -> None:
        """Click a row of the first table."""
        table = self.page.get_by_test_id("stDataFrame").first
        expect(table).to_be_visible()
        box = table.bounding_box()
        assert box
        self.page.mouse.click(box["x"] + 60, box["y"] + 35 + 35 * number + 17)
        self.clicks += 1

    def pill(self, name: str | re.Pattern[str]) -> None:
        self.click(self.page.get_by_test_id("stButtonGroup").get_by_text(name, exact=True).first)

    def choose(self, label: str, option: str) -> None:
        self.click(self.page.get_by_label(label, exact=True).first)
        self.click(self.page.get_by_role("option", name=option, exact=True))

    def type(self, label: str, text: str, *, enter: bool = False) -> None:
        field_ = self.page.get_by_label(label, exact=True).locator("visible=true").first
        field_.fill(text)
        if enter:
            field_.press("Enter")
            self.clicks += 1

    def drop(self, files: Path | list[Path]) -> None:
        self.page.locator("input[type=file]").first.set_input_files(files)
        self.clicks += 1

    def go(self, name: str) -> None:
        """Open another page by the navigation."""
        self.click(self.page.get_by_test_id("stSidebarNav").get_by_role("link", name=name, exact=True))
        expect(self.page.get_by_role("heading", name=name, exact=True, level=1)).to_be_visible()

    def sees(self, text: str | re.Pattern[str]) -> None:
        expect(self.page.get_by_text(text).first).to_be_visible()


def table(tasks: list[Task]) -> str:
    """The tasks as Markdown."""
    rows = [f"| {task.name} | {task.begins_on} | {task.clicks} | {task.seconds:.1f} |" for task in tasks]
    return "\n".join(["| Task | Begins on | Clicks | Seconds |", "|---|---|---|---|", *rows])
