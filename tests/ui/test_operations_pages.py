"""The pages of operations: the queue, schedules, webhooks, usage and audit, and what is done there."""

from __future__ import annotations

import pytest

from retrieval import ids
from retrieval.job_config import JobConfig
from retrieval.ports import Scope
from retrieval.webhooks import queries
from tests.library import Library
from tests.ui.conftest import shown
from tests.ui.test_actions import click, typed

PAGES = ("queue", "schedules", "webhooks", "usage", "audit")


@pytest.mark.parametrize("page", PAGES)
def test_an_empty_page_says_what_to_do_next(app, org, page):
    org.namespace()
    seen = app(org.api_key, page)
    assert not seen.exception
    assert not seen.error, [error.value for error in seen.error]
    assert seen.info or page == "audit", shown(seen)


def test_the_queue_says_what_waits_and_why(app, org):
    namespace = org.namespace()
    org.text(namespace, "waits for a worker", name="waiting")
    seen = app(org.api_key, "queue")
    assert not seen.exception
    numbers = {metric.label: metric.value for metric in seen.metric}
    assert (numbers["Queued"], numbers["Workers online"]) == ("1", "0")
    assert "No worker is online" in shown(seen)


def test_a_schedule_shows_its_next_run(app, org):
    namespace = org.namespace(googleDriveConfig={"clientId": "1.apps", "clientSecret": "s", "apiKey": "k"})
    library = Library(org.db, Scope(org.id, namespace, ""), None)
    org.db.rows(
        "with made as (insert into connections (id, partition_id, name, connector, status)"
        " values (%(id)s, %(partition)s, 'Team drive', 'GOOGLE_DRIVE', 'ACTIVE') returning id, connector)"
        " insert into schedules (id, partition_id, job_id, source, config, minutes)"
        " select 'sch_1', %(partition)s, 'job_1', connector, jsonb_build_object('connectionId', id), 60 from made",
        {"id": ids.connection_id(), "partition": library.partition},
    )
    seen = app(org.api_key, "schedules", namespace=namespace)
    assert not seen.exception
    (row,) = seen.dataframe[0].value.to_dict("records")
    assert (row["Name"], row["Sync schedule"]) == ("Team drive", "Every hour")
    assert row["Due"].startswith("in ")


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
    seen = app(org.api_key, "connections", namespace=namespace)
    assert not seen.exception
    assert "Scheduled: 0 6" in shown(seen)
    assert shown(seen).lower().count("next run in ") == 1
    assert "Only when asked for" not in [box.value for box in seen.selectbox]


def test_a_website_is_repeated_paused_and_let_go(app, org):
    namespace = org.namespace(webScraperConfig={"provider": "BUILTIN"})
    body = {"source": "WEBSITE", "config": {"url": "https://docs.example.com/"}}
    org.client.post("/v1/ingest/website", json={"namespaceId": namespace, "ingestConfig": body})
    seen = app(org.api_key, "schedules", namespace=namespace)
    typed(seen, "Or by a cron expression", "0 6 * * MON-FRI")
    typed(seen, "Time zone of the cron expression", "Europe/Berlin")
    click(seen, "Add schedule")
    assert not seen.exception
    (row,) = seen.dataframe[0].value.to_dict("records")
    assert row["Name"] == "https://docs.example.com/"
    assert (row["Sync schedule"], row["Last run"]) == ("0 6 * * MON-FRI (Europe/Berlin)", "none yet")
    click(seen, "Pause")
    assert seen.dataframe[0].value.to_dict("records")[0]["Due"] == "paused"
    click(seen, "Continue")
    assert seen.dataframe[0].value.to_dict("records")[0]["Due"].startswith("in ")
    click(seen, "Delete")
    assert not seen.dataframe
    assert not seen.error, [error.value for error in seen.error]


def test_a_webhook_is_added_rotated_and_tested(app, org):
    seen = app(org.api_key, "webhooks")
    typed(seen, "URL", "https://93.184.216.34/hook")
    click(seen, "Add webhook")
    assert not seen.exception
    assert not seen.error, [error.value for error in seen.error]
    first = next(code.value for code in seen.code if code.value.startswith("whsec_"))
    (hook,) = org.client.get("/v1/webhooks").json()["data"]["webhooks"]
    assert hook["events"] == ["*"]
    click(seen, "Rotate secret")
    second = next(code.value for code in seen.code if code.value.startswith("whsec_"))
    assert second != first
    click(seen, "Send a test")
    sent = org.client.get(f"/v1/webhooks/{hook['id']}/deliveries").json()["data"]["deliveries"]
    assert [one["type"] for one in sent] == ["WEBHOOK_TEST"]
    seen.run()
    assert "WEBHOOK_TEST" in shown(seen)
    assert first not in shown(seen)
    assert second not in shown(seen)


