"""What people do in the admin app: it happens, and where the API refuses its code is shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from retrieval import ids
from retrieval.accounts import api_keys
from retrieval.accounts.queries import tenants
from retrieval.namespaces import namespaces
from retrieval.ports import Scope
from tests.library import Library
from tests.standins import docling_serve
from tests.ui.conftest import shown
from ui.client import Api, ApiError
from ui.parts import namespace_form


def click(app: AppTest, label: str) -> AppTest:
    """The first button of this label, wherever it stands."""
    return next(button for button in app.button if button.label == label).click().run()


def typed(app: AppTest, label: str, text: str) -> None:
    next(field for field in [*app.text_input, *app.text_area] if field.label == label).set_value(text)


def field(app: AppTest, name: str) -> Any:
    """The text field of the namespace form, whichever namespace it is of."""
    return next(one for one in app.text_input if str(one.key).endswith(f".{name}"))


def choose(app: AppTest, label: str, value: Any) -> None:
    next(box for box in app.selectbox if box.label == label).set_value(value)


@dataclasses.dataclass(frozen=True)
class Held:
    """A namespace with a Drive connection, of whose documents three wait for their removal and one does not."""

    namespace: str
    connection: str
    document: str
    run: str


@pytest.fixture
def held(org) -> Held:
    namespace = org.namespace(googleDriveConfig={"clientId": "1.apps", "clientSecret": "s", "apiKey": "k"})
    library = Library(org.db, Scope(org.id, namespace, ""), None)
    connection = ids.connection_id()
    org.db.rows(
        "insert into connections (id, partition_id, name, connector, status)"
        " values (%(id)s, %(partition)s, 'Team drive', 'GOOGLE_DRIVE', 'ACTIVE')",
        {"id": connection, "partition": library.partition},
    )
    given = {"source": "GOOGLE_DRIVE", "connection_id": connection}
    stays = library.put(["The contract stays."], name="stays.txt", **given)
    for number in range(3):
        gone = library.put([f"Gone {number}."], name=f"gone {number}.txt", **given)
        org.db.rows(
            "insert into departures (document_id, connection_id, job_run_id, held)"
            " values (%(document)s, %(connection)s, 'ijr_1', true)",
            {"document": gone, "connection": connection},
        )
    run = org.text(namespace, "one that waits", name="waits")["data"]["ingestJobRunId"]
    return Held(namespace, connection, stays, run)


def removal(app: AppTest, held: Held) -> None:
    click(app, "Remove for good")


def interval(app: AppTest, held: Held) -> None:
    app.selectbox(key=f"interval-{held.connection}-None").set_value(60).run()


def metadata(app: AppTest, held: Held) -> None:
    typed(app, "Metadata to set (JSON object; keys that are not named stay)", '{"team": "docs"}')
    click(app, "Set metadata")


def text(app: AppTest, held: Held) -> None:
    typed(app, "Text", "Seals sleep.")
    click(app, "Start")


def new_key(app: AppTest, held: Held) -> None:
    typed(app, "Name", "Website")
    click(app, "Create API key")


def new_tenant(app: AppTest, held: Held) -> None:
    typed(app, "New tenant", "carol")
    click(app, "Add tenant")


def forget(app: AppTest, held: Held) -> None:
    choose(app, "Remove tenant", "alice")
    app.run()
    click(app, "Remove alice")


def new_namespace(app: AppTest, held: Held) -> None:
    typed(app, "Name", "Second")
    click(app, "Test and save")


def gone_namespace(app: AppTest, held: Held) -> None:
    app.text_input(key="delete_name").set_value("space").run()
    app.button(key="delete_ns").click().run()


def connect(app: AppTest, held: Held) -> None:
    click(app, "Connect")


def change_namespace(app: AppTest, held: Held) -> None:
    field(app, "name").set_value("renamed")
    click(app, "Test and save")


def file(app: AppTest, held: Held) -> None:
    app.file_uploader[0].set_value([("notes.txt", b"Seals sleep.", "text/plain")])
    click(app, "Start")


def revocation(app: AppTest, held: Held) -> None:
    click(app, "Revoke")
    click(app, "Revoke for good")


Act = Callable[[AppTest, Held], Any]
CHANGE = {"document": "{document}", "tab": "Edit"}
ACTIONS: dict[str, tuple[str, dict[str, str], Act]] = {
    "confirm removals": ("connections", {}, removal),
    "change the interval": ("connections", {}, interval),
    "connect": ("connections", {}, connect),
    "authorize again": ("connections", {}, lambda app, held: click(app, "Reconnect")),
    "revoke a connection": ("connections", {}, revocation),
    "ingest now": ("connections", {}, lambda app, held: click(app, "Ingest now")),
    "add a text": ("add_content", {"source": "TEXT"}, text),
    "add a file": ("add_content", {}, file),
    "retry": ("runs", {"run": "{run}"}, lambda app, held: click(app, "Retry")),
    "cancel": ("runs", {"run": "{run}"}, lambda app, held: click(app, "Cancel this run")),
    "resync": ("documents", CHANGE, lambda app, held: click(app, "Index this document again")),
    "delete": ("documents", CHANGE, lambda app, held: click(app, "Delete for good")),
    "set metadata": ("documents", CHANGE, metadata),
    "make a key": ("keys", {"tab": "API keys"}, new_key),
    "revoke a key": ("keys", {"tab": "API keys"}, lambda app, held: click(app, "Revoke for good")),
    "make a tenant known": ("keys", {"tab": "Tenants"}, new_tenant),
    "forget a tenant": ("keys", {"tab": "Tenants"}, forget),
    "create a namespace": ("namespaces", {"new": "yes"}, new_namespace),
    "change a namespace": ("namespaces", {"open": "yes"}, change_namespace),
    "delete a namespace": ("namespaces", {"open": "yes"}, gone_namespace),
    "search": ("search", {}, lambda app, held: app.text_input[0].set_value("contract").run()),
}


def fails(org, held: Held) -> None:
    """The run has ended, and its document failed."""
    values = {"run": held.run}
    for table in ("run_documents", "documents"):
        org.db.rows(f"update {table} set status = 'FAILED', error = 'Broken.' where job_run_id = %(run)s", values)
    org.db.rows("update job_runs set status = 'COMPLETED', finished_at = now() where id = %(run)s", values)


def at(app, org, held: Held, name: str) -> AppTest:
    """The page of an action, before it."""
    if name == "retry":
        fails(org, held)
    page, parameters, _ = ACTIONS[name]
    placed = {key: value.format(**dataclasses.asdict(held)) for key, value in parameters.items()}
    return app(org.api_key, page, namespace=held.namespace, **placed)


@pytest.mark.parametrize("name", ACTIONS)
def test_a_refused_action_says_why_with_the_code(app, org, held, name, monkeypatch):
    tenants.create_tenant(org.db, org.id, "alice")
    seen = at(app, org, held, name)
    assert not seen.exception
    real, refused = Api._send, []

    def refuse(api: Api, method: str, path: str, **options: Any) -> Any:
        if method == "GET" or (path == "/v1/documents" and method == "POST"):
            return real(api, method, path, **options)
        refused.append(path)
        raise ApiError(503, "SERVICE_UNAVAILABLE", "The database is away. Try again.", field="some.field")

    with monkeypatch.context() as patch:
        patch.setattr(Api, "_send", refuse)
        ACTIONS[name][2](seen, held)
    assert refused
    assert not seen.exception
    assert "SERVICE_UNAVAILABLE" in shown(seen)
    assert "some.field" in shown(seen)


@pytest.mark.parametrize("fate", ["KEEP", "DELETE"])
def test_a_revocation_says_what_becomes_of_how_many_documents(app, org, held, fate):
    seen = app(org.api_key, "connections", namespace=held.namespace)
    click(seen, "Revoke")
    (asked,) = seen.radio
    assert asked.label == "4 documents that no other connection has"
    assert asked.value == "KEEP"
    asked.set_value(fate).run()
    click(seen, "Revoke for good")
    assert not seen.exception
    assert ":material/block: Revoked" in shown(seen)
    rows = org.db.rows(
        "select deleted_at from documents where name like '%%.txt' and partition_id = (select"
        " partition_id from connections where id = %(id)s)",
        {"id": held.connection},
    )
    assert [row["deleted_at"] is None for row in rows] == [fate == "KEEP"] * 4


def test_a_changed_namespace_is_what_was_typed(app, org, held):
    """A scraper that was taken away is gone, an app that was renamed keeps its secret, and nothing is said to be saved
    that was not."""
    org.client.patch(f"/v1/namespaces/{held.namespace}", json={"webScraperConfig": {"provider": "BUILTIN"}})
    seen = app(org.api_key, "namespaces", namespace=held.namespace, open="yes")
    choose(seen, "Web scraper", "none")
    seen.run()
    field(seen, "googleDriveConfig.clientId").set_value("2.apps")
    for app_of in ("onedriveConfig", "sharepointConfig"):
        field(seen, f"{app_of}.clientId").set_value("3.apps")
        field(seen, f"{app_of}.clientSecret").set_value("canary")
    field(seen, "sharepointConfig.tenantId").set_value("contoso.com")
    click(seen, "Test and save")
    assert not seen.error, shown(seen)
    kept = org.client.get(f"/v1/namespaces/{held.namespace}").json()["data"]["namespace"]
    assert kept["webScraperConfig"] is None
    assert kept["googleDriveConfig"]["clientId"] == "2.apps"
    assert kept["sharepointConfig"]["tenantId"] == "contoso.com"
    assert "tenantId" not in kept["onedriveConfig"]
    assert (
        namespaces.load_namespace(org.db, org.ring, held.namespace).connectors["googleDriveConfig"]["clientSecret"]
        == "s"
    )


def test_an_external_parser_is_set_kept_with_its_key_and_taken_away(app, org, held):
    def stored():
        return org.client.get(f"/v1/namespaces/{held.namespace}").json()["data"]["namespace"].get("parserConfig")

    with docling_serve.running() as docling:
        seen = app(org.api_key, "namespaces", namespace=held.namespace, open="yes")
        field(seen, "parserConfig.url").set_value(docling.url)
        field(seen, "parserConfig.apiKey").set_value(docling_serve.KEY)
        click(seen, "Test and save")
        assert not seen.error, shown(seen)
        assert stored() == {"provider": "ENDPOINT", "url": docling.url, "apiKey": stored()["apiKey"]}
        seen = app(org.api_key, "namespaces", namespace=held.namespace, open="yes")
        click(seen, "Test and save")
        assert not seen.error, shown(seen)
        assert namespaces.load_namespace(org.db, org.ring, held.namespace).parser["apiKey"] == docling_serve.KEY
        field(seen, "parserConfig.url").set_value("")
        click(seen, "Test and save")
        assert stored() is None


def test_another_model_is_refused_in_words_until_everything_is_to_be_embedded_again(app, org, held):
    seen = app(org.api_key, "namespaces", namespace=held.namespace, open="yes")
    assert not click(seen, "Test and save").error, "nothing was changed, nothing is refused"
    choose(seen, "Model", "wordllama-l2-supercat-256")
    seen.run()
    click(seen, "Test and save")
    assert "INVALID_NAMESPACE_CONFIG" in shown(seen)
    next(toggle for toggle in seen.toggle if toggle.label == "Embed all its documents again").set_value(True)
    click(seen, "Test and save")
    assert not seen.error, shown(seen)
    held_runs = org.client.get("/v1/ingest-job-runs", params={"namespaceId": held.namespace}).json()["data"]
    assert "REEMBED" in {run["source"] for run in held_runs["ingestJobRuns"]}


def test_a_model_that_needs_a_key_is_not_said_to_be_saved_without_one(app, org, held):
    seen = app(org.api_key, "namespaces", namespace=held.namespace, open="yes")
    choose(seen, "Provider", "COHERE")
    seen.run()
    click(seen, "Test and save")
    assert r"embeddingModelConfig\.apiKey must have" in seen.error[0].value


def test_a_filter_that_is_no_object_is_refused(app, org, space):
    again = app(org.api_key, "search", namespace=space, q="seal owls", columns="keyword", filter='{"topic": "seals"}')
    assert "1 document found" in shown(again)
    broken = app(org.api_key, "documents", namespace=space, metadata="[1]")
    assert "not a JSON object" in shown(broken)
    assert "owls" in shown(app(org.api_key, "documents", namespace=space, metadata="{}"))


def test_the_way_to_the_service_goes_once_the_connection_has_moved(app, org, held):
    seen = app(org.api_key, "connections", namespace=held.namespace)
    click(seen, "Connect")
    assert not seen.error, shown(seen)
    links = {link.proto.label: link.proto.url for link in seen.get("link_button")}
    assert links["Open the service"].startswith("https://accounts.google.com/")
    assert "Open the service" in {link.proto.label for link in seen.run().get("link_button")}
    org.db.rows("update connections set status = 'ACTIVE' where status = 'PENDING' and name = 'Google Drive'")
    seen.run()
    assert not seen.exception
    assert "Open the service" not in {link.proto.label for link in seen.get("link_button")}


def test_sites_and_libraries_of_sharepoint_are_chosen_by_their_addresses(app, org, held):
    app_of = {"clientId": "1", "clientSecret": "s", "tenantId": "contoso.com"}
    changed = org.client.patch(f"/v1/namespaces/{held.namespace}", json={"sharepointConfig": app_of})
    assert changed.status_code == 200, changed.text
    org.db.rows("update connections set connector = 'SHAREPOINT' where id = %(id)s", {"id": held.connection})
    seen = app(org.api_key, "connections", namespace=held.namespace)
    (area,) = seen.text_area
    area.set_value("https://contoso.sharepoint.com/sites/plans\n\n  sites/marketing/Shared Documents ").run()
    click(seen, "Ingest now")
    assert not seen.error, shown(seen)
    (job,) = org.db.rows("select config from jobs where config ->> 'connectionId' = %(id)s", {"id": held.connection})
    assert job["config"]["request"]["include"] == [
        {"path": "https://contoso.sharepoint.com/sites/plans"},
        {"path": "sites/marketing/Shared Documents"},
    ]


def test_a_bucket_is_connected_and_ingested(app, org):
    space = org.namespace()
    seen = app(org.api_key, "connections", namespace=space)
    (storage,) = [choice for choice in seen.selectbox if choice.label == "Source"]
    labels = {field.label for field in storage.select("sftp").run().text_input}
    assert {"User", "Password", "Host key"} <= labels
    assert {"Access key ID", "Region"}.isdisjoint(labels)
    seen = app(org.api_key, "connections", namespace=space)
    (source,) = [choice for choice in seen.selectbox if choice.label == "Source"]
    fields = {field.label: field for field in source.select("WORDPRESS").run().text_input}
    assert fields.keys() & {"User", "Token", "Password", "Region"} == {"User", "Token"}
    fields["URL"].set_value("http://127.0.0.1:9")
    click(seen, "Connect source")
    assert r"config\.url cannot be used" in seen.error[0].value
    seen = app(org.api_key, "connections", namespace=space)
    fields = {field.label: field for field in seen.text_input}
    fields["URL"].set_value("s3://handbooks/2026")
    fields["Access key ID"].set_value("key")
    fields["Secret access key"].set_value("canary-secret")
    assert {"Account key", "Host key"}.isdisjoint(fields)
    click(seen, "Connect source")
    assert not seen.error, shown(seen)
    assert "Connected: s3" in seen.toast[0].value
    assert "canary-secret" not in [field.value for field in seen.text_input]
    seen.run()
    assert "Reconnect" not in {button.label for button in seen.button}
    click(seen, "Ingest now")
    assert not seen.error, shown(seen)
    (job,) = org.db.rows(
        "select j.source from jobs j join partitions p on p.id = j.partition_id where p.namespace_id = %(space)s",
        {"space": space},
    )
    assert job["source"] == "OBJECTS"


def test_removals_are_shown_and_those_that_were_seen_are_let_go(app, org, held):
    seen = app(org.api_key, "connections", namespace=held.namespace)
    assert "3 removals to confirm" in shown(seen)
    assert "gone 1.txt" in shown(seen)
    assert "stays.txt" not in shown(seen)
    removal(seen, held)
    assert not seen.exception
    assert not seen.error, shown(seen)
    assert "to confirm" not in shown(seen)
    listed = org.client.post("/v1/documents", json={"namespaceId": held.namespace, "filterConfig": {}}).json()["data"]
    assert {document["name"] for document in listed["documents"]} == {"stays.txt", "waits"}


def test_who_may_not_change_documents_sees_the_removals_and_no_button(app, org, held):
    scopes = ["namespaces:read", "documents:read", "connections:read"]
    reader = api_keys.create_key(org.db, org.ring, org.id, "reader", scopes=scopes)
    seen = app(reader.api_key, "connections", namespace=held.namespace)
    assert "3 removals to confirm" in shown(seen)
    assert not {"Remove for good", "Revoke for good", "Ingest now"} & {button.label for button in seen.button}


def test_a_run_leads_to_the_removals_of_its_connection(app, org, held):
    org.db.rows(
        "update jobs set config = config || jsonb_build_object('connectionId', %(connection)s::text)"
        " where id = (select job_id from job_runs where id = %(run)s)",
        {"connection": held.connection, "run": held.run},
    )
    seen = app(org.api_key, "runs", namespace=held.namespace, run=held.run)
    assert not seen.exception
    links = {link.value: link.proto.query_string for link in seen.get("page_link")}
    assert f"removals={held.connection}" in links["3 removals to confirm: look at them"]


def test_an_interval_is_kept_as_soon_as_it_is_chosen(app, org, held):
    seen = app(org.api_key, "connections", namespace=held.namespace)
    interval(seen, held)
    assert not seen.exception
    assert not seen.error, shown(seen)
    one = org.client.get(f"/v1/connections/{held.connection}").json()["data"]["connection"]
    assert one["syncIntervalMinutes"] == 60
    assert seen.selectbox(key=f"interval-{held.connection}-60").value == 60


def test_a_document_shows_its_versions(app, org, held):
    waiting = org.client.post(
        "/v1/documents", json={"namespaceId": held.namespace, "filterConfig": {"documentIngestionSources": ["TEXT"]}}
    ).json()["data"]["documents"][0]
    seen = app(org.api_key, "documents", namespace=held.namespace, document=waiting["id"], tab="Versions")
    assert not seen.exception
    tables = [table.value for table in seen.dataframe]
    versions = next(table for table in tables if "Version" in table.columns)
    assert list(versions["By"]) == ["Text"]
    assert [list(one) for one in versions["Status"]] == [["QUEUED"]]


def test_a_document_without_any_run_says_so(app, org, held):
    seen = app(org.api_key, "documents", namespace=held.namespace, document=held.document, tab="Versions")
    assert not seen.exception
    assert "No job run holds this document any more" in shown(seen)


def test_what_was_packed_together_leads_to_each_other(app, org, held):
    library = Library(org.db, Scope(org.id, held.namespace, ""), None)
    member = library.put(["A letter."], name="letter.txt")
    org.db.rows(
        "update documents set archive_id = %(archive)s where id = %(id)s", {"archive": held.document, "id": member}
    )
    inside = app(org.api_key, "documents", namespace=held.namespace, document=member)
    assert "Parent archive" in {link.value for link in inside.get("page_link")}
    seen = app(org.api_key, "documents", namespace=held.namespace, document=held.document)
    links = {link.value: link.proto.query_string for link in seen.get("page_link")}
    assert f"archive={held.document}" in links["1 document in this archive"]
    found = app(org.api_key, "documents", namespace=held.namespace, archive=held.document)
    assert "letter.txt" in shown(found)
    assert "stays.txt" not in shown(found)


RUNS = """
    insert into job_runs (id, job_id, partition_id, source, status, created_at, finished_at)
    select %(run)s || '_' || n, job_id, partition_id, 'TEXT', 'COMPLETED', now(), now()
    from job_runs, generate_series(1, 51) n where id = %(run)s
