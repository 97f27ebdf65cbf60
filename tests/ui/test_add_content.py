"""Add content: many files, previews, progress, and retries of failed items."""

from __future__ import annotations

import json
from typing import Any

import pytest

from retrieval import ids
from retrieval.ports import Scope
from tests.library import Library
from tests.ui.test_actions import click, typed
from ui.client import Api, ApiError, ApiResponse


def runs(org, space: str) -> list[dict[str, Any]]:
    data = org.client.get("/v1/ingest-job-runs", params={"namespaceId": space}).json()["data"]
    return list(data["ingestJobRuns"])


def drop(app, *files: tuple[str, bytes]):
    """Files, and Start."""
    app.file_uploader[0].set_value([(name, content, "text/plain") for name, content in files])
    return click(app, "Start")


def fails(org, run: str, error: str, only: str | None = None) -> None:
    """End a run with failed documents, or only the document named `only`."""
    for table in ("run_documents", "documents"):
        org.db.rows(
            f"update {table} set status = case when name = coalesce(%(only)s, name) then 'FAILED' else 'SUCCESS' end,"
            " error = case when name = coalesce(%(only)s, name) then %(error)s end where job_run_id = %(run)s",
            {"run": run, "error": error, "only": only},
        )
    org.db.rows("update job_runs set status = 'COMPLETED', finished_at = now() where id = %(run)s", {"run": run})


def visible_text(app) -> str:
    """Return the visible text without tables."""
    return "\n".join(
        str(part.value).replace("\\", "") for part in [*app.markdown, *app.caption, *app.error, *app.warning, *app.info]
    )


def linked(app, name: str = "runs") -> list[str]:
    """Return run ids from the URL."""
    run_ids = app.query_params[name]
    return (run_ids if isinstance(run_ids, str) else run_ids[0]).split(",")


def table(app):
    return app.dataframe[0].value


def test_twenty_files_are_one_run_and_one_that_is_refused_does_not_hold_up_the_others(app, org):
    space = org.namespace()
    view = app(org.api_key, "add_content", namespace=space)
    drop(view, *[(f"notes {n:02}.txt", f"Seal {n} dives.".encode()) for n in range(19)], ("empty.txt", b""))
    assert not view.exception
    (run,) = runs(org, space)
    assert (run["name"], run["progress"]["found"]) == ("19 files", 19)
    assert linked(view) == [run["id"]]
    assert list(table(view)["Name"]) == ["empty.txt", "19 files"]
    assert "The file is empty" in visible_text(view)
    view.switch_page("views/runs.py").run()
    view.query_params.clear()
    view.switch_page("views/add_content.py").run()
    assert "The file is empty" in visible_text(view), "what was not sent is still to be seen"
    assert linked(view) == [run["id"]]
    click(view, "Send again")
    assert "The file is empty" in visible_text(view)
    assert len(runs(org, space)) == 1, "nothing was accepted twice"
    new_session = app(org.api_key, "add_content", namespace=space, runs=run["id"], of="20", sent="19")
    assert "19 of 20 items reached the service" in visible_text(new_session)


def test_a_folder_with_a_damaged_file_is_one_run_that_names_the_failure(app, org):
    space = org.namespace()
    view = app(org.api_key, "add_content", namespace=space)
    next(toggle for toggle in view.toggle if toggle.label == "Choose a whole folder").set_value(True).run()
    drop(view, ("handbook/broken.pdf", b"%PDF-1.7 nothing follows"), ("handbook/a.txt", b"Seals dive."))
    (run,) = runs(org, space)
    assert run["name"] == "handbook"
    fails(org, run["id"], "The PDF file is damaged.", only="broken.pdf")
    view.run()
    assert list(table(view)["Status"]) == [["COMPLETED_WITH_FAILURES"]]
    assert "broken.pdf" in visible_text(view)
    assert "The PDF file is damaged." in visible_text(view)
    assert "a.txt" not in visible_text(view)


def test_an_item_that_was_refused_is_sent_again_and_is_there_once(app, org, monkeypatch):
    # The API accepts the file and the response is lost; a retry returns the first response.
    space, real, lost = org.namespace(), Api._send, []

    def lose(api: Api, method: str, path: str, **options: Any) -> Any:
        answer = real(api, method, path, **options)
        if method == "POST" and not lost:
            lost.append(path)
            raise ApiError(0, "TIMEOUT", "The API did not answer in time. Try again in a moment.")
        return answer

    view = app(org.api_key, "add_content", namespace=space)
    with monkeypatch.context() as patch:
        patch.setattr(Api, "_send", lose)
        drop(view, ("a.txt", b"Seals dive."))
    assert "TIMEOUT" in visible_text(view)
    click(view, "Send again")
    assert "TIMEOUT" not in visible_text(view)
    assert len(runs(org, space)) == 1


