"""Import of a namespace from an archive."""

# The namespace starts as a deleted one with a postponed sweep. The last transaction makes it visible;
# garbage collection clears an interrupted import.

from __future__ import annotations

import json
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import psycopg

from retrieval import ids
from retrieval.database import partitions
from retrieval.documents import file_keys, vector_metadata
from retrieval.errors import Retryable
from retrieval.keywords import languages, postings
from retrieval.maintenance.moving import frame, queries
from retrieval.maintenance.moving.archive import FILES_PREFIX, NAMESPACE_NAME, Archive, ArchiveError
from retrieval.maintenance.moving.conversions import Conversion
from retrieval.maintenance.moving.frame import PAGE_ROWS, ImportTarget, TableImporter
from retrieval.namespaces import namespaces
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.ports import Scope, Vector, VectorStore
from retrieval.statuses import DocumentStatus, Stage

RowT = TypeVar("RowT")

_READ_BYTES = 1 << 20
_READ_BACK_SECONDS = 60.0
_MISSING_TOKENS_REASON = "The connection was imported without its tokens: authorize it again."


@dataclass(frozen=True, slots=True)
class ImportResult:
    """Result of an import. `renamed`: a document id was in use, so all documents have new ids."""

    namespace: str
    documents: int
    chunks: int
    renamed: bool
    # Dotted paths of secrets for the client to send.
    lacks: tuple[str, ...]


def read_configs(archive: Archive) -> tuple[str, dict[str, Any]]:
    """Return name and configurations of the archived namespace."""
    content = archive.read_json(NAMESPACE_NAME)
    configs = content.get("config") if isinstance(content, dict) else None
    name = content.get("name") if isinstance(content, dict) else None
    if not isinstance(configs, dict) or not isinstance(name, str) or not 0 < len(name) <= 200:
        raise ArchiveError("The export is damaged: namespace.json names no namespace.")
    present = {
        key: value for key, value in configs.items() if key in namespaces.CONFIG_NAMES and isinstance(value, dict)
    }
    if not set(namespaces.REQUIRED_CONFIGS) <= present.keys():
        raise ArchiveError("The export is damaged: namespace.json lacks a required configuration.")
    return name, present


def read_language(archive: Archive) -> str | None:
    """Return the fixed keyword language of the archived namespace, if supported."""
    content = archive.read_json(NAMESPACE_NAME)
    language = content.get("keyword_language") if isinstance(content, dict) else None
    return language if isinstance(language, str) and languages.parse_configuration(language) is not None else None


def import_namespace(target: ImportTarget, archive: Archive) -> ImportResult:
    """Create the namespace, visible when complete. Fatal if this installation lacks its stores."""
    # Garbage collection could not clear a namespace whose stores are not available.
    target.files()
    target.vectors(1)
    work = _NamespaceImport(target, archive)
    work.begin()
    try:
        return work.run()
    except (psycopg.DataError, psycopg.IntegrityError, KeyError, TypeError, AttributeError) as error:
        work.abort()
        raise ArchiveError("The export is damaged: its rows do not fit the tables of this service.") from error
    except BaseException:
        work.abort()
        raise