"""


def test_runs_are_filtered_by_the_address_and_paged(app, org, held):
    org.db.rows(RUNS, {"run": held.run})
    waiting = app(org.api_key, "runs", namespace=held.namespace, status="QUEUED")
    assert [list(one) for one in waiting.dataframe[0].value["Status"]] == [["QUEUED"]]
    seen = app(org.api_key, "runs", namespace=held.namespace)
    assert len(seen.dataframe[0].value) == 50
    older = click(seen, "Next page")
    assert not older.exception
    assert len(older.dataframe[0].value) == 2
    assert "cursor" in older.query_params
    assert len(click(older, "First page").dataframe[0].value) == 50
    assert "No run has the status “Processing” now" in shown(
        app(org.api_key, "runs", namespace=held.namespace, status="PROCESSING")
    )


def test_a_cancelled_run_is_shown_as_one_that_has_ended(app, org, held):
    seen = app(org.api_key, "runs", namespace=held.namespace, run=held.run)
    click(seen, "Cancel this run")
    assert not seen.exception
    assert "CANCELLED" in shown(seen)
    assert "Cancel this run" not in {button.label for button in seen.button}


def test_a_key_that_may_only_search_searches(app, org, space):
    only = api_keys.create_key(org.db, org.ring, org.id, "website", scopes=["search"], namespace=space)
    seen = app(only.api_key, "search", q="owls hunt", columns="keyword")
    assert not seen.exception
    assert "owls" in shown(seen)
    assert not seen.get("page_link")


def test_advice_fits_what_was_asked_for(app, org):
    """Nobody is told to take away a filter that is not set, or to start what is only filtered out."""
    empty = org.namespace()
    plain = shown(app(org.api_key, "search", namespace=empty, q="seals", columns="keyword"))
    assert "Nothing found." in plain
    assert "filter" not in plain.partition("Nothing found.")[2].partition("\n")[0]
    filtered = shown(app(org.api_key, "search", namespace=empty, q="seals", columns="keyword", filter='{"team": "x"}'))
    assert "Take the filter away." in filtered
    both = {"filter": '{"team": "x"}', "least": "0.5"}
    assert "Lower the minimum score or take the filter away." in shown(
        app(org.api_key, "search", namespace=empty, q="seals", columns="keyword", **both)
    )
    assert "No run has the status “Processing” now." in shown(
        app(org.api_key, "runs", namespace=empty, status="PROCESSING")
    )


@pytest.mark.parametrize(
    ("sent", "saved", "unconfirmed"),
    [
        ({"name": "a"}, {"name": "a"}, []),
        ({"name": "a"}, {"name": "b"}, ["name"]),
        ({"webScraperConfig": None}, {"webScraperConfig": {"provider": "BUILTIN"}}, ["webScraperConfig"]),
        ({"webScraperConfig": {"apiKey": "fc-secret-2222"}}, {"webScraperConfig": {"apiKey": "••••2222"}}, []),
        (
            {"webScraperConfig": {"apiKey": "fc-secret-2222"}},
            {"webScraperConfig": {"apiKey": "••••1111"}},
            ["webScraperConfig.apiKey"],
        ),
        ({"fileStorageConfig": {"credentials": {"accessKeyId": "a"}}}, {"fileStorageConfig": {}}, []),
    ],
)
def test_what_the_service_did_not_confirm_is_not_said_to_be_saved(sent, saved, unconfirmed):
    assert namespace_form.unconfirmed_fields(sent, saved) == unconfirmed
