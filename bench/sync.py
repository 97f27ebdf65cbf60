"""Pages per second of a crawl of 500 pages on loopback, beside Scrapy's on the same site at equal politeness.

Ours is the whole discovery: fetched, read for links, put into the file store and recorded in PostgreSQL. Scrapy's
spider follows the same links and throws the pages away. Both: 8 requests at once, no delay, robots.txt obeyed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench.harness import end_in_order, migrated_database, write

PAGES = 500
AT_ONCE = 8
SPIDER = """
import scrapy, sys, json, time
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor

class Spider(scrapy.Spider):
    name = "bench"
    start_urls = [sys.argv[1]]
    links = LinkExtractor()
    pages = 0
    def parse(self, response):
        Spider.pages += 1
        for link in self.links.extract_links(response):
            yield scrapy.Request(link.url)

process = CrawlerProcess({"CONCURRENT_REQUESTS": 8, "CONCURRENT_REQUESTS_PER_DOMAIN": 8, "DOWNLOAD_DELAY": 0,
                          "ROBOTSTXT_OBEY": True, "LOG_ENABLED": False, "TELNETCONSOLE_ENABLED": False})
process.crawl(Spider)
begun = time.monotonic()
process.start()
print(json.dumps([Spider.pages, time.monotonic() - begun]))
"""


class Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args: object) -> None:
        """A request is no news."""


def main() -> None:
    end_in_order()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=name)) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            start = f"http://127.0.0.1:{server.server_port}/0.html"
            theirs = scrapy(start)
            ours = crawl(start)
            server.shutdown()
    scrapys, own = theirs[0] / theirs[1], ours[0] / ours[1]
    print(f"Scrapy: {theirs[0]} pages, {scrapys:.0f} a second")
    found = {"pages": ours[0], "ours": round(own), "scrapy": round(scrapys), "ratio": round(own / scrapys, 2)}
    write("sync", found)
    print(f"Ours:   {ours[0]} pages, {own:.0f} a second, {own / scrapys:.2f} of it")


def build(folder: Path) -> None:
    """A tree of pages, each with some kilobytes of text."""
    for number in range(PAGES):
        links = "".join(
            f'<a href="{child}.html">{child}</a> ' for child in range(8 * number + 1, 8 * number + 9) if child < PAGES
        )
        text = "".join(f"<p>Page {number}, line {line}: the tide turns at the harbour wall.</p>" for line in range(60))
        (folder / f"{number}.html").write_text(f"<html><title>{number}</title><body>{links}{text}</body></html>")
    (folder / "robots.txt").write_text("User-agent: *\nDisallow: /private\n")


def scrapy(start: str) -> tuple[int, float]:
    done = subprocess.run(
        [sys.executable, "-c", SPIDER, start], capture_output=True, text=True, check=True, timeout=120
    )
    pages, seconds = json.loads(done.stdout.splitlines()[-1])
    return pages, seconds


def crawl(start: str) -> tuple[int, float]:
    with migrated_database() as (home, url):
        os.environ |= {
            "RETRIEVAL_FETCH_ALLOW": "127.0.0.1/32",
            "RETRIEVAL_FETCH_HOST_LIMIT": str(AT_ONCE),
            "RETRIEVAL_FETCH_HOST_DELAY": "0",
            "RETRIEVAL_HOME": str(home),
        }
        from flows import steps
        from retrieval.database import database
        from tests.flows.configured import Configured
        from tests.flows.crawling import accept, listing, names

        db = database.Database(url)
        space = Configured(db, webScraperConfig={"provider": "BUILTIN"})
        run = accept(space, "WEBSITE", url=start, maxDepth=5, maxLinks=PAGES * 2)
        batch = listing(space)
        begun = time.monotonic()
        steps.discover(batch)
        seconds = time.monotonic() - begun
        pages = len(names(space, run))
        db.close()
    return pages, seconds


if __name__ == "__main__":
    main()