class _NamespaceImport(TableImporter):
    def __init__(self, target: ImportTarget, archive: Archive) -> None:
        super().__init__(target, archive)
        self._jobs: dict[str, frame.ImportedJob] = {}
        self._documents: dict[str, frame.ImportedDocument] = {}
        self._document_ids: dict[str, str] = {}
        self._conversion = Conversion(archive.version)
        self._connections: dict[str, str] = {}
        self._renamed = False
        self._stored: set[str] = set()

    def run(self) -> ImportResult:
        """Import everything, then make the namespace visible."""
        self._choose_document_ids()
        self._read_connections()
        self._read_jobs()
        self._read_documents()
        self._read_files()
        self._write_runs()
        self._import_tables(self._document_ids, renamed=self._renamed)
        chunks = self._read_chunks()
        dimensions = self._read_embeddings()
        if dimensions:
            self._write_vectors(self._target.vectors(dimensions))
        self._show_namespace()
        config = self._target.config
        return ImportResult(config.id, len(self._documents), chunks, self._renamed, self._target.lacks)

    def _choose_document_ids(self) -> None:
        """Keep document ids, or choose new ids for all documents if any id is in use."""
        for page in self._read_pages("documents"):
            names = [record["id"] for record in page]
            if not all(isinstance(name, str) and frame.DOCUMENT_ID_PATTERN.fullmatch(name) for name in names):
                raise ArchiveError("The export is damaged: a document has an invalid id.")
            self._document_ids |= dict(zip(names, names, strict=True))
            for record in page:
                self._conversion.record_generation(record)
            self._renamed |= queries.has_any(self._db, "documents", names)
        if self._renamed:
            fresh = sorted(
                ids.document_id() for _ in self._document_ids
            )  # in the same order: equal scores are sorted by id
            self._document_ids = dict(zip(sorted(self._document_ids), fresh, strict=True))

    def _read_connections(self) -> None:
        for page in self._read_pages("connections"):
            for record in page:
                if not frame.CONNECTION_ID_PATTERN.fullmatch(record["id"]):
                    raise ArchiveError("The export is damaged: a connection has an invalid id.")
                is_taken = self._renamed or queries.has_any(self._db, "connections", [record["id"]])
                self._connections[record["id"]] = ids.connection_id() if is_taken else record["id"]
            self._insert(
                "connections",
                [
                    {
                        **record,
                        "id": self._connections[record["id"]],
                        "partition_id": self._partition_of(record),
                        "status": record["status"] if record["status"] == "REVOKED" else "FAILED",
                        "status_reason": record["status_reason"]
                        if record["status"] == "REVOKED"
                        else _MISSING_TOKENS_REASON,
                        "client_redirect_url": None,
                        "credentials": None,
                        "cursor": None,
                    }
                    for record in page
                ],
            )

    def _read_jobs(self) -> None:
        for page in self._read_pages("jobs"):
            jobs = []
            for record in page:
                if not frame.SOURCE_PATTERN.fullmatch(record["source"]):
                    raise ArchiveError("The export is damaged: a job has an invalid source.")
                new_job = frame.ImportedJob(
                    ids.job_id(), self._partition_of(record), record["source"], ids.job_run_id()
                )
                self._jobs[record["id"]] = new_job
                config = self._conversion.convert_job(record)["config"]
                if config.get("connectionId") is not None:
                    config["connectionId"] = self._connections.get(config["connectionId"])
                jobs.append(
                    {
                        **record,
                        "id": new_job.id,
                        "organization_id": self._target.config.organization_id,
                        "partition_id": new_job.partition,
                        "config": config,
                    }
                )
            self._insert("jobs", jobs)
            page_jobs = [self._jobs[record["id"]] for record in page]
            by_job = {job.id: job for job in page_jobs}
            columns = {
                "runs": [job.run for job in page_jobs],
                "jobs": [job.id for job in page_jobs],
                "partitions": [job.partition for job in page_jobs],
                "sources": [job.source for job in page_jobs],
            }
            for run in queries.insert_runs(self._db, columns):
                by_job[run.job_id].number = run.number

    def _read_documents(self) -> None:
        self._stored = set(self._archive.list_files())
        for page in self._read_pages("documents"):
            records = []
            for record in page:
                job, visible = self._jobs[record["job_id"]], int(record["active_generation"]) > 0
                if self._partition_of(record) != job.partition or not frame.SOURCE_PATTERN.fullmatch(record["source"]):
                    raise ArchiveError("The export is damaged: a document and its job are in different partitions.")
                status = frame.final_status(record["status"], visible=visible)
                document = frame.ImportedDocument(
                    self._document_ids[record["id"]], job.partition, job.number, job.run, visible, status
                )
                self._documents[record["id"]] = document
                records.append(
                    {
                        **self._conversion.convert_document(record, document.id),
                        "id": document.id,
                        "partition_id": document.partition,
                        "job_id": job.id,
                        "job_run_id": job.run,
                        "status": status,
                        "connection_id": self._connections.get(record["connection_id"]),
                        "archive_id": self._document_ids.get(record["archive_id"]),
                        "active_generation": job.number if visible else 0,
                        "latest_generation": job.number if visible else 0,
                        "access_after": record.get("access_after") and job.number,
                        **dict.fromkeys(("raw_key", "parsed_key", "deleted_at")),
                    }
                )
            self._insert("documents", records)
            for record in page:
                self._place_files(record)
        self._conversion.finish_documents(self._db, self._list_partitions())
        for page in self._read_pages("connection_documents"):
            pairs = [
                {**record, "document_id": self._document_ids[record["document_id"]], "connection_id": connection}
                for record in page
                if (connection := self._connections.get(record["connection_id"]))
                and record["document_id"] in self._documents
            ]
            self._insert("connection_documents", pairs)

    def _place_files(self, record: Mapping[str, Any]) -> None:
        raw_key, parsed_key = (
            self._file_key(record["partition_id"], record[name]) for name in ("raw_key", "parsed_key")
        )
        queries.set_files(self._db, self._document_ids[record["id"]], raw_key, parsed_key)

    def _file_key(self, partition: int, key: str | None) -> str | None:
        """Return the new key of an archived file; None for a missing file."""
        below = key.partition("/")[2] if isinstance(key, str) else ""
        return self._new_key(partition, below) if below in self._stored else None

    def _new_key(self, partition: int, below: str) -> str:
        _, tenant = self._target.partitions[partition]
        folder, _, path = below.partition("/")
        if folder != file_keys.tenant_folder(tenant):
            raise ArchiveError("The export is damaged: a file is in the folder of another tenant.")
        root = file_keys.folder_key(Scope(self._target.config.organization_id, self._target.config.id, tenant))
        match = frame.DOCUMENT_FILE_PATTERN.fullmatch(path)
        owner = self._documents.get(match["document"]) if match else None
        if match and owner:
            return f"{root}{owner.id}/{owner.generation}/{match['rest']}"
        return f"{root}{path}"

    def _read_files(self) -> None:
        by_tenant = {file_keys.tenant_folder(tenant): number for number, (_, tenant) in self._target.partitions.items()}
        store = self._target.files() if self._stored else None
        for below in sorted(self._stored):
            self._renew_lease()
            number = by_tenant.get(below.partition("/")[0])
            if number is None:
                raise ArchiveError("The export is damaged: a file is in the folder of no tenant.")
            with self._archive.open(FILES_PREFIX + below) as member:
                if store is not None:
                    store.put(self._new_key(number, below), iter(lambda: member.read(_READ_BYTES), b""))

    def _write_runs(self) -> None:
        """Import the documents' entries in job runs."""
        # Garbage collection finds files by them.
        partition_of = {new: number for number, (new, _) in self._target.partitions.items()}
        positions: dict[str, int] = {}
        stages = {stage.value for stage in Stage}
        for page in self._read_pages("run_documents"):
            records = []
            for record in page:
                if (document := self._documents.get(record["document_id"])) is None:
                    continue
                number = partition_of[document.partition]
                positions[document.run] = positions.get(document.run, -1) + 1
                stage = record["stage"] if record["stage"] in stages else Stage.ACCEPTED.value
                records.append(
                    {
                        **self._conversion.convert_run_document(record),
                        "job_run_id": document.run,
                        "document_id": document.id,
                        "position": positions[document.run],
                        "generation": document.generation,
                        "status": DocumentStatus.SUCCESS.value if document.visible else document.status,
                        "stage": Stage.UPSERTED.value if document.visible else stage,
                        "raw_key": self._file_key(number, record["raw_key"]),
                        "parsed_key": self._file_key(number, record["parsed_key"]),
                        "epoch": 0,
                        "made_from": None,
                        "partition_id": None,
                        "blame": 0,
                    }
                )
            self._insert("run_documents", records)
        self._conversion.finish_runs(self._db)

    def _read_chunks(self) -> int:
        """Import the chunks and return their number."""
        # In the order of their ids: equal scores are sorted by id.
        count = 0
        for page in self._read_pages("chunks"):
            records = []
            for record in page:
                document = self._documents[record["document_id"]]
                if not document.visible:
                    raise ArchiveError("The export is damaged: a chunk belongs to no visible version.")
                version = {
                    "partition_id": document.partition,
                    "document_id": document.id,
                    "generation": document.generation,
                }
                records.append({**self._conversion.convert_chunk(record), **version})
            with self._db.transaction() as connection:
                by_partition: dict[int, list[int]] = {}
                for chunk in queries.insert_chunks(connection, records):
                    by_partition.setdefault(chunk.partition_id, []).append(chunk.id)
                for partition, chunks in by_partition.items():
                    added = postings.index_chunks(connection, partition, chunks, self._target.language)
                    partitions.add_counts(connection, partition, chunks=added[0], terms=added[1])
            count += len(records)
        return count

    def _read_embeddings(self) -> int:
        """Import the embeddings and return their dimensions, 0 without any."""
        dimensions = 0
        for page in frame.split_pages(self._archive.iterate_embeddings(), PAGE_ROWS):
            self._renew_lease()
            texts = [frame.vector_text(values) for _, values in page]
            dimensions = dimensions or struct.unpack(">h", page[0][1][:2])[0]
            queries.insert_embeddings(self._db, [key for key, _ in page], texts, self._list_partitions())
        return dimensions

    def _write_vectors(self, store: VectorStore) -> None:
        config = self._target.config
        for partition, tenant in self._target.partitions.values():
            scope, last_id = Scope(config.organization_id, config.id, tenant), 0
            while chunks := queries.list_vectors(self._db, partition, last_id, PAGE_ROWS):
                self._renew_lease()
                last_id = chunks[-1].id
                vectors = [
                    Vector(
                        ids.vector_id(chunk.document_id, chunk.generation, chunk.index),
                        chunk.document_id,
                        json.loads(chunk.values),
                        vector_metadata.document_labels(
                            chunk.document_id, chunk.document_type, chunk.source, chunk.metadata
                        ),
                    )
                    for chunk in chunks
                    if chunk.values is not None
                ]
                store.upsert(scope, vectors)
                self._read_back(store, scope, [vector.id for vector in vectors if any(vector.values)])

    def _read_back(self, store: VectorStore, scope: Scope, written: list[str]) -> None:
        deadline = time.monotonic() + _READ_BACK_SECONDS
        while written := store.list_unsettled(scope, written) if written else []:
            if time.monotonic() > deadline:
                raise Retryable("The vector store accepted the vectors, but they cannot be read back.")
            time.sleep(0.5)


def draft_namespace(
    organization: str,
    name: str,
    configs: Mapping[str, Any],
    sent_to: Mapping[str, list[str]],
    keyword_language: str | None = None,
) -> NamespaceConfig:
    """Return the configuration of the new namespace."""
    created_at = datetime.now(UTC)
    return NamespaceConfig(
        id=ids.namespace_id(),
        organization_id=organization,
        name=name,
        dimensions=None,
        keyword_language=keyword_language,
        created_at=created_at,
        updated_at=created_at,
        sent_to=sent_to,
        **namespaces.split_configs(configs),
    )
