"""Putting content in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, Unpack, overload

from retrieval_client import bodies, models
from retrieval_client._sync.operations import Operations
from retrieval_client._sync.runs import Runs
from retrieval_client.options import FileOptions, FilesOptions, Options, SiteOptions, TextOptions, WebOptions
from retrieval_client.wire import body_of, close_upload, given, upload_of

Accepted = models.IngestData
Ended = models.JobRunData
_ELSEWHERE = frozenset({"chunk_config", "config", "dry_run", "idempotency_key", "timeout", "progress"})
"""Options that do not stand in `ingestConfig.config`."""


class Ingest:
    """Requests are queued durably and answered at once: `ingest_job_run_id` names the job run, `documents` what is
    known of it. With wait=True the answer is the job run when it is COMPLETED: read `outcome`, and `documents.failed`
    for what failed and why. Every method takes `Options` too.
    """

    def __init__(self, api: Operations, runs: Runs) -> None:
        self._api = api
        self._runs = runs

    @overload
    def text(self, namespace_id: str, text: str, *, wait: Literal[True], **options: Unpack[TextOptions]) -> Ended: ...

    @overload
    def text(
        self, namespace_id: str, text: str, *, wait: Literal[False] = False, **options: Unpack[TextOptions]
    ) -> Accepted: ...

    def text(
        self, namespace_id: str, text: str, *, wait: bool = False, **options: Unpack[TextOptions]
    ) -> Accepted | Ended:
        """A text."""
        return self._ingest("text", "TEXT", namespace_id, {"text": text}, wait, options)

    @overload
    def urls(
        self, namespace_id: str, urls: Sequence[str], *, wait: Literal[True], **options: Unpack[WebOptions]
    ) -> Ended: ...

    @overload
    def urls(
        self, namespace_id: str, urls: Sequence[str], *, wait: Literal[False] = False, **options: Unpack[WebOptions]
    ) -> Accepted: ...

    def urls(
        self, namespace_id: str, urls: Sequence[str], *, wait: bool = False, **options: Unpack[WebOptions]
    ) -> Accepted | Ended:
        """Web pages by their URLs, up to 1,000."""
        return self._ingest("urls", "URLS_LIST", namespace_id, {"urls": [*urls]}, wait, options)

    @overload
    def sitemap(self, namespace_id: str, url: str, *, wait: Literal[True], **options: Unpack[SiteOptions]) -> Ended: ...

    @overload
    def sitemap(
        self, namespace_id: str, url: str, *, wait: Literal[False] = False, **options: Unpack[SiteOptions]
    ) -> Accepted: ...

    def sitemap(
        self, namespace_id: str, url: str, *, wait: bool = False, **options: Unpack[SiteOptions]
    ) -> Accepted | Ended:
        """The pages that a sitemap names."""
        return self._ingest("sitemap", "SITEMAP", namespace_id, {"url": url}, wait, options)

    @overload
    def website(self, namespace_id: str, url: str, *, wait: Literal[True], **options: Unpack[SiteOptions]) -> Ended: ...

    @overload
    def website(
        self, namespace_id: str, url: str, *, wait: Literal[False] = False, **options: Unpack[SiteOptions]
    ) -> Accepted: ...

    def website(
        self, namespace_id: str, url: str, *, wait: bool = False, **options: Unpack[SiteOptions]
    ) -> Accepted | Ended:
        """The pages of a site, found by following links from `url`."""
        return self._ingest("website", "WEBSITE", namespace_id, {"url": url}, wait, options)

    @overload
    def connection(
        self, namespace_id: str, source: str, connection_id: str, *, wait: Literal[True], **options: Unpack[Options]
    ) -> Ended: ...

    @overload
    def connection(
        self,
        namespace_id: str,
        source: str,
        connection_id: str,
        *,
        wait: Literal[False] = False,
        **options: Unpack[Options],
    ) -> Accepted: ...

    def connection(
        self, namespace_id: str, source: str, connection_id: str, *, wait: bool = False, **options: Unpack[Options]
    ) -> Accepted | Ended:
        """What a connection gives access to. source: its connector, such as GOOGLE_DRIVE."""
        path = source.lower().replace("_", "-")
        return self._ingest(path, source, namespace_id, {"connectionId": connection_id}, wait, options)

    @overload
    def file(
        self,
        namespace_id: str,
        file: str | Path | bytes | BinaryIO,
        *,
        wait: Literal[True],
        **options: Unpack[FileOptions],
    ) -> Ended: ...

    @overload
    def file(
        self,
        namespace_id: str,
        file: str | Path | bytes | BinaryIO,
        *,
        wait: Literal[False] = False,
        **options: Unpack[FileOptions],
    ) -> Accepted: ...

    def file(
        self,
        namespace_id: str,
        file: str | Path | bytes | BinaryIO,
        *,
        wait: bool = False,
        **options: Unpack[FileOptions],
    ) -> Accepted | Ended:
        """A file: its path, its bytes, or a file that is open for reading bytes."""
        ocr = options.get("ocr_strategy")
        own_options = {"name", "media_type", "ocr_strategy", *_ELSEWHERE}
        fields = body_of(
            namespace_id=namespace_id,
            source="FILE",
            chunk_config=options.get("chunk_config"),
            ocr_config={"strategy": ocr} if ocr else None,
            dry_run=options.get("dry_run") or None,
            **{name: value for name, value in options.items() if name not in own_options},
        )
        form = {name: value if isinstance(value, str) else json.dumps(value) for name, value in fields.items()}
        upload = upload_of(file, options.get("name"), options.get("media_type"))
        try:
            accepted = self._api.ingest_file(form, upload, idempotency_key=options.get("idempotency_key"))
        finally:
            close_upload(file, upload)
        return self._ended(namespace_id, accepted, wait, options)

    def upload(
        self,
        namespace_id: str,
        file: str | Path | bytes | BinaryIO,
        *,
        name: str | None = None,
        media_type: str | None = None,
        idempotency_key: str | None = None,
    ) -> models.FileUploadData:
        """Store a file, by its path, its bytes, or opened for reading bytes. `files` ingests it within a day."""
        upload = upload_of(file, name, media_type)
        try:
            form = {"namespaceId": namespace_id}
            return self._api.create_upload(form, upload, idempotency_key=idempotency_key)
        finally:
            close_upload(file, upload)

    @overload
    def files(
        self,
        namespace_id: str,
        files: Sequence[bodies.UploadedFile],
        *,
        wait: Literal[True],
        **options: Unpack[FilesOptions],
    ) -> Ended: ...

    @overload
    def files(
        self,
        namespace_id: str,
        files: Sequence[bodies.UploadedFile],
        *,
        wait: Literal[False] = False,
        **options: Unpack[FilesOptions],
    ) -> Accepted: ...

    def files(
        self,
        namespace_id: str,
        files: Sequence[bodies.UploadedFile],
        *,
        wait: bool = False,
        **options: Unpack[FilesOptions],
    ) -> Accepted | Ended:
        """Up to 500 files by one job run, each by its `uploadId` of `upload`, with an `externalId` if it has one."""
        ocr = options.pop("ocr_strategy", None)
        content = {"files": [*files]} | given(ocrConfig={"strategy": ocr} if ocr else None)
        return self._ingest("files", "FILE", namespace_id, content, wait, options)

    def _ingest(
        self,
        path: str,
        source: str,
        namespace_id: str,
        content: Mapping[str, Any],
        wait: bool,
        options: Mapping[str, Any],
    ) -> Accepted | Ended:
        config = body_of(**{name: value for name, value in options.items() if name not in _ELSEWHERE})
        config |= {**content, **(options.get("config") or {})}
        ingest_config = {"source": source, "config": config} | given(chunkConfig=options.get("chunk_config"))
        body = body_of(namespace_id=namespace_id, ingest_config=ingest_config, dry_run=options.get("dry_run") or None)
        answer = self._api.ingest(path, body, idempotency_key=options.get("idempotency_key"))
        return self._ended(namespace_id, answer, wait, options)

    def _ended(self, namespace_id: str, accepted: Accepted, wait: bool, options: Mapping[str, Any]) -> Accepted | Ended:
        if not wait:
            return accepted
        return self._runs.wait(
            namespace_id,
            accepted.ingest_job_run_id,
            timeout=options.get("timeout"),
            progress=options.get("progress"),
        )
