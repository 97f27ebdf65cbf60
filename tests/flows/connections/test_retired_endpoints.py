"""Endpoints removed by a vendor: lists name items, requests for them fail."""

from __future__ import annotations

import pytest

from tests.nightly import nightly_except
from tests.standins import retired
from tests.standins.accounts import ACCOUNTS

RETIRED = "no longer answers for items"


@pytest.fixture
def paths(account):
    """Five files by external id; one may go without confirmation."""
    return {account.put(f"plans/{number}.txt", f"The text {number}."): number for number in range(5)}


@pytest.fixture
def space(space, paths):
    assert space.ingest().failed == []
    assert space.documents().keys() == paths.keys()
    return space


def use_source_permissions(space):
    space.db.rows("update connections set permissions = 'SOURCE' where id = %(id)s", {"id": space.connection})


def read_access(space):
    return {external_id: (row["access"], row["access_reason"]) for external_id, row in space.documents().items()}


@pytest.mark.parametrize("account", nightly_except(ACCOUNTS, "BOX", "GOOGLE_DRIVE"), indirect=True)
def test_a_retired_endpoint_of_items_removes_nothing_and_says_so(space, account, paths):
    deleted = next(iter(paths))
    account.delete(deleted)
    account.forget_cursors()
    account.fault = retired.retire(account, retired.ITEMS)
    run = space.ingest()
    assert RETIRED in str(run.failed)
    assert space.documents().keys() == paths.keys()
    assert not space.db.rows("select 1 from departures where connection_id = %(id)s", {"id": space.connection})
    account.fault = lambda _request: None
    run = space.ingest()
    assert run.failed == []
    assert space.documents().keys() == paths.keys() - {deleted}


@pytest.mark.parametrize("account", nightly_except(ACCOUNTS, "BOX", "GOOGLE_DRIVE"), indirect=True)
def test_a_retired_endpoint_of_permissions_hides_nothing(space, account, paths):
    use_source_permissions(space)
    assert space.ingest().failed == []
    access_before = read_access(space)
    assert all(reason is None for _, reason in access_before.values())
    account.forget_cursors()  # a mailbox asks only for the threads that it lists
    account.fault = retired.retire(account, retired.PERMISSIONS)
    run = space.ingest()
    assert RETIRED in str(run.failed)
    assert read_access(space) == access_before
