"""Clients of a round: senders with retries, and a reader of replaced documents."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Self

import httpx

from tests.faults.place import Place
from tests.faults.sources import crawl_of

# Seconds of retries before a request counts as refused.
GIVES_UP = 120.0
PAUSE = 0.4
# Length of a replaced document: several chunks.
WORDS = 300
CRAWL_EVERY, SYNC_EVERY, CANCEL_EVERY = 10.0, 4.0, 3.0
AGAIN = frozenset({408, 409, 429, 500, 502, 503, 504, 507})


class Stream:
    """Acknowledged requests by name: job run and search word."""

    def __init__(self, installation: Place, seed: int, number: int) -> None:
        self._place = installation
        self._dice = random.Random(f"{seed}/{number}/stream")
        self._label = f"s{seed}r{number}"
        self._stopped = threading.Event()
        works = [
            self._send,
            self._cancel,
            self._replace,
            self._read,
            *([self._crawl, self._synchronize] if installation.sources else []),
        ]
        self._threads = [threading.Thread(target=self._repeat_work, args=(work,)) for work in works]
        self.runs: dict[str, tuple[str, str]] = {}
        # Job runs with an acknowledged cancellation.
        self.cancelled: list[str] = []
        self.replaced: list[str] = []
        self.refused: list[str] = []
        self.crawls: dict[str, str] = {}
        """Job runs of crawls, and the name of the website of each."""
        self.syncs: list[str] = []
        # Problems: half a version, an undocumented 5xx, a dead thread.
        self.wrong: list[str] = []
        self.reads = 0

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def until_read(self, count: int, seconds: float) -> None:
        """Waits until so many whole versions were read, or for so long."""
        deadline = time.monotonic() + seconds
        while self.reads < count and time.monotonic() < deadline:
            time.sleep(0.1)

    def _repeat_work(self, work: Callable[[httpx.Client], None]) -> None:
        try:
            with httpx.Client(timeout=20) as client:
                while not self._stopped.is_set():
                    work(client)
        except Exception as error:  # noqa: BLE001 - told by the judge
            self.wrong.append(f"a client ended: {type(error).__name__}: {error}")

    def _send(self, client: httpx.Client) -> None:
        """A text or a file."""
        number = len(self.runs) + len(self.refused)
        word = f"{self._label}n{number}x"
        text = f"This document holds the word {word}. " + " ".join(
            self._dice.choice(("owl", "seal", "basalt", "river", "copper")) for _ in range(60)
        )
        if self._dice.random() < 0.7:
            body = {"source": "TEXT", "config": {"text": text, "name": word}}
            request_fields = {"json": {"namespaceId": self._place.service.namespace, "ingestConfig": body}}
            path = "/v1/ingest/text"
        else:
            request_fields = {
                "data": {"namespaceId": self._place.service.namespace, "source": "FILE"},
                "files": {"file": (word, f"<p>{text}</p>".encode(), "text/html")},
            }
            path = "/v1/ingest/file"
        run = self._posted(client, path, request_fields)
        if run is None:
            self.refused.append(word)
        else:
            self.runs[word] = (run, word)
        self._stopped.wait(self._dice.uniform(0, PAUSE))

    def _cancel(self, client: httpx.Client) -> None:
        """Send a text and cancel it some moments later."""
        config = {"text": "This document is not needed. " * 200, "name": f"{self._label}z{len(self.cancelled)}"}
        body = {"namespaceId": self._place.service.namespace, "ingestConfig": {"source": "TEXT", "config": config}}
        run = self._posted(client, "/v1/ingest/text", {"json": body})
        if run is not None:
            self._stopped.wait(self._dice.uniform(0, 1))
            path, namespace = f"/v1/ingest-job-runs/{run}/cancel", {"namespaceId": self._place.service.namespace}
            if self._answer(client, path, {"json": namespace}) is not None:
                self.cancelled.append(run)
        self._stopped.wait(CANCEL_EVERY)

    def _replace(self, client: httpx.Client) -> None:
        """Send the next version of the document."""
        version = len(self.replaced)
        text = " ".join(f"v{version}w{word}" for word in range(WORDS))
        config = {"text": text, "name": f"{self._label} page", "externalId": f"{self._label}-page"}
        body = {"namespaceId": self._place.service.namespace, "ingestConfig": {"source": "TEXT", "config": config}}
        run = self._posted(client, "/v1/ingest/text", {"json": body})
        if run is not None:
            self.replaced.append(run)
        self._stopped.wait(1.5)

    def _crawl(self, client: httpx.Client) -> None:
        """Crawl a new website."""
        sources, name = self._place.sources, f"{self._label}c{len(self.crawls)}"
        if sources is not None:
            body = crawl_of(sources.site, self._place.service.namespace, name)
            run = self._posted(client, "/v1/ingest/website", {"json": body})
            if run is not None:
                self.crawls[run] = name
        self._stopped.wait(CRAWL_EVERY)

    def _synchronize(self, client: httpx.Client) -> None:
        """Edit the account and synchronize it."""
        if self._place.sources is not None:
            self._place.sources.edit()
            run = self._posted(client, "/v1/ingest/box", {"json": self._place.sources.request_body})
            if run is not None:
                self.syncs.append(run)
        self._stopped.wait(SYNC_EVERY)

    def _posted(self, client: httpx.Client, path: str, request_fields: dict[str, Any]) -> str | None:
        """The acknowledged job run."""
        answer = self._answer(client, path, request_fields)
        return None if answer is None else str(answer["ingestJobRunId"])

    def _answer(self, client: httpx.Client, path: str, request_fields: dict[str, Any]) -> dict[str, Any] | None:
        """Send with retries under one idempotency key; return the response's data."""
        key, deadline = str(uuid.UUID(int=self._dice.getrandbits(128), version=4)), time.monotonic() + GIVES_UP
        while time.monotonic() < deadline:
            info = self._place.service.info
            headers = {"Authorization": f"Bearer {info['apiKey']}", "Idempotency-Key": key}
            try:
                answer = client.post(info["api"] + path, headers=headers, **request_fields)
            except httpx.HTTPError:
                time.sleep(0.3)
                continue
            if answer.status_code == 200:
                return dict(answer.json()["data"])
            if answer.status_code not in AGAIN or "error" not in answer.json():
                self.wrong.append(f"{path}: {answer.status_code} {answer.text[:300]}")
                return None
            time.sleep(0.3)
        return None

    def _read(self, client: httpx.Client) -> None:
        """Read the replaced document; it must be one whole version."""
        info = self._place.service.info
        headers = {"Authorization": f"Bearer {info['apiKey']}"}
        self._stopped.wait(0.3)
        try:
            if (document := self._page(client, info, headers)) is None:
                return
            path = f"{info['api']}/v1/documents/{document}/chunks"
            parameters = {"namespaceId": self._place.service.namespace}
            answer = client.get(path, params=parameters, headers=headers)
        except httpx.HTTPError:
            return
        if answer.status_code == 200:
            words = {word for chunk in answer.json()["data"]["chunks"] for word in chunk["content"].split()}
            versions = {word.partition("w")[0] for word in words}
            self.reads += bool(words)
            if words and (len(versions) > 1 or len(words) < WORDS):
                self.wrong.append(f"half a version was seen: {len(words)} words of {sorted(versions)}")

    def _page(self, client: httpx.Client, info: dict[str, Any], headers: dict[str, str]) -> str | None:
        config = {"documentIds": [], "documentExternalIds": [f"{self._label}-page"], "documentTypes": []}
        body = {"namespaceId": self._place.service.namespace, "filterConfig": config}
        answer = client.post(f"{info['api']}/v1/documents", json=body, headers=headers)
        documents = answer.json()["data"]["documents"] if answer.status_code == 200 else []
        if len(documents) > 1:
            self.wrong.append(f"one external id, {len(documents)} documents")
        return documents[0]["id"] if documents else None
