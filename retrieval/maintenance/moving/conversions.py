"""Conversions of exports that 0.1.0 wrote, version 1 of the format. Its later builds say more than its earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, LiteralString

from retrieval.access import lists
from retrieval.database.database import Database

PAGE_MAP = "pageMap"
"""Property of a document whose pages were placed while it was parsed; those of others were guessed."""

_HASHES: LiteralString = """
    update documents d set properties = d.properties || jsonb_build_object(%(name)s::text, encode(m.raw_hash, 'hex'))
    from documents a join run_documents m on m.document_id = a.id and m.generation = a.active_generation
    where d.id = any(%(members)s) and a.id = d.archive_id and m.raw_hash is not null
"""
_INHERITED: LiteralString = """
    update documents m set inherits_access = m.access is not distinct from a.access
    from documents a where m.partition_id = any(%(partitions)s) and a.id = m.archive_id
"""


class Conversion:
    """Converts the rows of an export in the order in which they are imported; rows of the newest version stay."""

    def __init__(self, version: int) -> None:
        self._is_needed = version == 1
        self._generations: dict[str, int] = {}
        self._members: list[str] = []
        self._unplaced: set[str] = set()
        self._is_first_access = False

    def note_document(self, row: Mapping[str, Any]) -> None:
        """Note the generation that a document's content came with, or one after it, before documents are converted."""
        self._generations[row["id"]] = min(row["active_generation"], row["latest_generation"])

    def job(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Take a job that was accepted on behalf of a user from its connection: it may have chosen less."""
        config = dict(row["config"])
        if self._is_needed and config.pop("principal", None) is not None:
            config["connectionId"] = None
        return {**row, "config": config}

    def document(self, row: Mapping[str, Any], new_id: str) -> dict[str, Any]:
        """Convert access lists of the first design, which held the list of the next version within the list, and give
        packed documents the digest of the file that they came out of, which is written by `finish_documents`."""
        if not self._is_needed:
            return dict(row)
        properties = {name: value for name, value in row["properties"].items() if name != PAGE_MAP}
        if PAGE_MAP not in row["properties"]:
            self._unplaced.add(row["id"])
        content = self._generations.get(row["archive_id"])
        if content is not None and lists.ARCHIVE_HASH not in properties:
            properties[lists.ARCHIVE_HASH] = ""
            if row["latest_generation"] >= content:
                self._members.append(new_id)
        document = {**row, "properties": properties}
        if "inherits_access" not in row:
            self._is_first_access = True
        if row.get("access") is not None:
            document["access"] = {name: value for name, value in row["access"].items() if name != "next"}
        return document

    def run_document(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Take away pages that were guessed."""
        return {**row, "pages": []} if row["document_id"] in self._unplaced else row

    def chunk(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Take away a page that was guessed."""
        return {**row, "page": None} if row["document_id"] in self._unplaced else row

    def finish_documents(self, db: Database, partitions: list[int]) -> None:
        """Tell packed documents that inherit their list from those that have their own, by comparison."""
        if self._is_first_access:
            db.rows(_INHERITED, {"partitions": partitions})

    def finish_runs(self, db: Database) -> None:
        """Write the digests of the files that packed documents came out of."""
        db.rows(_HASHES, {"members": self._members, "name": lists.ARCHIVE_HASH})
