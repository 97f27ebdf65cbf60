"""Quotas of organizations and tenants: settings, enforcement under concurrency, errors and usage."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from retrieval.accounts import quotas
from tests.api.support import assert_error

NO_QUOTAS = {"documents": None, "storedBytes": None, "tokensPerMonth": None, "concurrentRuns": None}


def set_quotas(org, path="organization", **limits):
    answer = org.client.patch(f"/v1/{path}", json={"quotas": limits})
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    return (data.get("organization") or data["tenant"])["quotas"]


def post(org, space, name, text="A text.", tenant=None, **headers):
    return org.client.post(
        "/v1/ingest/text",
        json={"namespaceId": space, "ingestConfig": {"source": "TEXT", "config": {"text": text, "name": name}}},
        headers={**({"X-Tenant-ID": tenant} if tenant else {}), **headers},
    )


def assert_exceeded(answer, quota, used, limit):
    details = assert_error(answer, 403, "QUOTA_EXCEEDED")["error"]["details"]
    assert details == {"reason": "quota_exceeded", "quota": quota, "used": used, "limit": limit}


def delete(org, space, *names):
    filters = {"documentExternalIds": list(names)}
    answer = org.client.request("DELETE", "/v1/documents", json={"namespaceId": space, "filterConfig": filters})
    assert answer.status_code == 200, answer.text


def test_a_quota_is_set_shown_and_removed(org):
    assert org.client.get("/v1/organization").json()["data"]["organization"]["quotas"] == NO_QUOTAS
    assert set_quotas(org, documents=5, concurrentRuns=2) == {**NO_QUOTAS, "documents": 5, "concurrentRuns": 2}
    assert set_quotas(org, documents=None, storedBytes=7) == {**NO_QUOTAS, "concurrentRuns": 2, "storedBytes": 7}
    organization = org.client.get("/v1/organization").json()["data"]["organization"]
    assert (organization["id"], organization["quotas"]) == (
        org.id,
        {**NO_QUOTAS, "concurrentRuns": 2, "storedBytes": 7},
    )
    missing = org.client.patch("/v1/tenants/nobody", json={"quotas": {"documents": 1}})
    assert_error(missing, 404, "NOT_FOUND")


def test_of_32_at_once_just_as_many_as_may_are_taken(org, api_db):
    space = org.namespace()
    for number in range(3):
        assert post(org, space, f"before {number}").status_code == 200
    set_quotas(org, documents=10)
    with ThreadPoolExecutor(32) as threads:
        answers = list(threads.map(lambda number: post(org, space, f"n{number}"), range(32)))
    accepted = [answer for answer in answers if answer.status_code == 200]
    assert len(accepted) == 7
    for answer in answers:
        if answer.status_code != 200:
            assert_exceeded(answer, "documents", 10, 10)
    counts = api_db.row(
        "select (select count(*) from jobs where organization_id = %(org)s) as jobs, (select count(*) from documents d"
        " join jobs j on j.id = d.job_id where j.organization_id = %(org)s) as documents",
        {"org": org.id},
    )
    assert counts == {"jobs": 10, "documents": 10}, "what was refused left nothing"
    usage = org.client.get("/v1/usage", params={"by": "day"}).json()["data"]
    assert (usage["used"]["documents"], usage["limit"]["documents"]) == (10, 10)


def test_what_replaces_or_was_deleted_takes_no_room(org):
    space = org.namespace()
    set_quotas(org, documents=2)
    assert [post(org, space, name).status_code for name in "aba"] == [200, 200, 200]
    assert_exceeded(post(org, space, "c"), "documents", 2, 2)
    delete(org, space, "a")
    assert post(org, space, "c").status_code == 200
    set_quotas(org, documents=1)
    assert post(org, space, "b").status_code == 200, "a lower limit takes nothing away"
    assert_exceeded(post(org, space, "d"), "documents", 2, 1)
    set_quotas(org, documents=None)
    assert post(org, space, "d").status_code == 200


def test_bytes_are_those_that_were_sent(org):
    space = org.namespace()
    set_quotas(org, storedBytes=1000)
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda number: post(org, space, f"n{number}", "x" * 300), range(16)))
    assert sorted(answer.status_code for answer in answers) == [200] * 3 + [403] * 13
    assert_exceeded(post(org, space, "more", "x" * 101), "storedBytes", 900, 1000)
    file = {"file": ("a.txt", b"y" * 101, "text/plain")}
    assert_exceeded(
        org.client.post("/v1/ingest/file", data={"namespaceId": space}, files=file), "storedBytes", 900, 1000
    )
    assert post(org, space, "more", "x" * 100).status_code == 200


def test_unfinished_runs_are_limited(org, api_db):
    space = org.namespace(webScraperConfig={"provider": "BUILTIN"})
    set_quotas(org, concurrentRuns=2)
    assert [post(org, space, name).status_code for name in "ab"] == [200, 200]
    urls = {"source": "URLS_LIST", "config": {"urls": ["https://example.com"]}}
    assert_exceeded(
        org.client.post("/v1/ingest/urls", json={"namespaceId": space, "ingestConfig": urls}), "concurrentRuns", 2, 2
    )
    api_db.rows(
        "update job_runs r set finished_at = now(), status = 'COMPLETED' from jobs j"
        " where j.id = r.job_id and j.organization_id = %(org)s",
        {"org": org.id},
    )
    assert post(org, space, "c").status_code == 200


def test_tokens_of_the_month_are_limited(org, api_db):
    space = org.namespace()
    set_quotas(org, tokensPerMonth=100)
    spend(api_db, org, space, "current_date - 62", 500)
    spend(api_db, org, space, "(now() at time zone 'utc')::date", 99)
    assert post(org, space, "a").status_code == 200
    spend(api_db, org, space, "(now() at time zone 'utc')::date", 1, model="other")
    assert_exceeded(post(org, space, "b"), "tokensPerMonth", 100, 100)
    assert_exceeded(post(org, space, "a", text="Another."), "tokensPerMonth", 100, 100)
    for path, body in (("keys", {"name": "more"}), ("tenants", {"id": "more"})):  # nothing of these is embedded
        accepted = org.client.post(f"/v1/{path}", json=body)
        assert accepted.status_code == 200, accepted.text


def spend(db, org, space, day, tokens, *, model="small", tenant=""):
    db.rows(
        "insert into token_usage (organization_id, day, namespace_id, tenant, provider, model, tokens)"
        f" values (%(org)s, {day}, %(space)s, %(tenant)s, 'OPENAI', %(model)s, %(tokens)s)",
        {"org": org.id, "space": space, "tokens": tokens, "model": model, "tenant": tenant},
    )


def test_a_tenants_quota_is_its_own(org, organization):
    space = org.namespace()
    for name in ("alice", "bob"):
        org.client.post("/v1/tenants", json={"id": name})
    assert set_quotas(org, "tenants/alice", documents=1) == {**NO_QUOTAS, "documents": 1}
    listed_tenants = org.client.get("/v1/tenants").json()["data"]["tenants"]
    assert [tenant["quotas"]["documents"] for tenant in listed_tenants] == [1, None]
    assert [post(org, space, name, tenant="bob").status_code for name in "ab"] == [200, 200]
    assert post(org, space, "a", tenant="alice").status_code == 200
    refused = post(org, space, "b", tenant="alice")
    assert_exceeded(refused, "documents", 1, 1)
    assert "tenant" in refused.json()["message"]
    stranger = organization()
    assert post(stranger, stranger.namespace(), "b", tenant="alice").status_code == 200


def test_counting_anew_while_others_write_stays_exact(org, api_db):
    space = org.namespace()
    set_quotas(org, documents=40)
    with ThreadPoolExecutor(9) as threads:
        counting = threads.submit(lambda: [quotas.recount_organization(api_db, org.id) for _ in range(30)])
        answers = list(threads.map(lambda number: post(org, space, f"n{number}").status_code, range(60)))
        counting.result()
    assert sorted(answers) == [200] * 40 + [403] * 20
    delete(org, space, *(f"n{number}" for number in range(60) if answers[number] == 200))
    assert post(org, space, "after").status_code == 200


def test_usage_by_day_namespace_and_tenant(org, api_db):
    first_space, two = org.namespace(), org.namespace()
    post(org, first_space, "a", "x" * 10)
    post(org, first_space, "b", "x" * 10, tenant="alice")
    post(org, two, "c", "x" * 30)
    set_quotas(org, "tenants/alice", documents=9)
    for space, tenant, tokens, day in (
        (first_space, "", 1000, "'2026-10-05'"),
        (first_space, "alice", 2000, "'2026-10-05'"),
        (two, "", 4000, "'2026-10-06'"),
        (two, "", 8000, "'2026-09-30'"),
    ):
        spend(api_db, org, space, day, tokens, tenant=tenant)

    def usage(**query):
        answer = org.client.get("/v1/usage", params={"from": "2026-10-01", "to": "2026-10-31", **query})
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    days = usage(by="day")["usage"]
    assert [(day["day"], day["tokens"], day["documents"]) for day in days] == [
        ("2026-10-05", 3000, 0),
        ("2026-10-06", 4000, 0),
    ]
    assert days[0]["models"] == [{"provider": "OPENAI", "model": "small", "tokens": 3000, "cost": None}]
    assert days[0]["cost"] is None
    spaces = {group["namespaceId"]: group for group in usage(by="namespace")["usage"]}
    assert [(spaces[space]["tokens"], spaces[space]["storedBytes"]) for space in (first_space, two)] == [
        (3000, 20),
        (4000, 30),
    ]
    tenants = {group["tenantId"]: group for group in usage(by="tenant")["usage"]}
    assert [(tenants[name]["tokens"], tenants[name]["documents"]) for name in (None, "alice")] == [(5000, 2), (2000, 1)]
    assert "limit" not in tenants[None]
    assert (tenants["alice"]["used"]["documents"], tenants["alice"]["limit"]["documents"]) == (1, 9)
    today = datetime.now(UTC).date().isoformat()
    last = org.client.get("/v1/usage", params={"from": "9999-12-31", "to": "9999-12-31"})
    assert (last.status_code, last.json()["data"]["usage"]) == (200, [])
    [usage_today] = usage(**{"from": today, "to": today})["usage"]
    assert (usage_today["day"], usage_today["documents"], usage_today["storedBytes"]) == (today, 3, 50)
    for wrong in ({"by": "hour"}, {"from": "2026-11-01"}, {"from": "2020-01-01"}, {"from": "yesterday"}):
        answer = org.client.get("/v1/usage", params={"to": "2026-10-31", **wrong})
        assert_error(answer, 400, "INVALID_REQUEST")
