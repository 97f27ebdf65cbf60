"""Listing without ingestion: new items stay in BACKLOG until a resync."""

from __future__ import annotations

import pytest

from tests.flows.connections.test_choices import fetched
from tests.standins.accounts import serving_account


@pytest.fixture(params=["BOX", "GOOGLE_DRIVE"])
def account(request):
    with serving_account(request.param) as opened:
        yield opened


def statuses(space):
    return {name: row["status"] for name, row in space.documents().items()}


def test_what_is_picked_from_waits_until_a_resync_names_it(space, account):
    first, two = account.put("one.txt", "The first."), account.put("two.txt", "The second.")
    fetched_before = fetched(account)
    run = space.ingest(pick=True)
    assert (run.status, run.outcome, len(run.queued), run.failed) == ("COMPLETED", "SUCCEEDED", 2, [])
    assert statuses(space) == {first: "BACKLOG", two: "BACKLOG"}
    assert fetched(account) == fetched_before
    assert space.search("first second") == []
    space.resync(external_ids=(first,))
    space.work()
    assert statuses(space) == {first: "SUCCESS", two: "BACKLOG"}
    three = account.put("three.txt", "The third.")
    run = space.ingest(pick=True)
    assert statuses(space) == {first: "SUCCESS", two: "BACKLOG", three: "BACKLOG"}
    assert len(run.queued) == 2
    space.ingest()
    assert set(statuses(space).values()) == {"SUCCESS"}


@pytest.mark.parametrize("account", ["BOX"], indirect=True)
def test_nothing_leaves_and_nothing_is_missed_by_picking(space, account):
    staying, deleted = account.put("kept.txt", "Kept."), account.put("gone.txt", "Gone.")
    space.ingest()
    account.change(staying, "Changed.")
    account.delete(deleted)
    statuses_before = statuses(space)
    space.ingest(pick=True)
    assert statuses(space) == statuses_before
    run = space.ingest()
    assert statuses(space) == {staying: "SUCCESS"}
    assert [document.status for document in run.completed] == ["SUCCESS"]
