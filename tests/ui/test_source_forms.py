"""Forms of sources without an app: the fields of each, and a connection that is ingested."""

from __future__ import annotations

import hashlib
import hmac
import re

import pytest

from tests.ui.conftest import visible_content
from tests.ui.test_actions import click


@pytest.mark.parametrize(
    ("connector", "config", "shown"),
    [
        ("FEED", {"url": "https://93.184.215.14/feed.xml"}, set()),
        (
            "SQL",
            {"url": "postgresql://93.184.215.14/handbook", "query": "SELECT * FROM articles", "key": "id"},
            {"query", "key", "changed", "title", "text"},
        ),
        ("CLICKUP", {"url": "https://app.clickup.com/9012345678"}, set()),
    ],
)
def test_a_feed_rows_and_boards_are_connected_by_the_fields_of_their_form(app, org, connector, config, shown):
    space = org.namespace()
    view = app(org.api_key, "connections", namespace=space)
    view.pills(key="storage-source").select(connector).run()
    fields = {str(field.key): field for field in (*view.text_input, *view.text_area)}
    own_names = {
        name for name in ("query", "key", "changed", "title", "text") if f"storage-{connector}-{name}" in fields
    }
    assert own_names == shown
    for name, value in config.items():
        fields[f"storage-url-{connector}" if name == "url" else f"storage-{connector}-{name}"].set_value(value)
    for name in ("user", "token", "password"):
        if field := fields.get(f"storage-{connector}-{name}"):
            assert (field.proto.type == field.proto.PASSWORD) == (name != "user")
            field.set_value("canary-secret")
    click(view, "Connect source")
    assert not view.error, visible_content(view)
    (connection,) = org.client.get("/v1/connections", params={"namespaceId": space}).json()["data"]["connections"]
    assert (connection["connector"], connection["status"]) == (connector, "ACTIVE")
    assert connection["config"]["url"] == config["url"]
    view.run()
    click(view, "Ingest now")
    assert not view.error, visible_content(view)
    (job,) = org.db.rows(
        "select j.source from jobs j join partitions p on p.id = j.partition_id where p.namespace_id = %(space)s",
        {"space": space},
    )
    assert job["source"] == connector


def test_push_is_turned_on_observed_and_turned_off_at_its_connection(app, org):
    space = org.namespace()
    body = {"namespaceId": space, "name": "Handbook", "connector": "GITHUB"}
    config = {"url": "https://github.com/octo-org/handbook", "credentials": {"token": "canary-token"}}
    answer = org.client.post("/v1/connections", json={**body, "config": config}).json()["data"]
    connection = answer["connection"]["id"]
    view = click(app(org.api_key, "connections", namespace=space), "Push and details")
    assert "Off: changes are found by the sync schedule" in visible_content(view)
    click(view, "Turn push on")
    assert not view.error, visible_content(view)
    codes = [code.value for code in view.code]
    push = org.client.get(f"/v1/connections/{connection}", params={"namespaceId": space}).json()["data"]["push"]
    assert codes[0] == push["url"]
    secret = codes[1]
    assert "Last event: never" in visible_content(view)
    view.run()
    assert secret not in [code.value for code in view.code], "the secret is shown once"
    address = push["url"].partition("/v1/")[2]
    for _ in range(2):
        assert org.client.post(f"/v1/{address}", content=b"{}").status_code == 401
    view.run()
    assert "2 refused" in view.error[0].value
    signature = hmac.new(secret.encode(), b"{}", hashlib.sha256).hexdigest()
    headers = {"X-GitHub-Event": "issues", "X-Hub-Signature-256": f"sha256={signature}"}
    assert org.client.post(f"/v1/{address}", content=b"{}", headers=headers).status_code == 200
    view.run()
    assert not view.error
    assert "1 event in all" in visible_content(view)
    (row,) = app(org.api_key, "sources", namespace=space).dataframe[0].value.to_dict("records")
    assert re.fullmatch(r"\d+ s ago, 2 refused", row["Last push"])
    click(view, "Turn push off")
    assert "Push is off" in visible_content(view)
    assert org.client.post(f"/v1/{address}", content=b"{}", headers=headers).status_code == 404
