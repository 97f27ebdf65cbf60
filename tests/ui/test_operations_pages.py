"""Operations pages: queue, schedules, webhooks, usage and audit."""

from __future__ import annotations

import pytest

from retrieval import ids
from retrieval.job_config import JobConfig
from retrieval.ports import Scope
from tests.library import Library
from tests.ui.conftest import visible_content
from tests.ui.test_actions import click, typed

OPERATIONS_PAGES = ("queue", "schedules", "webhooks", "usage", "audit")


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
    assert "No worker is online" in visible_content(view)


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
    assert "Only when asked for" not in [box.value for box in view.selectbox]


def test_a_website_is_repeated_paused_and_let_go(app, org):
    namespace = org.namespace(webScraperConfig={"provider": "BUILTIN"})
    body = {"source": "WEBSITE", "config": {"url": "https://docs.example.com/"}}
    org.client.post("/v1/ingest/website", json={"namespaceId": namespace, "ingestConfig": body})
    view = app(org.api_key, "schedules", namespace=namespace)
    typed(view, "Or by a cron expression", "0 6 * * MON-FRI")
    typed(view, "Time zone of the cron expression", "Europe/Berlin")
    click(view, "Add schedule")
    assert not view.exception
    (row,) = view.dataframe[0].value.to_dict("records")
    assert row["Name"] == "https://docs.example.com/"
    assert (row["Sync schedule"], row["Last run"]) == ("0 6 * * MON-FRI (Europe/Berlin)", "none yet")
    click(view, "Pause")
    assert view.dataframe[0].value.to_dict("records")[0]["Due"] == "paused"
    click(view, "Continue")
    assert view.dataframe[0].value.to_dict("records")[0]["Due"].startswith("in ")
    click(view, "Delete")
    assert not view.dataframe
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
    assert namespace in visible_content(view)
    assert view.query_params["by"] in ("namespace", ["namespace"])


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
