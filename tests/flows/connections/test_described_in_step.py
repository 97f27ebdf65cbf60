"""A Slack workspace, a Confluence site, a Jira site and a GitHub organization, each by one connection and an address
copied from a browser: read whole, and after every kind of change in step by the next run.
"""

from __future__ import annotations

import time
from contextlib import contextmanager

import pytest

from connectors.sources.described.connector import Described
from tests.flows.connected import connected_space
from tests.library import viewer_of
from tests.nightly import nightly_except
from tests.standins import described_services, github
from tests.standins.slack import Channel, days_ago

CLOUD = "https://acme.atlassian.net"
COUNT = 24
ADA, EVE = "ada@example.com", "eve@elsewhere.example"


class Workplace:
    """Changes of a service as its people make them; items are known by their number."""

    def __init__(self, account):
        self.account = account
        self.keys = [
            account.put(f"Ship {number}", f"The harbour master counts ship {number}.") for number in range(COUNT)
        ]

    def edit(self, number, text):
        self.account.change(self.keys[number], text)

    def reply(self, number, text):
        self.account.put_comment(self.keys[number], "Bob Lund", text)

    def rename(self, number, title):
        self.account.rename(self.keys[number], title)

    def delete(self, number):
        self.account.delete(self.keys[number])

    def permit(self, *users):
        for key in self.keys:
            self.account.show_to(key, *users)


class SlackWorkspace(Workplace):
    address = "https://app.slack.com/client/T0123ABC/C0123456789"

    def __init__(self, account):
        super().__init__(account)
        account.channels["C0TIDE"] = Channel("tide")
        for number in range(1, COUNT):
            account.post(f"Tide table {number}.", f"{1770000000 + number * 86400}.000100", channel="C0TIDE")

    def reply(self, number, text):
        self.account.reply(self.keys[number], text, days_ago(0.1))

    def rename(self, number, title):
        self.account.channels["C0TIDE"].name = title


class JiraSite(Workplace):
    address = f"{CLOUD}/jira/your-work"

    def __init__(self, account):
        account.has_comments = False
        super().__init__(account)


class ConfluenceSite(Workplace):
    address = f"{CLOUD}/wiki/home"

    def reply(self, number, text):
        self.account.put_comment(self.keys[number], "901", "Bob Lund", text)


class Organization(Workplace):
    address = "https://github.com/orgs/octo-org/repositories"

    def __init__(self, account):
        self.account = account
        self.repositories = [account.add(name) for name in ("handbook", "search")]
        for number in range(COUNT):
            self._find(number).put_issue(f"Ship {number}", f"The harbour master counts ship {number}.")

    def _find(self, number):
        return self.repositories[number % 2]

    def edit(self, number, text):
        self._find(number).change_issue(number // 2 + 1, body=text)

    def reply(self, number, text):
        self._find(number).put_comment(number // 2 + 1, "mona", text)

    def rename(self, number, title):
        self._find(number).change_issue(number // 2 + 1, title=title)

    def delete(self, number):
        del self._find(number).issues[number // 2 + 1]

    def permit(self, *users):
        for repository in self.repositories:
            repository.show_to("", *users)


@contextmanager
def serving(name):
    if name == "GITHUB":
        with github.serving_organization() as account:
            account.config["url"] = Organization.address
            yield Organization(account)
        return
    kind = {"SLACK_CLIENT": SlackWorkspace, "JIRA_SITE": JiraSite, "CONFLUENCE_SITE": ConfluenceSite}[name]
    with described_services.serving(name) as account:
        account.config_url = kind.address
        yield kind(account)


@pytest.fixture
def work(request):
    with serving(request.param) as made:
        yield made


@pytest.fixture
def account(work):
    return work.account


@pytest.fixture
def space(db, account, monkeypatch):
    with connected_space(db, account, monkeypatch) as connected:
        yield connected


def find(space, query, text, viewer=None):
    return any(text in hit.content for hit in space.find_hits(query, top_k=50, viewer=viewer))


NAMES = ["SLACK_CLIENT", "CONFLUENCE_SITE", "JIRA_SITE", "GITHUB"]
SERVICES = pytest.mark.parametrize("work", nightly_except(NAMES, "CONFLUENCE_SITE", "GITHUB"), indirect=True)


@SERVICES
def test_every_change_is_searchable_or_gone_after_the_next_run(space, work):
    run = space.ingest()
    assert (run.status, run.failed) == ("COMPLETED", [])
    assert all(find(space, f"harbour master counts ship {number}", f"ship {number}.") for number in (0, 7, COUNT - 1))
    work.account.requests.clear()
    run = space.ingest()
    assert (run.failed, run.progress["parsed"], run.progress["embedded"]) == ([], 0, 0)
    assert len(work.account.requests) <= 5, "A run without changes takes a request for 200 items."

    time.sleep(1.1)  # Confluence tells times in seconds
    work.edit(0, "Owls hunt mice at night.")
    work.reply(2, "Bees dance where the clover grows.")
    work.rename(4, "lighthouse")
    work.delete(5)
    run = space.ingest()
    assert run.failed == []
    assert find(space, "owls at night", "Owls hunt mice")
    assert find(space, "bees and clover", "Bees dance")
    assert find(space, "lighthouse", "lighthouse")
    assert not find(space, "harbour master counts ship 0", "ship 0.")
    assert not find(space, "harbour master counts ship 5", "ship 5.")


@SERVICES
def test_a_change_of_permissions_counts_after_the_next_run_and_fetches_nothing(space, work, monkeypatch):
    space.db.rows("update connections set permissions = 'SOURCE' where id = %(id)s", {"id": space.connection})
    query, text = "harbour master counts ship 7", "ship 7."
    for user, other in ((ADA, EVE), (EVE, ADA)):
        work.permit(user)
        assert space.ingest().failed == []
        assert find(space, query, text, viewer_of(space.db, space.scope, user))
        assert not find(space, query, text, viewer_of(space.db, space.scope, other))
        monkeypatch.setattr(Described, "fetch", lambda *_: pytest.fail("fetched again"))


@pytest.mark.parametrize("work", ["GITHUB"], indirect=True)
def test_a_full_listing_is_requested_for_one_run(space, work):
    space.ingest()
    work.account.requests.clear()
    run = space.ingest(fullListing=True)
    assert (run.failed, run.progress["parsed"]) == ([], 0)
    assert "GET /repos/octo-org/search/issues" in work.account.requests
    for start in (space.repeat, space.ingest):
        work.account.requests.clear()
        start()
        space.work()
        assert "GET /orgs/octo-org/issues" in work.account.requests
        assert "GET /repos/octo-org/search/issues" not in work.account.requests
