"""Nothing that one namespace does stops another: a soak of the whole service, with stalls injected into the database.

    .venv/bin/python bench/soak.py [--seconds 120] [--limit 30]

Starts an instance of its own in a temporary home. In one namespace small and large texts are replaced, deleted and sent
again without a pause, while a connection of its own holds that namespace's rows and locks, one kind after the other,
for some seconds each. In another namespace a text is sent every second: each must be found within `limit` seconds.
Exit code 1 if one was not. Minutes show what is wrong at once, an hour what grows.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import psycopg

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from bench import report  # noqa: E402
from bench.instance import NAMESPACE, Instance, instance  # noqa: E402

WORDS = 6_000
"""Distinct words of a large text."""
HELD_SECONDS = 3.0
STALLS = (
    "select pg_advisory_xact_lock(%(partition)s)",
    "select pg_advisory_xact_lock(1262837581, %(partition)s)",
    "select from partitions where id = %(partition)s for update",
    "select from batches where partition_id = %(partition)s and finished_at is null for update",
    "select from job_runs where partition_id = %(partition)s and finished_at is null for update",
    "select from documents where partition_id = %(partition)s for update",
    "select from sweeps where partition_id = %(partition)s for update",
    "select from chunks where partition_id = %(partition)s for update",
    "select from term_counts where partition_id = %(partition)s for update",
    "select from namespaces where id = (select namespace_id from partitions where id = %(partition)s) for update",
)
"""What another transaction of the busy namespace may hold, one after the other."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=120)
    options.add_argument("--limit", type=float, default=30, help="seconds until a text must be found")
    chosen = options.parse_args()
    report.end_in_order()
    with instance() as service:
        return Soak(service, chosen.seconds, chosen.limit).run()


class Soak:
    """Two namespaces of one service: a busy one, and one that must not notice."""

    def __init__(self, service: Instance, seconds: float, limit: float) -> None:
        info = service.info
        self.headers = {"Authorization": f"Bearer {info['apiKey']}"}
        self.base = info["api"]
        self.database = service.database
        self.limit = limit
        self.ends = time.monotonic() + seconds
        self.took: list[float] = []
        self.done: dict[str, int] = {"replaced": 0, "deleted": 0, "refused": 0, "stalls": 0}
        self.errors: list[BaseException] = []
        self.busy, self.quiet = self._namespace("busy"), self._namespace("quiet")

    def run(self) -> int:
        threads = [threading.Thread(target=self._kept, args=(what,)) for what in (self._work, self._stall, self._watch)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for error in self.errors:
            print(f"FAILED: {type(error).__name__}: {error}")
        if self.took:
            slowest = max(self.took)
            print(f"{len(self.took)} texts found: median {statistics.median(self.took):.1f} s, slowest {slowest:.1f} s")
        print(", ".join(f"{count} {what}" for what, count in self.done.items()))
        return 1 if self.errors or not self.took else 0

    def _kept(self, what: Any) -> None:
        try:
            what()
        except Exception as error:  # noqa: BLE001 - told at the end
            self.errors.append(error)

    def _goes_on(self) -> bool:
        return time.monotonic() < self.ends and not self.errors

    def _work(self) -> None:
        """Replacements small and large, deletions, and the same again."""
        with httpx.Client(base_url=self.base, headers=self.headers, timeout=60) as client:
            for number in itertools.count():
                if not self._goes_on():
                    return
                large = number % 5 == 4
                words = [f"w{number}x{word}" for word in range(WORDS)] if large else [f"small text {number}"]
                self._send(client, self.busy, "large" if large else f"small {number % 3}", " ".join(words))
                self.done["replaced"] += 1
                if number % 7 == 6:
                    names = ["large", "small 0"]
                    where = {"documentIds": [], "documentExternalIds": names, "documentTypes": []}
                    body = {"namespaceId": self.busy, "filterConfig": where}
                    answer = client.request("DELETE", "/v1/documents", json=body)
                    self.done["deleted" if answer.status_code == 200 else "refused"] += 1
                time.sleep(0.2)

    def _stall(self) -> None:
        """Hold what a transaction of the busy namespace could hold."""
        with psycopg.connect(self.database) as connection:
            for statement in itertools.cycle(STALLS):
                if not self._goes_on():
                    return
                found = connection.execute("select id from partitions where namespace_id = %s limit 1", [self.busy])
                row = found.fetchone()
                if row is not None:
                    connection.execute(statement.encode(), {"partition": row[0]})
                    time.sleep(HELD_SECONDS)
                    self.done["stalls"] += 1
                connection.rollback()
                time.sleep(0.5)

    def _watch(self) -> None:
        """A text in the other namespace is found soon, all along."""
        with httpx.Client(base_url=self.base, headers=self.headers, timeout=60) as client:
            for number in itertools.count():
                if not self._goes_on():
                    return
                word, began = f"beacon{number}q", time.monotonic()
                self._send(client, self.quiet, f"beacon {number}", f"The {word} is lit.")
                while not self._found(client, word):
                    if time.monotonic() - began > self.limit:
                        raise TimeoutError(f"{word} was not found within {self.limit:g} s")
                    time.sleep(0.1)
                self.took.append(time.monotonic() - began)
                time.sleep(1)

    def _found(self, client: httpx.Client, word: str) -> bool:
        weights = {"semanticWeight": 0.0, "keywordWeight": 1.0}
        body = {"namespaceId": self.quiet, "query": word, "topK": 1, "hybridConfig": weights}
        answer = client.post("/v1/search/hybrid", json=body)
        return answer.status_code == 200 and bool(answer.json()["data"]["results"])

    def _send(self, client: httpx.Client, namespace: str, name: str, text: str) -> None:
        config = {"text": text, "name": name}
        body = {"namespaceId": namespace, "ingestConfig": {"source": "TEXT", "config": config}}
        answer = client.post("/v1/ingest/text", json=body)
        if answer.status_code == 503 and namespace == self.busy:
            self.done["refused"] += 1
            return
        answer.raise_for_status()
        if namespace == self.busy:
            self._settle(client, answer.json()["data"]["ingestJobRunId"])

    def _settle(self, client: httpx.Client, run: str) -> None:
        """One run of the busy namespace at a time: the other one's share of the worker is not what is tried here."""
        ends = time.monotonic() + 60
        while time.monotonic() < ends and self._goes_on():
            answer = client.get(f"/v1/ingest-job-runs/{run}", params={"namespaceId": self.busy})
            if answer.status_code == 200 and answer.json()["data"]["status"] == "COMPLETED":
                return
            time.sleep(0.2)

    def _namespace(self, name: str) -> str:
        answer = httpx.post(
            f"{self.base}/v1/namespaces", json={"name": name, **NAMESPACE}, headers=self.headers, timeout=60
        )
        answer.raise_for_status()
        made: str = answer.json()["data"]["namespace"]["id"]
        return made


if __name__ == "__main__":
    sys.exit(main())
