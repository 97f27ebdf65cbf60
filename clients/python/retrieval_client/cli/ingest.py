"""`retrieval ingest` and `retrieval retry`: send content, follow its job runs, report every document."""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from retrieval_client import RetrievalClient, RetrievalError, WaitTimeout, bodies
from retrieval_client.cli.output import CommandError, Output, translate_reason
from retrieval_client.cli.storages import find_connection, ingest_connection, is_page, is_storage
from retrieval_client.models import IngestData, JobRunData
from retrieval_client.wire import readable

T = TypeVar("T")
_WAIT_SECONDS = 2.0
"""Of one poll; the command waits without limit."""
_READS = 10
"""Further job runs that are read after each poll."""
_GOES_ON = "The service ingests what was sent; `retrieval runs` shows it."
URLS = 1_000
"""URLs that one request may name."""
FILES = 500
"""Files that one request may name."""
_NAMED_PATHS = 3
"""Files and folders after which a job run is named; more of them are counted."""


@dataclass(slots=True)
class _Sent:
    """A job run that the service accepted. `labels`: external ids of its files, by document id."""

    name: str
    run_id: str
    labels: Mapping[str, str] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)
    """Ids of documents whose result was printed."""


class IngestCommand:
    """Send everything first, then wait: the service already works on it.

    Each invocation sends all that it is given; the service does not process unchanged content again. The client gives
    every request a random Idempotency-Key and repeats it only with the same request. A file's external id is its path
    from where the command was given, so a changed file replaces its document. All files of an invocation are one job
    run, or several of `FILES` files.
    """

    def __init__(self, client: RetrievalClient, namespace: str, options: argparse.Namespace) -> None:
        self._client = client
        self._namespace = namespace
        self._options = options
        self._output = Output(as_json=options.json)
        self._failed = False
        self._total = 0
        self._accepted = 0

    def run(self) -> int:
        """Ingest files, folders, URLs and connections. Exit code 1 if anything failed, else 0."""
        pages = [entry for entry in self._options.what if is_page(entry)]
        storages = [entry for entry in self._options.what if is_storage(entry)]
        paths = [entry for entry in self._options.what if not is_page(entry) and not is_storage(entry)]
        if self._options.kind and not pages:
            raise CommandError(
                f"--as {self._options.kind} needs a URL that begins with http:// or https://: nothing was ingested.",
                exit_code=2,
            )
        files = list(dict.fromkeys(_files(paths, self._options.cwd)))
        self._total = len(files) + len(storages) + (len(pages) if self._options.kind else -(-len(pages) // URLS))
        if not self._total:
            print("There is no file in what was named: nothing was ingested.", file=sys.stderr)
        sent: list[_Sent] = []
        try:
            sent += self._send(files, pages, storages, _name_of(paths, self._options.cwd))
            return self._follow(sent)
        except KeyboardInterrupt:
            self._output.clear()
            outcome = _GOES_ON if self._accepted else "Nothing was ingested."
            print(f"Interrupted. {self._accepted} of {self._total} were sent. {outcome}", file=sys.stderr)
            raise

    def retry(self) -> int:
        """Run the failed documents of a job run again. Exit code 1 if anything failed, else 0."""
        body: dict[str, Any] = {"namespaceId": self._namespace}
        if self._options.ocr:
            body["ocrConfig"] = {"strategy": "STANDARD_OCR"}
        run = self._client.api.retry_job_run(self._options.id, body)  # type: ignore[arg-type]
        return self._follow([_Sent(run.name, run.id)])

    def _follow(self, sent: Sequence[_Sent]) -> int:
        if self._options.no_wait:
            for run in sent:
                self._output.result({"what": run.name, "ingestJobRunId": run.run_id}, f"{run.run_id}  {run.name}")
        else:
            self._report_as_they_end(sent)
        self._output.clear()
        return 1 if self._failed else 0

    def _report_as_they_end(self, sent: Sequence[_Sent]) -> None:
        """Print the results of documents and of job runs in the order in which they end."""
        waiting = deque(sent)
        while waiting:
            head = f"done {len(sent) - len(waiting)} of {len(sent)}; " if len(sent) > 1 else ""
            first = waiting.popleft()
            # One request waits for a change of the first run; the others are read in turn.
            if not self._read(first, head, _WAIT_SECONDS):
                waiting.append(first)
            for run in [waiting.popleft() for _ in range(min(_READS, len(waiting) - 1))]:
                if not self._read(run, head, 0):
                    waiting.append(run)

    def _read(self, sent: _Sent, head: str, timeout: float) -> bool:
        """Read a job run and print the results of documents that have ended; return True once the run has ended."""

        def show(run: JobRunData) -> None:
            if run.progress.found > 1 and not self._options.dry_run:
                self._report_documents(sent, run)
            self._show_progress(f"{head}{sent.name}", run)

        try:
            run = self._client.runs.wait(self._namespace, sent.run_id, timeout=timeout, progress=show)
        except WaitTimeout:
            return False
        if self._options.dry_run:
            self._report_dry_run(sent.name, run)
        else:
            self._report(sent, run)
        return True

    def _show_progress(self, head: str, run: JobRunData) -> None:
        ready = len(run.documents.completed) + len(run.documents.failed)
        reasons = "".join(f" {notice.reason}" for notice in run.notices)
        if run.status == "QUEUED":
            state = ": queued"
        else:
            state = f": {ready} of {run.progress.found} documents" if run.progress.found > 1 else ""
        self._output.progress(f"{head}{state}{'.' if reasons else ''}{reasons}")

    def _send(self, files: Sequence[Path], pages: Sequence[str], storages: Sequence[str], name: str) -> Iterator[_Sent]:
        """Yield the job run of each request that the service accepted."""
        ocr = "STANDARD_OCR" if self._options.ocr else None
        if len(files) > 1:
            yield from self._send_files(files, name, ocr)
            files = ()
        for what, send in [
            *self._file_requests(files, ocr),
            *self._page_requests(pages),
            *self._storage_requests(storages),
        ]:
            if accepted := self._accept(what, send):
                self._accepted += 1
                self._output.progress(f"sent {self._accepted} of {self._total}: {what}")
                yield _Sent(what, accepted.ingest_job_run_id)

    def _send_files(self, files: Sequence[Path], name: str, ocr: str | None) -> Iterator[_Sent]:
        """Yield the job run of each `FILES` files."""
        parts = [files[start : start + FILES] for start in range(0, len(files), FILES)]
        for number, part in enumerate(parts, 1):
            uploads = list(self._upload(part))
            title = name or f"{len(uploads)} files"
            if len(parts) > 1:
                title = f"{name or f'{len(files)} files'} ({number} of {len(parts)})"
            send = partial(self._client.ingest.files, self._namespace, uploads, name=title, ocr_strategy=ocr)
            if uploads and (accepted := self._accept(title, send)):
                self._accepted += len(uploads)
                known = zip(accepted.documents, uploads, strict=False)  # a dry run has no documents
                labels = {document.id: str(upload["externalId"]) for document, upload in known}
                yield _Sent(title, accepted.ingest_job_run_id, labels)

    def _upload(self, files: Sequence[Path]) -> Iterator[bodies.UploadedFile]:
        """Store files for a request that ingests them; a file that is refused is reported and left out."""
        for number, file in enumerate(files, self._accepted + 1):
            name = _external_id(file, self._options.cwd)
            self._output.progress(f"sending {number} of {self._total}: {name}")
            if stored := self._try(name, partial(self._client.ingest.upload, self._namespace, file)):
                yield {"uploadId": stored.upload_id, "externalId": name}

    def _accept(self, name: str, send: Callable[..., Any]) -> IngestData | None:
        """Send an ingestion; a refusal is reported."""
        options = {"metadata": self._options.metadata, "dry_run": self._options.dry_run or None}
        return self._try(name, partial(send, **options))

    def _try(self, name: str, send: Callable[[], T]) -> T | None:
        try:
            return send()
        except (RetrievalError, OSError) as error:
            self._failed = True
            why = translate_reason(str(error))
            self._output.result({"what": name, "error": why}, f"REFUSED  {name}: {why}")
            return None

    def _file_requests(self, files: Sequence[Path], ocr: str | None) -> Iterator[tuple[str, Callable[..., Any]]]:
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
        for document in report.documents or ():
            if document.action == "FAILED":
                lines += f"\n    FAILED  {document.name}: {translate_reason(document.error)}"
        self._output.result({"what": name, "report": run.report.raw}, lines)

    def _report_documents(self, sent: _Sent, run: JobRunData) -> None:
        """Print the results of documents that have ended since the last call."""
        completed, failed = run.documents.completed, run.documents.failed
        for document in (document for document in completed if document.id not in sent.reported):
            label = sent.labels.get(document.id, document.name)
            record = {"what": sent.name, "documentId": document.id, "document": label, "status": document.status}
            self._output.result(record, f"ok  {label}")
        for document in (document for document in failed if document.id not in sent.reported):
            label, why = sent.labels.get(document.id, document.name), translate_reason(document.error)
            record = {"what": sent.name, "documentId": document.id, "document": label, "error": why}
            self._output.result(record, f"FAILED  {label}: {why}")
        sent.reported.update(document.id for document in (*completed, *failed))

    def _report(self, sent: _Sent, run: JobRunData) -> None:
        """Print what became of each document, and of the run if it has several or did not succeed."""
        completed, failed = run.documents.completed, run.documents.failed
        self._failed = self._failed or bool(failed) or run.outcome != "SUCCEEDED"
        single = len(completed) + len(failed) == 1 and run.progress.found <= 1
        name = sent.name
        if single:
            name = next((sent.labels.get(document.id, name) for document in (*completed, *failed)), name)
            sent.labels = {document.id: name for document in failed}
            sent.reported.update(document.id for document in completed)
        self._report_documents(sent, run)
        if single and failed and not run.notices:
            return
        notices = [translate_reason(notice.reason) for notice in run.notices]
        summary = {"what": name, "outcome": run.outcome, "completed": len(completed), "failed": len(failed)}
        head = "ok" if run.outcome == "SUCCEEDED" else run.outcome
        counts = "" if single else f": {len(completed)} ingested, {len(failed)} failed"
        lines = [f"{head}  {name}{counts}", *(f"    {notice}" for notice in notices)]
        self._output.result(summary | ({"notices": notices} if notices else {}), "\n".join(lines))


def _name_of(paths: Sequence[str], start: Path) -> str:
    """Return a name for the job run of these files and folders; "" if they are too many to name."""
    names = [readable((start / path).resolve().name) for path in paths]
    return ", ".join(names) if len(names) <= _NAMED_PATHS else ""


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
