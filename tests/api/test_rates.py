"""Rate limits across processes, and their headers on every answer."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from retrieval.accounts import api_keys
from retrieval.accounts.queries import organizations
from tests.api.process import running
from tests.api.support import assert_error, client_of, wait_for_fresh_minute

HEADERS = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")
LIMIT = 70


def test_the_headers_are_on_every_answer(org, organization, anonymous, api_settings):
    oversized_body = b" " * (api_settings.max_body_bytes + 1)
    json_headers = {"Content-Type": "application/json"}
    space = org.namespace()
    run = org.text(space, name="a")["data"]["ingestJobRunId"]
    idempotency = {"Idempotency-Key": "rates"}
    assert org.client.post("/v1/tenants", json={"id": "a"}, headers=idempotency).status_code == 200
    exhausted = organization(requests_per_minute=1)
    exhausted.client.get("/v1/namespaces")
    with org.key(scopes=["search"]) as limited:
        answers = {
            200: org.client.get(f"/v1/ingest-job-runs/{run}?namespaceId={space}"),
            400: org.client.post("/v1/search", content=b"{", headers=json_headers),
            401: anonymous.get("/v1/namespaces"),
            403: limited.get("/v1/namespaces"),
            404: org.client.get("/v1/nothing"),
            405: org.client.put("/v1/namespaces"),
            409: org.client.post("/v1/tenants", json={"id": "b"}, headers=idempotency),
            413: org.client.post("/v1/search", content=oversized_body, headers=json_headers),
            415: org.client.post("/v1/search", content=b"{}", headers={"Content-Type": "text/plain"}),
            429: exhausted.client.get("/v1/namespaces"),
        }
        other_answers = [
            org.client.options("/v1/namespaces"),
            org.client.head("/v1/namespaces"),
            org.client.post("/v1/search", json={}, headers={"X-Tenant-ID": ""}),
            anonymous.get("/v1/oauth/callback/box?state=x"),
            anonymous.get("/v1/files/doc_x/raw?expires=1&signature=x"),
            anonymous.get("/nothing"),
        ]
    assert {answer.status_code for answer in answers.values()} == set(answers)
    for answer in (*answers.values(), *other_answers):
        assert all(answer.headers[name].isdigit() for name in HEADERS), (answer.status_code, answer.url)


def _send_concurrently(org, addresses: tuple[str, ...], clients: int, requests_per_client: int) -> list[httpx.Response]:
    """Send requests of several clients at once; the addresses take turns."""

    def send_requests(number: int) -> list[httpx.Response]:
        with client_of(addresses[number % len(addresses)], org.api_key) as session:
            return [session.get("/v1/keys/current") for _ in range(requests_per_client)]

    with ThreadPoolExecutor(clients) as pool:
        return [answer for batch in pool.map(send_requests, range(clients)) for answer in batch]


@pytest.mark.slow
def test_two_processes_admit_exactly_the_limit(organization, api_database, ring, tmp_path):
    limit = 600
    org = organization(requests_per_minute=limit)
    with (
        running(tmp_path, api_database, ring) as (first, _, _),
        running(tmp_path, api_database, ring) as (second, _, _),
    ):
        wait_for_fresh_minute()
        answers = _send_concurrently(org, (first, second), 8, 100)
    windows = {answer.headers["x-ratelimit-reset"] for answer in answers}
    for window in windows:
        in_window = [answer for answer in answers if answer.headers["x-ratelimit-reset"] == window]
        allowed = [int(answer.headers["x-ratelimit-remaining"]) for answer in in_window if answer.status_code == 200]
        assert len(allowed) == len(set(allowed)) <= limit
        if len(in_window) > limit + 50:
            assert len(allowed) == limit
    assert {answer.status_code for answer in answers} <= {200, 429}


def test_a_process_returns_reserved_requests_and_obeys_changes_at_once(org):
    wait_for_fresh_minute()
    minute = int(time.time()) // 60
    for _ in range(100):
        assert org.client.get("/v1/keys/current").status_code == 200

    def count_requests() -> int:
        row = org.db.row("select minute, requests from rate_windows where caller = %(id)s", {"id": org.id})
        assert row is not None
        assert row["minute"] == minute
        return int(row["requests"])

    assert count_requests() > 100
    deadline = time.monotonic() + 10
    while count_requests() != 100:
        assert time.monotonic() < deadline, count_requests()
        time.sleep(0.1)
    used = org.client.get("/v1/keys/current")
    assert int(used.headers["x-ratelimit-limit"]) - int(used.headers["x-ratelimit-remaining"]) == 101
    for _ in range(20):
        org.client.get("/v1/keys/current")
    organizations.update_organization(org.db, org.id, requests_per_minute=110)
    assert org.client.get("/v1/keys/current").status_code == 429
    organizations.update_organization(org.db, org.id, requests_per_minute=10_000)
    assert org.client.get("/v1/keys/current").status_code == 200
    for key in api_keys.list_keys(org.db, org.id):
        assert api_keys.revoke_key(org.db, org.id, key.id)
    assert_error(org.client.get("/v1/keys/current"), 401, "UNAUTHORIZED")


@pytest.mark.parametrize("minutes", [60, -60])
def test_a_window_from_before_the_clock_went_back_is_over(organization, minutes):
    # PostgreSQL's clock was an hour ahead: the full minute lasted an hour after the correction.
    org = organization(requests_per_minute=LIMIT)
    wait_for_fresh_minute()
    org.db.rows(
        "insert into rate_windows (caller, minute, requests)"
        " values (%(id)s, floor(extract(epoch from now()) / 60)::bigint + %(minutes)s, %(limit)s)",
        {"id": org.id, "minutes": minutes, "limit": LIMIT},
    )
    answers = [org.client.get("/v1/namespaces") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == [
        str(LIMIT - count) for count in (1, 2, 3)
    ]
    assert all(0 <= int(answer.headers["x-ratelimit-reset"]) - time.time() <= 60 for answer in answers)
