"""Unchanged content is parsed again after the parser has changed, by a resync or an ingestion, and once only."""

from __future__ import annotations

import pytest

from retrieval.filters import DocumentFilter
from retrieval.ingestion import fetch
from retrieval.jobs import resync
from tests.flows.ingestion.test_unpack import house, ids_of, ingest, work  # noqa: F401 - a fixture

NOTE = b"The harbour seal sleeps under water and surfaces without waking."


@pytest.mark.parametrize("change_kind", ["resync", "ingest"])
def test_a_changed_parser_reads_unchanged_content_again_and_once(house, monkeypatch, change_kind):  # noqa: F811
    with monkeypatch.context() as old_parser:
        old_parser.setattr(fetch, "PARSER_VERSION", fetch.PARSER_VERSION - 1)
        ingest(house, "seal.txt", NOTE)
        house.db.rows("update documents set properties = properties - 'textQuality'")

    def resync_document():
        if change_kind == "ingest":
            return ingest(house, "seal.txt", NOTE)
        house.call(
            resync.start_resync(house.db, house.scope, DocumentFilter(document_ids=(ids_of(house)["seal.txt"],)))
        )
        return work(house)

    embedded = "select count(*) as n from embeddings"
    vectors = house.db.row(embedded)
    assert resync_document() == {"seal.txt": ("SUCCESS", "upserted", None)}
    assert house.documents()["seal.txt"]["properties"]["textQuality"] == 1.0
    assert house.db.row(embedded) == vectors
    assert resync_document() == {"seal.txt": ("SUCCESS", "unchanged", None)}
