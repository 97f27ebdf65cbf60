"""Clients of a round: texts and files that are sent until they are acknowledged, and one who reads what is replaced."""

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

GIVES_UP = 120.0
"""Seconds for which a client sends a request again before it says that it was not taken."""
PAUSE = 0.4
WORDS = 300
"""Of a document that is replaced: several chunks."""
CRAWL_EVERY, SYNC_EVERY, CANCEL_EVERY = 10.0, 4.0, 3.0
AGAIN = frozenset({408, 409, 429, 500, 502, 503, 504, 507})


class Stream:
    """What was acknowledged, by name: the job run, and the word that finds it."""

    def __init__(self, place: Place, seed: int, number: int) -> None:
        self._place = place
        self._dice = random.Random(f"{seed}/{number}/stream")
        self._label = f"s{seed}r{number}"
        self._stopped = threading.Event()
        works = [
            self._send,
            self._cancel,
            self._replace,
            self._read,
            *([self._crawl, self._synchronize] if place.sources else []),
        ]
        self._threads = [threading.Thread(target=self._kept, args=(one,)) for one in works]
        self.runs: dict[str, tuple[str, str]] = {}
        self.cancelled: list[str] = []
        """Job runs whose cancellation was acknowledged."""
        self.replaced: list[str] = []
        self.refused: list[str] = []
        self.crawls: dict[str, str] = {}
        """Job runs of crawls, and the name of the website of each."""
        self.syncs: list[str] = []
        self.wrong: list[str] = []
        """What should never be: half a version, an answer of 5xx without its documented form, a thread that died."""
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

    def _kept(self, work: Callable[[httpx.Client], None]) -> None:
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
            sent = {"json": {"namespaceId": self._place.service.namespace, "ingestConfig": body}}
            path = "/v1/ingest/text"
        else:
            sent = {
                "data": {"namespaceId": self._place.service.namespace, "source": "FILE"},
                "files": {"file": (word, f"<p>{text}</p>".encode(), "text/html")},
            }
            path = "/v1/ingest/file"
        run = self._posted(client, path, sent)
        if run is None:
            self.refused.append(word)
        else:
            self.runs[word] = (run, word)
        self._stopped.wait(self._dice.uniform(0, PAUSE))

    def _cancel(self, client: httpx.Client) -> None:
        """A text that is cancelled some moments later."""
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
        """The next version of the one document."""
        version = len(self.replaced)
        text = " ".join(f"v{version}w{word}" for word in range(WORDS))
        config = {"text": text, "name": f"{self._label} page", "externalId": f"{self._label}-page"}
        body = {"namespaceId": self._place.service.namespace, "ingestConfig": {"source": "TEXT", "config": config}}
        run = self._posted(client, "/v1/ingest/text", {"json": body})
        if run is not None:
            self.replaced.append(run)
        self._stopped.wait(1.5)

    def _crawl(self, client: httpx.Client) -> None:
        """A website that nobody has seen before."""
        sources, name = self._place.sources, f"{self._label}c{len(self.crawls)}"
        if sources is not None:
            asked = crawl_of(sources.site, self._place.service.namespace, name)
            run = self._posted(client, "/v1/ingest/website", {"json": asked})
            if run is not None:
                self.crawls[run] = name
        self._stopped.wait(CRAWL_EVERY)

    def _synchronize(self, client: httpx.Client) -> None:
        """A person edits the account, and asks for what has changed there."""
        if self._place.sources is not None:
            self._place.sources.edit()
            run = self._posted(client, "/v1/ingest/box", {"json": self._place.sources.asked})
            if run is not None:
                self.syncs.append(run)
        self._stopped.wait(SYNC_EVERY)

    def _posted(self, client: httpx.Client, path: str, sent: dict[str, Any]) -> str | None:
        """The acknowledged job run."""
        answer = self._answer(client, path, sent)
        return None if answer is None else str(answer["ingestJobRunId"])

    def _answer(self, client: httpx.Client, path: str, sent: dict[str, Any]) -> dict[str, Any] | None:
        """The data of the answer. The same request is sent again, by its key, for as long as nobody knows of it."""
        key, deadline = str(uuid.UUID(int=self._dice.getrandbits(128), version=4)), time.monotonic() + GIVES_UP
        while time.monotonic() < deadline:
            info = self._place.service.info
            headers = {"Authorization": f"Bearer {info['apiKey']}", "Idempotency-Key": key}
            try:
                answer = client.post(info["api"] + path, headers=headers, **sent)
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
        """Whoever reads the replaced document sees one whole version of it."""
        info = self._place.service.info
        headers = {"Authorization": f"Bearer {info['apiKey']}"}
        self._stopped.wait(0.3)
        try:
            if (document := self._page(client, info, headers)) is None:
                return
            path = f"{info['api']}/v1/documents/{document}/chunks"
            where = {"namespaceId": self._place.service.namespace}
            answer = client.get(path, params=where, headers=headers)
        except httpx.HTTPError:
            return
        if answer.status_code == 200:
            seen = {word for chunk in answer.json()["data"]["chunks"] for word in chunk["content"].split()}
            versions = {word.partition("w")[0] for word in seen}
            self.reads += bool(seen)
            if seen and (len(versions) > 1 or len(seen) < WORDS):
                self.wrong.append(f"half a version was seen: {len(seen)} words of {sorted(versions)}")

    def _page(self, client: httpx.Client, info: dict[str, Any], headers: dict[str, str]) -> str | None:
        config = {"documentIds": [], "documentExternalIds": [f"{self._label}-page"], "documentTypes": []}
        body = {"namespaceId": self._place.service.namespace, "filterConfig": config}
        answer = client.post(f"{info['api']}/v1/documents", json=body, headers=headers)
        found = answer.json()["data"]["documents"] if answer.status_code == 200 else []
        if len(found) > 1:
            self.wrong.append(f"one external id, {len(found)} documents")
        return found[0]["id"] if found else None
