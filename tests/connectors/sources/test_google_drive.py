"""Google Drive beyond the contract suite: exports, shortcuts, shared drives, trashed folders, refusals."""

from __future__ import annotations

import json
import logging
import traceback
from functools import partial
from urllib.parse import parse_qsl, urlsplit

import pytest

from connectors import registry
from connectors.google import transport
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.ports import SourceItem, Tokens
from tests.connectors.sources.reading import walk
from tests.standins import faults, google_drive
from tests.standins.google_drive_files import Refusal
from tests.standins.place import APP

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
TOO_LARGE = Refusal(403, "exportSizeLimitExceeded")


CONNECTOR, STANDIN = "GOOGLE_DRIVE", google_drive


@pytest.fixture
def fetch(connector, tokens, tmp_path):
    return lambda external_id: connector.fetch(tokens, SourceItem(external_id, ""), tmp_path / "raw")


@pytest.fixture
def list_files(connector, tokens):
    return partial(walk, connector, tokens)


def queries_of(account, name):
    return [query for method, query in account.calls if method == name]


# Content


def test_documents_of_googles_own_come_in_formats_that_keep_their_structure(account, list_files, fetch):
    kinds = {
        "document": ("text/markdown", b"# Plan"),
        "spreadsheet": (XLSX, b"PK all sheets"),
        "presentation": (PPTX, b"PK slides"),
        "drawing": ("application/pdf", b"%PDF-1.7"),
    }
    ids = {kind: account.put_native(f"{kind} 1.0", kind, dict([kinds[kind]])) for kind in kinds}
    items, _, _ = list_files()
    for kind, external_id in ids.items():
        raw = fetch(external_id)
        assert (raw.media_type, raw.path.read_bytes()) == kinds[kind]
        assert raw.name == items[external_id].name == f"{kind} 1.0"
        assert raw.properties["title"] == f"{kind} 1.0"


def test_the_pictures_in_exported_markdown_leave_their_descriptions_behind(account, fetch):
    text = b"# Plan\n\nSee ![our owl][image1] and [a link][ref].\n\n[ref]: <https://example.com>\n\n"
    file_id = account.put_native(
        "Plan", "document", {"text/markdown": text + b"[image1]: <data:image/png;base64,iVBORw0K>\n"}
    )
    markdown = fetch(file_id).path.read_text()
    assert markdown.strip() == "# Plan\n\nSee our owl and [a link][ref].\n\n[ref]: <https://example.com>"


@pytest.mark.parametrize("refusal", [TOO_LARGE, Refusal(400, "badRequest")])
def test_what_cannot_be_exported_in_one_format_comes_in_the_next(account, fetch, refusal):
    file_id = account.put_native("Plan", "document", {"text/markdown": refusal, DOCX: b"PK docx"})
    two = account.put_native("Talk", "presentation", {PPTX: refusal, "text/plain": b"Slide 1"})
    assert fetch(file_id).media_type == DOCX
    assert fetch(two).path.read_bytes() == b"Slide 1"


def test_what_is_too_large_to_be_exported_comes_by_its_link(account, tokens, tmp_path):
    # A spreadsheet of 12 MB; a file without an export has no export link.
    large = b"PK" + bytes(12 * 2**20)
    file_id = account.put_native("Numbers", "spreadsheet", {XLSX: TOO_LARGE})
    account.linked[file_id] = {XLSX: large}
    larger_limit = account.settings.model_copy(update={"max_file_bytes": 50 * 2**20})
    raw = registry.make_connector("GOOGLE_DRIVE", APP, larger_limit).fetch(
        tokens, SourceItem(file_id, ""), tmp_path / "raw"
    )
    assert (raw.media_type, raw.size) == (XLSX, len(large))
    assert raw.path.read_bytes() == large


@pytest.mark.parametrize(
    "link",
    [
        "http://docs.google.com",
        "https://docs.google.com.example",
        "https://docs.google.com@127.0.0.1",
        "https://127.0.0.1",
        "{base}0",
        "{base}@127.0.0.1",
    ],
)
def test_a_link_to_another_host_is_not_followed(account, fetch, link):
    file_id = account.put_native("Numbers", "spreadsheet", {XLSX: TOO_LARGE})
    account.linked[file_id] = {XLSX: b"PK"}
    account.link_base = link.format(base=account.base)
    with pytest.raises(Skippable, match="10 MB"):
        fetch(file_id)


