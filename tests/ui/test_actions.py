"""Actions of the admin app, and their refusals with error codes."""

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
from tests.standins.google_workspace import GoogleWorkspace, make_key
from tests.ui.conftest import visible_content
from ui.client import Api, ApiError


def click(app: AppTest, label: str) -> AppTest:
    """Click the first button with this label."""
    return next(button for button in app.button if button.label == label).click().run()


def typed(app: AppTest, label: str, text: str) -> None:
    next(field for field in [*app.text_input, *app.text_area] if field.label == label).set_value(text)


def field(app: AppTest, name: str) -> Any:
    """Return the text field of the namespace form."""
    return next(text_input for text_input in app.text_input if str(text_input.key).endswith(f".{name}"))


def choose(app: AppTest, label: str, value: Any) -> None:
    next(box for box in [*app.selectbox, *app.pills] if box.label == label).set_value(value)


@dataclasses.dataclass(frozen=True)
class DriveNamespace:
    """A namespace with a Drive connection, three held removals and one other document."""

    namespace: str
    connection: str
    document: str
    run: str


@pytest.fixture
def drive(org) -> DriveNamespace:
    namespace = org.namespace(googleDriveConfig={"clientId": "1.apps", "clientSecret": "s", "apiKey": "k"})
    library = Library(org.db, Scope(org.id, namespace, ""), None)
    connection = ids.connection_id()
    org.db.rows(
        "insert into connections (id, partition_id, name, connector, status)"
        " values (%(id)s, %(partition)s, 'Team drive', 'GOOGLE_DRIVE', 'ACTIVE')",
        {"id": connection, "partition": library.partition},
    )
    fields = {"source": "GOOGLE_DRIVE", "connection_id": connection}
    stays = library.put(["The contract stays."], name="stays.txt", **fields)
    for number in range(3):
        removed_document = library.put([f"Gone {number}."], name=f"gone {number}.txt", **fields)
        org.db.rows(
            "insert into departures (document_id, connection_id, job_run_id, held)"
            " values (%(document)s, %(connection)s, 'ijr_1', true)",
            {"document": removed_document, "connection": connection},
        )
    run = org.text(namespace, "one that waits", name="waits")["data"]["ingestJobRunId"]
    return DriveNamespace(namespace, connection, stays, run)


def removal(app: AppTest, drive: DriveNamespace) -> None:
    click(app, "Remove for good")


def interval(app: AppTest, drive: DriveNamespace) -> None:
    app.selectbox(key=f"interval-{drive.connection}-None").set_value(60).run()


def text(app: AppTest, drive: DriveNamespace) -> None:
    typed(app, "Text", "Seals sleep.")
    click(app, "Start")


def new_key(app: AppTest, drive: DriveNamespace) -> None:
    typed(app, "Name", "Website")
    click(app, "Create API key")


def new_namespace(app: AppTest, drive: DriveNamespace) -> None:
    typed(app, "Name", "Second")
    click(app, "Create namespace")


def file(app: AppTest, drive: DriveNamespace) -> None:
    app.file_uploader[0].set_value([("notes.txt", b"Seals sleep.", "text/plain")])
    click(app, "Start")


def revocation(app: AppTest, drive: DriveNamespace) -> None:
    click(app, "Revoke")
    click(app, "Revoke for good")


Act = Callable[[AppTest, DriveNamespace], Any]
CHANGE = {"document": "{document}", "tab": "Edit"}
ACTIONS: dict[str, tuple[str, dict[str, str], Act]] = {
    "confirm removals": ("connections", {}, removal),
    "revoke a connection": ("connections", {}, revocation),
    "add a text": ("add_content", {"source": "TEXT"}, text),
    "cancel": ("runs", {"run": "{run}"}, lambda app, drive: click(app, "Cancel this run")),
    "resync": ("documents", CHANGE, lambda app, drive: click(app, "Index this document again")),
    "make a key": ("keys", {"tab": "API keys"}, new_key),
    "create a namespace": ("namespaces", {"new": "yes"}, new_namespace),
}


def at(app, org, drive: DriveNamespace, name: str) -> AppTest:
    """Open the page of an action."""
    page, parameters, _ = ACTIONS[name]
    placed = {key: value.format(**dataclasses.asdict(drive)) for key, value in parameters.items()}
    return app(org.api_key, page, namespace=drive.namespace, **placed)