def test_why_a_file_failed_is_told_and_it_is_retried_with_ocr_in_one_click(app, org):
    space = org.namespace()
    view = app(org.api_key, "add_content", namespace=space)
    drop(view, ("scan.pdf", b"%PDF-1.4 a scan"), ("good.txt", b"Seals dive."), ("torn.txt", b"Torn."))
    (run,) = [run["id"] for run in runs(org, space)]
    fails(org, run, "Retry it with the OCR strategy STANDARD_OCR (ocrConfig).", only="scan.pdf")
    for kind in ("run_documents", "documents"):
        torn = f"update {kind} set status = 'FAILED', error = 'The file is torn.' where job_run_id = %(run)s"
        org.db.rows(torn + " and name = 'torn.txt'", {"run": run})
    view.run()
    assert "Retry it with OCR." in visible_text(view)
    assert "Failed: 2 documents" in visible_text(view)
    click(view, "Retry with OCR")
    assert not view.exception
    (retry,) = linked(view, "retries")
    (job,) = org.db.rows(
        "select j.config from job_runs r join jobs j on j.id = r.job_id where r.id = %(run)s"
        " and j.config ->> 'ocr' = 'STANDARD_OCR'",
        {"run": retry},
    )
    assert job["config"]["chunkSize"] == 1000
    # The other failure of the run stays, also in a new session with this address.
    address = {"runs": run, "retries": retry, "of": "3", "sent": "3"}
    for shown in (view, app(org.api_key, "add_content", namespace=space, **address)):
        assert linked(shown) == [run]
        assert "Failed: 1 document" in visible_text(shown)
        assert "torn.txt" in visible_text(shown)
        assert "STANDARD" not in visible_text(shown)
        assert [str(name).endswith("(retry)") for name in table(shown)["Name"]].count(True) == 1


def test_files_of_one_name_are_told_apart_or_refused(app, org):
    # Folders distinguish equal names; otherwise one file would replace the other.
    space = org.namespace()
    view = app(org.api_key, "add_content", namespace=space)
    drop(view, ("a.txt", b"One."), ("a.txt", b"Two."))
    assert "2 files are called a" in visible_text(view)
    assert runs(org, space) == []
    next(toggle for toggle in view.toggle if toggle.label == "Choose a whole folder").set_value(True).run()
    drop(view, ("x/a.txt", b"One."), ("y/a.txt", b"Two."))
    rows = org.db.rows(
        "select external_id, name from documents d join partitions p on p.id = d.partition_id"
        " where p.namespace_id = %(space)s order by external_id",
        {"space": space},
    )
    assert [(row["external_id"], row["name"]) for row in rows] == [("x/a.txt", "a.txt"), ("y/a.txt", "a.txt")]