def test_a_webhook_that_never_delivered_is_not_shown_as_healthy(app, org):
    hook = org.client.post("/v1/webhooks", json={"url": "https://93.184.216.34/hook", "events": ["*"]}).json()["data"]
    seen = app(org.api_key, "webhooks")
    assert ":gray-badge[:material/help: No outcome yet]" in shown(seen)
    assert "Active" not in shown(seen)
    failure = {"webhook": hook["webhook"]["id"], "gone": False, "failed": False, "reason": "The endpoint answered 500."}
    queries.mark_failing(org.db, failure)
    for seen in (app(org.api_key, "webhooks"), app(org.api_key, "webhooks", webhook=hook["webhook"]["id"])):
        assert ":red-badge[:material/error: Failing]" in shown(seen)
        assert "1 failure in a row" in shown(seen)
        assert "last success never" in shown(seen)
        assert [error.value for error in seen.error] == ["The endpoint answered 500\\."]


def test_what_a_click_sends_again_is_the_delivery_that_stood_there(app, org):
    """Deliveries come in above it while the page is looked at."""
    made = org.client.post("/v1/webhooks", json={"url": "https://93.184.216.34/hook", "events": ["*"]}).json()["data"]
    hook = made["webhook"]["id"]
    path = f"/v1/webhooks/{hook}"
    assert org.client.post(f"{path}/test", json={}).status_code == 200
    seen = app(org.api_key, "webhooks", webhook=hook)
    (first,) = org.client.get(f"{path}/deliveries").json()["data"]["deliveries"]
    assert "Waiting" in {option for box in seen.selectbox for option in box.options}
    assert "TO_SEND" in shown(seen)
    assert org.client.post(f"{path}/test", json={}).status_code == 200
    cells = [(0, "Event")]
    seen.session_state[f"deliveries_{hook}_0"] = {"selection": {"rows": [], "columns": [], "cells": cells}}
    for _ in range(2):
        seen.run()
        assert f"`{first['id']}`" in shown(seen)


def test_usage_is_told_by_day_with_its_cost(app, org):
    namespace = org.namespace()
    org.db.rows(
        "insert into token_usage (organization_id, day, namespace_id, tenant, provider, model, tokens) values"
        " (%(org)s, (now() at time zone 'utc')::date, %(space)s, '', 'OPENAI', 'text-embedding-3-small', 2000000)",
        {"org": org.id, "space": namespace},
    )
    seen = app(org.api_key, "usage")
    assert not seen.exception
    numbers = {metric.label: metric.value for metric in seen.metric}
    assert numbers["Tokens embedded"] == "2,000,000"
    seen.selectbox(key="usage_by").set_value("namespace").run()
    assert namespace in shown(seen)
    assert seen.query_params["by"] in ("namespace", ["namespace"])


def test_the_audit_log_is_narrowed_by_its_filters(app, org):
    assert org.client.post("/v1/tenants", json={"id": "carol"}).status_code == 200
    assert org.client.delete("/v1/tenants/nobody").status_code == 404
    seen = app(org.api_key, "audit")
    assert len(seen.dataframe[0].value) == 2
    seen.selectbox(key="audit_outcome").set_value("REFUSED").run()
    (row,) = seen.dataframe[0].value.to_dict("records")
    assert (row["What"], row["Outcome"]) == ("Tried to delete a tenant: nobody", "Refused (404)")
    seen.text_input(key="audit_object").set_value("carol").run()
    assert "No entries." in shown(seen)
    click(seen, "Clear filters")
    assert len(seen.dataframe[0].value) == 2


def test_the_audit_log_tells_in_sentences_what_was_done_to_which_object(app, org):
    made = org.client.post("/v1/keys", json={"name": "Website search", "scopes": ["search"]}).json()["data"]["key"]
    assert org.client.delete(f"/v1/keys/{made['id']}").status_code == 200
    seen = app(org.api_key, "audit")
    assert not seen.exception
    sentences = seen.dataframe[0].value["What"].tolist()
    assert sentences[:2] == ["Revoked an API key: Website search", "Created an API key: Website search"]


def test_a_key_is_shown_to_be_copied_until_it_is_revoked(app, org):
    seen = app(org.api_key, "keys", tab="API keys")
    next(field for field in seen.text_input if field.label == "Name").set_value("Short-lived")
    click(seen, "Create API key")
    assert "Copy the key now" in shown(seen)
    key_id = next(
        key["id"] for key in org.client.get("/v1/keys").json()["data"]["keys"] if key["name"] == "Short-lived"
    )
    assert org.client.delete(f"/v1/keys/{key_id}").status_code == 200
    seen.run()
    assert not seen.exception
    assert "Copy the key now" not in shown(seen)
    assert not seen.code
