"""`retrieval ingest` and `retrieval retry`: send content, follow its job runs, report every document."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from retrieval_client import RetrievalClient, RetrievalError, WaitTimeout
from retrieval_client.cli.output import CommandError, Output, translate_reason
from retrieval_client.cli.storages import find_connection, ingest_connection, is_page, is_storage
from retrieval_client.models import JobRunData
from retrieval_client.wire import readable

_LOOK_SECONDS = 2.0
_GOES_ON = "The service ingests what was sent; `retrieval runs` shows it."
_NEWER_RUNS = 100
"""Job runs of other commands among the newest ones that are looked through."""
URLS = 1_000
"""URLs that one request may name."""


class IngestCommand:
    """Send everything first, then wait: the service works meanwhile.

    Each invocation ingests what it is given, however often that was sent before: unchanged content costs nothing. The
    client gives every request a random Idempotency-Key and repeats it only with the same request. A file's external id
    is its path from where the command was given, so a changed file replaces its document.
    """

    def __init__(self, client: RetrievalClient, namespace: str, options: argparse.Namespace) -> None:
        self._client = client
        self._namespace = namespace
        self._options = options
        self._output = Output(as_json=options.json)
        self._failed = False

    def run(self) -> int:
        """Ingest files, folders, URLs and connections. Exit code 1 if anything failed, else 0."""
        pages = [entry for entry in self._options.what if is_page(entry)]
        storages = [entry for entry in self._options.what if is_storage(entry)]
        paths = [entry for entry in self._options.what if not is_page(entry) and not is_storage(entry)]
        files = list(_files(paths, self._options.cwd))
        total = len(files) + len(storages) + (len(pages) if self._options.kind else -(-len(pages) // URLS))
        if not total:
            print("There is no file in what was named: nothing was ingested.", file=sys.stderr)
        accepted: list[tuple[str, str]] = []
        try:
            for number, (name, run_id) in enumerate(self._send(files, pages, storages), 1):
                accepted.append((name, run_id))
                self._output.progress(f"sent {number} of {total}: {name}")
            return self._follow(accepted)
        except KeyboardInterrupt:
            self._output.clear()
            print(f"Interrupted. {len(accepted)} of {total} were sent. {_GOES_ON}", file=sys.stderr)
            raise

    def retry(self) -> int:
        """Run the failed documents of a job run again. Exit code 1 if anything failed, else 0."""
        body: dict[str, Any] = {"namespaceId": self._namespace}
        if self._options.ocr:
            body["ocrConfig"] = {"strategy": "STANDARD_OCR"}
        run = self._client.api.retry_job_run(self._options.id, body)  # type: ignore[arg-type]
        return self._follow([(run.name, run.id)])

    def _follow(self, sent: Sequence[tuple[str, str]]) -> int:
        if self._options.no_wait:
            for name, run_id in sent:
                self._output.result({"what": name, "ingestJobRunId": run_id}, f"{run_id}  {name}")
        else:
            self._report_as_they_end({run_id: name for name, run_id in sent})
        self._output.clear()
        return 1 if self._failed else 0

    def _report_as_they_end(self, names: dict[str, str]) -> None:
        """Print the results of job runs in the order in which they end. `names`: by job run id."""
        waiting = dict(names)
        while waiting:
            run_id, name = next(iter(waiting.items()))
            show = partial(self._show_progress, f"done {len(names) - len(waiting)} of {len(names)}; {name}")
            # One request waits for the first run; the list then shows which of the others have ended.
            with suppress(WaitTimeout):
                timeout = _LOOK_SECONDS if len(waiting) > 1 else None
                finished = self._client.runs.wait(self._namespace, run_id, timeout=timeout, progress=show)
                self._report(waiting.pop(run_id), finished)
            if not waiting:
                return
            completed = islice(self._client.runs.list(self._namespace, status="COMPLETED"), len(names) + _NEWER_RUNS)
            for ended in reversed([run.id for run in completed if run.id in waiting]):
                self._report(waiting.pop(ended), self._client.runs.wait(self._namespace, ended))

    def _show_progress(self, head: str, run: JobRunData) -> None:
        ready = len(run.documents.completed) + len(run.documents.failed)
        reasons = "".join(f" {notice.reason}" for notice in run.notices)
        if run.status == "QUEUED":
            state = ": queued"
        else:
            state = f": {ready} of {run.progress.found} documents" if run.progress.found > 1 else ""
        self._output.progress(f"{head}{state}{'.' if reasons else ''}{reasons}")

    def _send(self, files: Sequence[Path], pages: Sequence[str], storages: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield the name and the job run of each request that the service accepted."""
        requests = [*self._file_requests(files), *self._page_requests(pages), *self._storage_requests(storages)]
        for name, send in requests:
            try:
                accepted = send(metadata=self._options.metadata, dry_run=self._options.dry_run or None)
            except (RetrievalError, OSError) as error:
                self._failed = True
                why = translate_reason(str(error))
                self._output.result({"what": name, "error": why}, f"REFUSED  {name}: {why}")
            else:
                yield name, accepted.ingest_job_run_id

    def _file_requests(self, files: Sequence[Path]) -> Iterator[tuple[str, Callable[..., Any]]]:
        ocr = "STANDARD_OCR" if self._options.ocr else None
        for file in files:
            name = _external_id(file, self._options.cwd)
            send = partial(self._client.ingest.file, self._namespace, file, external_id=name, ocr_strategy=ocr)
            yield name, send

    def _page_requests(self, pages: Sequence[str]) -> Iterator[tuple[str, Callable[..., Any]]]:
        ingest = self._client.ingest
        if self._options.kind:
            start = ingest.sitemap if self._options.kind == "sitemap" else ingest.website
            for page in pages:
                yield page, partial(start, self._namespace, page)
            return
        for first in range(0, len(pages), URLS):
            part = pages[first : first + URLS]
            name = part[0] if len(part) == 1 else f"{len(part)} URLs"
            yield name, partial(ingest.urls, self._namespace, part)

    def _storage_requests(self, storages: Sequence[str]) -> Iterator[tuple[str, Callable[..., Any]]]:
        for storage in storages:
            yield storage, partial(self._ingest_storage, storage)

    def _ingest_storage(self, storage: str, **options: Any) -> Any:
        connection = find_connection(self._client, self._namespace, storage, self._options.config)
        return ingest_connection(self._client, self._namespace, connection, **options)

    def _report_dry_run(self, name: str, run: JobRunData) -> None:
        """Print what the ingestion would do, or why that could not be found out."""
        self._failed = self._failed or run.outcome != "SUCCEEDED"
        if run.report is None:
            notices = [translate_reason(notice.reason) for notice in run.notices]
            record = {"what": name, "outcome": run.outcome, "notices": notices}
            self._output.result(record, "\n".join([f"{run.outcome}  {name}", *(f"    {notice}" for notice in notices)]))
            return
        report = run.report
        self._failed = self._failed or report.failed > 0
        unread = f", {report.pages_unread} unreadable" if report.pages_unread else ""
        recognised = f", {report.pages_recognised} recognised" if report.pages_recognised else ""
        lines = f"""\
{"FAILED" if report.failed else "ok"}  {name}: {report.create} new, {report.update} changed, {report.unchanged} \
unchanged, {report.remove} removed, {report.failed} failed
    {report.pages} pages{recognised}{unread}; {report.chunks} chunks, {report.tokens_to_embed} tokens to embed, about \
{report.estimated_seconds:g} s{", estimated from a sample" if report.sampled else ""}"""
        self._output.result({"what": name, "report": run.report.raw}, lines)

    def _report(self, name: str, run: JobRunData) -> None:
        """Print what became of each document, and of the run if it has several or did not succeed."""
        if self._options.dry_run:
            self._report_dry_run(name, run)
            return
        completed, failed = run.documents.completed, run.documents.failed
        single = len(completed) + len(failed) == 1 and run.progress.found <= 1
        for document in () if single else completed:
            record = {"what": name, "documentId": document.id, "document": document.name, "status": document.status}
            self._output.result(record, f"ok  {document.name}")
        for document in failed:
            label, why = name if single else document.name, translate_reason(document.error)
            record = {"what": name, "documentId": document.id, "document": label, "error": why}
            self._output.result(record, f"FAILED  {label}: {why}")
        self._failed = self._failed or bool(failed) or run.outcome != "SUCCEEDED"
        if single and failed and not run.notices:
            return
        notices = [translate_reason(notice.reason) for notice in run.notices]
        summary = {"what": name, "outcome": run.outcome, "completed": len(completed), "failed": len(failed)}
        head = "ok" if run.outcome == "SUCCEEDED" else run.outcome
        counts = "" if single else f": {len(completed)} ingested, {len(failed)} failed"
        lines = [f"{head}  {name}{counts}", *(f"    {notice}" for notice in notices)]
        self._output.result(summary | ({"notices": notices} if notices else {}), "\n".join(lines))


def _files(paths: Iterable[str], start: Path) -> Iterator[Path]:
    for path in (start / path for path in paths):
        if path.is_dir():
            yield from sorted(
                file for file in path.rglob("*") if file.is_file() and not _hidden(file.relative_to(path))
            )
        elif path.is_file():
            yield path
        else:
            raise CommandError(f"{path}: no such file or folder, and URLs begin with http:// or https://.")


def _external_id(file: Path, start: Path) -> str:
    """External id of a file: its path from the current folder; its whole path outside of it."""
    return readable(str(file.relative_to(start)) if file.is_relative_to(start) else str(file))


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
