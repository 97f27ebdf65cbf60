"""`ingest`, `search`, `runs` and `documents`: the command line as a client of any server."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from local import instance
from local.errors import LocalError
from retrieval.settings import Settings
from retrieval_client import Record, RetrievalClient, RetrievalError
from retrieval_client.wire import readable

Options = argparse.Namespace
URLS = 1_000
"""URLs that one request may name."""


def run(options: Options, settings: Settings) -> int:
    """Exit code 1 where a document failed or a job run did."""
    try:
        with connect(options, settings) as client:
            namespace = namespace_of(client, options.namespace)
            match options.command:
                case "ingest":
                    return _Ingestion(client, namespace, options).run()
                case "search":
                    return _search(client, namespace, options)
                case "runs":
                    return _runs(client, namespace, options)
                case _:
                    return _documents(client, namespace, options)
    except RetrievalError as error:
        raise LocalError(f"{error.code}: {error.message}") from error
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def connect(options: Options, settings: Settings) -> RetrievalClient:
    """A client of `server`. LocalError: nothing runs in this home, and no other server is named."""
    named = options.url or os.environ.get("RETRIEVAL_API_URL")
    if not named and instance.service(settings.home) and not (settings.home / "service.json").exists():
        raise LocalError(f"Nothing runs in {settings.home}: start it with `retrieval up`, or give --url.")
    return RetrievalClient(*server(options, settings), tenant=options.tenant)


def server(options: Options, settings: Settings) -> tuple[str, str]:
    """URL and key by options, by environment, else of this home's instance. LocalError: none of them says where."""
    here = instance.service(settings.home)
    url = options.url or os.environ.get("RETRIEVAL_API_URL") or here.get("api")
    key = options.key or os.environ.get("RETRIEVAL_API_KEY")
    if key is None and url == here.get("api"):  # the key of this home goes to no other server
        key = here.get("apiKey")
    if not url:
        raise LocalError("Which server? Give --url or RETRIEVAL_API_URL, or start one here: `retrieval up`.")
    if not key:
        raise LocalError(f"No key for {url}: give --key or RETRIEVAL_API_KEY.")
    return url, key


