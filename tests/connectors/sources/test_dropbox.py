"""Dropbox: paths and ids, cursors, Paper, teams, permissions, untrustworthy answers."""

from __future__ import annotations

import json

import pytest

from connectors import registry
from connectors.sources.dropbox import client, files
from retrieval.errors import Retryable, Skippable
from retrieval.settings import Settings
from tests.connectors.sources.reading import walk as list_items
from tests.standins import dropbox, faults
from tests.standins.place import APP

CONNECTOR, STANDIN = "DROPBOX", dropbox


def count_requests(account, name: str) -> int:
    return account.requests.count(f"POST /2/files/{name}")


def failing(account, path: str, answer):
    """Answer requests with `path` by the given answer."""
    account.fault = lambda request: answer if path in request else None


def saying(status: int, body, **headers: str):
    def fault(handler):
        handler.reply(status, body, {name.replace("_", "-"): value for name, value in headers.items()})
        return True

    return fault


# What changes took away


def test_a_deleted_file_is_listed_by_its_id_without_a_whole_listing(account, connector, tokens):
    deleted, _ = account.put("plans/one.txt", "1"), account.put("plans/two.txt", "2")
    _, _, last = list_items(connector, tokens)
    account.delete(deleted)
    changes, _, page = list_items(connector, tokens, last.cursor)
    assert {name for name, item in changes.items() if item.deleted} == {deleted}
    assert not page.whole
    assert count_requests(account, "list_folder") == 1


def test_a_file_that_took_anothers_place_removes_it(account, connector, tokens):
    # The change names only the new file; the path's revisions show the old file.
    old_id = account.put("report.txt", "old")
    _, _, last = list_items(connector, tokens)
    account.delete(old_id)
    new_id = account.put("report.txt", "new")
    changes, _, _ = list_items(connector, tokens, last.cursor)
    assert changes[old_id].deleted
    assert not changes[new_id].deleted


def test_a_deleted_folder_has_everything_listed(account, connector, tokens):
    below, kept_id = account.put("plans/2026/deep.txt", "1"), account.put("kept.txt", "2")
    _, _, last = list_items(connector, tokens)
    account.delete_folder("plans")
    changes, _, page = list_items(connector, tokens, last.cursor)
    assert set(changes) == {kept_id}
    assert page.whole
    assert connector.is_deleted(tokens, below)


def test_a_deletion_during_a_whole_listing_is_listed(account, connector, tokens):
    account.page = 1
    first = account.put("a.txt", "1")
    account.put("b.txt", "2")
    listing = connector.iter_changes(tokens, None)
    assert [item.external_id for item in next(listing).items] == [first]
    account.delete(first)
    later_items = [item for page in listing for item in page.items]
    assert first in {item.external_id for item in later_items if item.deleted}


def test_a_folder_deleted_while_everything_is_listed_has_the_next_listing_whole(account, connector, tokens):
    account.page = 1
    first, last = account.put("a/one.txt", "1"), account.put("b.txt", "2")
    listing = connector.iter_changes(tokens, None)
    next(listing)
    page = next(listing)
    assert [item.external_id for item in page.items] == [first]
    account.delete_folder("a")
    *_, page = listing
    assert page.whole
    changes, _, page = list_items(connector, tokens, page.cursor)
    assert set(changes) == {last}
    assert page.whole
    _, _, page = list_items(connector, tokens, page.cursor)
    assert not page.whole


def test_a_file_of_a_shared_folder_that_was_left_is_gone(account, connector, tokens):
    file_id = account.put("shared/one.txt", "x")
    account.files[file_id]["kind"] |= {"path_lower": None, "path_display": None}
    assert connector.is_deleted(tokens, file_id)


# Content


def test_a_paper_document_is_exported_as_markdown(account, connector, tokens, tmp_path):
    paper = account.put_document("notes/Launch plan.paper", {"html": "<p>no</p>", "markdown": "# Launch\n\nOn Friday."})
    items, _, last = list_items(connector, tokens)
    raw = connector.fetch(tokens, items[paper], tmp_path / "raw")
    assert raw.path.read_text() == "# Launch\n\nOn Friday."
    assert (raw.name, raw.media_type) == ("Launch plan.md", "text/markdown")
    assert (items[paper].name, items[paper].media_type) == (raw.name, raw.media_type)
    assert items[paper].properties["path"] == "notes/Launch plan.paper"
    account.change(paper, "")
    changes, _, _ = list_items(connector, tokens, last.cursor)
    assert changes[paper].version != items[paper].version


def test_what_can_be_neither_sent_nor_exported_and_links_are_counted_by_their_reason(account, connector, tokens):
    account.put_document("Board.canvas", {"svg": "<svg/>"})
    account.put("link.txt", "", symlink_info={"target": "/other.txt"})
    items, skipped, _ = list_items(connector, tokens)
    assert items == {}
    assert skipped == {files.SKIPPED_UNEXPORTABLE: 1, files.SKIPPED_SYMLINK: 1}


