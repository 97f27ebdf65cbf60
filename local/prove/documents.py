"""Ingestion, reading and search of documents for the measurements."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from local.scratch import ScratchInstance, create_namespace
from retrieval_client import RetrievalClient, RetrievalError, SearchResults

INGEST_SECONDS = 600.0
CHUNKS_PER_QUESTION = 5


@dataclass
class ProofBench:
    """Running instance with the key of an unlimited organization, and progress output."""

    scratch: ScratchInstance
    key: str
    is_quick: bool
    started: float = field(default_factory=time.monotonic)

    def report(self, line: str) -> None:
        print(f"[{time.monotonic() - self.started:4.0f} s] {line}", flush=True)

    def connect(self, **options: Any) -> RetrievalClient:
        return self.scratch.connect(self.key, timeout=120.0, **options)


def open_bench(scratch: ScratchInstance, *, is_quick: bool) -> ProofBench:
    """Create an organization with a key in a running instance."""
    organization = _find_word(
        scratch.run_command("org", "create", "proof", "--requests", "1000000", "--namespaces", "100"), "org_"
    )
    key = _find_word(scratch.run_command("key", "create", "--name", "proof", "--org", organization), "rtr_")
    return ProofBench(scratch, key, is_quick)


def _find_word(text: str, prefix: str) -> str:
    return next(word for word in text.split() if word.startswith(prefix))


class DocumentSet:
    """Namespace with documents by external id."""

    def __init__(
        self, bench: ProofBench, name: str, client: RetrievalClient | None = None, *, namespace: str = ""
    ) -> None:
        self.bench, self.client = bench, client or bench.connect()
        self.namespace = namespace or create_namespace(self.client, name)
        self.runs: dict[str, str] = {}
        self.failures: dict[str, str] = {}

    def add_file(self, name: str, data: Any, **options: Any) -> None:
        """Send a file by bytes or path; record a refusal as a failure."""
        try:
            answer = self.client.ingest.file(
                self.namespace, data, name=name.rpartition("/")[2], external_id=name, **options
            )
            self.runs[name] = answer.ingest_job_run_id
        except (RetrievalError, OSError) as error:
            self.failures[name] = error.message if isinstance(error, RetrievalError) else str(error)

    def add_text(self, name: str, text: str, **options: Any) -> None:
        answer = self.client.ingest.text(self.namespace, text, name=name, external_id=name, **options)
        self.runs[name] = answer.ingest_job_run_id

    def wait_for_runs(self) -> None:
        """Wait for the end of all runs; record failures."""
        deadline, interval = time.monotonic() + INGEST_SECONDS, max(len(self.runs) // 5, 20)
        for number, (name, run_id) in enumerate(self.runs.items(), 1):
            ended = self.client.runs.wait(self.namespace, run_id, timeout=max(deadline - time.monotonic(), 1.0))
            for document in ended.documents.failed:
                self.failures[name] = str(document.error)
            if number % interval == 0 and number < len(self.runs):
                self.bench.report(f"  {number} of {len(self.runs)} ingested")
        self.runs = {}

    def read_texts(self) -> dict[str, str]:
        """Return the parsed text of each document by external id."""
        documents = self.client.documents.list(self.namespace, statuses=["SUCCESS"])
        return {document.external_id: self._read_text(document.id) for document in documents}

    def _read_text(self, document_id: str) -> str:
        text = ""
        for chunk in self.client.documents.chunks(self.namespace, document_id):
            overlap = len(text) - chunk.start
            text = text + "\n" * -overlap + chunk.content[max(overlap, 0) :]
        return text

    def search(self, query: str, client: RetrievalClient | None = None, **options: Any) -> SearchResults:
        """Return the best chunks of a hybrid search with equal weights."""
        return (client or self.client).search(self.namespace, query, top_k=CHUNKS_PER_QUESTION, hybrid=True, **options)

    def rank_answers(self, questions: Sequence[str], is_answer: Callable[[int, Any], bool]) -> list[int | None]:
        """Return the rank of the first answering chunk of each question, from 1; None if absent."""
        ranks: list[int | None] = []
        for number, question in enumerate(questions):
            hits = self.search(question)
            ranks.append(next((rank for rank, hit in enumerate(hits, 1) if is_answer(number, hit)), None))
        return ranks


def find_external_id(hit: Any) -> str:
    return str(hit.document.external_id)


def share_within(ranks: Iterable[int | None], limit: int) -> float:
    """Return the share of ranks up to `limit`."""
    all_ranks = list(ranks)
    return (
        round(sum(rank is not None and rank <= limit for rank in all_ranks) / len(all_ranks), 4) if all_ranks else 0.0
    )
