"""Further sources of the long rounds: a website, a Box account and a bucket behind a network."""

from __future__ import annotations

import json
import random
import threading
import time
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import httpx
import psycopg

from retrieval.namespaces.namespaces import EMBEDDED_CONFIGS
from retrieval.sources import APP_CONFIGS
from tests.e2e.conftest import Service
from tests.e2e.test_connectors import APP_OF, connect
from tests.faults.network import Network
from tests.standins import box, faults, s3_server

# Each page links to two more.
PAGES = 8
# With so many files a single deletion needs no confirmation.
FILES = 30
KEPT: Any = """
    select d.external_id, d.name, d.status from documents d join partitions p on p.id = d.partition_id
    where p.namespace_id = %s and d.deleted_at is null
"""


class Site(ThreadingHTTPServer):
    """Small websites: `/NAME/p0` is the start, page 3 holds the word NAMEp3x."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Page)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: object) -> None:
        pass

    def pages(self, name: str) -> set[str]:
        """URLs of one website."""
        return {f"{self.url}/{name}/p{number}" for number in range(PAGES)}


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name, _, page = self.path.lstrip("/").partition("/p")
        is_known = page.isdigit() and int(page) < PAGES
        body = _page(name, int(page)).encode() if is_known else b""
        self.send_response(200 if is_known else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """A request is no news."""


def _page(name: str, number: int) -> str:
    links = [target for target in (2 * number + 1, 2 * number + 2) if target < PAGES]
    anchors = "".join(f'<a href="/{name}/p{target}">{target}</a>' for target in links)
    return f"<html><title>Page {number}</title><main><p>Here is the word {name}p{number}x.</p>{anchors}</main></html>"


class Sources:
    """Website, Box account and bucket on loopback. `texts` maps external ids to the newest word."""

    def __init__(self, seed: int) -> None:
        self._stack = ExitStack()
        self._dice = random.Random(f"{seed}/account")
        self._count = 0
        self.texts: dict[str, str] = {}

    def __enter__(self) -> Self:
        self.site = self._stack.enter_context(Site())
        serving = threading.Thread(target=self.site.serve_forever, args=(0.05,), daemon=True)
        serving.start()
        self._stack.callback(self.site.shutdown)
        self._account = self._stack.enter_context(box.serving())
        self._storage = self._stack.enter_context(s3_server.running())
        self.network = self._stack.enter_context(Network(self._storage.port))
        for _ in range(FILES):
            self._put()
        return self

    def __exit__(self, *_: object) -> None:
        self.network.heal()
        self._stack.close()

    @property
    def settings(self) -> dict[str, str]:
        """Settings of the service, by name."""
        at = self._account.settings
        return {
            "endpoints": json.dumps(
                {name: endpoint.model_dump(mode="json") for name, endpoint in at.endpoints.items()}
            ),
            "oauth_endpoints": json.dumps(
                {k: endpoint.model_dump(mode="json") for k, endpoint in at.oauth_endpoints.items()}
            ),
            "fetch_allow": "127.0.0.0/8",
            "fetch_host_delay": "0",
        }

    def connect(self, service: Service) -> None:
        """Create a namespace with a connection to the account and files in the bucket."""
        bucket = self._storage.config(s3_server.bucket(self._storage))
        bucket["endpoint"] = f"http://127.0.0.1:{self.network.port}"
        namespace_body = {
            "name": "account",
            **EMBEDDED_CONFIGS,
            "fileStorageConfig": bucket,
            APP_CONFIGS["BOX"]: APP_OF["BOX"],
        }
        self.namespace = service.ok(service.client.post("/v1/namespaces", json=namespace_body))["namespace"]["id"]
        connection = connect(service, self.namespace, "BOX")
        config = {"source": "BOX", "config": {"connectionId": connection}}
        self.request_body = {"namespaceId": self.namespace, "ingestConfig": config}

    def refuse(self, seconds: float) -> None:
        """The account's vendor answers nothing but 503 for a while, and resets every third request."""
        answers = (faults.status(503), faults.status(503), faults.reset)
        self._account.fault = lambda _request: self._dice.choice(answers)
        time.sleep(seconds)
        self._account.fault = lambda _request: None

    def edit(self) -> None:
        """Add, change or delete a file of the account."""
        change = self._dice.choice(("put", "change", "change", "delete"))
        if change == "put" or len(self.texts) < FILES:
            self._put()
            return
        chosen = self._dice.choice(sorted(self.texts))
        if change == "delete":
            self._account.delete(chosen)
            del self.texts[chosen]
        else:
            self._account.change(chosen, self._text(chosen))

    def wrong(self, connection: psycopg.Connection[dict[str, Any]], service: Service) -> list[str]:
        """Differences between namespace and account after a final synchronization."""
        rows = connection.execute(KEPT, [self.namespace]).fetchall()
        ingested = {row["external_id"] for row in rows}
        problems = [f"a file of the account is not ready: {row}" for row in rows if row["status"] != "SUCCESS"]
        problems += [f"gone from the account, and here: {file}" for file in sorted(ingested - self.texts.keys())]
        problems += [f"in the account, and not here: {file}" for file in sorted(self.texts.keys() - ingested)]
        for file in self._dice.sample(sorted(self.texts), 4):
            body = {"namespaceId": self.namespace, "query": self.texts[file], "topK": 3}
            keywords = {"hybridConfig": {"semanticWeight": 0, "keywordWeight": 1}}
            hits = service.ok(service.client.post("/v1/search/hybrid", json=body | keywords))["results"]
            if [hit["document"]["externalId"] for hit in hits] != [file]:
                problems.append(
                    f"the newest word {self.texts[file]} of {file} finds {[hit['document'] for hit in hits]}"
                )
        return problems

    def _put(self) -> None:
        name = f"file{self._count}"
        word = f"w{self._count}x"
        file = self._account.put(f"folder/{name}.txt", f"This file holds the word {word}.")
        self._count += 1
        self.texts[file] = word

    def _text(self, external_id: str) -> str:
        word = f"w{self._count}x"
        self._count += 1
        self.texts[external_id] = word
        return f"This file was edited and holds the word {word}."


def crawl_of(site: Site, namespace: str, name: str) -> dict[str, Any]:
    """Request for a crawl of one website."""
    config = {"url": f"{site.url}/{name}/p0", "maxDepth": 5, "maxLinks": 100}
    return {"namespaceId": namespace, "ingestConfig": {"source": "WEBSITE", "config": config}}


def synchronized(sources: Sources, service: Service, seconds: float) -> str | None:
    """Synchronize once more; return the problem or None."""
    run = service.ok(service.client.post("/v1/ingest/box", json=sources.request_body))["ingestJobRunId"]
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            state = service.job_run(run, sources.namespace)
        except httpx.HTTPError as error:
            return f"{type(error).__name__}: {error}"
        if state["status"] == "COMPLETED":
            return None if state.get("outcome") == "SUCCEEDED" else f"the last synchronization: {state}"
        time.sleep(0.2)
    return f"the last synchronization is not over after {seconds:.0f} s"
