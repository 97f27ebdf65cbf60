"""Access lists of described services against their stand-ins: whom they name, and that what is not told is denied."""

from __future__ import annotations

import pytest

from connectors.sources.described import permissions
from retrieval.connections.connected_source import read_access
from retrieval.ports import SourceAccess
from tests.connectors.sources.reading import open_connector
from tests.standins import faults, github

ADA, BOB = "ada@example.com", "bob@example.com"


@pytest.fixture
def hub():
    with github.serving() as account:
        account.put("Issue", "text")
        account.files = {"README.md": "# Handbook"}
        yield account


@pytest.fixture(autouse=True)
def answers():
    """As of another process."""
    permissions.shared_answers.cache_clear()


def read(account, external_id=None):
    """Of a run that begins now."""
    connector, tokens = open_connector(account)
    connector.answers.forget(tokens.connection_id)
    return read_access(connector, tokens, external_id or account.locate(next(iter(account.items))))


def read_repository(hub):
    connector, tokens = open_connector(hub)
    issue, file = hub.locate("1"), f"https://github.com/{github.REPOSITORY}/blob/HEAD/README.md"
    access = read_access(connector, tokens, issue)
    requests = len(hub.requests)
    assert read_access(connector, tokens, file) == access
    assert len(hub.requests) == requests
    return access


def test_a_public_repository_is_for_everybody(hub):
    hub.visibility = "public"
    assert read_repository(hub) == SourceAccess(public=True)


def test_a_public_repository_of_an_enterprise_server_is_for_the_users_of_that_server(hub):
    """Private mode of GitHub Enterprise Server: who has no account may read none of its repositories."""
    hub.visibility = "public"
    hub.config["url"] = f"{hub.base}/{github.REPOSITORY}"
    connector, tokens = open_connector(hub)
    access = read_access(connector, tokens, f"{hub.base}/{github.REPOSITORY}/issues/1")
    assert access == SourceAccess(groups=(f"github:{hub.base.removeprefix('http://')}",))


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


@pytest.mark.parametrize("answer", [{}, {"private": None}, {"private": "no"}, {"private": 0}, []])
def test_a_repository_is_public_only_where_github_says_so(hub, answer):
    hub.fault = lambda request: (
        (lambda handler: handler.reply(200, answer) or True) if request.endswith("/handbook") else None
    )
    assert read_repository(hub) == SourceAccess((ADA,))


def test_a_collaborator_whose_account_is_suspended_or_not_there_is_nobody(hub):
    hub.fault = lambda request: faults.status(404) if "/users/" in request else None
    assert read_repository(hub).unknown
    suspended = {"login": "octocat", "email": ADA, "suspended_at": "2026-01-01T00:00:00Z"}
    hub.fault = lambda request: (
        (lambda handler: handler.reply(200, suspended) or True) if "/users/" in request else None
    )
    assert read_repository(hub).unknown


def test_collaborators_are_requested_once_for_the_windows_of_a_run_and_again_by_the_next_listing(hub, monkeypatch):
    connector, tokens = open_connector(hub)
    assert read_access(connector, tokens, hub.locate("1")).users == (ADA,)
    hub.show_to("1", BOB)
    connector, _ = open_connector(hub)
    requests = len(hub.requests)
    assert read_access(connector, tokens, hub.locate("1")).users == (ADA,)
    assert len(hub.requests) == requests
    list(connector.iter_changes(tokens, None))
    assert read_access(connector, tokens, hub.locate("1")).users == (BOB,)
    hub.show_to("1", ADA)
    monkeypatch.setattr(permissions, "FRESH_SECONDS", 0.0)
    assert read_access(connector, tokens, hub.locate("1")).users == (ADA,)


def test_another_version_is_known_without_a_listing(hub):
    connector, tokens = open_connector(hub)
    items = {item.external_id: item.version for page in connector.iter_changes(tokens, None) for item in page.items}
    assert len(items) == 2
    assert {name: connector.version(tokens, name) for name in items} == items
    assert connector.version(tokens, hub.locate("9")) == ""


CONFLUENCE = pytest.mark.parametrize(
    "account", ["CONFLUENCE", "CONFLUENCE_GATEWAY", "CONFLUENCE_DATA_CENTER"], indirect=True
)


