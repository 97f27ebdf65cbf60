"""What a namespace's size and an organization's tenants cost each request: flat, or with the logarithm at most.

    .venv/bin/python bench/growth.py [--documents 1000 10000 100000] [--tenants 10 1000] [--rounds 15]

One instance with a namespace for each number of documents of one chunk each, put into the tables as ingestion leaves
them, indexed, packed and vacuumed; and one for each number of tenants, each of whom has sent a text. Told are median
milliseconds of requests by HTTP, asked in turn of all namespaces, and how many times as long the largest takes as the
smallest; and what each statement of a hybrid search reads. The instance's PostgreSQL has the service's settings.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psycopg

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from bench import report, search_corpus, search_scale  # noqa: E402
from bench.instance import NAMESPACE, Instance, instance  # noqa: E402
from connectors.vectors.pgvector import PgVectorStore  # noqa: E402
from retrieval.database.database import Database  # noqa: E402
from retrieval.ports import Scope  # noqa: E402
from retrieval.search import packing  # noqa: E402

TEXT = "Growth probe number {}. The tide turns at the harbour wall, and the keeper writes down when."
ALL: dict[str, list[str]] = {"documentIds": [], "documentExternalIds": [], "documentTypes": []}
STATS = {"documents": True, "statsBySource": True, "statsByStatus": True}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--documents", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    options.add_argument("--tenants", type=int, nargs="+", default=[10, 1_000])
    options.add_argument("--rounds", type=int, default=15)
    chosen = options.parse_args()
    report.end_in_order()
    with instance() as service:
        place = Growing(service)
        found = {
            "documents": place.documents(chosen.documents, chosen.rounds),
            "tenants": place.tenants(chosen.tenants, chosen.rounds),
        }
    for name, part in found.items():
        _show(name, part["ms"])
    report.write("growth", found)


class Growing:
    """Namespaces of several sizes in one instance."""

    def __init__(self, service: Instance) -> None:
        self.service = service
        self.organization, key = service.organization("growth")
        self.client = service.client(key)
        self.number = 0

    def documents(self, sizes: list[int], rounds: int) -> dict[str, Any]:
        """By number of documents."""
        spaces, words, reads = {}, {}, {}
        db = Database(self.service.database, role="api", size=2)
        try:
            for size in sorted(sizes, reverse=True):  # indexes of an empty table are made in the end
                spaces[size], words[size], reads[size] = self._filled(db, size)
        finally:
            db.close()

        kinds: dict[str, Callable[[int, str], object]] = {
            "list documents": lambda _, space: self._list(space, {"documents": True}),
            "list and count them": lambda _, space: self._list(space, STATS),
            "search semantic": lambda size, space: self._search(space, words[size]()),
            "search hybrid": lambda size, space: self._search(space, words[size](), hybrid=True),
            "list job runs": lambda _, space: self._runs(space),
            "a text to searchable": lambda _, space: self._ingest(space),
        }
        found = self._measure(dict(sorted(spaces.items())), kinds, rounds)
        return {"ms": found, "reads": reads}

    def tenants(self, sizes: list[int], rounds: int) -> dict[str, Any]:
        """By number of tenants of one namespace, asked for one of them and for the namespace without a tenant."""
        spaces = {}
        for size in sorted(sizes):
            spaces[size] = self._namespace(f"{size} tenants")
            print(f"{size} tenants …", flush=True)
            with ThreadPoolExecutor(8) as pool:
                runs = list(pool.map(lambda n, space=spaces[size]: self._send(space, f"t{n}"), range(size)))
            for tenant in range(size):
                self._wait(spaces[size], runs[tenant], f"t{tenant}", pause=0.25)
        kinds: dict[str, Callable[[int, str], object]] = {
            "list a tenant's documents": lambda _, space: self._list(space, STATS, "t5"),
            "search for a tenant": lambda _, space: self._search(space, "harbour keeper", hybrid=True, tenant="t5"),
            "read the namespace": lambda _, space: self._get(f"/v1/namespaces/{space}", {}),
            "a text to searchable": lambda _, space: self._ingest(space, "t5"),
        }
        return {"ms": self._measure(spaces, kinds, rounds)}

    def _filled(self, db: Database, size: int) -> tuple[str, Callable[[], str], list[dict[str, Any]]]:
        """A namespace of so many documents, words that some of its chunks hold, and what a search of it reads."""
        print(f"{size} documents …", flush=True)
        space = self._namespace(f"{size} documents")
        scope, dice = Scope(self.organization, space), np.random.default_rng(size)
        row = db.row("insert into partitions (namespace_id) values (%(id)s) returning id", {"id": space})
        assert row
        partition = int(row["id"])
        search_corpus.fill(db, partition, dice, size, per_document=1)
        store = PgVectorStore(db, space, search_corpus.DIMENSIONS)
        store.ensure_index(scope)
        packing.keep(db, partition)
        with psycopg.connect(db.url, autocommit=True) as connection:
            connection.execute("vacuum analyze")
        queries = search_corpus.queries(db, partition, dice, 40)
        asked = iter(range(10**9))
        reads = search_scale.reads(db, scope, store, queries[0])
        return space, lambda: f"{queries[(n := next(asked)) % len(queries)][0]} {n}", reads

    def _measure(
        self, spaces: dict[int, str], kinds: dict[str, Callable[[int, str], object]], rounds: int
    ) -> dict[str, dict[str, float]]:
        took: dict[str, dict[int, list[float]]] = {name: {size: [] for size in spaces} for name in kinds}
        for number in range(rounds + 2):
            for name, ask in kinds.items():
                for size, space in list(spaces.items())[:: 1 if number % 2 else -1]:
                    began = time.perf_counter()
                    ask(size, space)
                    if number > 1:
                        took[name][size].append((time.perf_counter() - began) * 1000)
        found: dict[str, dict[str, float]] = {}
        for name, by_size in took.items():
            medians = {size: statistics.median(each) for size, each in by_size.items()}
            found[name] = {str(size): round(ms, 2) for size, ms in medians.items()}
            found[name]["ratio"] = round(medians[max(medians)] / medians[min(medians)], 2)
        return found

    def _namespace(self, name: str) -> str:
        made = self._post("/v1/namespaces", {"name": name, **NAMESPACE})
        return str(made["namespace"]["id"])

    def _list(self, space: str, include: dict[str, bool], tenant: str = "") -> None:
        body = {"namespaceId": space, "filterConfig": ALL, "includeConfig": include, "pagination": {"pageSize": 50}}
        self._post("/v1/documents", body, tenant)

    def _search(self, space: str, query: str, *, hybrid: bool = False, tenant: str = "") -> None:
        body: dict[str, Any] = {"namespaceId": space, "query": query, "topK": 10}
        if hybrid:
            body["hybridConfig"] = {"semanticWeight": 0.5, "keywordWeight": 0.5}
        self._post("/v1/search/hybrid" if hybrid else "/v1/search", body, tenant)

    def _runs(self, space: str) -> None:
        self._get("/v1/ingest-job-runs", {"namespaceId": space})

    def _ingest(self, space: str, tenant: str = "") -> None:
        self._wait(space, self._send(space, tenant), tenant, pause=0.01)

    def _send(self, space: str, tenant: str) -> str:
        self.number += 1
        config = {"source": "TEXT", "config": {"text": TEXT.format(self.number), "name": f"probe {self.number}"}}
        return str(
            self._post("/v1/ingest/text", {"namespaceId": space, "ingestConfig": config}, tenant)["ingestJobRunId"]
        )

    def _wait(self, space: str, run: str, tenant: str, *, pause: float) -> None:
        while True:
            told = self._get(f"/v1/ingest-job-runs/{run}", {"namespaceId": space}, tenant)
            if told["status"] == "COMPLETED":
                break
            time.sleep(pause)
        if told["outcome"] != "SUCCEEDED":
            sys.exit(f"A text was not ingested: {told}")

    def _post(self, path: str, body: dict[str, Any], tenant: str = "") -> dict[str, Any]:
        return self._answer(self.client.post(path, json=body, headers=_for(tenant)))

    def _get(self, path: str, asked: dict[str, str], tenant: str = "") -> dict[str, Any]:
        return self._answer(self.client.get(path, params=asked, headers=_for(tenant)))

    def _answer(self, answer: httpx.Response) -> dict[str, Any]:
        if answer.status_code != 200:
            sys.exit(f"{answer.request.url.path} answered {answer.status_code}: {answer.text[:300]}")
        return dict(answer.json()["data"])


def _for(tenant: str) -> dict[str, str]:
    return {"X-Tenant-ID": tenant} if tenant else {}


def _show(what: str, found: dict[str, dict[str, float]]) -> None:
    sizes = [name for name in next(iter(found.values())) if name != "ratio"]
    print(f"{f'ms by number of {what}':<32}" + "".join(f"{size:>10}" for size in sizes) + f"{'ratio':>8}")
    for name, row in found.items():
        print(f"{name:<32}" + "".join(f"{row[size]:10.1f}" for size in sizes) + f"{row['ratio']:8.2f}")


if __name__ == "__main__":
    main()