def test_a_link_that_leads_to_another_host_takes_no_bearer_there(account, fetch, elsewhere):
    file_id = account.put_native("Numbers", "spreadsheet", {XLSX: TOO_LARGE})
    account.linked[file_id] = {XLSX: b"PK"}

    def lead_away(handler):
        handler.reply(302, b"", {"Location": elsewhere.base + "/take"})
        return True

    account.fault = lambda request: lead_away if "/export/" in request else None
    with pytest.raises(Skippable, match="10 MB"):
        fetch(file_id)
    assert elsewhere.requests == []


def test_a_page_that_asks_to_sign_in_is_no_document(account, fetch):
    file_id = account.put_native("Numbers", "spreadsheet", {XLSX: TOO_LARGE})
    account.linked[file_id] = {XLSX: b"PK"}

    def signs_in(handler):
        handler.reply(200, b"PK <html>", {"Content-Type": "text/html; charset=utf-8"})
        return True

    account.fault = lambda request: signs_in if "/export/" in request else None
    with pytest.raises(Skippable, match="10 MB"):
        fetch(file_id)


def test_a_file_is_fetched_in_parts_and_whole(account, fetch, monkeypatch):
    monkeypatch.setattr(transport, "DOWNLOAD_PART_BYTES", 1000)
    text = "".join(f"line {number}\n" for number in range(500))
    file_id = account.put("long.txt", text)
    assert fetch(file_id).path.read_text() == text
    assert len([query for query in queries_of(account, "drive.files.get") if query.get("alt") == "media"]) == 5
    assert fetch(account.put("empty.txt", "")).size == 0


def test_a_file_larger_than_the_limit_is_not_downloaded(account, tokens, tmp_path):
    file_id = account.put("large.txt", "x" * 2000)
    small = registry.make_connector("GOOGLE_DRIVE", APP, account.settings.model_copy(update={"max_file_bytes": 1000}))
    with pytest.raises(Skippable, match="larger than"):
        small.fetch(tokens, SourceItem(file_id, ""), tmp_path / "raw")
    assert not [query for query in queries_of(account, "drive.files.get") if query.get("alt") == "media"]
    grown = account.put_native("Plan", "document", {"text/markdown": b"x" * 2000})
    with pytest.raises(Skippable, match="larger than"):
        small.fetch(tokens, SourceItem(grown, ""), tmp_path / "raw")


def test_a_file_that_must_not_be_downloaded_is_named_with_the_reason(account, list_files):
    file_id = account.put("secret.txt", "x")
    account.nodes[file_id]["capabilities"]["canDownload"] = False
    items, _, _ = list_files()
    assert "owner" in items[file_id].error


# What is listed


def test_what_others_shared_is_listed_and_shortcuts_lead_to_their_targets_once(account, list_files, fetch):
    own_id, shared_id = account.put("a/own.txt", "own"), account.share("given.txt", "given")
    linked = account.share("linked.txt", "linked", is_listed=False)
    account.put_shortcut("to own", own_id)
    account.put_shortcut("to linked", linked)
    account.put_shortcut("again/to linked", linked)
    account.put_shortcut("to folder", account.folder("a"))
    account.put_shortcut("to nothing", "1gone")
    items, skipped, _ = list_files()
    assert set(items) == {own_id, shared_id, linked}
    assert items[linked].name == "linked.txt"
    assert items[shared_id].properties["owner"] == "Grace"
    assert skipped == {"a shortcut to a folder": 1, "a shortcut to what cannot be opened": 1}
    assert len([query for query in queries_of(account, "drive.files.get") if query["fileId"] == linked]) == 1
    assert fetch(linked).path.read_text() == "linked"


def test_files_of_shared_drives_are_listed_once_with_their_place(account, list_files):
    marketing = account.shared_drive("Marketing")
    inside = account.put("plans/2026/launch.txt", "x", drive=marketing)
    own_id = account.put("notes/own.txt", "x")
    account.given.add(inside)  # the account has opened it: it is among its own files as well
    items, _, page = list_files()
    assert {file_id: item.properties["path"] for file_id, item in items.items()} == {
        inside: "Marketing/plans/2026/launch.txt",
        own_id: "notes/own.txt",
    }
    assert "owner" not in items[inside].properties
    account.change(inside, "changed")
    changes, _, page = list_files(page.cursor)
    assert set(changes) == {inside}
    assert not page.whole


def test_a_file_that_goes_to_a_shared_drive_does_not_leave(account, list_files):
    marketing = account.shared_drive("Marketing")
    file_id = account.put("one.txt", "x")
    _, _, page = list_files()
    account.into_drive(file_id, marketing)
    changes, _, _ = list_files(page.cursor)
    assert not changes[file_id].deleted
    assert changes[file_id].properties["path"] == "Marketing/one.txt"


