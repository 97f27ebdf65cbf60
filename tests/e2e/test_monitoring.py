"""What a platform team sees of a running service: figures on a port of their own, and a request's way through it."""

from __future__ import annotations

import httpx
import pytest

from tests.retrieval.metrics.test_figures import told

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
STEPS = ("fetch", "parse", "chunk", "embed", "upsert")
TEXTS = 5


def figures(service):
    answer = httpx.get(service.info["metrics"] + "/metrics", timeout=10)
    assert answer.status_code == 200
    return told(answer.content)


@pytest.mark.decision("D80")
def test_the_port_for_prometheus_tells_what_the_roles_have_done(service):
    before = figures(service)
    runs = [service.text(f"Seal number {number} was seen.", name=str(number)) for number in range(TEXTS)]
    service.wait(*(run["ingestJobRunId"] for run in runs))
    service.search("who saw a seal")

    def settled():
        now = figures(service)
        more = {key: now[key] - before.get(key, 0) for key in now}
        searched = more["retrieval_search_seconds_count", ("mode", "semantic")] >= 1
        return (now, more) if searched and more["retrieval_documents", ("status", "SUCCESS")] == TEXTS else None

    now, more = service.until(settled, seconds=15)
    assert more["retrieval_job_runs", ("status", "COMPLETED")] == TEXTS
    assert {more["retrieval_stage_seconds_count", ("stage", step)] for step in STEPS} == {TEXTS}
    assert more[("retrieval_tokens_embedded_total",)] >= TEXTS
    assert more["retrieval_http_requests_total", ("route", "ingest"), ("status", "2xx")] >= TEXTS
    assert now[("retrieval_queue_oldest_seconds",)] == 0
    assert now[("retrieval_database_up",)] == 1
    assert now[("retrieval_dispatcher_silent_seconds",)] < 120
    roles = {dict(key[1:])["role"] for key, value in now.items() if key[0] == "retrieval_role_up" and value}
    assert roles >= {"postgres", "prefect", "api", "dispatcher", "worker", "metrics"}
    connected = {dict(key[1:])["role"] for key in now if key[0] == "retrieval_database_connections"}
    assert connected >= {"api", "dispatcher", "worker", "metrics"}
    assert len(now) <= 300
    own = told(service.client.get("/metrics").content)
    for status in ("SUCCESS", "FAILED"):
        assert own["retrieval_documents", ("status", status)] == now["retrieval_documents", ("status", status)]
    assert service.info["apiKey"] not in str(now)


@pytest.mark.decision("D80")
def test_a_clients_trace_goes_on_to_the_last_step_and_its_request_is_named_on_every_line(service, traces):
    sent = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "X-Request-Id": "req_of-this-test"}
    body = {"namespaceId": service.namespace, "ingestConfig": {"source": "TEXT", "config": {"text": "A traced seal."}}}
    answer = service.client.post("/v1/ingest/text", json=body, headers=sent)
    run = service.ok(answer)["ingestJobRunId"]
    service.wait(run)
    found = service.until(lambda: (spans := traces.of(TRACE)) and "flow run TEXT" in spans and spans, seconds=20)
    request, flow = found["POST /v1/ingest/text"], found["flow run TEXT"]
    assert request.parent == "00f067aa0ba902b7"
    assert request.about["retrieval.request_id"] == "req_of-this-test"
    assert request.about["retrieval.role"] == "api"
    assert flow.parent == request.id
    assert flow.about["retrieval.job_run"] == run
    assert flow.about["retrieval.role"] == "worker"
    assert {found[step].parent for step in (*STEPS, "queue")} == {flow.id}
    assert "seal" not in str(found)
    flow_run = service.job_run(run)["prefectUrl"].rsplit("/", 1)[-1]
    with service.prefect() as prefect:
        asked = {"logs": {"flow_run_id": {"any_": [flow_run]}}, "sort": "TIMESTAMP_ASC"}

        def lines():
            told = [line["message"] for line in prefect.post("/logs/filter", json=asked).json()]
            return told if any("Finished" in line for line in told) else None

        said = service.until(lines, seconds=20)
    assert [line for line in said if not line.startswith("[req_of-this-test]")] in ([], said[:1])
