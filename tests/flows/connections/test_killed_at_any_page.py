"""Kills before and after each recorded page, for sources without an app: the next worker continues and each item
becomes one document.
"""

from __future__ import annotations

import pytest

from connectors.sources.objects import tree
from retrieval.settings import Settings
from tests.flows.crawling import watch_pages
from tests.standins import described_services
from tests.standins.accounts import serving_account


class Killed(BaseException):
    """The worker's process ends here."""


class Folder:
    """A folder of this machine with a file for each item."""

    connector = "OBJECTS"

    def __init__(self, path):
        self.path = path
        self.config = {"url": f"file://{path}"}
        self.settings = Settings(_env_file=None, source_folders=[path])

    def put(self, title, text):
        name = f"{title}.txt".replace(" ", "-")
        (self.path / name).write_text(text)
        return name

    def locate(self, key):
        return f"file://{self.path}/{key}"

    def change(self, key, text):
        (self.path / key).write_text(text)

    def delete(self, key):
        (self.path / key).unlink()


AT_LENGTH = [pytest.param(name, marks=pytest.mark.slow) for name in described_services.SERVICES]
"""The engine is the same for all."""


@pytest.fixture(params=["OBJECTS", "GITHUB", *AT_LENGTH])
def account(request, tmp_path, monkeypatch):
    if request.param == "OBJECTS":
        monkeypatch.setattr(tree, "BATCH", 2)
        yield Folder(tmp_path)
        return
    with serving_account(request.param) as opened:
        opened.page = 2
        yield opened


def kill_at_each_page(space):
    """Ingest with a loss of each page, then of its worker."""
    calls = []

    def before():
        calls.append("page")
        if len(calls) % 2:
            raise Killed

    def after(_job_run):
        if len(calls) % 4:
            raise Killed

    run = space.request()
    with watch_pages(before=before, after=after):
        for _ in range(40):
            try:
                space.take_up() if calls else space.work()
                break
            except Killed:
                space.db.rows("update batches set lease_until = now() - interval '1 second' where finished_at is null")
    return space.run(run), len(calls)


def documents(space):
    rows = space.documents()
    assert {row["status"] for row in rows.values()} == {"SUCCESS"}
    return {name: row["active_generation"] for name, row in rows.items()}


def test_a_worker_that_is_killed_at_any_page_loses_and_doubles_nothing(space, account):
    keys = [account.put(f"Title {number}", f"The lighthouse number {number} is lit.") for number in range(5)]
    run, calls = kill_at_each_page(space)
    assert (run.status, run.failed) == ("COMPLETED", [])
    assert calls >= 6
    documents_before = documents(space)
    assert {account.locate(key) for key in keys} <= documents_before.keys()
    account.change(keys[1], "The observatory is dark.")
    account.delete(keys[4])
    space.db.rows("update connections set cursor = null where id = %(id)s", {"id": space.connection})
    run, _ = kill_at_each_page(space)
    assert (run.status, run.failed) == ("COMPLETED", [])
    documents_after = documents(space)
    # Internal notes of a ticket are a document with the ticket's address and a query; they leave with it.
    deleted = account.locate(keys[4])
    assert {name.partition("?notes=")[0] for name in documents_before.keys() - documents_after.keys()} <= {deleted}
    changed = {name for name in documents_after if documents_after[name] != documents_before[name]}
    assert changed == {account.locate(keys[1])}
