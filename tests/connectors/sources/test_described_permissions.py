"""Access lists of described services against their stand-ins: whom they name, and that what is not told is denied."""

from __future__ import annotations

import pytest

from connectors.http import retries
from retrieval.connections.connected_source import read_access
from retrieval.ports import SourceAccess
from tests.connectors.sources.test_described import opened
from tests.standins import faults, github
from tests.standins.accounts import serving_account

ADA, BOB = "ada@example.com", "bob@example.com"


@pytest.fixture
def account(request, monkeypatch):
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.01)
    with serving_account(request.param) as account:
        yield account


@pytest.fixture
def hub(monkeypatch):
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.01)
    with github.serving() as account:
        account.put("Issue", "text")
        account.files = {"README.md": "# Handbook"}
        yield account


def read(account, external_id=None):
    connector, tokens = opened(account)
    return read_access(connector, tokens, external_id or account.locate(next(iter(account.items))))


def read_repository(hub):
    connector, tokens = opened(hub)
    issue, file = hub.locate("1"), f"https://github.com/{github.REPOSITORY}/blob/HEAD/README.md"
    access = read_access(connector, tokens, issue)
    requests = len(hub.requests)
    assert read_access(connector, tokens, file) == access
    assert len(hub.requests) == requests
    return access


def test_a_public_repository_is_for_everybody(hub):
    hub.visibility = "public"
    assert read_repository(hub) == SourceAccess(public=True)


@pytest.mark.parametrize("visibility", ["private", "internal"])
def test_a_private_repository_is_for_its_collaborators(hub, visibility):
    hub.visibility, hub.page = visibility, 2
    hub.show_to("1", ADA, BOB, "mona", "hubot", "octocat")
    assert read_repository(hub) == SourceAccess(
        (ADA, BOB), ("github:user:hubot", "github:user:mona", "github:user:octocat")
    )


def test_collaborators_that_are_not_told_are_nobody(hub):
    hub.may_list_collaborators = False
    access = read_repository(hub)
    assert (access.users, access.groups, access.public) == ((), (), False)
    assert "write access to the repository" in access.unknown


@pytest.mark.parametrize(
    "answer", [[], {}, [{"login": None, "permissions": {"pull": True}}], [{"login": "mona"}], None]
)
def test_an_answer_that_makes_no_sense_shows_an_item_to_nobody(hub, answer):
    hub.fault = lambda request: (
        (lambda handler: handler.reply(200, answer) or True) if "collaborators" in request else None
    )
    access = read_repository(hub)
    assert access.unknown
    assert not access.users
    assert not access.public


@pytest.mark.parametrize("answer", [{}, {"private": None}, {"private": "no"}, {"private": 0}, []])
def test_a_repository_is_public_only_where_github_says_so(hub, answer):
    hub.fault = lambda request: (
        (lambda handler: handler.reply(200, answer) or True) if request.endswith("/handbook") else None
    )
    assert read_repository(hub) == SourceAccess((ADA,))


def test_an_address_that_is_not_told_is_no_address(hub):
    hub.fault = lambda request: faults.status(404) if "/users/" in request else None
    assert read_repository(hub) == SourceAccess((), ("github:user:octocat",))


def test_another_version_is_known_without_a_listing(hub):
    connector, tokens = opened(hub)
    items = {item.external_id: item.version for page in connector.iter_changes(tokens, None) for item in page.items}
    assert len(items) == 2
    assert {name: connector.version(tokens, name) for name in items} == items
    assert connector.version(tokens, hub.locate("9")) == ""
