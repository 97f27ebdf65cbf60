"""Prometheus metrics equal the database and the vendors' requests."""

from __future__ import annotations

from retrieval.metrics import exposition
from retrieval.metrics.figures import MetricsReader
from tests.flows.configured import Configured
from tests.flows.ingestion.test_vendor_namespace import allowed, openai  # noqa: F401 - fixtures
from tests.retrieval.metrics.test_figures import nothing_counted, parse_samples  # noqa: F401 - a fixture
from tests.standins import faults


def figures(space):
    return parse_samples(
        exposition.render_text(MetricsReader(space.db).read(space.scope.organization), of_organization=True)
    )


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
