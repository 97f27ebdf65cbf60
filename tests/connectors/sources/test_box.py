"""Box: walked folders, events, redirected downloads, Box Notes."""

from __future__ import annotations

import json
import random
import traceback
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

import pytest

from connectors import registry
from connectors.http import retries
from connectors.sources.box import client as box_client
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.ports import SourceItem
from retrieval.setting_values import Endpoint
from tests.standins import box, faults
from tests.standins.place import APP

CONNECTOR, STANDIN = "BOX", box


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    monkeypatch.setattr(box_client, "SERVICE_POLICY", replace(box_client.SERVICE_POLICY, burst=5000))


def list_items(connector, tokens, cursor=None):
    """The items by id, and the last page."""
    pages = list(connector.iter_changes(tokens, cursor))
    assert [page.done for page in pages] == [False] * (len(pages) - 1) + [True]
    return {item.external_id: item for page in pages for item in page.items}, pages[-1]


def instead(status, body, **headers):
    """Return a fault with the given status, body and headers."""

    def fault(handler):
        handler.reply(status, body, {name.replace("_", "-"): value for name, value in headers.items()})
        return True

    return fault


def when(account, part, fault):
    account.fault = lambda request: fault if part in request else None


def requests_with(account, part):
    return [request for request in account.requests if part in request]


# Folders


def test_a_folder_without_access_is_counted(account, connector, tokens):
    account.put("closed/a.txt", "x")
    account.close(account.folder("closed"))
    pages = list(connector.iter_changes(tokens, None))
    assert [dict(page.skipped) for page in pages if page.skipped] == [{"folder without access": 1}]
    assert pages[-1].whole


@pytest.mark.parametrize("status", [403, 404])
def test_an_account_that_shows_nothing_at_all_is_no_empty_account(account, connector, tokens, status):
    account.put("a.txt", "x")
    when(account, "/folders/0/items", faults.status(status))
    with pytest.raises(Fatal, match="does not show"):
        list_items(connector, tokens)


# Events


@pytest.mark.parametrize("seed", range(4))
def test_any_history_ends_in_what_the_account_holds(account, connector, tokens, seed):
    # After many changes, the connector's deletions and items must match the account.
    chance = random.Random(seed)
    account.page = chance.choice([2, 7, 100])
    have: dict[str, SourceItem] = {}
    cursor = None
    for _round in range(4):
        for _ in range(chance.randrange(1, 12)):
            _something(account, chance)
        page_items, page = list_items(connector, tokens, cursor)
        cursor = page.cursor
        have |= {its: item for its, item in page_items.items() if not item.deleted}
        deleted_ids = {its for its, item in page_items.items() if item.deleted}
        deleted_ids |= {
            its for its in have if page.whole and its not in page_items and connector.is_deleted(tokens, its)
        }
        have = {its: item for its, item in have.items() if its not in deleted_ids}
        live_nodes = {node.id: node for node in account.nodes.values() if node.kind == "file" and not node.is_gone}
        assert {its: item.properties["path"] for its, item in have.items()} == {
            its: "/".join([ancestor.name for ancestor in node.above[1:]] + [node.name])
            for its, node in live_nodes.items()
        }
        assert {its: item.version for its, item in have.items()} == {
            its: box.whole(node)["sha1"] for its, node in live_nodes.items()
        }


def _something(account, chance):
    """Apply one random change of a person."""
    nodes = [node for node in account.nodes.values() if node.id != "0"]
    number = next(account.ids)
    action = chance.choice(["put", "put", "put", "change", "rename", "move", "delete", "restore"]) if nodes else "put"
    folders = [node for node in account.nodes.values() if node.kind == "folder"]
    if action == "put":
        target = chance.choice(folders)
        path = "/".join([ancestor.name for ancestor in target.above[1:]] + [target.name] * (target.id != "0"))
        account.put(f"{path}/{chance.choice(['', f'd{number}/', f'd{number}/e/'])}{number}.txt", f"text {number}")
        return
    node = chance.choice(nodes)
    if action == "change" and node.kind == "file":
        account.change(node.id, f"changed {number}")
    elif action == "rename":
        account.rename(node.id, f"n{number}")
    elif action == "move":
        into = chance.choice([folder for folder in folders if node not in (folder, *folder.above)])
        account.put_into(node.id, into.id)
    elif action in {"delete", "restore"} and node.trashed == (action == "restore"):
        (account.delete if action == "delete" else account.restore)(node.id)


# Content


def test_a_download_in_preparation_is_retried(account, connector, tokens, tmp_path):
    account.put("a.txt", "x")
    items, _ = list_items(connector, tokens)
    when(account, "/content", instead(202, b"", Retry_After="7"))
    with pytest.raises(Retryable, match="preparing") as raised:
        connector.fetch(tokens, next(iter(items.values())), tmp_path / "raw")
    assert raised.value.after == 7
    assert len(requests_with(account, "/content")) == 1


def test_other_content_than_box_names_is_not_taken(account, connector, tokens, tmp_path):
    account.put("a.txt", "right")
    items, _ = list_items(connector, tokens)
    when(account, "/dl/", instead(200, b"wrong"))
    with pytest.raises(Retryable, match="does not match its checksum"):
        connector.fetch(tokens, next(iter(items.values())), tmp_path / "raw")