@pytest.mark.parametrize("name", ACTIONS)
def test_a_refused_action_says_why_with_the_code(app, org, drive, name, monkeypatch):
    tenants.create_tenant(org.db, org.id, "alice")
    view = at(app, org, drive, name)
    assert not view.exception
    real, refused = Api._send, []

    def refuse(api: Api, method: str, path: str, **options: Any) -> Any:
        if method == "GET" or (path == "/v1/documents" and method == "POST"):
            return real(api, method, path, **options)
        refused.append(path)
        raise ApiError(503, "SERVICE_UNAVAILABLE", "The database is away. Try again.", field="some.field")

    with monkeypatch.context() as patch:
        patch.setattr(Api, "_send", refuse)
        ACTIONS[name][2](view, drive)
    assert refused
    assert not view.exception
    assert "SERVICE_UNAVAILABLE" in visible_content(view)
    assert "some.field" in visible_content(view)


@pytest.mark.parametrize("fate", ["KEEP", "DELETE"])
def test_a_revocation_says_what_becomes_of_how_many_documents(app, org, drive, fate):
    view = app(org.api_key, "connections", namespace=drive.namespace)
    click(view, "Revoke")
    (fate_choice,) = view.radio
    assert fate_choice.label == "4 documents that no other connection has"
    assert fate_choice.value == "KEEP"
    fate_choice.set_value(fate).run()
    click(view, "Revoke for good")
    assert not view.exception
    assert ":material/block: Revoked" in visible_content(view)
    rows = org.db.rows(
        "select deleted_at from documents where name like '%%.txt' and partition_id = (select"
        " partition_id from connections where id = %(id)s)",
        {"id": drive.connection},
    )
    assert [row["deleted_at"] is None for row in rows] == [fate == "KEEP"] * 4


def test_a_changed_namespace_is_what_was_typed(app, org, drive):
    """Removed scrapers disappear, renamed apps keep secrets, and only confirmed fields count as saved."""
    org.client.patch(f"/v1/namespaces/{drive.namespace}", json={"webScraperConfig": {"provider": "BUILTIN"}})
    view = app(org.api_key, "namespaces", namespace=drive.namespace, open="yes")
    choose(view, "Web scraper", "none")
    view.run()
    field(view, "googleDriveConfig.clientId").set_value("2.apps")
    for app_of in ("onedriveConfig", "sharepointConfig"):
        field(view, f"{app_of}.clientId").set_value("3.apps")
        field(view, f"{app_of}.clientSecret").set_value("canary")
    field(view, "sharepointConfig.tenantId").set_value("contoso.com")
    click(view, "Save")
    assert not view.error, visible_content(view)
    namespace = org.client.get(f"/v1/namespaces/{drive.namespace}").json()["data"]["namespace"]
    assert namespace["webScraperConfig"] is None
    assert namespace["googleDriveConfig"]["clientId"] == "2.apps"
    assert namespace["sharepointConfig"]["tenantId"] == "contoso.com"
    assert "tenantId" not in namespace["onedriveConfig"]
    assert (
        namespaces.load_namespace(org.db, org.ring, drive.namespace).connectors["googleDriveConfig"]["clientSecret"]
        == "s"
    )


def test_an_external_parser_is_set_kept_with_its_key_and_taken_away(app, org, drive):
    def stored():
        return org.client.get(f"/v1/namespaces/{drive.namespace}").json()["data"]["namespace"].get("parserConfig")

    with docling_serve.running() as docling:
        view = app(org.api_key, "namespaces", namespace=drive.namespace, open="yes")
        field(view, "parserConfig.url").set_value(docling.url)
        field(view, "parserConfig.apiKey").set_value(docling_serve.API_KEY)
        click(view, "Save")
        assert not view.error, visible_content(view)
        assert stored() == {"provider": "ENDPOINT", "url": docling.url, "apiKey": stored()["apiKey"]}
        view = app(org.api_key, "namespaces", namespace=drive.namespace, open="yes")
        click(view, "Save")
        assert not view.error, visible_content(view)
        assert namespaces.load_namespace(org.db, org.ring, drive.namespace).parser["apiKey"] == docling_serve.API_KEY
        field(view, "parserConfig.url").set_value("")
        click(view, "Save")
        assert stored() is None


