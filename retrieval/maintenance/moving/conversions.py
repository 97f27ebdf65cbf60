"""Conversion of exports of version 1 (releases 0.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrieval.access.queries import lists
from retrieval.database.database import Database
from retrieval.maintenance.moving import queries

# Property of documents with exact pages; other pages are estimates.
PAGE_MAP_PROPERTY = "pageMap"


class Conversion:
    """Converter of an export's rows in the order of import; rows of the current version stay unchanged."""

    def __init__(self, version: int) -> None:
        self._is_needed = version == 1
        self._generations: dict[str, int] = {}
        self._members: list[str] = []
        self._without_pages: set[str] = set()
        self._has_first_access_lists = False

    def record_generation(self, record: Mapping[str, Any]) -> None:
        """Record the generation of a document's content before documents are converted."""
        self._generations[record["id"]] = min(record["active_generation"], record["latest_generation"])

    def convert_job(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Detach a job on behalf of a user from its connection."""
        # The user may have chosen fewer documents than the connection.
        config = dict(record["config"])
        if self._is_needed and config.pop("principal", None) is not None:
            config["connectionId"] = None
        return {**record, "config": config}

    def convert_document(self, record: Mapping[str, Any], new_id: str) -> dict[str, Any]:
        """Convert access lists of the first design; collect members of archives for `finish_runs`."""
        if not self._is_needed:
            return dict(record)
        properties = {name: value for name, value in record["properties"].items() if name != PAGE_MAP_PROPERTY}
        if PAGE_MAP_PROPERTY not in record["properties"]:
            self._without_pages.add(record["id"])
        content = self._generations.get(record["archive_id"])
        if content is not None and lists.ARCHIVE_HASH not in properties:
            properties[lists.ARCHIVE_HASH] = ""
            if record["latest_generation"] >= content:
                self._members.append(new_id)
        document = {**record, "properties": properties}
        if "inherits_access" not in record:
            self._has_first_access_lists = True
        if record.get("access") is not None:
            # The first design held the list of the next version within the list.
            document["access"] = {name: value for name, value in record["access"].items() if name != "next"}
        return document

    def convert_run_document(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Remove estimated pages."""
        return {**record, "pages": []} if record["document_id"] in self._without_pages else record

    def convert_chunk(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Remove an estimated page."""
        return {**record, "page": None} if record["document_id"] in self._without_pages else record

    def finish_documents(self, db: Database, partitions: list[int]) -> None:
        """Mark archive members with the archive's access list as inheriting."""
        if self._has_first_access_lists:
            queries.set_inheritance(db, partitions)

    def finish_runs(self, db: Database) -> None:
        """Set the digest of the archive on members of archives."""
        queries.set_archive_hashes(db, self._members, lists.ARCHIVE_HASH)
