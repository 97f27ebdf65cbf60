"""Operations pages: queue, schedules, webhooks, usage and audit."""

from __future__ import annotations

import pytest

from retrieval import ids
from retrieval.connections import schedules
from retrieval.job_config import JobConfig
from retrieval.ports import Scope
from tests.library import Library
from tests.ui.conftest import visible_content
from tests.ui.test_actions import click, typed
from tests.ui.test_pages import pictures

OPERATIONS_PAGES = ("sources", "queue", "schedules", "webhooks", "usage", "audit")


@pytest.mark.parametrize("page", OPERATIONS_PAGES)
def test_an_empty_page_says_what_to_do_next(app, org, page):
    org.namespace()
    view = app(org.api_key, page)
    assert not view.exception
    assert not view.error, [error.value for error in view.error]
    assert view.info or page == "audit", visible_content(view)


def test_the_queue_says_what_waits_and_why(app, org):
    namespace = org.namespace()
    org.text(namespace, "waits for a worker", name="waiting")
    view = app(org.api_key, "queue")
    assert not view.exception
    numbers = {metric.label: metric.value for metric in view.metric}
    assert (numbers["Queued"], numbers["Workers online"]) == ("1", "0")
    (strip,) = [html.value for html in view.get("html") if "strip" in html.value]
    # A slow machine is past the first minute, which has a reason of its own.
    assert "No worker and no dispatcher is connected." in strip or "A job run has waited for" in strip
    assert "Nothing is stuck" not in visible_content(view)


def test_a_connection_shows_the_next_run_of_its_schedules(app, org):
    namespace = org.namespace(googleDriveConfig={"clientId": "1.apps", "clientSecret": "s", "apiKey": "k"})
    partition, connection = Library(org.db, Scope(org.id, namespace, ""), None).partition, ids.connection_id()
    org.db.rows(
        "insert into connections (id, partition_id, name, connector, status)"
        " values (%(id)s, %(partition)s, 'Team drive', 'GOOGLE_DRIVE', 'ACTIVE')",
        {"id": connection, "partition": partition},
    )
    org.db.rows(
        "insert into schedules (id, partition_id, job_id, source, config, cron, time_zone)"
        " values (%(id)s, %(partition)s, 'job_1', 'GOOGLE_DRIVE', %(config)s, '0 6 * * *', 'UTC')",
        {
            "id": ids.schedule_id(),
            "partition": partition,
            "config": JobConfig(request={}, connection_id=connection, scheduled=True).dump(),
        },
    )
    view = app(org.api_key, "connections", namespace=namespace)
    assert not view.exception
    assert "Scheduled: 0 6" in visible_content(view)
    assert visible_content(view).lower().count("next run in ") == 1
    assert "Only on request" not in [box.value for box in view.selectbox]


def test_a_website_is_repeated_paused_and_let_go(app, org):
    namespace = org.namespace(webScraperConfig={"provider": "BUILTIN"})
    body = {"source": "WEBSITE", "config": {"url": "https://docs.example.com/"}}
    org.client.post("/v1/ingest/website", json={"namespaceId": namespace, "ingestConfig": body})
    view = app(org.api_key, "schedules", namespace=namespace)
    typed(view, "Or by a cron expression", "0 6 * * MON-FRI")
    typed(view, "Time zone of the cron expression", "Europe/Berlin")
    click(view, "Add schedule")
    assert not view.exception
    content = visible_content(view).replace("\\", "")
    assert "**https://docs.example.com/** · Website" in content
    assert "0 6 * * MON-FRI (Europe/Berlin) · next run in " in content
    assert "no run by it yet" in content
    click(view, "Pause")
    assert "next run paused" in visible_content(view)
    click(view, "Continue")
    assert "next run in " in visible_content(view)
    click(view, "Delete")
    assert "Nothing is scheduled" in visible_content(view)
    assert not view.error, [error.value for error in view.error]


def test_a_webhook_is_added_rotated_and_tested(app, org):
    view = app(org.api_key, "webhooks")
    typed(view, "URL", "https://93.184.216.34/hook")
    click(view, "Add webhook")
    assert not view.exception
    assert not view.error, [error.value for error in view.error]
    first = next(code.value for code in view.code if code.value.startswith("whsec_"))
    (hook,) = org.client.get("/v1/webhooks").json()["data"]["webhooks"]
    assert hook["events"] == ["*"]
    click(view, "Rotate secret")
    second = next(code.value for code in view.code if code.value.startswith("whsec_"))
    assert second != first
    click(view, "Send a test")
    deliveries = org.client.get(f"/v1/webhooks/{hook['id']}/deliveries").json()["data"]["deliveries"]
    assert [delivery["type"] for delivery in deliveries] == ["WEBHOOK_TEST"]
    view.run()
    assert "WEBHOOK_TEST" in visible_content(view)
    assert first not in visible_content(view)
    assert second not in visible_content(view)