def test_a_new_shared_drive_is_listed_and_followed(account, list_files):
    account.put("one.txt", "x")
    _, _, page = list_files()
    late = account.shared_drive("Late")
    first = account.put("first.txt", "x", drive=late)
    changes, _, page = list_files(page.cursor)
    assert first in changes
    assert not page.whole
    second = account.put("second.txt", "x", drive=late)
    changes, _, _ = list_files(page.cursor)
    assert set(changes) == {second}


def test_what_lay_in_a_shared_drive_that_was_left_is_gone(account, list_files, connector, tokens):
    drive = account.shared_drive("Marketing")
    kept_id, inside = account.put("kept.txt", "x"), account.put("inside.txt", "x", drive=drive)
    _, _, page = list_files()
    account.leave_drive(drive)
    changes, _, page = list_files(page.cursor)
    assert set(changes) == {kept_id}
    assert page.whole
    assert connector.is_deleted(tokens, inside)


# Changes


def test_changes_during_a_whole_listing_are_in_the_next_listing(account, connector, tokens, list_files):
    account.page = 1
    file_id = account.put("one.txt", "x")
    account.put("two.txt", "x")
    pages = connector.iter_changes(tokens, None)
    next(pages)
    account.change(file_id, "changed meanwhile")
    *_, last = pages
    changes, _, _ = list_files(last.cursor)
    assert set(changes) == {file_id}


@pytest.mark.parametrize("lags", [False, True])
def test_a_folder_takes_its_files_into_the_trash_and_back(account, list_files, lags):
    kept_id = account.put("kept.txt", "x")
    inside = {account.put("old/one.txt", "x"), account.put("old/deep/er/two.txt", "x")}
    _, _, page = list_files()
    account.lags = lags
    account.delete(account.folder("old"))
    changes, _, page = list_files(page.cursor)
    assert {file_id for file_id, item in changes.items() if item.deleted} == inside
    account.restore(account.folder("old"))
    changes, _, page = list_files(page.cursor)
    assert {file_id for file_id, item in changes.items() if not item.deleted} == inside
    assert kept_id not in changes


def test_what_was_deleted_for_ever_is_gone(account, list_files, connector, tokens):
    file_id = account.put("one.txt", "x")
    _, _, page = list_files()
    account.purge(file_id)
    changes, _, _ = list_files(page.cursor)
    assert changes[file_id].deleted
    assert connector.is_deleted(tokens, file_id)


# Refusals


@pytest.mark.parametrize(
    ("reason", "words"),
    [("accessNotConfigured", "enable it"), ("insufficientPermissions", "authorize"), ("domainPolicy", "administrator")],
)
def test_refusals_that_hold_for_everything_say_what_to_do(account, list_files, tokens, reason, words):
    account.trouble = {"drive.drives.list": Refusal(403, reason)}
    with pytest.raises(Fatal, match=words) as raised:
        list_files()
    assert "SECRET" not in str(raised.value)
    assert not tokens.failed


@pytest.mark.parametrize("reason", ["cannotDownloadFile", "cannotDownloadAbusiveFile", "somethingNew"])
def test_a_refusal_of_one_file_skips_only_this_file(account, fetch, reason):
    file_id = account.put("one.txt", "x")
    account.trouble = {"drive.files.get": Refusal(403, reason)}
    with pytest.raises(Skippable) as raised:
        fetch(file_id)
    assert "SECRET" not in str(raised.value)


def test_what_google_says_is_in_no_log_and_no_traceback(account, list_files, fetch, caplog):
    caplog.set_level(logging.DEBUG)
    file_id = account.put("one.txt", "x")
    tracebacks = []
    for name, reason in (("get", "cannotDownloadFile"), ("get", "notFound"), ("get", "rateLimitExceeded")):
        account.trouble = {f"drive.files.{name}": Refusal(403, reason)}
        try:
            fetch(file_id)
        except Skippable:
            tracebacks.append(traceback.format_exc())
    account.fault = lambda _request: faults.status(403)
    with pytest.raises(Retryable) as raised:
        list_files()
    tracebacks.append("".join(traceback.format_exception(raised.value)))
    assert len(tracebacks) == 3
    assert "SECRET" not in caplog.text + "".join(tracebacks)
    assert "canary" not in caplog.text + "".join(tracebacks)


@pytest.mark.parametrize(
    "file",
    [
        None,
        [],
        {"id": "1"},
        {"id": "1", "name": "x", "mimeType": "text/plain", "owners": [1]},
    ],
)
def test_a_file_that_makes_no_sense_ends_the_listing_in_words(account, connector, tokens, list_files, tmp_path, file):
    account.put("one.txt", "x")

    def odd(request):
        body = {"files": [file]} if request.endswith("/files") else file
        return (lambda handler: handler.reply(200, body) or True) if "/files" in request else None

    account.fault = odd
    with pytest.raises(Retryable, match=r"no listing|broke off"):
        list_files()
    if file is None or len(file) != 1:
        with pytest.raises(Retryable):
            connector.fetch(tokens, SourceItem("1", ""), tmp_path / "raw")


