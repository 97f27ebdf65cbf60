"""Conversions of exports that 0.1.0 wrote, version 1 of the format. Its later builds say more than its earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrieval.access.queries import lists
from retrieval.database.database import Database
from retrieval.maintenance.moving import queries

PAGE_MAP = "pageMap"
"""Property of a document whose pages were placed while it was parsed; those of others were guessed."""


class Conversion:
    """Converts the rows of an export in the order in which they are imported; rows of the newest version stay."""

    def __init__(self, version: int) -> None:
        self._is_needed = version == 1
        self._generations: dict[str, int] = {}
        self._members: list[str] = []
        self._unplaced: set[str] = set()
        self._is_first_access = False

    def note_document(self, record: Mapping[str, Any]) -> None:
        """Note the generation that a document's content came with, or one after it, before documents are converted."""
        self._generations[record["id"]] = min(record["active_generation"], record["latest_generation"])

    def job(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Take a job that was accepted on behalf of a user from its connection: it may have chosen less."""
        config = dict(record["config"])
        if self._is_needed and config.pop("principal", None) is not None:
            config["connectionId"] = None
        return {**record, "config": config}

    def document(self, record: Mapping[str, Any], new_id: str) -> dict[str, Any]:
        """Convert access lists of the first design, which held the list of the next version within the list, and give
        packed documents the digest of the file that they came out of, which is written by `finish_documents`."""
        if not self._is_needed:
            return dict(record)
        properties = {name: value for name, value in record["properties"].items() if name != PAGE_MAP}
        if PAGE_MAP not in record["properties"]:
            self._unplaced.add(record["id"])
        content = self._generations.get(record["archive_id"])
        if content is not None and lists.ARCHIVE_HASH not in properties:
            properties[lists.ARCHIVE_HASH] = ""
            if record["latest_generation"] >= content:
                self._members.append(new_id)
        document = {**record, "properties": properties}
        if "inherits_access" not in record:
            self._is_first_access = True
        if record.get("access") is not None:
            document["access"] = {name: value for name, value in record["access"].items() if name != "next"}
        return document

    def run_document(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Take away pages that were guessed."""
        return {**record, "pages": []} if record["document_id"] in self._unplaced else record

    def chunk(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Take away a page that was guessed."""
        return {**record, "page": None} if record["document_id"] in self._unplaced else record

    def finish_documents(self, db: Database, partitions: list[int]) -> None:
        """Tell packed documents that inherit their list from those that have their own, by comparison."""
        if self._is_first_access:
            queries.set_inheritance(db, partitions)

    def finish_runs(self, db: Database) -> None:
        """Write the digests of the files that packed documents came out of."""
        queries.set_archive_hashes(db, self._members, lists.ARCHIVE_HASH)