def test_another_model_is_refused_in_words_until_everything_is_to_be_embedded_again(app, org, drive):
    view = app(org.api_key, "namespaces", namespace=drive.namespace, open="yes")
    assert not click(view, "Save").error, "nothing was changed, nothing is refused"
    choose(view, "Model", "wordllama-l2-supercat-256")
    view.run()
    click(view, "Save")
    assert "INVALID_NAMESPACE_CONFIG" in visible_content(view)
    next(toggle for toggle in view.toggle if toggle.label == "Embed all its documents again").set_value(True)
    click(view, "Save")
    assert not view.error, visible_content(view)
    held_runs = org.client.get("/v1/ingest-job-runs", params={"namespaceId": drive.namespace}).json()["data"]
    assert "REEMBED" in {run["source"] for run in held_runs["ingestJobRuns"]}


def test_each_part_of_a_namespace_is_tested_before_it_is_saved(app, org):
    view = app(org.api_key, "namespaces", new="yes")
    view.button(key="new.0.fileStorageConfig.test").click().run()
    assert "Passed.** The folder can be written to" in visible_content(view).replace("\\", "")
    choose(view, "Model provider", "ENDPOINT")
    view.run()
    choose(view, "Vector store", "PGVECTOR")
    field(view, "embeddingModelConfig.url").set_value("http://127.0.0.1:9")
    view.text_input(key="new.0.name").set_value("Draft")
    next(text for text in view.text_input if text.label == "Model").set_value("away")
    view.button(key="new.0.vectorStorageConfig.test").click().run()
    content = visible_content(view)
    assert "Not tested.** The test of the model failed" in content
    assert "Passed.** The folder" in content, "a result stays until its fields change"
    assert not view.exception
    assert org.client.get("/v1/namespaces").json()["data"]["namespaces"] == []


def test_a_namespace_needs_only_a_name(app, org):
    view = click(app(org.api_key, "namespaces"), "New namespace")
    assert view.text_input[0].label == "Name"
    view.text_input[0].set_value("Manuals")
    click(view, "Create namespace")
    assert [space["name"] for space in org.client.get("/v1/namespaces").json()["data"]["namespaces"]] == ["Manuals"]


def test_a_bucket_is_connected_and_ingested(app, org):
    space = org.namespace()
    view = app(org.api_key, "connections", namespace=space)
    labels = {field.label for field in view.pills(key="storage-source").select("sftp").run().text_input}
    assert {"User", "Password", "Host key"} <= labels
    assert {"Access key ID", "Region"}.isdisjoint(labels)
    view = app(org.api_key, "connections", namespace=space)
    fields = {field.label: field for field in view.pills(key="storage-source").select("WORDPRESS").run().text_input}
    assert fields.keys() & {"User", "Token", "Password", "Region"} == {"User", "Token"}
    fields["URL"].set_value("http://127.0.0.1:9")
    click(view, "Connect source")
    assert r"config\.url cannot be used" in view.error[0].value
    view = app(org.api_key, "connections", namespace=space)
    fields = {field.label: field for field in view.pills(key="storage-source").select("s3").run().text_input}
    fields["URL"].set_value("s3://handbooks/2026")
    fields["Access key ID"].set_value("key")
    fields["Secret access key"].set_value("canary-secret")
    assert {"Account key", "Host key"}.isdisjoint(fields)
    click(view, "Connect source")
    assert not view.error, visible_content(view)
    assert "Connected: s3" in visible_content(view)
    assert "canary-secret" not in [field.value for field in view.text_input]
    view.run()
    assert "Reconnect" not in {button.label for button in view.button}
    click(view, "Ingest now")
    assert not view.error, visible_content(view)
    (job,) = org.db.rows(
        "select j.source from jobs j join partitions p on p.id = j.partition_id where p.namespace_id = %(space)s",
        {"space": space},
    )
    assert job["source"] == "OBJECTS"


def test_an_organization_is_connected_by_its_service_account(app, org):
    space = org.namespace()
    view = app(org.api_key, "connections", namespace=space)
    view.pills(key="storage-source").select("google-workspace").run()
    config = GoogleWorkspace().config
    fields = {str(field.key): field for field in (*view.text_input, *view.text_area, *view.checkbox)}
    fields["storage-url-google-workspace"].set_value(config["url"])
    for name, value in config["credentials"].items():
        fields[f"storage-google-workspace-{name}"].set_value(value)
    fields["storage-google-workspace-people"].check()
    click(view, "Connect source")
    assert not view.error, visible_content(view)
    (connection,) = org.client.get("/v1/connections", params={"namespaceId": space}).json()["data"]["connections"]
    assert (connection["connector"], connection["status"]) == ("GOOGLE_DRIVE", "ACTIVE")
    assert make_key()[0].splitlines()[1] not in visible_content(view.run())


