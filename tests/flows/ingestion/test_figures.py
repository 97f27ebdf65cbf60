"""Prometheus metrics equal the database and the vendors' requests."""

from __future__ import annotations

import asyncio

import pytest

from retrieval.job_config import Ingestion
from retrieval.jobs import runs
from retrieval.metrics import exposition
from retrieval.metrics.figures import MetricsReader
from tests.flows.configured import Configured
from tests.flows.ingestion.test_vendor_namespace import allowed, openai  # noqa: F401 - fixtures
from tests.retrieval.metrics.test_figures import nothing_counted, parse_samples  # noqa: F401 - a fixture
from tests.standins import faults

DOCUMENTS = 1000
STEPS = ("fetch", "parse", "chunk", "embed", "upsert")


def figures(space):
    return parse_samples(
        exposition.render_text(MetricsReader(space.db).read(space.scope.organization), of_organization=True)
    )


@pytest.mark.slow
def test_after_a_thousand_documents_every_figure_is_the_databases(db):
    space = Configured(db)

    async def accept(number):
        text = f"Text number {number} says that {number} seals were counted."
        await runs.accept_text(db, space.scope, text=text, name=str(number), ingestion=Ingestion())

    async def accept_all():
        for number in range(0, DOCUMENTS, 8):
            await asyncio.gather(*map(accept, range(number, number + 8)))

    space.call(accept_all())
    waiting = figures(space)
    assert waiting["retrieval_job_runs", ("status", "QUEUED")] == DOCUMENTS
    space.work()
    samples = figures(space)

    def read_number(statement):
        (row,) = db.rows(statement, {"namespace": space.scope.namespace})
        return row["n"]

    of_space = "join partitions p on p.id = t.partition_id where p.namespace_id = %(namespace)s"
    assert samples["retrieval_documents", ("status", "SUCCESS")] == DOCUMENTS
    assert read_number(f"select count(*) as n from documents t {of_space} and status = 'SUCCESS'") == DOCUMENTS
    assert samples["retrieval_job_runs", ("status", "COMPLETED")] == DOCUMENTS
    assert read_number(f"select count(*) as n from job_runs t {of_space} and status = 'COMPLETED'") == DOCUMENTS
    assert samples[("retrieval_queue_oldest_seconds",)] == 0
    tokens = read_number(f"select sum(tokens) as n from chunks t {of_space}")
    assert samples[("retrieval_tokens_embedded_total",)] == tokens > DOCUMENTS
    for step in STEPS:
        assert samples["retrieval_stage_seconds_count", ("stage", step)] == DOCUMENTS
        seconds = read_number(f"select sum((timings ->> '{step}')::float8) as n from job_runs t {of_space}")
        assert samples["retrieval_stage_seconds_sum", ("stage", step)] == pytest.approx(seconds, abs=0.0006 * DOCUMENTS)


def test_each_request_to_a_vendor_is_counted_by_what_came_of_it(db, openai, allowed):  # noqa: F811
    allowed(openai)
    space = Configured(db, embeddingModelConfig=openai.config())
    requests_before = len(openai.times)
    openai.faults = [faults.status(429, Retry_After="0"), faults.status(500)]
    space.text("The seal was seen in the harbour.", "seal")
    space.work()
    counted = {
        (dict(key[1:])["vendor"], dict(key[1:])["outcome"]): value
        for key, value in figures(space).items()
        if key[0] == "retrieval_vendor_requests_total"
    }
    request_count = len(openai.times) - requests_before
    assert counted == {("OPENAI", "rate_limited"): 1, ("OPENAI", "failed"): 1, ("OPENAI", "ok"): request_count - 2}
