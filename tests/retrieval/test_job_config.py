"""Job configurations survive a round trip, also from other versions."""

import json
from datetime import UTC, datetime

import pytest

from retrieval import ids, job_config
from retrieval.job_config import Ingestion, JobConfig
from retrieval.ports import OcrStrategy

FULL = JobConfig(
    Ingestion({"team": "a"}, chunk_size=50, chunk_overlap=5, ocr=OcrStrategy.STANDARD_OCR),
    request={"url": "https://example.org/", "maxLinks": 5},
    connection_id="conn_1",
    scheduled=True,
    accepted_at=datetime(2026, 1, 31, 12, tzinfo=UTC),
)


@pytest.mark.parametrize(
    "config",
    [JobConfig(), JobConfig(Ingestion({})), JobConfig(request={}), JobConfig(request={}, connection_id="conn_1"), FULL],
)
def test_what_is_written_is_read_back(config):
    assert JobConfig.load(json.loads(config.dump())) == config


@pytest.mark.parametrize(
    ("stored", "config"),
    [
        ({}, JobConfig()),
        (
            {"metadata": None, "chunkSize": 100, "chunkOverlap": 9, "ocr": "BASIC_PARSER"},
            JobConfig(Ingestion(chunk_size=100, chunk_overlap=9)),
        ),
        (
            {"metadata": {}, "chunkSize": 100, "chunkOverlap": 9, "ocr": "BASIC_PARSER", "request": {"url": "u"}},
            JobConfig(Ingestion({}, chunk_size=100, chunk_overlap=9), request={"url": "u"}),
        ),
        ({"scheduled": True, "acceptedAt": None}, JobConfig(scheduled=True)),
        ({"newer": {"key": 1}}, JobConfig()),
    ],
)
def test_what_another_version_has_written_is_read(stored, config):
    assert JobConfig.load(stored) == config


@pytest.fixture
def stored(db, new_scope):
    """Return a function that stores a configuration and evaluates an expression on it."""

    def ask(config: str, expression: str):
        scope = new_scope()
        values = {"organization": scope.organization, "namespace": scope.namespace, "id": ids.job_id(), "c": config}
        return db.row(
            "with p as (insert into partitions (namespace_id, tenant) values (%(namespace)s, '') returning id), j as ("
            " insert into jobs (id, organization_id, partition_id, source, config, created_at)"
            " select %(id)s, %(organization)s, id, 'WEBSITE', %(c)s, '2026-02-02T00:00:00Z' from p returning *)"
            f" select {expression} as answer from j",
            values,
        )["answer"]

    return ask


def test_statements_read_what_the_codec_writes(stored):
    assert stored(FULL.dump(), job_config.connection_id_sql()) == "conn_1"
    assert stored(JobConfig(request={}).dump(), job_config.connection_id_sql()) is None
    assert stored(FULL.dump(), job_config.START_URL) == "https://example.org/"
    assert stored(FULL.dump(), job_config.NEW_METADATA) == {"team": "a"}
    assert stored(JobConfig().dump(), job_config.NEW_METADATA) == {}
    assert stored(FULL.dump(), job_config.ACCEPTED_AT) == FULL.accepted_at
    assert stored(JobConfig(scheduled=True).dump(), job_config.ACCEPTED_AT) == datetime(2026, 2, 2, tzinfo=UTC)
    assert stored(FULL.dump(), job_config.IS_SCHEDULED) is True
    assert stored(JobConfig().dump(), job_config.IS_SCHEDULED) is False


def test_the_codec_reads_what_a_statement_makes_for_a_schedule(stored):
    once = JobConfig(Ingestion({"k": 1}), request={"include": []}, connection_id="conn_1")
    reloaded = JobConfig.load(stored(once.dump(), job_config.REPEATED_CONFIG))
    assert (reloaded.ingestion, reloaded.request, reloaded.connection_id) == (
        once.ingestion,
        once.request,
        once.connection_id,
    )
    assert (reloaded.scheduled, reloaded.accepted_at) == (True, datetime(2026, 2, 2, tzinfo=UTC))
    assert JobConfig.load(stored(FULL.dump(), job_config.REPEATED_CONFIG)).accepted_at == FULL.accepted_at
