"""Permissions of content services as access of documents."""

from __future__ import annotations

import pytest

from retrieval.access.reading import viewed_database
from retrieval.connections import connected_source
from retrieval.principals import Access
from tests.flows.ingestion.test_unpack import packed
from tests.library import viewer_of
from tests.nightly import nightly_except

OWNER, BOB, EVE = "ada@example.com", "bob@example.com", "eve@elsewhere.example"


GRANTING = nightly_except(["BOX", "DROPBOX", "GOOGLE_DRIVE", "ONEDRIVE", "SHAREPOINT"], "BOX", "SHAREPOINT")


@pytest.fixture
def space(space):
    space.db.rows("update connections set permissions = 'SOURCE' where id = %(id)s", {"id": space.connection})
    return space


def allowed(space, external_id):
    access = Access.load(space.documents()[external_id]["access"])
    return {*access.users, *access.groups, *(["*"] if access.public else [])}


@pytest.mark.parametrize("account", GRANTING, indirect=True)
def test_what_cannot_be_told_is_nobodys_with_the_reason(space, account):
    file = account.put("plain.txt", "The plain file.")
    if account.connector == "SHAREPOINT":
        account.hide(file)
    else:
        account.untold.add(file)
    run = space.ingest()
    assert run.failed == []
    row = space.documents()[file]
    assert Access.load(row["access"]) == Access()
    assert "may see this file" in row["access_reason"]
    if account.connector != "SHAREPOINT":
        account.untold.clear()
        space.ingest()
        assert allowed(space, file) == {OWNER}
        assert space.documents()[file]["access_reason"] is None


@pytest.mark.parametrize("account", ["BOX"], indirect=True)
def test_links_and_roles_of_box_that_show_nothing(space, account):
    links = {
        "locked": {"is_password_enabled": True},
        "ended": {"unshared_at": "2020-01-01T00:00:00Z"},
        "shut": {"effective_permission": "no_access"},
        "narrowed": {"effective_access": "company"},
        "endless": {"unshared_at": "2100-01-01T00:00:00Z"},
    }
    files = {name: account.put(f"{name}.txt", f"The text {name}.") for name in (*links, "uploader", "editor")}
    for name, link in links.items():
        account.grant(files[name], public=True, **link)
    for role in ("uploader", "editor"):
        account.grant(files[role], BOB, role=role)
    space.ingest()
    assert {name: allowed(space, file) - {OWNER} for name, file in files.items()} == {
        **{name: set() for name in ("locked", "ended", "shut", "uploader")},
        "narrowed": {"box:company"},
        "endless": {"*"},
        "editor": {BOB},
    }


@pytest.mark.parametrize("account", ["NOTION"], indirect=True)
def test_of_a_workspace_everybody_and_where_nothing_is_told_nobody(space, account):
    file = account.put("plain.txt", "The plain file.")
    space.ingest()
    assert allowed(space, file) == {OWNER}
    account.people = []
    space.ingest()
    row = space.documents()[file]
    assert Access.load(row["access"]) == Access()
    assert "capability" in row["access_reason"]


@pytest.mark.parametrize("account", ["DROPBOX"], indirect=True)
def test_links_of_dropbox_and_an_authorization_without_sharing(space, account):
    files = {name: account.put(f"{name}.txt", f"The text {name}.") for name in ("locked", "ended", "team", "endless")}
    account.grant(files["locked"], public=True, password_protected=True)
    account.grant(files["ended"], public=True, expiry="2020-01-01T00:00:00Z")
    account.grant(files["team"], current_audience="team")
    account.grant(files["endless"], public=True, expiry="2100-01-01T00:00:00Z")
    space.ingest()
    readers = {name: allowed(space, file) - {OWNER} for name, file in files.items()}
    assert readers == {"locked": set(), "ended": set(), "team": {"dropbox:team"}, "endless": {"*"}}
    account.permitted = False
    run = space.ingest()
    assert run.failed == []
    row = space.documents()[files["endless"]]
    assert Access.load(row["access"]) == Access()
    assert "sharing.read" in row["access_reason"]


