"""The export of all documents that match, and filters saved under a name."""

from __future__ import annotations

import csv
import io

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from tests.ui.conftest import HOSTILE
from tests.ui.test_actions import click
from ui import exports, session, sign_in_page, sign_ins


@pytest.fixture
def browser() -> TestClient:
    return TestClient(Starlette(routes=sign_in_page.SIGN_IN_ROUTES))


@pytest.fixture
def person(org, base, monkeypatch):
    monkeypatch.setenv("RETRIEVAL_API_URL", base)
    return session.find_person(org.api_key)


def test_all_documents_of_a_filter_come_in_parts_with_their_errors(browser, person, space, monkeypatch):
    monkeypatch.setattr(exports, "PAGE_SIZE", 2)
    token = exports.offer(person.api, space, {}, None)
    response = browser.get(exports.EXPORT_PATH, params={"of": token})
    assert response.headers["content-disposition"] == 'attachment; filename="documents.csv"'
    rows = list(csv.DictReader(io.StringIO(response.content.decode("utf-8-sig"))))
    assert {row["name"] for row in rows} == {HOSTILE, "owls", "broken.pdf", "waiting"}
    assert [row["ingestionError"] for row in rows if row["ingestionStatus"] == "FAILED"] == ["The file is damaged."]
    failed = exports.offer(person.api, space, {"documentIngestionStatuses": ["FAILED"]}, None)
    assert len(browser.get(exports.EXPORT_PATH, params={"of": failed}).text.splitlines()) == 2


def test_a_download_belongs_to_its_browser_until_the_sign_out(browser, person, space, tmp_path, monkeypatch):
    monkeypatch.setenv(sign_ins.FOLDER_VARIABLE, str(tmp_path))
    own = sign_ins.create_sign_in(sign_ins.SignIn(person.api.key))
    token = exports.offer(person.api, space, {}, own)
    assert browser.get(exports.EXPORT_PATH, params={"of": token}).status_code == 404
    for sign_in_of_another in (sign_ins.create_sign_in(sign_ins.SignIn(person.api.key)), "guessed"):
        browser.cookies.set(sign_ins.COOKIE_NAME, sign_in_of_another)
        assert browser.get(exports.EXPORT_PATH, params={"of": token}).status_code == 404
    browser.cookies.set(sign_ins.COOKIE_NAME, own)
    assert browser.get(exports.EXPORT_PATH, params={"of": token}).status_code == 200
    assert browser.get(exports.EXPORT_PATH, params={"of": "guessed"}).status_code == 404
    sign_ins.end_sign_in(own)
    refused = browser.get(exports.EXPORT_PATH, params={"of": token})
    assert (refused.status_code, refused.text) == (404, exports.EXPIRED_MESSAGE)


def test_a_filter_is_saved_under_a_name_opened_and_forgotten(app, org, space, tmp_path, monkeypatch):
    monkeypatch.setenv(sign_ins.FOLDER_VARIABLE, str(tmp_path))
    view = app(org.api_key, "documents", namespace=space, status="FAILED")
    next(field for field in view.text_input if field.label == "Name of the filter").set_value("To repair")
    click(view, "Save filter")
    assert not view.exception
    later = app(org.api_key, "documents", namespace=space)
    click(later, "To repair")
    assert later.query_params["status"] in ("FAILED", ["FAILED"])
    assert list(later.dataframe[0].value["Name"]) == ["broken.pdf"]
    click(later, "Forget To repair")
    assert "To repair" not in [button.label for button in later.button]
