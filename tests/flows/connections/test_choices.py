"""Selections of an account: only selected items are fetched, deselected ones are removed."""

from __future__ import annotations

import re

import pytest

from tests.standins.accounts import ACCOUNTS, serving_account
from tests.standins.sharepoint import HOME

TEXTS = {
    "harbour.txt": "The harbour master counts ships at dawn.",
    "plans/2026/launch.txt": "The launch of the lighthouse is planned for spring.",
    "plans/2026/budget.txt": "The budget of the observatory is nearly spent.",
    "plans/drafts/tower.txt": "The tower may be painted red.",
    "notes/bees.txt": "Bees dance to tell where the clover grows.",
    "notes/owls.txt": "Owls hunt mice at night without a sound.",
}


# One service with its own paths, one without; the others behave like the first.
SHORT = {"BOX", "NOTION"}


def chosen(*names):
    return [name if name in SHORT else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.fixture(params=chosen(*ACCOUNTS))
def account(request):
    with serving_account(request.param) as opened:
        yield opened


@pytest.fixture
def files(account):
    return {path: account.put(path, text) for path, text in TEXTS.items()}


def at(account, path):
    """Path in this service's spelling; SharePoint prefixes the library's address, mailboxes the inbox or a label."""
    top = {"SHAREPOINT": f"{HOME}/", "OUTLOOK_MAIL": "Posteingang/", "GMAIL": "Projects/"}.get(account.connector, "")
    return {"path": top + path}


def folder(account, path):
    """Id of an existing folder."""
    if account.connector == "DROPBOX":
        return account._folder(f"/{path}")["id"]
    if account.connector == "NOTION":
        return account.folders[path][0].replace("-", "")  # as it stands in an address
    return account.folder(path)


def fetched(account):
    """Fetched ids in the stand-in's log of requests."""
    if account.connector == "DROPBOX":
        return {argument["path"] for name, argument in account.arguments if name in {"download", "export"}}
    if account.connector == "GOOGLE_DRIVE":
        return {query["fileId"] for _, query in account.calls if query.get("alt") == "media"}
    if account.connector in {"OUTLOOK_MAIL", "GMAIL"}:
        return set(account.read)
    pattern = {
        "BOX": r"GET /2\.0/files/(\d+)/content",
        "NOTION": r"GET /v1/(?:pages|blocks)/([0-9a-f-]+)/(?:markdown|children)",
    }.get(account.connector, r"GET /signed/(?:.*~)?(.*)")
    return {match[1] for request in account.requests if (match := re.fullmatch(pattern, request))}


def has(space, files):
    """Paths of the documents."""
    documents = space.documents()
    return {path for path, file_id in files.items() if file_id in documents}


def test_nothing_but_what_is_chosen_is_fetched(space, account, files):
    run = space.ingest(include=[at(account, "plans")], exclude=[at(account, "plans/**/tower*")])
    assert (run.outcome, run.failed) == ("SUCCEEDED", [])
    expected = {"plans/2026/launch.txt", "plans/2026/budget.txt"}
    assert has(space, files) == expected
    assert fetched(account) == {files[path].rpartition("/")[2] for path in expected}
    assert not [name for name in space.search("bees dance where clover grows", top_k=9) if "bees" in name]


def test_a_narrower_choice_is_a_removal_that_many_wait_for(space, account, files):
    space.ingest()
    assert has(space, files) == set(TEXTS)
    run = space.ingest(exclude=[at(account, "harbour.txt")])
    assert (run.progress["removed"], run.progress["awaitingConfirmation"]) == (1, 0)
    run = space.ingest(include=[at(account, "plans")])
    assert (run.progress["removed"], run.progress["awaitingConfirmation"]) == (0, 2)
    assert has(space, files) == set(TEXTS) - {"harbour.txt"}
    space.ingest()
    assert has(space, files) == set(TEXTS)
    run = space.ingest()
    assert run.progress.get("awaitingConfirmation", 0) == 0


def test_what_is_moved_out_leaves_and_what_is_moved_in_comes(space, account, files):
    for number in range(6):
        account.put(f"plans/2026/more{number}.txt", f"more {number}")
    chosen = {"include": [at(account, "plans")], "exclude": [at(account, "plans/drafts")]}
    space.ingest(**chosen)
    account.requests.clear()
    account.move(files["plans/2026/budget.txt"], "notes")
    account.move(files["notes/owls.txt"], "plans/2026")
    run = space.ingest(**chosen)
    assert run.progress["removed"] == 1
    assert has(space, files) == {"plans/2026/launch.txt", "notes/owls.txt"}


def test_ids_choose_folders_and_files(space, account, files):
    run = space.ingest(
        include=[{"id": folder(account, "plans")}, {"id": files["notes/owls.txt"]}],
        exclude=[{"id": folder(account, "plans/2026")}, {"id": files["harbour.txt"]}],
    )
    assert run.failed == []
    expected = {"plans/drafts/tower.txt", "notes/owls.txt"}
    assert has(space, files) == expected
    assert fetched(account) == {files[path].rpartition("/")[2] for path in expected}


@pytest.mark.parametrize("by", ["id", "path"])
@pytest.mark.parametrize("account", chosen("BOX", "GOOGLE_DRIVE", "ONEDRIVE", "SHAREPOINT", "NOTION"), indirect=True)
def test_a_folder_that_is_moved_out_takes_its_files_with_it(space, account, files, by):
    for number in range(9):
        account.put(f"plans/more{number}.txt", f"more {number}")
    moved = folder(account, "plans/2026")
    chosen = {"include": [{"id": folder(account, "plans")} if by == "id" else at(account, "plans")]}
    space.ingest(**chosen)
    assert has(space, files) == {"plans/2026/launch.txt", "plans/2026/budget.txt", "plans/drafts/tower.txt"}
    account.move(account.folders["plans/2026"][0] if account.connector == "NOTION" else moved, "notes")
    run = space.ingest(**chosen)
    assert run.progress["removed"] == 2
    assert has(space, files) == {"plans/drafts/tower.txt"}
