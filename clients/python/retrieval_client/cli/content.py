"""Commands that read and change content: `search`, `runs`, `documents`, `namespaces`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from retrieval_client import RetrievalClient, RetrievalError
from retrieval_client.cli import evaluate
from retrieval_client.cli.ingest import IngestCommand
from retrieval_client.cli.output import CommandError, print_records, print_table, translate_reason
from retrieval_client.models import Document, Namespace

Options = argparse.Namespace
# Names shown in a message.
_SHOWN_NAMES = 10


def find_namespace(client: RetrievalClient, given: str | None, unlisted: str | None = None) -> str:
    """Return the id of the namespace with this id or name, or of the only one.

    `unlisted`: taken where none is given and the key may not list them. CommandError: there is no such namespace, or
    several.
    """
    try:
        namespaces = list(client.namespaces.list())
    except RetrievalError as error:
        if error.code != "FORBIDDEN":
            raise
        return _unlisted_namespace(given or unlisted)
    if given is None:
        if len(namespaces) == 1:
            return namespaces[0].id
        if not namespaces:
            raise CommandError("There is no namespace yet: create one by `namespaces create NAME`.")
        names = sorted(namespace.name for namespace in namespaces)
        if len(set(names)) < len(names):
            names = [f"{namespace.id} {namespace.name}" for namespace in namespaces]
        raise CommandError(
            f"There are several namespaces: choose one by --namespace ({', '.join(names[:_SHOWN_NAMES])})."
        )
    ids = [namespace.id for namespace in namespaces if given in (namespace.id, namespace.name)]
    if not ids:
        raise CommandError(f"No namespace is called {given}: `namespaces` lists them.")
    if len(ids) > 1:
        raise CommandError(f"{len(ids)} namespaces are called {given}: use the id, which `namespaces` lists.")
    return ids[0]


def _unlisted_namespace(namespace_id: str | None) -> str:
    if namespace_id is None or not namespace_id.startswith("ns_"):
        raise CommandError(
            "This key may not list namespaces: give --namespace by its id (ns_…), "
            "or use a key with the scope namespaces:read."
        )
    return namespace_id


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
        excerpt = f"{text[:300]}…" if len(text) > 300 else text
        print(f"{number}. {hit.score:.3f}  {hit.metadata['source']}{page}\n   {excerpt}\n")
    if options.json:
        return 0
    if not hits:
        print("Nothing was found.")
    if hits.data.note:
        print(hits.data.note, file=sys.stderr)
    answerable = hits.data.answerable
    if hits and answerable and answerable.verdict == "unlikely":
        print("Probably not answered by these documents.", file=sys.stderr)
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
            print_table([_run_row(run)], *_RUN_HEADS)
            for document in run.documents.failed:
                print(f"FAILED  {document.id}: {translate_reason(document.error)}")
        return 1 if run.outcome not in (None, "SUCCEEDED") else 0
    print_records(client.runs.list(namespace), _run_row, *_RUN_HEADS, as_json=options.json)
    return 0


_RUN_HEADS = ("id", "created", "status", "outcome", "name")


def _run_row(run: Any) -> Sequence[object]:
    return run.id, run.created_at.iso_string[:19], run.status, run.outcome or "", run.name


def _documents(client: RetrievalClient, namespace: str, options: Options) -> int:
    if options.verb == "delete":
        return _delete_documents(client, namespace, options)
    statuses = [options.status] if options.status else None
    documents = client.documents.list(namespace, statuses=statuses, where=options.where)
    print_records(documents, _document_row, *_DOCUMENT_HEADS, as_json=options.json)
    return 0


_DOCUMENT_HEADS = ("id", "status", "type", "chunks", "age", "folder", "name", "error")


def _document_row(document: Document) -> Sequence[object]:
    error = translate_reason(document.ingestion_error) if document.ingestion_error else ""
    chunks = document.document_properties.embedding_count
    return (
        document.id,
        document.ingestion_status,
        document.document_type,
        "" if chunks is None else chunks,
        _format_age((document.last_synced_at or document.created_at).iso_string),
        _folder(document),
        _name(document),
        error,
    )


def _format_age(moment: str) -> str:
    """The time since a moment in its largest unit, such as `3 h`."""
    seconds = max(0, int((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()))
    unit, length = next(((unit, length) for unit, length in _UNITS if seconds >= length), ("s", 1))
    return f"{seconds // length} {unit}"


_UNITS = (("d", 86_400), ("h", 3600), ("min", 60))


def _folder(document: Document) -> str:
    """The path at the source without the last name; that of a file is its external id."""
    path = document.document_properties.path or (document.external_id if document.document_type == "FILE" else "")
    folder, _, name = path.rpartition("/")
    return folder if name else ""


def _name(document: Document) -> str:
    return document.name or document.external_id or ""


def _delete_documents(client: RetrievalClient, namespace: str, options: Options) -> int:
    matches = [_document(client, namespace, pattern) for pattern in options.what]
    documents = {document.id: document for document in matches}
    _confirm(options, f"Delete {len(documents)} document(s): {_few([*map(_name, documents.values())])}?")
    client.documents.delete(namespace, document_ids=[*documents])
    for document in documents.values():
        record = {"documentId": document.id, "document": _name(document), "deleted": True}
        print(json.dumps(record, ensure_ascii=False) if options.json else f"deleted  {_name(document)}")
    return 0


def _document(client: RetrievalClient, namespace: str, given: str) -> Document:
    """The document with this id, external id or name. CommandError: there is none, or there are several."""
    by_name = {"field": "document.name", "op": "eq", "value": given}
    for filters in ({"document_ids": [given]}, {"external_ids": [given]}, {"where": by_name}):
        documents = list(client.documents.list(namespace, **filters))
        if len(documents) == 1:
            return documents[0]
        if documents:
            ids = _few([document.id for document in documents])
            raise CommandError(f"{len(documents)} documents are called {given}: give one of their ids, {ids}.")
    raise CommandError(f"No document is called {given}: nothing was deleted. `documents` lists them.")


def change_namespaces(client: RetrievalClient, options: Options) -> int:
    if options.verb == "create":
        namespace = _create_namespace(client, {**(options.config or {}), "name": options.name})
        print(json.dumps(namespace.raw, ensure_ascii=False) if options.json else f"{namespace.id}  {namespace.name}")
    elif options.verb == "delete":
        namespace_id = find_namespace(client, options.name)
        _confirm(options, f"Delete the namespace {options.name} and everything in it?")
        client.namespaces.delete(namespace_id)
        record = {"namespaceId": namespace_id, "deleted": True}
        print(json.dumps(record) if options.json else f"deleted  {options.name}")
    else:
        print_records(client.namespaces.list(), _namespace_row, "id", "created", "name", as_json=options.json)
    return 0


def _create_namespace(client: RetrievalClient, body: dict[str, Any]) -> Namespace:
    """Create a namespace with the operator's configs, or the embedded ones if there are none."""
    try:
        return client.api.create_namespace(body).namespace  # type: ignore[arg-type]
    except RetrievalError as error:
        if error.details.get("reason") != "missing":
            raise
        return client.api.create_namespace(_EMBEDDED | body).namespace  # type: ignore[arg-type]


_EMBEDDED = {
    "webScraperConfig": {"provider": "BUILTIN"},
    "fileStorageConfig": {"type": "LOCAL"},
    "vectorStorageConfig": {"provider": "PGVECTOR"},
    "embeddingModelConfig": {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"},
}
"""Configuration of a new namespace that needs no account anywhere."""


def _namespace_row(namespace: Namespace) -> Sequence[object]:
    created = namespace.created_at.iso_string[:19] if namespace.created_at else ""
    return namespace.id, created, namespace.name


def _confirm(options: Options, question: str) -> None:
    """Ask at a terminal, unless --yes is given. CommandError if the answer is no, or there is no terminal."""
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} Nothing was deleted: add --yes to confirm.", exit_code=2)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("Nothing was deleted.")


def _few(names: Sequence[str]) -> str:
    suffix = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(names[:_SHOWN_NAMES]) + suffix


COMMANDS: dict[str, Callable[[RetrievalClient, str, Options], int]] = {
    "ingest": lambda client, namespace, options: IngestCommand(client, namespace, options).run(),
    "retry": lambda client, namespace, options: IngestCommand(client, namespace, options).retry(),
    "search": _search,
    "runs": _runs,
    "documents": _documents,
    "eval": evaluate.run,
}
