"""`GET /metrics`: figures of an organization, only for administrators."""

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
