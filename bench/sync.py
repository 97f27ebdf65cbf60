"""Pages per second of a crawl of 500 pages, compared with Scrapy at equal politeness.

The service's discovery fetches, reads links, stores files and records them in PostgreSQL; Scrapy follows links only.
Both use 8 parallel requests, no delay, and obey robots.txt.
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

from bench.harness import exit_on_sigterm, migrated_database, write_figures

PAGE_COUNT = 500
MAX_PARALLEL_REQUESTS = 8
SPIDER_SCRIPT = """
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


class QuietHandler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args: object) -> None:
        """Log nothing."""


def main() -> None:
    exit_on_sigterm()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_pages(folder)
        with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=name)) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            start = f"http://127.0.0.1:{server.server_port}/0.html"
            scrapy_result = crawl_with_scrapy(start)
            service_result = crawl_with_service(start)
            server.shutdown()
    scrapy_rate, service_rate = scrapy_result[0] / scrapy_result[1], service_result[0] / service_result[1]
    print(f"Scrapy: {scrapy_result[0]} pages, {scrapy_rate:.0f} a second")
    figures = {
        "pages": service_result[0],
        "ours": round(service_rate),
        "scrapy": round(scrapy_rate),
        "ratio": round(service_rate / scrapy_rate, 2),
    }
    write_figures("sync", figures)
    print(f"Ours:   {service_result[0]} pages, {service_rate:.0f} a second, {service_rate / scrapy_rate:.2f} of it")


def write_pages(folder: Path) -> None:
    """Write a tree of pages with some kilobytes of text each."""
    for number in range(PAGE_COUNT):
        links = "".join(
            f'<a href="{child}.html">{child}</a> '
            for child in range(8 * number + 1, 8 * number + 9)
            if child < PAGE_COUNT
        )
        text = "".join(f"<p>Page {number}, line {line}: the tide turns at the harbour wall.</p>" for line in range(60))
        (folder / f"{number}.html").write_text(f"<html><title>{number}</title><body>{links}{text}</body></html>")
    (folder / "robots.txt").write_text("User-agent: *\nDisallow: /private\n")


def crawl_with_scrapy(start: str) -> tuple[int, float]:
    completed = subprocess.run(
        [sys.executable, "-c", SPIDER_SCRIPT, start], capture_output=True, text=True, check=True, timeout=120
    )
    pages, seconds = json.loads(completed.stdout.splitlines()[-1])
    return pages, seconds


def crawl_with_service(start: str) -> tuple[int, float]:
    with migrated_database() as (home, url):
        # Same limits as the spider's.
        os.environ |= {
            "RETRIEVAL_FETCH_ALLOW": "127.0.0.1/32",
            "RETRIEVAL_FETCH_HOST_LIMIT": str(MAX_PARALLEL_REQUESTS),
            "RETRIEVAL_FETCH_HOST_DELAY": "0",
            "RETRIEVAL_HOME": str(home),
        }
        from flows import steps
        from retrieval.database import database
        from tests.flows.configured import Configured
        from tests.flows.crawling import accept, listing, names

        db = database.Database(url)
        space = Configured(db, webScraperConfig={"provider": "BUILTIN"})
        run = accept(space, "WEBSITE", url=start, maxDepth=5, maxLinks=PAGE_COUNT * 2)
        batch = listing(space)
        begun = time.monotonic()
        steps.discover(batch)
        seconds = time.monotonic() - begun
        pages = len(names(space, run))
        db.close()
    return pages, seconds


if __name__ == "__main__":
    main()