def test_a_forbidden_shared_drive_is_skipped_and_keeps_its_documents(account, list_files):
    # The listing is not whole without the drive, so nothing counts as deleted.
    barred, open_drive = account.shared_drive("Barred"), account.shared_drive("Open")
    held_id, kept_id = account.put("held.txt", "x", drive=barred), account.put("kept.txt", "x", drive=open_drive)
    mine = account.put("mine.txt", "x")
    account.barred.add(barred)
    items, skipped, page = list_files()
    assert set(items) == {mine, kept_id}
    assert skipped == {"a shared drive that the account may not list": 1}
    assert not page.whole
    account.barred.clear()
    changes, skipped, page = list_files(page.cursor)
    assert (set(changes), skipped) == ({held_id}, {})
    account.barred.add(barred)
    fresh = account.put("fresh.txt", "x", drive=barred)
    changes, skipped, page = list_files(page.cursor)
    assert (set(changes), skipped) == (set(), {"a shared drive that the account may not list": 1})
    account.barred.clear()
    assert set(list_files(page.cursor)[0]) == {fresh}


def test_what_lies_in_a_folder_shared_by_its_link_is_listed_and_followed(account, list_files, fetch, connector, tokens):
    folder = account.share_folder("From Grace")
    deeper = account.put_inside(folder, "deeper", None)
    file_id, two = account.put_inside(folder, "one.txt", "first"), account.put_inside(deeper, "two.txt", "second")
    mine = account.put("mine.txt", "x")
    items, _, page = list_files()
    assert set(items) == {file_id, two, mine}
    assert items[two].properties["path"] == "From Grace/deeper/two.txt"
    assert fetch(two).path.read_bytes() == b"second"
    assert page.whole
    account.change(file_id, "changed")
    three = account.put_inside(deeper, "three.txt", "third")
    account.delete(two)
    changes, _, page = list_files(page.cursor)
    assert changes[file_id].version != items[file_id].version
    assert three in changes
    assert changes[two].deleted
    account.unshare(folder)
    changes, _, page = list_files(page.cursor)
    assert set(changes) == {mine}
    assert page.whole
    assert connector.is_deleted(tokens, file_id)


def test_no_bearer_goes_to_another_host(account, fetch, list_files, elsewhere, monkeypatch):
    address = f"{elsewhere.base}/drive/v3/"
    monkeypatch.setattr(transport, "DOWNLOAD_PART_BYTES", 1000)
    file_id = account.put("one.txt", "x" * 3000)
    account.fault = lambda _request: lambda handler: handler.reply(302, b"", {"Location": address}) or True
    with pytest.raises(Retryable):
        list_files()

    def lead_away(handler):
        if not handler.headers.get("range"):
            return False
        headers = {"Content-Location": address, "Content-Range": "bytes 0-999/3000", "Content-Type": "text/plain"}
        handler.reply(206, b"x" * 1000, headers)
        return True

    account.fault = lambda _request: lead_away
    with pytest.raises(Retryable):
        fetch(file_id)
    assert elsewhere.requests == []


# Whose account it is


def test_the_account_is_known_by_its_subject(account):
    authorizer = registry.make_authorizer("GOOGLE_DRIVE", APP, account.settings)
    back = "https://here.example/back"

    def granted():
        callback = account.visit(authorizer.authorize_url(redirect_uri=back, state="s", challenge=None))
        return authorizer.exchange_code(
            dict(parse_qsl(urlsplit(callback).query))["code"], redirect_uri=back, verifier=None
        )

    first = granted()
    assert first.account == "account-1"
    assert authorizer.refresh(first).account == "account-1"
    account.vendor.account = "account-2"
    assert granted().account == "account-2"


@pytest.mark.parametrize("word", [None, 1, "", "x", "x.%%%.x", "x.bnVsbA.x", "x.eyJzdWIiOiAxfQ.x"])
def test_an_answer_that_does_not_say_whose_it_is_counts_all_the_same(account, word):
    token_response = {"access_token": "fresh", "id_token": word}
    account.vendor.trouble = (200, json.dumps(token_response).encode(), {})
    authorizer = registry.make_authorizer("GOOGLE_DRIVE", APP, account.settings)
    assert authorizer.refresh(Tokens("old", "lasting", account="me")) == Tokens("fresh", "lasting", None, "me")