def people(account, *names):
    """Names as an access list has them: of Data Center, which tells no addresses, by the keys of users."""
    return {f"confluence:user:id-{name}" if account.hosted else name for name in names}


def names_of(access):
    assert not access.unknown
    return {*access.users, *access.groups, *(["*"] if access.public else [])}


@CONFLUENCE
def test_a_page_without_restrictions_is_for_the_readers_of_the_space(account):
    account.put("Page", "text")
    account.readers, account.page = ([ADA], ["staff", "board"]), 1
    assert names_of(read(account)) == {*people(account, ADA), "confluence:staff", "confluence:board"}
    account.readers = ([], [])
    assert "administer" in read(account).unknown or "space's permissions" in read(account).unknown


@CONFLUENCE
def test_a_restricted_page_is_for_those_whom_page_ancestors_and_space_allow(account):
    """Each of the three is a limit: a user has to pass all, by name or as a member of a group."""
    top, page = account.put("Top", "text"), account.put("Page", "text")
    account.parents, account.page = {page: top}, 2
    account.members = {"staff": [ADA, BOB, "cyd@example.com"], "board": [ADA, "dan@example.com"]}
    account.readers = ([], ["staff"])

    def shown(*limits):
        account.restrictions = dict(zip((top, page), limits, strict=False))
        return names_of(read(account, account.locate(page)))

    assert shown() == {"confluence:staff"}
    assert shown(([], []), ([ADA, "dan@example.com"], [])) == people(account, ADA)
    assert shown(([BOB], []), ([ADA], ["staff"])) == people(account, BOB)
    assert shown(([], []), ([], ["board"])) == people(account, ADA)
    account.members["board"].remove("dan@example.com")
    assert shown(([], []), ([], ["board"])) == {"confluence:board"}
    assert shown(([], ["staff"]), ([], ["staff"])) == {"confluence:staff"}
    assert shown(([], ["strangers"]), ([ADA], [])) == set()
    assert shown(([BOB], []), ([ADA], [])) == set()


@pytest.mark.parametrize("account", ["CONFLUENCE"], indirect=True)
def test_a_page_below_a_folder_is_nobodys_for_restrictions_of_folders_are_not_told(account):
    top, page, deep, post = (account.put(name, "text") for name in ("Top", "Page", "Deep", "Post"))
    account.parents, account.folders, account.posts = {page: "7", "7": top, deep: page}, {"7"}, {post}
    for key in (page, deep):
        access = read(account, account.locate(key))
        assert (access.users, access.groups, access.public) == ((), (), False)
        assert "folder" in access.unknown
    for key in (top, post):
        assert names_of(read(account, account.locate(key))) == {"confluence:everyone"}
    account.fault = lambda request: faults.status(403) if "/ancestors" in request else None
    assert read(account, account.locate(top)).unknown


@pytest.mark.parametrize("answer", [{}, [], {"results": None}, {"results": [{"id": "1"}]}, {"results": [None]}])
@pytest.mark.parametrize("account", ["CONFLUENCE"], indirect=True)
def test_a_page_is_nobodys_where_what_is_above_it_cannot_be_read(account, answer):
    account.put("Page", "text")
    account.fault = lambda request: (
        (lambda handler: handler.reply(200, answer) or True) if "/ancestors" in request else None
    )
    assert read(account).unknown


@pytest.mark.parametrize("account", ["CONFLUENCE"], indirect=True)
def test_a_user_whose_address_is_hidden_is_named_by_id(account):
    key = account.put("Page", "text")
    account.show_to(key, ADA, BOB)
    account.hidden_addresses = {BOB}
    assert names_of(read(account)) == {ADA, f"confluence:user:id-{BOB}"}


@pytest.mark.parametrize("account", ["CONFLUENCE"], indirect=True)
def test_a_page_below_one_whose_restrictions_are_not_told_is_nobodys(account):
    page = account.put("Page", "text")
    account.parents = {page: account.put("Top", "text")}
    of_parent = f"/content/{account.parents[page]}/restriction"
    account.fault = lambda request: faults.status(404) if of_parent in request else None
    assert read(account, account.locate(page)).unknown
    account.fault = lambda request: (lambda handler: handler.reply(200, {}) or True) if of_parent in request else None
    assert read(account, account.locate(page)).unknown