def test_a_file_that_is_too_large_is_left_out_with_its_size_and_not_downloaded(account, tokens, tmp_path):
    big = account.put("big.txt", "x" * 3_000_000)
    settings = Settings(_env_file=None, endpoints=account.settings.endpoints, max_file_bytes=2**20)
    connector = registry.make_connector("DROPBOX", APP, settings)
    items, _, _ = list_items(connector, tokens)
    with pytest.raises(Skippable, match=r"2\.9 MiB.*1 MiB"):
        connector.fetch(tokens, items[big], tmp_path / "raw")
    assert (tmp_path / "raw").stat().st_size == 0


def test_content_that_is_not_what_was_announced_is_not_taken(account, connector, tokens, tmp_path):
    file_id = account.put("one.txt", "what it should be")
    items, _, _ = list_items(connector, tokens)
    wrong = json.dumps(account.describe_file(file_id))
    failing(account, "download", saying(200, b"what it SHOULD be", Dropbox_API_Result=wrong))
    with pytest.raises(Retryable):
        connector.fetch(tokens, items[file_id], tmp_path / "raw")
    account.fault = lambda _request: None
    assert connector.fetch(tokens, items[file_id], tmp_path / "raw").path.read_text() == "what it should be"


@pytest.mark.parametrize(
    ("reason", "words"),
    [("restricted_content", "restricted"), ("locked", "locked"), ("a_reason_of_tomorrow", "does not give out")],
)
def test_a_restricted_file_is_skipped_with_its_reason(reason, words, account, connector, tokens, tmp_path):
    file_id = account.put("one.txt", "x")
    items, _, _ = list_items(connector, tokens)
    error = {"error_summary": "SECRET", "error": {".tag": "path", "path": {".tag": reason}}}
    failing(account, "download", saying(409, error))
    with pytest.raises(Skippable, match=words) as raised:
        connector.fetch(tokens, items[file_id], tmp_path / "raw")
    assert "SECRET" not in str(raised.value)


def test_path_and_address_of_a_file_are_those_of_the_web_app(account, connector, tokens):
    file_id = account.put("Ärger & mehr/50 % #1.txt", "x")
    items, _, _ = list_items(connector, tokens)
    assert items[file_id].properties == {
        "url": "https://www.dropbox.com/home/%C3%84rger%20%26%20mehr?preview=50%20%25%20%231.txt",
        "path": "Ärger & mehr/50 % #1.txt",
        "modifiedAt": "2026-02-03T04:05:06Z",
    }


# A team's space


def test_team_folders_and_a_members_own_are_listed(account, connector, tokens, tmp_path):
    account.team = True
    own_id, shared = account.put("Ann/own.txt", "mine"), account.put("Marketing/shared.txt", "ours")
    items, _, last = list_items(connector, tokens)
    assert set(items) == {own_id, shared}
    assert connector.fetch(tokens, items[shared], tmp_path / "raw").path.read_text() == "ours"
    assert not connector.is_deleted(tokens, shared)
    account.delete(shared)
    changes, _, _ = list_items(connector, tokens, last.cursor)
    assert changes[shared].deleted


# Refusals


def test_a_token_that_dropbox_calls_malformed_is_renewed(account, connector, tokens):
    account.put("one.txt", "x")
    refusals = [saying(400, b"The given OAuth 2 access token is malformed.", Content_Type="text/plain")]
    account.fault = lambda _request: refusals.pop() if refusals else None
    assert len(list_items(connector, tokens)[0]) == 1
    assert tokens.renewals == 1


def test_a_token_goes_only_to_dropbox():
    session = client._session(None)
    assert sorted(session.adapters) == ["https://api.dropboxapi.com/", "https://content.dropboxapi.com/"]
    assert not session.trust_env


@pytest.mark.parametrize(
    "answer",
    [
        faults.html,
        faults.cut,
        saying(200, {}),
        saying(409, {"SECRET": 1}),
    ],
)
def test_an_answer_that_makes_no_sense_is_not_believed(answer, account, connector, tokens, tmp_path):
    file_id = account.put("one.txt", "x")
    items, _, last = list_items(connector, tokens)
    failing(account, "/2/files/", answer)
    for ask in (
        lambda: list_items(connector, tokens, last.cursor),
        lambda: connector.is_deleted(tokens, file_id),
        lambda: connector.fetch(tokens, items[file_id], tmp_path / "raw"),
    ):
        with pytest.raises(Retryable) as raised:
            ask()
        assert "SECRET" not in str(raised.value)
    assert not tokens.failed