def namespace_of(client: RetrievalClient, given: str | None) -> str:
    """The id of the namespace with this id or name, or of the only one. LocalError: none is, or several are."""
    found = list(client.namespaces.list())
    if given is None:
        if len(found) == 1:
            return found[0].id
        names = ", ".join(sorted(one.name for one in found)[:10]) or "none yet"
        raise LocalError(f"Which namespace? Give --namespace: {names}.")
    matches = [one.id for one in found if given in (one.id, one.name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise LocalError(f"{len(matches)} namespaces are called {given}: give the id.")
    raise LocalError(f"No namespace is called {given}.")


class _Ingestion:
    """Sends everything first, then waits: the service works meanwhile.

    Run again after an interruption: what was taken before is not ingested twice, as each request carries a key made of
    its content. A file's external id is its path from where the command was given: a changed file replaces itself.
    """

    def __init__(self, client: RetrievalClient, namespace: str, options: Options) -> None:
        self._client = client
        self._namespace = namespace
        self._options = options
        self._failed = 0

    def run(self) -> int:
        """Exit code: 1 if anything failed."""
        pages = [one for one in self._options.what if _is_url(one)]
        files = list(_files([one for one in self._options.what if not _is_url(one)], self._options.cwd))
        sent: list[tuple[str, str]] = []
        total = len(files) + (len(pages) if self._options.kind else -(-len(pages) // URLS))
        if not total:
            print("There is no file in what was named: nothing was ingested.", file=sys.stderr)
        for number, (name, run_id) in enumerate(self._sent(files, pages), 1):
            sent.append((name, run_id))
            self._say(f"sent {number} of {total}: {name}")
        if self._options.no_wait:
            for name, run_id in sent:
                self._out({"what": name, "ingestJobRunId": run_id}, f"{run_id}  {name}")
            return 1 if self._failed else 0
        for number, (name, run_id) in enumerate(sent, 1):
            run = self._client.runs.wait(self._namespace, run_id)
            self._ended(name, run)
            self._say(f"done {number} of {len(sent)}")
        self._say("")
        return 1 if self._failed else 0

    def _sent(self, files: Sequence[Path], pages: Sequence[str]) -> Iterator[tuple[str, str]]:
        metadata = self._options.metadata
        ingest = self._client.ingest
        for file in files:
            name = _named(file, self._options.cwd)
            try:
                accepted = ingest.file(
                    self._namespace,
                    file,
                    external_id=name,
                    metadata=metadata,
                    ocr_strategy="STANDARD_OCR" if self._options.ocr else None,
                    idempotency_key=self._key(name, _digest(file)),
                )
            except (RetrievalError, OSError) as error:
                self._refused(name, str(error))
                continue
            yield name, accepted.ingest_job_run_id
        parts: list[tuple[str, Callable[..., Any]]]
        if self._options.kind:
            start = ingest.sitemap if self._options.kind == "sitemap" else ingest.website
            parts = [(page, partial(start, self._namespace, page)) for page in pages]
        else:
            lists = [pages[at : at + URLS] for at in range(0, len(pages), URLS)]
            parts = [
                (some[0] if len(some) == 1 else f"{len(some)} URLs", partial(ingest.urls, self._namespace, some))
                for some in lists
            ]
        for name, send in parts:
            try:
                accepted = send(metadata=metadata)
            except RetrievalError as error:
                self._refused(name, str(error))
                continue
            yield name, accepted.ingest_job_run_id

    def _key(self, name: str, content: str) -> str:
        options = self._options
        told = [self._namespace, options.tenant, name, content, options.metadata, *(["ocr"] if options.ocr else [])]
        return "cli-" + hashlib.sha256(json.dumps(told).encode()).hexdigest()

    def _ended(self, name: str, run: Any) -> None:
        failed = run.documents.failed
        for one in failed:
            self._failed += 1
            self._out({"what": name, "documentId": one.id, "error": one.error}, f"FAILED  {name}: {one.error}")
        if not failed and run.outcome != "SUCCEEDED":
            self._failed += 1
            notices = ", ".join(notice.reason for notice in run.notices)
            self._out({"what": name, "outcome": run.outcome}, f"{run.outcome}  {name}: {notices}")
        elif not failed:
            self._out({"what": name, "outcome": run.outcome}, f"ok  {name}")

    def _refused(self, name: str, why: str) -> None:
        self._failed += 1
        self._out({"what": name, "error": why}, f"REFUSED  {name}: {why}")

    def _out(self, record: dict[str, Any], line: str) -> None:
        self._say("")
        print(json.dumps(record, ensure_ascii=False) if self._options.json else line, flush=True)

    @staticmethod
    def _say(line: str) -> None:
        """One line that replaces itself, for people alone."""
        if sys.stderr.isatty():
            print(f"\r\x1b[2K{line[:100]}", end="", file=sys.stderr, flush=True)


def _search(client: RetrievalClient, namespace: str, options: Options) -> int:
    hits = client.search(
        namespace, options.query, top_k=options.top_k, hybrid=not options.semantic, where=options.where
    )
    for number, hit in enumerate(hits, 1):
        if options.json:
            print(json.dumps(hit.raw, ensure_ascii=False))
            continue
        page = f", page {hit.chunk.page}" if hit.chunk and hit.chunk.page else ""
        text = " ".join(hit.content.split())
        shown = f"{text[:300]}…" if len(text) > 300 else text
        print(f"{number}. {hit.score:.3f}  {hit.metadata['source']}{page}\n   {shown}\n")
    if not hits and not options.json:
        print("Nothing was found.")
    return 0


def _runs(client: RetrievalClient, namespace: str, options: Options) -> int:
    if options.id:
        run = (
            client.runs.wait(namespace, options.id)
            if options.wait
            else client.runs.get(namespace, options.id, document_limit=100)
        )
        if options.json:
            print(json.dumps(run.raw, ensure_ascii=False))
        else:
            _table([_run_row(run)], "id", "created", "status", "outcome", "name")
            for one in run.documents.failed:
                print(f"FAILED  {one.id}: {one.error}")
        return 1 if run.outcome not in (None, "SUCCEEDED") else 0
    _list(client.runs.list(namespace), options, _run_row, "id", "created", "status", "outcome", "name")
    return 0


def _run_row(run: Any) -> Sequence[object]:
    return run.id, run.created_at.iso_string[:19], run.status, run.outcome or "", run.name


def _documents(client: RetrievalClient, namespace: str, options: Options) -> int:
    found = client.documents.list(namespace, statuses=[options.status] if options.status else None, where=options.where)
    _list(found, options, _document_row, "id", "status", "type", "name", "error")
    return 0


def _document_row(one: Any) -> Sequence[object]:
    return one.id, one.ingestion_status, one.document_type, one.name or one.external_id or "", one.ingestion_error or ""


def _list(records: Iterable[Record], options: Options, row: Any, *heads: str) -> None:
    if options.json:
        for record in records:
            print(json.dumps(record.raw, ensure_ascii=False))
    else:
        _table([row(record) for record in records], *heads)


def _table(rows: Sequence[Sequence[object]], *heads: str) -> None:
    cells = [list(heads), *([" ".join(str(cell).split()) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(heads))]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _files(paths: Iterable[str], start: Path) -> Iterator[Path]:
    for path in (start / path for path in paths):
        if path.is_dir():
            yield from sorted(one for one in path.rglob("*") if one.is_file() and not _hidden(one.relative_to(path)))
        elif path.is_file():
            yield path
        else:
            raise LocalError(f"{path}: no such file or folder, and URLs begin with http:// or https://.")


def _named(file: Path, start: Path) -> str:
    """Its path from where the command was given; its whole path if it lies elsewhere."""
    return readable(str(file.relative_to(start)) if file.is_relative_to(start) else str(file))


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))
