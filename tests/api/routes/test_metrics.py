"""`GET /metrics`: figures of an organization, only for administrators."""

import time

from retrieval.metrics import exposition
from retrieval.metrics.figures import MetricsReader
from tests.api.support import assert_error
from tests.retrieval.metrics.test_figures import parse_samples


def figures(org):
    answer = org.client.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parse_samples(answer.content)


def test_an_administrator_reads_what_is_in_the_organization_and_nothing_of_another(organization):
    mine, stranger = organization(), organization()
    space = mine.namespace()
    for number in range(3):
        mine.text(space, f"A text, number {number}.")
    for mode in ("", "", "/hybrid"):
        body = {"namespaceId": space, "query": "a text"}
        if mode:
            body["hybridConfig"] = {"semanticWeight": 0.5, "keywordWeight": 0.5}
        assert mine.client.post(f"/v1/search{mode}", json=body).status_code == 200
    samples = figures(mine)
    assert samples["retrieval_documents", ("status", "QUEUED")] == 3
    assert samples["retrieval_job_runs", ("status", "QUEUED")] == 3
    assert 0 < samples[("retrieval_queue_oldest_seconds",)] < 60
    assert samples["retrieval_search_seconds_count", ("mode", "semantic")] == 2
    assert samples["retrieval_search_seconds_count", ("mode", "hybrid")] == 1
    assert not [key for key in samples if "organization" in dict(key[1:])]
    nothing = figures(stranger)
    assert {key: value for key, value in nothing.items() if key[0] != "retrieval_figures_age_seconds" and value} == {}
    assert mine.client.delete(f"/v1/namespaces/{space}").status_code == 200


def test_without_an_administrators_key_of_the_whole_organization_there_are_no_figures(org, anonymous):
    assert_error(anonymous.get("/metrics"), 401, "UNAUTHORIZED")
    bounds = {"scopes": ["search"]}, {"namespace": org.namespace()}, {"tenant": "t"}
    for bound in bounds:
        with org.key(**bound) as client:
            assert_error(client.get("/metrics"), 403, "FORBIDDEN")
    assert_error(org.client.post("/metrics"), 405, "METHOD_NOT_ALLOWED")


def test_answers_are_counted_by_route_and_class_and_refusals_by_reason(org, organization):
    def counted():
        reading = MetricsReader(org.db).read()
        return parse_samples(exposition.render_text(reading))

    counts_before = counted()
    narrow = organization(requests_per_minute=1)
    assert org.client.get("/v1/namespaces").status_code == 200
    assert org.client.get("/v1/namespaces/ns_0").status_code == 404
    assert org.client.get(f"/v1/{org.id}").status_code == 404
    assert [narrow.client.get("/v1/keys").status_code for _ in range(3)] == [200, 429, 429]
    expected = {
        ("retrieval_http_requests_total", ("route", "namespaces"), ("status", "2xx")): 1,
        ("retrieval_http_requests_total", ("route", "namespaces"), ("status", "4xx")): 1,
        ("retrieval_http_requests_total", ("route", "other"), ("status", "4xx")): 1,
        ("retrieval_http_requests_total", ("route", "keys"), ("status", "4xx")): 2,
        ("retrieval_requests_refused_total", ("reason", "rate_limit")): 2,
    }
    deadline = time.monotonic() + 10
    while any((counts := counted()).get(key, 0) - counts_before.get(key, 0) < times for key, times in expected.items()):
        assert time.monotonic() < deadline, [(key, counts_before.get(key), counts.get(key)) for key in expected]
        time.sleep(0.2)
