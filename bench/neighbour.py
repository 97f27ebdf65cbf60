"""One text of a quiet organization next to a noisy one, compared with a quiet service.

    python -m bench.neighbour [--texts 3000] [--pages 300] [--slow 78] [--hung 0] [--searchers 0] [--rounds 7]

Organization A sends texts, a crawl and job runs on slow sites (half a minute per page). `--hung`: number of A's
namespaces with an unresponsive vendor. `--searchers`: number of A's clients searching without a pause, after A's texts
are ingested. Organization B sends a text of 2 kB, searches until the text appears, and then searches 20 times. Reports
B's seconds without A and next to A.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import statistics
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from bench.harness import NAMESPACE_CONFIG, parse_options, run_instance, write_figures

SLOW_SECONDS = 30.0
LINKS_PER_PAGE = 8
SEARCH_TIMEOUT_SECONDS = 600.0
SEARCH_QUERIES = ("when the tide turns", "the keeper of the harbour", "how high does it stand")
SAMPLE_LINE = "The tide turns at the harbour wall, and the keeper writes down when and how high it stood. "


class Site(BaseHTTPRequestHandler):
    """Tree of pages on 127.0.0.1; one slow page on other addresses."""

    protocol_version = "HTTP/1.1"
    pages = 300

    def do_GET(self) -> None:
        # The other loopback addresses are the slow sites.
        if self.connection.getsockname()[0] != "127.0.0.1":
            if self.path == "/robots.txt":
                return self._answer(404, "")
            time.sleep(SLOW_SECONDS)
            return self._answer(200, f"<p>{SAMPLE_LINE}</p>")
        number = self.path.strip("/").removesuffix(".html") or "0"
        if not number.isdigit() or int(number) >= self.pages:
            return self._answer(404, "")
        first = LINKS_PER_PAGE * int(number) + 1
        links = "".join(f'<a href="/{child}.html">{child}</a> ' for child in range(first, first + LINKS_PER_PAGE))
        return self._answer(200, links + f"<p>Page {number}: {SAMPLE_LINE * 20}</p>")

    def do_POST(self) -> None:
        """Hang, as an unresponsive vendor."""
        time.sleep(SEARCH_TIMEOUT_SECONDS)

    def _answer(self, status: int, body: str) -> None:
        content = f"<html><title>{self.path}</title><body>{body}</body></html>".encode()
        with suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *_args: object) -> None:
        """Log nothing."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """Ignore connections closed by the service."""


def start_server(address: str, port: int = 0) -> int:
    """Serve the site until the program ends; return the port."""
    server = Server((address, port), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_address[1])


class Organization:
    """Client with a key and namespaces of one organization."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def create_namespace(self, name: str, *, vendor: bool = False) -> str:
        model = {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"}
        if vendor:
            model = {"provider": "OPENAI", "model": "text-embedding-3-small", "apiKey": f"sk-{uuid.uuid4().hex}"}
        body = {
            "name": name,
            **NAMESPACE_CONFIG,
            "embeddingModelConfig": model,
            "webScraperConfig": {"provider": "BUILTIN"},
        }
        answer = self.client.post("/v1/namespaces", json=body)
        assert answer.status_code < 300, answer.text
        namespace_id: str = answer.json()["data"]["namespace"]["id"]
        return namespace_id

    def post_ingestion(self, path: str, namespace: str, source: str, config: dict[str, Any]) -> str:
        body = {"namespaceId": namespace, "ingestConfig": {"source": source, "config": config}}
        answer = self.client.post(path, json=body)
        assert answer.status_code < 300, answer.text
        run: str = answer.json()["data"]["ingestJobRunId"]
        return run

    def post_text(self, namespace: str, name: str, text: str) -> str:
        return self.post_ingestion("/v1/ingest/text", namespace, "TEXT", {"name": name, "text": text})

    def time_until_found(self, namespace: str) -> float:
        """Return seconds from sending a text of 2 kB to its search result."""
        word = f"beacon{uuid.uuid4().hex[:10]}"
        began = time.monotonic()
        self.post_text(namespace, word, f"The {word} is lit. " + SAMPLE_LINE * 22)
        weights = {"semanticWeight": 0.0, "keywordWeight": 1.0}
        body = {"namespaceId": namespace, "query": word, "topK": 1, "hybridConfig": weights}
        while (seconds := time.monotonic() - began) < SEARCH_TIMEOUT_SECONDS:
            answer = self.client.post("/v1/search/hybrid", json=body)
            if answer.status_code == 200 and answer.json()["data"]["results"]:
                break
            time.sleep(0.03)
        return seconds


def search_forever(url: str, headers: dict[str, str], namespace: str) -> None:
    with httpx.Client(base_url=url, headers=headers, timeout=SEARCH_TIMEOUT_SECONDS) as client:
        while True:
            client.post("/v1/search/hybrid", json={"namespaceId": namespace, "query": random.choice(SEARCH_QUERIES)})


class Waits:
    """Seconds of B: texts until they are found, and searches."""

    def __init__(self) -> None:
        self.texts: list[float] = []
        self.searches: list[float] = []

    def measure(self, organization: Organization, namespace: str) -> None:
        self.texts.append(organization.time_until_found(namespace))
        for _ in range(20):
            began = time.monotonic()
            body = {"namespaceId": namespace, "query": random.choice(SEARCH_QUERIES)}
            organization.client.post("/v1/search/hybrid", json=body)
            self.searches.append(time.monotonic() - began)


class NeighbourBench:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        Site.pages = options.pages
        self.port = start_server("127.0.0.1")
        self.slow = [f"127.0.7.{number + 1}" for number in range(options.slow)]
        for address in self.slow:
            start_server(address, self.port)

    def run_rounds(self) -> dict[str, Any]:
        settings = {
            "FETCH_ALLOW": "127.0.0.0/8",
            "CHECK_CONFIGS": "false",
            "ENDPOINTS": json.dumps({"OPENAI": {"base_url": f"http://127.0.0.1:{self.port}/v1"}}),
        }
        with run_instance(settings) as service:
            return self._measure(*(Organization(service.create_organization(name)) for name in ("A", "B")))

    def _measure(self, a: Organization, b: Organization) -> dict[str, Any]:
        namespace = b.create_namespace("quiet")
        rounds = self.options.rounds
        b.time_until_found(namespace)
        quiet, noisy_waits = Waits(), Waits()
        for _ in range(rounds):
            quiet.measure(b, namespace)
        self._print_seconds("quiet", quiet.texts)
        hung = [a.create_namespace(f"hung {number}", vendor=True) for number in range(self.options.hung)]
        noisy = a.create_namespace("noisy")
        self._make_noise(a, noisy, hung)
        searchers = self._start_searchers(a, noisy) if self.options.searchers else []
        print("A has sent everything.", flush=True)
        for number in range(rounds):
            noisy_waits.measure(b, namespace)
            print(f"  round {number + 1}: {noisy_waits.texts[-1]:.2f} s", flush=True)
            # Spread the rounds over A's work.
            time.sleep(2)
        for searcher in searchers:
            searcher.kill()
        self._print_seconds("next to A", noisy_waits.texts)
        median = statistics.median(quiet.texts)
        ratio, worst = statistics.median(noisy_waits.texts) / median, max(noisy_waits.texts) / median
        searches = statistics.median(noisy_waits.searches) / statistics.median(quiet.searches)
        print(f"B waits {ratio:.1f} times as long next to A in the median, {worst:.1f} times at worst")
        print(
            f"a search of B takes {searches:.1f} times as long: {1000 * statistics.median(noisy_waits.searches):.0f} ms"
        )
        return {
            "quiet": vars(quiet),
            "next_to": vars(noisy_waits),
            "ratio": ratio,
            "worst": worst,
            "searches": searches,
        }

    def _start_searchers(self, a: Organization, namespace: str) -> list[multiprocessing.Process]:
        a.time_until_found(namespace)
        processes = [
            multiprocessing.Process(
                target=search_forever, args=(str(a.client.base_url), dict(a.client.headers), namespace), daemon=True
            )
            for _ in range(self.options.searchers)
        ]
        for process in processes:
            process.start()
        return processes

    def _make_noise(self, a: Organization, noisy: str, hung: list[str]) -> None:
        for namespace in hung:
            a.post_text(namespace, "hangs", SAMPLE_LINE)
        for address in self.slow:
            a.post_ingestion("/v1/ingest/urls", noisy, "URLS_LIST", {"urls": [f"http://{address}:{self.port}/page"]})
        if self.options.pages:
            start = f"http://127.0.0.1:{self.port}/0.html"
            a.post_ingestion(
                "/v1/ingest/website", noisy, "WEBSITE", {"url": start, "maxDepth": 5, "maxLinks": self.options.pages}
            )
        with ThreadPoolExecutor(8) as pool:
            sent = pool.map(
                lambda n: a.post_text(noisy, f"text {n}", f"Number {n}. " + SAMPLE_LINE * 8), range(self.options.texts)
            )
            assert len(list(sent)) == self.options.texts

    def _print_seconds(self, name: str, seconds: list[float]) -> None:
        print(f"{name:<10} median {statistics.median(seconds):7.2f} s   worst {max(seconds):7.2f} s", flush=True)


def main() -> None:
    options = parse_options(__doc__, texts=3000, pages=300, slow=78, hung=0, searchers=0, rounds=7)
    write_figures("neighbour", {**vars(options), **NeighbourBench(options).run_rounds()})


if __name__ == "__main__":
    main()