@pytest.mark.parametrize("account", ["CONFLUENCE_DATA_CENTER"], indirect=True)
@pytest.mark.parametrize("field", ["restrictions", "ancestors"])
def test_a_page_whose_restrictions_are_not_told_is_nobodys(account, field):
    """Such as an ancestor that the credentials may not see."""
    page = account.put("Page", "text")
    account.parents = {page: account.put("Top", "text")}
    describe = account.describe_limits
    account.describe_limits = lambda key: {name: value for name, value in describe(key).items() if name != field}
    assert read(account, account.locate(page)).unknown
    account.describe_limits = lambda key: {**describe(key), "ancestors": [{"id": "1"}]}
    assert read(account, account.locate(page)).unknown


@CONFLUENCE
@pytest.mark.parametrize("entry", [None, "ada", 7, {}, {"accountId": None, "userKey": None}, {"accountId": True}, []])
def test_a_restriction_to_users_that_cannot_be_read_is_not_none(account, entry):
    page = account.put("Page", "text")
    limits = {"user": {"results": [entry]}, "group": {"results": []}}
    account.describe_limit = lambda _key: {"restrictions": {"read": {"restrictions": limits}}}
    assert names_of(read(account, account.locate(page))) == set()


@CONFLUENCE
def test_members_that_are_not_told_pass_no_limit(account):
    key = account.put("Page", "text")
    account.show_to(key, ADA)
    account.fault = lambda request: faults.status(403) if "/group/" in request else None
    assert names_of(read(account)) == set()
    account.fault = lambda request: faults.status(403) if "permissions" in request else None
    assert read(account).unknown


SLACK = pytest.mark.parametrize("account", ["SLACK"], indirect=True)


@SLACK
def test_a_private_channel_is_for_its_members_and_a_public_one_for_the_workspace(account):
    account.put("Message", "text")
    account.members, account.page = [ADA, BOB, "bot", "cyd@example.com"], 2
    account.hidden_addresses, account.deactivated = {"bot"}, {"cyd@example.com"}
    assert names_of(read(account)) == {ADA, BOB, "slack:user:U-bot"}
    account.fault = lambda request: faults.status(404) if "users.info" in request else None
    assert read(account).unknown
    account.fault = lambda _request: None
    account.is_private = False
    assert names_of(read(account)) == {"slack:acme"}


@SLACK
def test_members_of_a_channel_that_are_not_told_are_nobody(account):
    account.put("Message", "text")
    account.may_read_members = False
    assert "groups:read" in read(account).unknown


@pytest.mark.parametrize("account", ["JIRA"], indirect=True)
def test_an_issue_is_for_those_who_may_browse_it(account):
    key, secret = account.put("Issue", "text"), account.put("Secret", "text")
    account.show_to(key, ADA, BOB)
    account.show_to(secret, BOB)
    account.hidden_addresses = {ADA}
    assert names_of(read(account, account.locate(key))) == {f"jira:user:id-{ADA}", BOB}
    assert names_of(read(account, account.locate(secret))) == {BOB}
    account.may_browse_users = False
    assert "Browse users and groups" in read(account, account.locate(key)).unknown


@pytest.mark.parametrize("account", ["JIRA_DATA_CENTER"], indirect=True)
def test_an_issue_of_data_center_is_nobodys(account):
    """It tells a hundred users at most, and none without a part of their name."""
    account.put("Issue", "text")
    assert read(account).unknown


@pytest.mark.parametrize("account", ["JIRA", "JIRA_DATA_CENTER"], indirect=True)
def test_comments_that_not_all_readers_of_an_issue_see_are_left_out(account, tmp_path):
    key = account.put("Issue", "text")
    connector, tokens = open_connector(account)
    (item,) = [item for page in connector.iter_changes(tokens, None) for item in page.items]
    assert item.external_id == account.locate(key)
    text = connector.fetch(tokens, item, tmp_path / "a").path.read_text()
    assert "A comment." in text
    assert "SECRET" not in text


@pytest.mark.parametrize("account", ["JIRA", "CONFLUENCE", "CONFLUENCE_DATA_CENTER", "SLACK"], indirect=True)
def test_the_version_of_an_item_is_known_without_a_listing(account):
    account.put("Item", "text")
    connector, tokens = open_connector(account)
    (item,) = [item for page in connector.iter_changes(tokens, None) for item in page.items]
    assert connector.version(tokens, item.external_id) == item.version
