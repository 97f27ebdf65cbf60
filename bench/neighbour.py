"""One text of a quiet organization beside a noisy one, against the same text on a quiet service.

    python -m bench.neighbour [--texts 3000] [--pages 300] [--slow 78] [--hung 20] [--rounds 7]

Starts an instance of its own in a temporary home, with the settings that people use. Organization A sends texts, a
crawl and job runs on sites that take half a minute a page; with `--hung`, so many namespaces of A embed at a vendor
that takes every request and never answers. Organization B sends one text of 2 kB at a time and searches until it is
found. Told are B's seconds on the quiet service and beside A, and their ratio.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from bench.harness import NAMESPACE, instance, parse_options, write

SLOW_SECONDS = 30.0
LINKS = 8
FOUND_WITHIN = 600.0
"""Seconds after which a text counts as not found."""
LINE = "The tide turns at the harbour wall, and the keeper writes down when and how high it stood. "


class Site(BaseHTTPRequestHandler):
    """A tree of pages on the first address; on all others one page that comes after half a minute."""

    protocol_version = "HTTP/1.1"
    pages = 300

    def do_GET(self) -> None:
        if self.connection.getsockname()[0] != "127.0.0.1":
            if self.path == "/robots.txt":
                return self._answer(404, "")
            time.sleep(SLOW_SECONDS)
            return self._answer(200, f"<p>{LINE}</p>")
        number = self.path.strip("/").removesuffix(".html") or "0"
        if not number.isdigit() or int(number) >= self.pages:
            return self._answer(404, "")
        first = LINKS * int(number) + 1
        links = "".join(f'<a href="/{child}.html">{child}</a> ' for child in range(first, first + LINKS))
        return self._answer(200, links + f"<p>Page {number}: {LINE * 20}</p>")

    def do_POST(self) -> None:
        """The vendor that hangs."""
        time.sleep(FOUND_WITHIN)

    def _answer(self, status: int, body: str) -> None:
        content = f"<html><title>{self.path}</title><body>{body}</body></html>".encode()
        with suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *_args: object) -> None:
        """A request is no news."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """A connection that the service gave up is no news."""


def serve(address: str, port: int = 0) -> int:
    """The site at this address, until the program ends; its port."""
    server = Server((address, port), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_address[1])


class Organization:
    """A client of the service with a key and namespaces of its own."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def namespace(self, name: str, *, vendor: bool = False) -> str:
        model = {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"}
        if vendor:
            model = {"provider": "OPENAI", "model": "text-embedding-3-small", "apiKey": f"sk-{uuid.uuid4().hex}"}
        body = {
            "name": name,
            **NAMESPACE,
            "embeddingModelConfig": model,
            "webScraperConfig": {"provider": "BUILTIN"},
        }
        answer = self.client.post("/v1/namespaces", json=body)
        assert answer.status_code < 300, answer.text
        made: str = answer.json()["data"]["namespace"]["id"]
        return made

    def send(self, path: str, namespace: str, source: str, config: dict[str, Any]) -> str:
        body = {"namespaceId": namespace, "ingestConfig": {"source": source, "config": config}}
        answer = self.client.post(path, json=body)
        assert answer.status_code < 300, answer.text
        run: str = answer.json()["data"]["ingestJobRunId"]
        return run

    def text(self, namespace: str, name: str, text: str) -> str:
        return self.send("/v1/ingest/text", namespace, "TEXT", {"name": name, "text": text})

    def until_found(self, namespace: str) -> float:
        """Seconds from sending a text of 2 kB until a search by a word of it finds it."""
        word = f"beacon{uuid.uuid4().hex[:10]}"
        began = time.monotonic()
        self.text(namespace, word, f"The {word} is lit. " + LINE * 22)
        weights = {"semanticWeight": 0.0, "keywordWeight": 1.0}
        body = {"namespaceId": namespace, "query": word, "topK": 1, "hybridConfig": weights}
        while (took := time.monotonic() - began) < FOUND_WITHIN:
            answer = self.client.post("/v1/search/hybrid", json=body)
            if answer.status_code == 200 and answer.json()["data"]["results"]:
                break
            time.sleep(0.03)
        return took


class Bench:
    def __init__(self, chosen: argparse.Namespace) -> None:
        self.chosen = chosen
        Site.pages = chosen.pages
        self.port = serve("127.0.0.1")
        self.slow = [f"127.0.7.{number + 1}" for number in range(chosen.slow)]
        for address in self.slow:
            serve(address, self.port)

    def run(self) -> dict[str, Any]:
        settings = {
            "FETCH_ALLOW": "127.0.0.0/8",
            "CHECK_CONFIGS": "false",
            "ENDPOINTS": json.dumps({"OPENAI": {"base_url": f"http://127.0.0.1:{self.port}/v1"}}),
        }
        with instance(settings) as service:
            return self._measure(*(Organization(service.organization(name)) for name in ("A", "B")))

    def _measure(self, a: Organization, b: Organization) -> dict[str, Any]:
        mine = b.namespace("quiet")
        rounds = self.chosen.rounds
        b.until_found(mine)
        quiet = [b.until_found(mine) for _ in range(rounds)]
        self._tell("quiet", quiet)
        hung = [a.namespace(f"hung {number}", vendor=True) for number in range(self.chosen.hung)]
        self._make_noise(a, a.namespace("noisy"), hung)
        print("A has sent everything.", flush=True)
        beside = []
        for number in range(rounds):
            beside.append(b.until_found(mine))
            print(f"  round {number + 1}: {beside[-1]:.2f} s", flush=True)
            time.sleep(2)
        self._tell("beside A", beside)
        ratio = statistics.median(beside) / statistics.median(quiet)
        worst = max(beside) / statistics.median(quiet)
        print(f"B waits {ratio:.1f} times as long beside A in the median, {worst:.1f} times at worst")
        return {"quiet": quiet, "beside": beside, "ratio": ratio, "worst": worst}

    def _make_noise(self, a: Organization, noisy: str, hung: list[str]) -> None:
        for namespace in hung:
            a.text(namespace, "hangs", LINE)
        for address in self.slow:
            a.send("/v1/ingest/urls", noisy, "URLS_LIST", {"urls": [f"http://{address}:{self.port}/page"]})
        if self.chosen.pages:
            start = f"http://127.0.0.1:{self.port}/0.html"
            a.send("/v1/ingest/website", noisy, "WEBSITE", {"url": start, "maxDepth": 5, "maxLinks": self.chosen.pages})
        with ThreadPoolExecutor(8) as pool:
            sent = pool.map(lambda n: a.text(noisy, f"text {n}", f"Number {n}. " + LINE * 8), range(self.chosen.texts))
            assert len(list(sent)) == self.chosen.texts

    def _tell(self, name: str, seconds: list[float]) -> None:
        print(f"{name:<10} median {statistics.median(seconds):7.2f} s   worst {max(seconds):7.2f} s", flush=True)


def main() -> None:
    options = parse_options(__doc__, texts=3000, pages=300, slow=78, hung=0, rounds=7)
    write("neighbour", {**vars(options), **Bench(options).run()})


if __name__ == "__main__":
    main()