def test_usage_is_told_by_day_with_its_cost(app, org):
    namespace = org.namespace()
    org.db.rows(
        "insert into token_usage (organization_id, day, namespace_id, tenant, provider, model, tokens) values"
        " (%(org)s, (now() at time zone 'utc')::date, %(space)s, '', 'OPENAI', 'text-embedding-3-small', 2000000)",
        {"org": org.id, "space": namespace},
    )
    view = app(org.api_key, "usage")
    assert not view.exception
    numbers = {metric.label: metric.value for metric in view.metric}
    assert numbers["Tokens embedded"] == "2,000,000"
    view.selectbox(key="usage_by").set_value("namespace").run()
    name = org.client.get(f"/v1/namespaces/{namespace}").json()["data"]["namespace"]["name"]
    assert list(view.dataframe[0].value["Namespace"]) == [name]
    assert view.query_params["by"] in ("namespace", ["namespace"])


def test_usage_by_day_is_stacked_by_namespace_with_the_line_of_the_budget(app, org):
    namespaces = [org.namespace(), org.namespace()]
    insert = (
        "insert into token_usage (organization_id, day, namespace_id, tenant, provider, model, tokens) select %(org)s,"
        " (now() at time zone 'utc')::date - day, space, '', 'OPENAI', 'text-embedding-3-small', 1000"
        " from generate_series(0, %(days)s) day, unnest(%(spaces)s::text[]) space"
    )
    org.db.rows(insert, {"org": org.id, "days": 0, "spaces": namespaces})
    assert pictures(app(org.api_key, "usage", period="Last 7 days")) == 0, "one day is no chart"
    org.db.rows("delete from token_usage where organization_id = %(org)s", {"org": org.id})
    org.db.rows(insert, {"org": org.id, "days": 3, "spaces": namespaces})
    quota = org.client.patch("/v1/organization", json={"quotas": {"tokensPerMonth": 60_000}})
    assert quota.status_code == 200, quota.text
    view = app(org.api_key, "usage", period="Last 7 days")
    assert not view.exception
    assert pictures(view) == 1
    assert "a day's share of the month's 60,000 tokens" in visible_content(view)
    answer = org.client.get("/v1/usage", params={"daily": "true"}).json()["data"]
    assert {entry["namespaceId"] for entry in answer["daily"]} == set(namespaces)


def test_the_audit_log_is_narrowed_by_its_filters(app, org):
    assert org.client.post("/v1/tenants", json={"id": "carol"}).status_code == 200
    assert org.client.delete("/v1/tenants/nobody").status_code == 404
    view = app(org.api_key, "audit")
    assert len(view.dataframe[0].value) == 2
    view.selectbox(key="audit_outcome").set_value("REFUSED").run()
    (row,) = view.dataframe[0].value.to_dict("records")
    assert (row["What"], row["Outcome"]) == ("Tried to delete a tenant: nobody", "Refused (404)")
    view.text_input(key="audit_object").set_value("carol").run()
    assert "No entries." in visible_content(view)
    click(view, "Clear filters")
    assert len(view.dataframe[0].value) == 2


def test_namespaces_and_webhooks_are_shown_by_their_names(app, org):
    namespace = org.namespace(name="Contracts")
    body = {"url": "https://93.184.216.34/hook", "events": ["*"], "namespaceId": namespace}
    hook = org.client.post("/v1/webhooks", json=body).json()["data"]["webhook"]
    org.text(namespace, "waits", name="waiting")
    org.db.rows(
        "insert into batches (id, partition_id, source, dispatched_at) select %(batch)s, partition_id, source, now()"
        " from job_runs where partition_id in (select id from partitions where namespace_id = %(space)s)",
        {"batch": ids.batch_id(), "space": namespace},
    )
    org.db.rows(
        "update job_runs r set batch_id = b.id from batches b join partitions p on p.id = b.partition_id"
        " where r.partition_id = p.id and p.namespace_id = %(space)s",
        {"space": namespace},
    )
    view = app(org.api_key, "queue")
    assert list(view.dataframe[0].value["Namespace"]) == ["Contracts"]
    assert "namespace Contracts" in visible_content(app(org.api_key, "webhooks"))
    (row,) = app(org.api_key, "audit", type="webhook").dataframe[0].value.to_dict("records")
    assert row["What"] == "Created a webhook: https://93.184.216.34/hook"
    assert hook["id"] not in str(row)


def test_a_key_is_shown_to_be_copied_until_it_is_revoked(app, org):
    view = app(org.api_key, "keys", tab="API keys")
    next(field for field in view.text_input if field.label == "Name").set_value("Short-lived")
    click(view, "Create API key")
    assert "Copy the key now" in visible_content(view)
    key_id = next(
        key["id"] for key in org.client.get("/v1/keys").json()["data"]["keys"] if key["name"] == "Short-lived"
    )
    assert org.client.delete(f"/v1/keys/{key_id}").status_code == 200
    view.run()
    assert not view.exception
    assert "Copy the key now" not in visible_content(view)
    assert not view.code