@pytest.mark.parametrize("name", ["marked.txt", "Plan.gdoc"])
def test_what_box_sends_otherwise_than_it_keeps_it_is_taken(account, connector, tokens, tmp_path, name):
    file_id = account.put(name, "kept")
    account.nodes[file_id].marked = name == "marked.txt"
    items, _ = list_items(connector, tokens)
    when(account, "/dl/", instead(200, b"kept, for your eyes only"))
    raw = connector.fetch(tokens, items[file_id], tmp_path / "raw")
    assert raw.path.read_text() == "kept, for your eyes only"
    assert raw.version == items[file_id].version


def test_a_tls_connection_refuses_a_download_without_tls(account, tmp_path):
    client = box_client.BoxSession(Endpoint(base_url="https://api.box.example"), 1000)
    with pytest.raises(retries.TransientError):
        client._download_redirected(account.base + "/dl/x", tmp_path / "raw")
    assert not account.requests


def test_a_file_over_the_limit_is_left_where_it_is(account, tokens, tmp_path):
    account.put("a.txt", "x" * 2000)
    connector = registry.make_connector("BOX", APP, account.settings.model_copy(update={"max_file_bytes": 1000}))
    items, _ = list_items(connector, tokens)
    with pytest.raises(Skippable, match="larger than"):
        connector.fetch(tokens, next(iter(items.values())), tmp_path / "raw")
    assert not requests_with(account, "/content")


def test_a_file_that_may_only_be_previewed_is_left_out_with_its_reason(account, connector, tokens, tmp_path):
    file_id = account.put("a.txt", "x")
    items, _ = list_items(connector, tokens)
    account.close(file_id)
    with pytest.raises(Skippable, match="preview"):
        connector.fetch(tokens, items[file_id], tmp_path / "raw")


def test_a_missing_scope_of_the_app_is_reported(account, connector, tokens):
    file_id = account.put("a.txt", "x")
    when(account, "/2.0/", instead(403, {"type": "error", "status": 403, "code": "insufficient_scope"}))
    with pytest.raises(Fatal, match="scope"):
        list_items(connector, tokens)
    with pytest.raises(Fatal, match="scope"):
        connector.is_deleted(tokens, file_id)


def test_a_box_note_comes_as_markdown(account, connector, tokens, tmp_path):
    words = {"type": "paragraph", "content": [{"type": "text", "text": "We meet on Monday."}]}
    title = {"type": "heading", "attrs": {"level": 2}, "content": [{"type": "text", "text": "Plan"}]}
    note = {"version": 1, "schema_version": 1, "doc": {"type": "doc", "content": [title, words]}}
    file_id = account.put("notes/Weekly.boxnote", json.dumps(note))
    items, _ = list_items(connector, tokens)
    raw = connector.fetch(tokens, items[file_id], tmp_path / "raw")
    assert raw.path.read_text() == "## Plan\n\nWe meet on Monday."
    assert (items[file_id].media_type, raw.media_type) == ("text/markdown", "text/markdown")
    assert raw.properties["title"] == "Weekly"
    assert raw.version == items[file_id].version


# What is sent


@pytest.mark.parametrize("body", [b"[" * 200_000, [], {"entries": [{"type": "file"}]}, {}])
def test_an_answer_of_another_shape_is_no_empty_folder(account, connector, tokens, body):
    when(account, "/items", instead(200, body))
    with pytest.raises(Retryable, match="cannot be read"):
        list_items(connector, tokens)


# Whose account it is


def exchanged(account, connector):
    url = connector.authorizer.authorize_url(redirect_uri="https://here.example/back", state="s", challenge=None)
    code = dict(parse_qsl(urlsplit(account.visit(url)).query))["code"]
    return connector.authorizer.exchange_code(code, redirect_uri="https://here.example/back", verifier=None)


def test_an_authorization_says_whose_account_it_is(account, connector):
    account.vendor.account = "4711"
    tokens_of_code = exchanged(account, connector)
    assert tokens_of_code.account == "4711"
    account.requests.clear()
    refreshed = connector.authorizer.refresh(tokens_of_code)
    assert refreshed.account == "4711"
    assert refreshed.refresh_token != tokens_of_code.refresh_token
    assert not requests_with(account, "/users/me")


@pytest.mark.parametrize("wrong", [faults.status(401), faults.status(503)])
def test_an_authorization_without_a_known_account_is_kept(account, connector, wrong):
    when(account, "/users/me", wrong)
    tokens_of_code = exchanged(account, connector)
    assert tokens_of_code.account is None
    assert tokens_of_code.access_token
    assert len(requests_with(account, "/users/me")) == 1


@pytest.mark.parametrize("status", [403, 503])
def test_what_box_says_is_in_no_log_and_no_traceback(account, connector, tokens, tmp_path, caplog, status):
    file_id = account.put("a.txt", "words")
    items, _ = list_items(connector, tokens)
    account.fault = lambda _request: faults.status(status)
    with pytest.raises((Retryable, Fatal, Skippable)) as raised:
        connector.fetch(tokens, items[file_id], tmp_path / "raw")
    output = "".join(traceback.format_exception(raised.value)) + caplog.text
    assert "SECRET" not in output
    assert "canary" not in output


def test_an_address_that_opens_a_file_is_in_no_traceback(account, connector, tokens, tmp_path):
    # Nothing listens at the redirect's target: the HTTP library would name the whole address.
    file_id = account.put("a.txt", "words")
    items, _ = list_items(connector, tokens)
    when(account, "/content", instead(302, b"", Location="http://127.0.0.1:9/d/1/b1!canary-signature/download"))
    with pytest.raises(Retryable) as raised:
        connector.fetch(tokens, items[file_id], tmp_path / "raw")
    assert "canary" not in "".join(traceback.format_exception(raised.value))
