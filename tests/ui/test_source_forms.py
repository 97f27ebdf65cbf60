"""Forms of sources without an app: the fields of each, and a connection that is ingested."""

from __future__ import annotations

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
    (source,) = [choice for choice in view.selectbox if choice.label == "Source"]
    source.select(connector).run()
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