def test_a_service_with_an_oauth_app_is_connected_by_a_link(app, org):
    space = org.namespace()
    view = app(org.api_key, "connections", namespace=space)
    fields = {field.label: field for field in view.pills(key="storage-source").select("GITLAB").run().text_input}
    fields["URL"].set_value("https://gitlab.com/acme")
    fields["Client ID"].set_value("client")
    fields["Client secret"].set_value("canary-secret")
    click(view, "Connect source")
    assert not view.error, visible_content(view)
    (link,) = view.get("link_button")
    assert link.proto.url.startswith("https://gitlab.com/oauth/authorize?scope=read_api&client_id=client")
    assert "Reconnect" in {button.label for button in view.button}
    assert "canary-secret" not in visible_content(view)


def test_removals_are_shown_and_those_that_were_seen_are_let_go(app, org, drive):
    view = app(org.api_key, "connections", namespace=drive.namespace)
    assert "3 removals to confirm" in visible_content(view)
    assert "gone 1.txt" in visible_content(view)
    assert "stays.txt" not in visible_content(view)
    removal(view, drive)
    assert not view.exception
    assert not view.error, visible_content(view)
    assert "to confirm" not in visible_content(view)
    documents = org.client.post("/v1/documents", json={"namespaceId": drive.namespace, "filterConfig": {}}).json()[
        "data"
    ]
    assert {document["name"] for document in documents["documents"]} == {"stays.txt", "waits"}


def test_who_may_not_change_documents_sees_the_removals_and_no_button(app, org, drive):
    scopes = ["namespaces:read", "documents:read", "connections:read"]
    reader = api_keys.create_key(org.db, org.ring, org.id, "reader", scopes=scopes)
    view = app(reader.api_key, "connections", namespace=drive.namespace)
    assert "3 removals to confirm" in visible_content(view)
    assert not {"Remove for good", "Revoke for good", "Ingest now"} & {button.label for button in view.button}


def test_an_interval_is_kept_as_soon_as_it_is_chosen(app, org, drive):
    view = app(org.api_key, "connections", namespace=drive.namespace)
    interval(view, drive)
    assert not view.exception
    assert not view.error, visible_content(view)
    connection = org.client.get(f"/v1/connections/{drive.connection}").json()["data"]["connection"]
    assert connection["syncIntervalMinutes"] == 60
    assert view.selectbox(key=f"interval-{drive.connection}-60").value == 60


RUNS = """
    insert into job_runs (id, job_id, partition_id, source, status, created_at, finished_at)
    select %(run)s || '_' || n, job_id, partition_id, 'TEXT', 'COMPLETED', now(), now()
    from job_runs, generate_series(1, 51) n where id = %(run)s
"""


def test_runs_are_filtered_by_the_address_and_paged(app, org, drive):
    org.db.rows(RUNS, {"run": drive.run})
    waiting = app(org.api_key, "runs", namespace=drive.namespace, status="QUEUED")
    assert [list(statuses) for statuses in waiting.dataframe[0].value["Status"]] == [["QUEUED"]]
    view = app(org.api_key, "runs", namespace=drive.namespace)
    assert len(view.dataframe[0].value) == 50
    older = click(view, "Next page")
    assert not older.exception
    assert len(older.dataframe[0].value) == 2
    assert "cursor" in older.query_params
    assert len(click(older, "First page").dataframe[0].value) == 50
    assert "No run has the status “Processing” now" in visible_content(
        app(org.api_key, "runs", namespace=drive.namespace, status="PROCESSING")
    )


def test_a_cancelled_run_is_shown_as_one_that_has_ended(app, org, drive):
    view = app(org.api_key, "runs", namespace=drive.namespace, run=drive.run)
    click(view, "Cancel this run")
    assert not view.exception
    assert "CANCELLED" in visible_content(view)
    assert "Cancel this run" not in {button.label for button in view.button}


def test_a_key_that_may_only_search_searches(app, org, space):
    only = api_keys.create_key(org.db, org.ring, org.id, "website", scopes=["search"], namespace=space)
    view = app(only.api_key, "search", q="owls hunt", columns="keyword")
    assert not view.exception
    assert "owls" in visible_content(view)
    assert not view.get("page_link")
