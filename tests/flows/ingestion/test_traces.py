"""A request's trace continues through the job run and its steps, with its id in the logs."""

from __future__ import annotations

import pytest

from flows.request_context import bind_requests
from retrieval import origin, tracing
from retrieval.origin import Origin
from tests.flows.configured import Configured
from tests.flows.ingestion.test_vendor_namespace import allowed, openai  # noqa: F401 - fixtures
from tests.standins import faults, otlp_receiver

STEPS = ("fetch", "parse", "chunk", "embed", "upsert")
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def receiver(monkeypatch):
    with otlp_receiver.running() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        tracing.end_tracing()
        yield server
        tracing.end_tracing()


def work(space):
    while lease := space.lease():
        with bind_requests(space.db, lease):
            space.take(lease)


def posted(space, text, request, traceparent):
    """Accept a text within the context of a request."""

    async def accept():
        from retrieval.job_config import Ingestion
        from retrieval.jobs import runs

        origin.set_origin(Origin(request, traceparent))
        return await runs.accept_text(space.db, space.scope, text=text, name=text, ingestion=Ingestion())

    return space.call(accept())


def test_each_request_of_a_batch_is_traced_to_the_end_of_its_own_work(db, openai, allowed, receiver):  # noqa: F811
    allowed(openai)
    space = Configured(db, embeddingModelConfig=openai.config())
    runs = {
        number: posted(space, f"Text {number}.", f"req_{number}", f"00-{TRACE[:-1]}{number}-b7ad6b716920333{number}-01")
        for number in range(3)
    }
    posted(space, "Not sampled.", "req_9", f"00-{TRACE[:-1]}9-b7ad6b7169203339-00")
    openai.faults = [faults.status(500)]
    work(space)
    tracing.end_tracing()
    for number, run in runs.items():
        spans = receiver.of(f"{TRACE[:-1]}{number}")
        flow = spans["flow run TEXT"]
        assert flow.parent == f"b7ad6b716920333{number}"
        assert flow.about["retrieval.job_run"] == run.job_run_id
        assert flow.about["service.name"] == "retrieval"
        assert {spans[step].parent for step in (*STEPS, "queue")} == {flow.id}
        assert not any(span.failed for name, span in spans.items() if name != "request to OpenAI")
    request_spans = [span for span in receiver.spans if span.name == "request to OpenAI"]
    assert {span.parent for span in request_spans} < {span.id for span in receiver.spans if span.name == "embed"}
    assert [span.failed for span in request_spans].count(True) == 1
    assert {span.about["gen_ai.operation.name"] for span in request_spans} == {"embeddings"}
    assert {span.about["gen_ai.provider.name"] for span in request_spans} == {"openai"}
    assert {span.about["gen_ai.request.model"] for span in request_spans} == {openai.config()["model"]}
    assert receiver.of(f"{TRACE[:-1]}9") == {}
    assert "Text" not in str([span.about for span in receiver.spans])
    assert "canary" not in str(receiver.spans)
