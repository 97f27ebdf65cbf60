"""Requests to ingest several files by a single job run."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from api.wire.common import DataAnswer, NamespaceId
from api.wire.ingest import AccessOption, Chunking, DryRun, Metadata, OcrConfig, ShortText

MAX_FILES = 500


class FileUploadForm(Struct, rename="camel"):
    """Fields of the form other than the file."""

    namespace_id: NamespaceId


class FileUploadData(Struct, rename="camel"):
    """A stored file, not yet ingested."""

    upload_id: Annotated[str, Meta(description="The id by which `POST /v1/ingest/files` ingests the file.")]
    name: Annotated[str, Meta(description="The file's name; empty if the form gave it none.")]
    size: Annotated[int, Meta(description="Size of the file in bytes.")]


class FileUploadAnswer(DataAnswer[FileUploadData]):
    """The file is stored."""


class UploadedFile(Struct, rename="camel"):
    """A stored file, and the identity of its document: `externalId`, else its name, else its content."""

    upload_id: Annotated[
        str, Meta(pattern="^up_[0-9a-z]{1,64}$", description="The id that `POST /v1/ingest/uploads` returned.")
    ]
    external_id: Annotated[
        ShortText | None,
        Meta(description="The document's external id. Ingesting the same external id again replaces the document."),
    ] = None


class FilesConfig(Struct, rename="camel", kw_only=True):
    """Files to ingest by a single job run, with common settings."""

    files: Annotated[list[UploadedFile], Meta(min_length=1, max_length=MAX_FILES, description="The files, up to 500.")]
    name: Annotated[ShortText | None, Meta(description="The job run's name, such as that of a folder.")] = None
    metadata: Metadata | None = None
    chunk_config: Chunking = None
    ocr_config: Annotated[OcrConfig | None, Meta(description="Settings of text recognition.")] = None
    access: AccessOption = None


class FilesIngestion(Struct, rename="camel"):
    """Files with chunk settings. `chunkConfig` takes precedence over `config.chunkConfig`."""

    source: Annotated[Literal["FILE", "LOCAL_FILE"], Meta(description="The source. It must match the path.")]
    config: Annotated[FilesConfig, Meta(description="Settings of the source.")]
    chunk_config: Chunking = None


class IngestFiles(Struct, rename="camel"):
    """Uploaded files to ingest into a namespace."""

    namespace_id: NamespaceId
    ingest_config: Annotated[FilesIngestion, Meta(description="Settings of the ingestion.")]
    dry_run: DryRun | None = False