@pytest.mark.parametrize("account", ["GOOGLE_DRIVE"], indirect=True)
def test_a_domain_is_everybody_with_an_address_of_it(space, account):
    file = account.put("plain.txt", "The plain file.")
    account.grant(file, domain="Example.com")
    space.ingest()
    (row,) = space.db.rows("select listed_at from connections where id = %(id)s", {"id": space.connection})
    assert row["listed_at"] is not None

    def sees(name):
        viewer = viewer_of(space.db, space.scope, name)
        values = {"one": file, "id": space.connection}
        statement = "select 1 from documents where external_id = %(one)s and connection_id = %(id)s"
        return bool(viewed_database(space.db, viewer).rows(statement, values))

    assert [sees(name) for name in (OWNER, BOB, EVE, "bob@other.example.com", "example.com")] == [
        True,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize("account", ["ONEDRIVE"], indirect=True)
def test_a_link_with_a_password_and_a_permission_that_has_ended_show_nobody_anything(space, account):
    file = account.put("plain.txt", "The plain file.")

    def to(name):
        return {"grantedToV2": {"user": {"id": name, "email": name}}}

    locked = {"hasPassword": True, "link": {"type": "view", "scope": "anonymous"}}
    company = {"hasPassword": True, "link": {"type": "view", "scope": "organization"}}
    ended = {"expirationDateTime": "2020-01-01T00:00:00Z", **to(BOB)}
    endless = {"expirationDateTime": "0001-01-01T00:00:00Z", **to(EVE)}
    permissions = [locked, company, ended, endless]
    account.grants[file] = [
        {"id": str(number), "roles": ["read"], **fields} for number, fields in enumerate(permissions)
    ]
    space.ingest()
    assert allowed(space, file) == {OWNER, EVE}


@pytest.mark.parametrize("account", GRANTING, indirect=True)
def test_a_changed_file_that_is_shared_with_more_people_shows_them_its_new_version_alone(space, account):
    file, second_file = account.put("plain.txt", "Not for Bob."), account.put("other.txt", "For Bob, too.")
    account.grant(second_file, BOB)
    space.ingest()
    documents_before = space.documents()
    assert [allowed(space, each_file) for each_file in (file, second_file)] == [{OWNER}, {OWNER, BOB}]
    account.change(file, "For Bob.")
    account.grant(file, BOB)
    account.change(second_file, "Not for Bob any more.")
    account.grant(second_file, EVE)
    readers_seen = []

    def look(step):
        if step != "discover" and not readers_seen:
            readers_seen.append([allowed(space, each_file) for each_file in (file, second_file)])

    run = space.request()
    space.take(space.lease(), before_step=look)
    assert readers_seen == [[{OWNER}, {OWNER}]]
    assert space.run(run).failed == []
    assert [allowed(space, each_file) for each_file in (file, second_file)] == [{OWNER, BOB}, {OWNER, EVE}]
    documents_after = space.documents()
    assert all(
        documents_after[each_file]["active_generation"] > documents_before[each_file]["active_generation"]
        for each_file in (file, second_file)
    )


@pytest.mark.parametrize("account", GRANTING, indirect=True)
def test_a_changed_file_that_cannot_be_read_shows_nobody_else_its_old_version(space, account):
    file = account.put("plain.txt", "Not for Bob.")
    space.ingest()
    account.change(file, "\x7fELF\x00\x01\x02" * 50)
    account.grant(file, BOB)
    for _ in range(2):
        space.ingest()
        assert allowed(space, file) == {OWNER}
    account.change(file, "For Bob.")
    space.ingest()
    assert allowed(space, file) == {OWNER, BOB}


def shown_to(space, user):
    """Texts visible to a user."""
    viewer = viewer_of(space.db, space.scope, user)
    rows = viewed_database(space.db, viewer).rows(
        "select c.content from chunks c join documents d on d.id = c.document_id and d.active_generation = c.generation"
        " join partitions p on p.id = d.partition_id where p.namespace_id = %(namespace)s and d.deleted_at is null",
        {"namespace": space.scope.namespace},
    )
    return " ".join(row["content"] for row in rows)


@pytest.mark.parametrize("account", ["BOX"], indirect=True)
def test_what_is_packed_into_a_file_and_failed_shows_its_old_version_to_nobody_else(space, account):
    """The archive itself follows its listing."""
    stays = [("two.txt", b"Two stays."), ("inner.zip", packed([("deep.txt", b"Deep stays.")]))]
    archive_file = account.put("it.zip", packed([("one.txt", b"Not for Bob."), *stays]))
    space.ingest()
    assert "Not for Bob." in shown_to(space, OWNER)
    account.change(
        archive_file, packed([("one.txt", b"\x7fELF\x00\x01\x02" * 50), *stays, ("three.txt", b"Three is new.")])
    )
    space.ingest()
    account.grant(archive_file, BOB)
    for _ in range(2):
        space.ingest()
        visible_text = shown_to(space, BOB)
        assert [part in visible_text for part in ("Three is new.", "Two stays.", "Deep stays.")] == [True] * 3
        assert "Not for Bob." not in visible_text
        assert "Not for Bob." in shown_to(space, OWNER)
    account.change(archive_file, packed([("one.txt", b"For Bob."), *stays]))
    space.ingest()
    assert "For Bob." in shown_to(space, BOB)
    account.grant(archive_file)
    space.ingest()
    assert shown_to(space, BOB) == ""


@pytest.mark.parametrize("account", GRANTING, indirect=True)
def test_a_file_that_changes_and_is_shared_after_it_was_listed_shows_nobody_else_what_it_was(
    space, account, monkeypatch
):
    file = account.put("it.txt", "Not for Bob.")
    space.ingest()
    before_sharing_is_asked_for(monkeypatch, lambda: (account.change(file, "For Bob."), account.grant(file, BOB)))
    space.ingest()
    assert shown_to(space, OWNER) == "Not for Bob."
    assert shown_to(space, BOB) == ""
    space.ingest()
    assert shown_to(space, OWNER) == shown_to(space, BOB) == "For Bob."


@pytest.mark.parametrize("account", ["NOTION"], indirect=True)
def test_nor_does_a_page_to_who_comes_to_the_workspace(space, account, monkeypatch):
    page = account.put("it", "Not for Bob.")
    space.ingest()
    before_sharing_is_asked_for(monkeypatch, lambda: (account.change(page, "For Bob."), account.people.append(BOB)))
    space.ingest()
    assert "Not for Bob." in shown_to(space, OWNER)
    assert shown_to(space, BOB) == ""
    space.ingest()
    assert "For Bob." in shown_to(space, BOB)


@pytest.mark.parametrize("account", ["NOTION"], indirect=True)
def test_a_file_of_an_unchanged_page_is_shown_to_who_comes_and_not_to_who_leaves(space, account):
    old, new = (account.put(name, f"The page {name}.") for name in ("old", "new"))
    account.attach(old, "tide.txt", "The tide table.")
    space.ingest()
    lamp = account.attach(old, "lamp.txt", "The lamp needs oil.")
    for _ in range(12):  # minutes
        account.change(new, "Another page.")
    space.ingest()
    account.requests.clear()
    account.people.append(BOB)
    run = space.ingest()
    assert (run.failed, run.progress["removed"]) == ([], 0)
    assert f"GET /v1/blocks/{old}/children" not in account.requests
    assert "The page old." in shown_to(space, BOB)
    assert "The tide table." in shown_to(space, BOB)
    account.people = [BOB]
    space.ingest()
    assert shown_to(space, OWNER) == ""
    account.change(lamp, "")
    account.people.append(OWNER)
    space.ingest()
    assert "The tide table." in shown_to(space, OWNER)
    assert "The lamp needs oil." not in shown_to(space, OWNER)


@pytest.mark.slow
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("account", GRANTING, indirect=True)
def test_what_changes_and_is_withdrawn_before_it_is_fetched_is_shown_to_who_may_see_it_then(is_known, space, account):
    if is_known:
        file = account.put("it.txt", "First.")
        space.ingest()
        account.change(file, "For Bob.")
    else:
        file = account.put("it.txt", "For Bob.")
    account.grant(file, BOB)
    run = space.request()
    space.take(
        space.lease(), before_step=once("fetch", lambda: (account.grant(file), account.change(file, "Not for Bob.")))
    )
    assert space.run(run).failed == []
    assert shown_to(space, OWNER) == "Not for Bob."
    assert shown_to(space, BOB) == ""
    account.grant(file, BOB)
    space.ingest()
    assert shown_to(space, BOB) == "Not for Bob."


@pytest.mark.parametrize("account", GRANTING, indirect=True)
def test_what_is_resynced_after_it_was_withdrawn_is_shown_to_who_may_see_it_then(space, account):
    file = account.put("it.txt", "For Bob.")
    account.grant(file, BOB)
    space.ingest()
    account.grant(file, EVE)
    account.change(file, "Not for Bob.")
    (document,) = space.db.rows("select id from documents where connection_id = %(id)s", {"id": space.connection})
    space.resync(document_ids=(document["id"],))
    space.work()
    assert shown_to(space, OWNER) == "Not for Bob."
    assert shown_to(space, BOB) == ""
    space.ingest()
    assert shown_to(space, EVE) == "Not for Bob."


def once(step, change):
    done = []

    def change_once(name):
        if name == step and not done:
            done.append(change())

    return change_once


def before_sharing_is_asked_for(monkeypatch, change):
    """Run `change` between a listing's page and its first request for permissions."""
    ask, changed = connected_source.read_access, []

    def of(*arguments):
        if not changed:
            changed.append(change())
        return ask(*arguments)

    monkeypatch.setattr(connected_source, "read_access", of)