@pytest.mark.parametrize(
    ("source", "fields", "why"),
    [
        ("URLS_LIST", {}, "at least one URL"),
        ("WEBSITE", {"Start URL": "x", "Metadata (JSON object)": "[1]"}, "no JSON object"),
        ("LOCAL_FILE", {}, "Choose a file first"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_sent(app, org, source, fields, why):
    space = org.namespace()
    view = app(org.api_key, "add_content", namespace=space, source=source)
    for label, text in fields.items():
        typed(view, label, text)
    click(view, "Start")
    assert why in visible_text(view)
    assert runs(org, space) == []


def test_a_preview_adds_nothing_and_shows_the_report(app, org):
    space = org.namespace()
    view = app(org.api_key, "add_content", namespace=space, source="TEXT")
    typed(view, "Name", "seals")
    typed(view, "Text", "Seals dive for thirty minutes.")
    click(view, "Preview")
    assert not view.exception
    (run,) = runs(org, space)
    assert run["dryRun"]
    assert "nothing has been added yet" in visible_text(view)
    report = {"create": 1, "update": 0, "unchanged": 0, "remove": 0, "failed": 0, "pages": 0, "chunks": 1}
    report |= {"tokensToEmbed": 1234, "embeddingCalls": 1, "estimatedSeconds": 2.0, "sampled": False, "pagesUnread": 2}
    report |= {"documents": [{"name": "notes.txt", "action": "CREATE", "error": None, "linkedFrom": None}]}
    report |= {"estimatedCost": {"amount": 0.5, "currency": "EUR"}}
    org.db.rows(
        "update job_runs set status = 'COMPLETED', to_discover = false, finished_at = now(),"
        " progress = jsonb_build_object('report', %(report)s::jsonb) where id = %(run)s",
        {"report": json.dumps(report), "run": run["id"]},
    )
    view.run()
    assert {metric.label: metric.value for metric in view.metric}["Created"] == "1"
    assert "1,234 tokens to embed" in visible_text(view)
    assert "2 pages not readable" in visible_text(view)
    assert "0.5000 EUR" in visible_text(view)
    click(view, "Start")
    assert [run.get("dryRun", False) for run in runs(org, space)] == [False, True]


@pytest.fixture
def drive(org, monkeypatch) -> tuple[str, str]:
    """A namespace with a Drive connection and a browsable account."""
    namespace = org.namespace(googleDriveConfig={"clientId": "1.apps", "clientSecret": "s", "apiKey": "k"})
    library = Library(org.db, Scope(org.id, namespace, ""), None)
    connection = ids.connection_id()
    org.db.rows(
        "insert into connections (id, partition_id, name, connector, status)"
        " values (%(id)s, %(partition)s, 'Team drive', 'GOOGLE_DRIVE', 'ACTIVE')",
        {"id": connection, "partition": library.partition},
    )
    levels = {
        None: [entry("plans", folder=True), entry("archive", folder=True), entry("readme.txt")],
        "plans": [entry("2025", folder=True), entry("plan.md"), entry("old.md")],
        "2025": [entry("budget.xlsx")],
    }
    real = Api._send

    def browse(api: Api, method: str, path: str, **options: Any) -> Any:
        if not path.endswith("/browse"):
            return real(api, method, path, **options)
        items = levels[options["json"].get("parentId")]
        return ApiResponse({"items": items, "hasNextPage": False, "nextCursor": None}, "")

    monkeypatch.setattr(Api, "_send", browse)
    return namespace, connection


def entry(name: str, *, folder: bool = False) -> dict[str, Any]:
    kind = "FOLDER" if folder else "FILE"
    return {
        "id": name,
        "name": name,
        "path": name,
        "kind": kind,
        "mimeType": None,
        "size": None if folder else 2048,
    } | {
        "modifiedAt": None,
        "hasChildren": folder,
        "selected": False,
    }


def test_folders_of_an_account_are_opened_and_chosen(app, org, drive):
    space, connection = drive
    view = app(org.api_key, "add_content", namespace=space, source="GOOGLE_DRIVE")
    assert not view.exception
    click(view, "Start")
    assert "Choose at least one folder or file" in visible_text(view)
    click(view, "plans")
    assert "1 folder, 2 files" in visible_text(view)
    box(view, "Take plans").check().run()
    box(view, "Take old").uncheck().run()
    assert "1 chosen, 1 left out" in visible_text(view)
    assert box(view, "Take plan").value
    typed(view, "Exclude, one a line", "image/*\ntmp/**")
    click(view, "Start")
    assert not view.exception
    (job,) = org.db.rows("select config from jobs where config ->> 'connectionId' = %(id)s", {"id": connection})
    assert job["config"]["request"]["include"] == [{"id": "plans"}]
    assert job["config"]["request"]["exclude"] == [{"id": "old.md"}, {"mimeType": "image/*"}, {"path": "tmp/**"}]


@pytest.mark.parametrize("page", ["add_content", "connections"])
def test_who_ingests_again_goes_on_with_what_was_chosen(app, org, drive, page):
    # A new run started with the whole account and dropped exclusions.
    space, connection = drive
    include = [{"id": "2025"}, {"path": "clients/*"}, {"mimeType": "chemical/x-pdb"}]
    exclude = [{"id": "old.md"}, {"mimeType": "image/*"}, {"path": "text/plain"}]
    access = {"users": ["ada"], "groups": ["staff"], "denied": {"users": ["bob"], "groups": []}, "public": False}
    config = {"connectionId": connection, "include": include, "exclude": exclude, "access": access}
    body = {"namespaceId": space, "ingestConfig": {"source": "GOOGLE_DRIVE", "config": config}}
    assert org.client.post("/v1/ingest/google-drive", json=body).status_code == 200
    view = app(org.api_key, page, namespace=space, source="GOOGLE_DRIVE")
    assert not view.exception
    if page == "add_content":
        assert "1 chosen, 1 left out" in visible_text(view)
    click(view, "Start" if page == "add_content" else "Ingest now")
    assert not view.error, visible_text(view)
    *_, job = org.db.rows(
        "select config from jobs where config ->> 'connectionId' = %(id)s order by created_at", {"id": connection}
    )
    request = job["config"]["request"]
    for name, expected in (("include", include), ("exclude", exclude)):
        assert sorted(request[name], key=str) == sorted(expected, key=str)
    assert job["config"]["access"] == access
    jobs = org.db.rows("select 1 from jobs where config ->> 'connectionId' = %(id)s", {"id": connection})
    assert len(jobs) == 2


def test_an_account_that_cannot_be_listed_is_not_taken_as_a_whole(app, org, drive, monkeypatch):
    real = Api._send

    def away(api: Api, method: str, path: str, **options: Any) -> Any:
        if path.endswith("/browse"):
            raise ApiError(503, "SERVICE_UNAVAILABLE", "Google Drive has not answered in time: try again.")
        return real(api, method, path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Api, "_send", away)
        view = app(org.api_key, "add_content", namespace=drive[0], source="GOOGLE_DRIVE")
    assert "has not answered in time" in visible_text(view)
    assert "Start" not in {button.label for button in view.button}
    click(view, "Try again")
    assert "Start" in {button.label for button in view.button}


def box(app, label: str):
    return next(checkbox for checkbox in app.checkbox if checkbox.label.replace("\\", "").startswith(label))