def test_sources_are_shown_with_their_outcomes_the_failing_ones_first(app, org):
    namespace = org.namespace(webScraperConfig={"provider": "BUILTIN"})
    library = Library(org.db, Scope(org.id, namespace, ""), None)
    library.put(["A seal."], name="notes")
    page = "https://docs.example.com/a"
    library.put(["An owl."], name=page, external_id=page, source="WEBSITE", document_type="URL")
    org.db.rows(
        "insert into connections (id, partition_id, name, connector, status, status_reason)"
        " values (%(id)s, %(partition)s, 'Team box', 'BOX', 'ACTIVE', 'Box does not accept the app.')",
        {"id": ids.connection_id(), "partition": library.partition},
    )
    config = {"source": "WEBSITE", "config": {"url": "https://docs.example.com/"}}
    run = org.client.post("/v1/ingest/website", json={"namespaceId": namespace, "ingestConfig": config}).json()["data"]
    repeat = {"namespaceId": namespace, "ingestJobRunId": run["ingestJobRunId"], "intervalMinutes": 60}
    schedule = org.client.post("/v1/schedules", json=repeat).json()["data"]["schedule"]
    partial_run = {"run": schedules.repeat_ingestion(org.db, schedule["id"]).job_run_id}
    org.db.rows(
        "update job_runs set status = 'COMPLETED', finished_at = now(), to_discover = false where id = %(run)s",
        partial_run,
    )
    for position, status in enumerate(("SUCCESS", "FAILED")):
        org.db.rows(
            "insert into run_documents (job_run_id, document_id, position, generation, status, name)"
            " values (%(run)s, %(document)s, %(position)s, 1, %(status)s, 'page')",
            {**partial_run, "document": ids.document_id(), "position": position, "status": status},
        )
    view = app(org.api_key, "sources", namespace=namespace)
    assert not view.exception
    rows = view.dataframe[0].value.to_dict("records")
    assert [(row["Name"], list(row["State"]), row["Documents"]) for row in rows] == [
        ("Team box", ["FAILING"], 0),
        ("https://docs.example.com/", ["COMPLETED_WITH_FAILURES"], 1),
        ("Text", [], 1),
    ]
    assert rows[1]["Next run"].startswith("in ")
    assert "Box does not accept the app" in view.error[0].value


def test_failed_events_of_a_webhook_are_counted_and_sent_again_together(app, org):
    hook = org.client.post("/v1/webhooks", json={"url": "https://93.184.216.34/hook", "events": ["*"]}).json()["data"]
    hook_id = hook["webhook"]["id"]
    for _ in range(4):
        org.client.post(f"/v1/webhooks/{hook_id}/test")
    org.db.rows(
        "update webhook_deliveries set next_attempt_at = null, status = case when sequence = 1 then 'DELIVERED'"
        " else 'FAILED' end where webhook_id = %(hook)s",
        {"hook": hook_id},
    )
    view = app(org.api_key, "webhooks", webhook=hook_id)
    assert "25% of 4 events delivered in 24 hours" in visible_content(view).replace("\\", "")
    click(view, "Send 3 failed events again")
    assert not view.exception
    deliveries = org.client.get(f"/v1/webhooks/{hook_id}/deliveries").json()["data"]["deliveries"]
    assert [delivery["status"] for delivery in deliveries].count("PENDING") == 3


def test_a_namespace_shows_the_tokens_of_its_days(app, org):
    spaces = [org.namespace(name="Busy"), org.namespace(name="Once"), org.namespace(name="Idle")]
    org.db.rows(
        "insert into token_usage (organization_id, day, namespace_id, tenant, provider, model, tokens) select %(org)s,"
        " (now() at time zone 'utc')::date - day, space, '', 'LOCAL', 'a', 100 * (day + 1)"
        " from (values (0, %(busy)s), (2, %(busy)s), (0, %(once)s)) days (day, space)",
        {"org": org.id, "busy": spaces[0], "once": spaces[1]},
    )
    view = app(org.api_key, "namespaces")
    assert not view.exception
    rows = {row["Name"]: row for row in view.dataframe[0].value.to_dict("records")}
    days = list(rows["Busy"]["Tokens, 30 days"])
    assert (len(days), days[-3:]) == (30, [300, 0, 100])
    assert rows["Once"]["Tokens, 30 days"] is None, "one day is no chart"
    reader = org.key(scopes=["namespaces:read", "documents:read"]).headers["Authorization"].removeprefix("Bearer ")
    assert "Tokens, 30 days" not in app(reader, "namespaces").dataframe[0].value
