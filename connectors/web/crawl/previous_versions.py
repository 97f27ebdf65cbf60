"""Stored versions of crawled pages, for conditional requests."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from retrieval.database.database import Database
from retrieval.errors import Skippable
from retrieval.ports import FileStore, RawContent, Scope, ScrapeOptions, Scraper


@dataclass(frozen=True, slots=True)
class Stored:
    """The visible version of a page. `version`: the site's own mark of it."""

    version: str
    raw_key: str
    media_type: str


class PreviousVersions:
    """Of one scope; safe to share between threads."""

    def __init__(self, db: Database, files: FileStore, scope: Scope) -> None:
        self._db = db
        self._files = files
        self._scope = scope

    def fetch(self, scraper: Scraper, url: str, options: ScrapeOptions, to: Path) -> tuple[RawContent | None, bool]:
        """The page, and whether it is the stored one: its links are read, whatever has changed."""
        stored = self._find(url)
        raw = scraper.fetch(url, options, to, known=stored.version if stored else "")
        if raw is not None or stored is None:
            return raw, False
        try:
            return self._bring(stored, url, to), True
        except Skippable:  # its file was lost
            return scraper.fetch(url, options, to), False

    def _find(self, url: str) -> Stored | None:
        rows = self._db.rows(
            """
            select d.properties ->> 'listedVersion' as version, d.raw_key, m.media_type
            from documents d join partitions p on p.id = d.partition_id
            join run_documents m on m.document_id = d.id and m.raw_key = d.raw_key and m.raw_hash is not null
            where p.namespace_id = %(namespace)s and p.tenant = %(tenant)s and d.source = 'WEBSITE'
              and d.external_id = %(url)s and d.deleted_at is null and d.properties ->> 'listedVersion' <> ''
            limit 1
            """,
            {"namespace": self._scope.namespace, "tenant": self._scope.tenant, "url": url},
        )
        return Stored(**rows[0]) if rows else None

    def _bring(self, stored: Stored, url: str, to: Path) -> RawContent:
        with self._files.open(stored.raw_key) as source, to.open("wb") as into:
            shutil.copyfileobj(source, into)
        return RawContent(to, url, stored.media_type, to.stat().st_size, version=stored.version, url=url)
