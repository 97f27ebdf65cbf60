"""A website of slow pages that counts requests."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tests.standins import faults


class SlowSite:
    """Pages /p0 to /pN; page n leads to three later ones and back, or page 0 to all of them."""

    def __init__(self, pages: int, seconds: float, *, is_flat: bool) -> None:
        self.pages, self.seconds, self.is_flat = pages, seconds, is_flat
        self.calls: Counter[str] = Counter()
        self.url = ""
        self._lock = threading.Lock()

    def answer(self, handler: faults.Handler) -> None:
        number = handler.path.removeprefix("/p")
        with self._lock:
            self.calls[handler.path] += 1
        if not number.isdigit() or int(number) >= self.pages:
            handler.reply(404, b"")
            return
        time.sleep(self.seconds)
        handler.reply(200, self._page(int(number)).encode(), {"Content-Type": "text/html"})

    def _page(self, number: int) -> str:
        targets = range(self.pages) if self.is_flat else (*range(number * 3 + 1, number * 3 + 4), number // 3)
        anchors = "".join(f'<a href="/p{target}">{target}</a>' for target in targets if target < self.pages)
        return f"<html><title>Page {number}</title><main><p>Here is the word w{number}x.</p>{anchors}</main></html>"


@contextmanager
def serving(pages: int = 240, seconds: float = 0.1, *, is_flat: bool = False) -> Iterator[SlowSite]:
    """The site for as long as the block lasts."""
    site = SlowSite(pages, seconds, is_flat=is_flat)

    class Handler(faults.Handler):
        def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
            site.answer(self)

    with faults.served(Handler) as port:
        site.url = f"http://127.0.0.1:{port}"
        yield site
