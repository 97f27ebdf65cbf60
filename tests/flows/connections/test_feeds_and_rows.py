"""Feeds and rows of SQL through a job run to a search: changes, removals, a kill during the listing."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.connectors.sources.test_feeds import Site, rss
from tests.connectors.sources.test_sql import Account
from tests.flows.connected import connected_space
from tests.flows.crawling import killed_after_pages
from tests.standins import database_servers
from tests.standins.account import serving


@pytest.fixture(scope="module")
def server():
    folder = Path(tempfile.mkdtemp(prefix="db-", dir="/tmp"))  # open to the server's user
    folder.chmod(0o755)
    with database_servers.serve_postgresql(folder) as served:
        yield served
    shutil.rmtree(folder, ignore_errors=True)


def find(space, query):
    return " ".join(hit.content for hit in space.find_hits(query, top_k=9))


def test_entries_of_a_feed_are_found_changed_and_kept_when_they_leave_it(db, monkeypatch):
    def entry(number, text):
        return f"<title>Entry {number}</title><guid>{number}</guid><description>{text}</description>"

    with serving(Site()) as site, connected_space(db, site, monkeypatch) as space:
        owls, tide = "Owls hunt mice at night. " * 60, "A spring tide follows the full moon. " * 60
        site.put(rss(entry(1, owls), entry(2, tide)))
        run = space.ingest()
        assert (run.failed, len(run.completed)) == ([], 2)
        assert "Owls hunt mice" in find(space, "owls at night")
        site.put(rss(entry(2, "Bees dance where the clover grows. " * 60)))
        run = space.ingest()
        assert (run.failed, run.progress["embedded"], run.progress["removed"]) == ([], 1, 0)
        assert "Bees dance" in find(space, "bees and clover")
        assert "spring tide" not in find(space, "tide and moon")
        assert "Owls hunt mice" in find(space, "owls at night")
        site.statuses.clear()
        assert space.ingest().progress["embedded"] == 0
        assert site.statuses == [304]


def test_rows_are_found_after_a_kill_changed_and_removed(db, server, monkeypatch):
    account = Account(server)
    monkeypatch.setattr("connectors.sources.sql.database.BATCH", 2)
    account.put(1)
    account.put(2, "Tides", "A spring tide follows the full moon.")
    account.put(3, "Bees", "Bees dance where the clover grows.")
    with connected_space(db, account, monkeypatch) as space:
        run = space.request()
        with killed_after_pages(1):
            space.work()
        db.rows("update batches set lease_until = now() - interval '1 second' where finished_at is null")
        space.take_up()
        assert space.run(run).failed == []
        assert space.documents().keys() == {account.locate(key) for key in (1, 2, 3)}
        assert "They hunt at night" in find(space, "owls hunt at night")
        account.execute(
            "update articles set body = 'An ebb tide.', updated = '2026-11-28 08:00:00' where id = 2",
            "delete from articles where id = 3",
        )
        run = space.ingest()
        assert (run.failed, run.progress["embedded"], run.progress["removed"]) == ([], 1, 1)
        assert "An ebb tide" in find(space, "tide")
        assert "Bees dance" not in find(space, "bees and clover")
