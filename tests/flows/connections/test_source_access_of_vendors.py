"""Permissions of each vendor's format: nobody sees more here than there."""

from __future__ import annotations

import pytest

from retrieval.principals import Access
from tests.flows.connections.test_source_access import BOB, EVE, OWNER, allowed


@pytest.fixture
def space(space):
    space.db.rows("update connections set permissions = 'SOURCE' where id = %(id)s", {"id": space.connection})
    return space


def role(identity, **fields):
    return {"id": "7", "roles": ["read"], **fields, **identity}


def granted_to(**identity):
    return {"grantedToV2": identity}


def site(number):
    return {"id": number, "displayName": "Members", "loginName": "Members"}


def entra(its, *, login, email=None):
    """Group of Entra in SharePoint's format."""
    group = {"displayName": "Finance", **({"email": email} if email else {})}
    return granted_to(group={"id": its, **group}, siteUser={"id": "9", "loginName": login, **group})


CLAIM = "c:0o.c|federateddirectoryclaimprovider|"


@pytest.mark.parametrize("account", ["SHAREPOINT"], indirect=True)
def test_groups_of_two_sites_with_the_same_number_are_two_groups(space, account):
    account.follow("sites/board")
    own_file = account.put("ours.txt", "Ours.")
    theirs = account.put("theirs.txt", "Theirs.", library="sites/board/Shared Documents")
    for library, file in zip(account.libraries.values(), (own_file, theirs), strict=True):
        library.grants[file.partition("/")[2]] = [role(granted_to(siteGroup=site("6")))]
    space.ingest()
    readers = [allowed(space, file) - {OWNER} for file in (own_file, theirs)]
    drives = [file.partition("/")[0] for file in (own_file, theirs)]
    assert readers == [{f"microsoft:site:{drive}:6"} for drive in drives]


@pytest.mark.parametrize("account", ["ONEDRIVE"], indirect=True)
def test_a_group_that_is_told_as_a_user_of_the_site_is_a_group_and_its_owners_are_others(space, account):
    identities = {
        "by address": entra("g1", login=CLAIM + "g1", email="finance@example.com"),
        "by id": entra("g2", login="c:0t.c|tenant|g2"),
        "owners": entra("g3", login=CLAIM + "g3_o", email="board@example.com"),
        "claim alone": granted_to(siteUser={"id": "9", "email": "all@example.com", "loginName": "c:0t.c|tenant|g4"}),
        "everybody": granted_to(siteUser={"id": "9", "loginName": "c:0-.f|rolemanager|spo-grid-all-users/t"}),
        "of the site": granted_to(siteGroup=site("6")),
        "person": granted_to(user={"id": "u"}, siteUser={"id": "9", "loginName": f"i:0#.f|membership|{BOB}"}),
        "guest": granted_to(siteUser={"id": "9", "loginName": "i:0#.f|membership|eve_x.example#ext#@example.com"}),
    }
    files = {name: account.put(f"{name}.txt", f"The text {name}.") for name in identities}
    for name, file in files.items():
        account.grants[file] = [role(identities[name])]
    space.ingest()
    assert {name: allowed(space, file) - {OWNER} for name, file in files.items()} == {
        "by address": {"finance@example.com"},
        "by id": {"microsoft:g2"},
        "owners": {"microsoft:owners:g3"},
        "claim alone": {"all@example.com"},
        "everybody": set(),
        "of the site": set(),
        "person": {BOB},
        "guest": set(),
    }
    assert Access.load(space.documents()[files["by address"]]["access"]).groups == ("finance@example.com",)


@pytest.mark.parametrize("account", ["ONEDRIVE"], indirect=True)
def test_links_for_uploads_and_roles_that_are_not_known_show_nobody_anything(space, account):
    file = account.put("plain.txt", "The plain file.")

    def to(name):
        return granted_to(user={"id": name, "email": name})

    account.grants[file] = [
        role({"link": {"type": "createOnly", "scope": "anonymous"}, "grantedToIdentitiesV2": [to(EVE)["grantedToV2"]]}),
        role({"link": {"scope": "organization"}}),
        role(to("passer@example.com"), roles=["sp.limited access"]),
        role(to("odd@example.com"), roles=["whatever"]),
        role(to("none@example.com"), roles=[]),
        role(to(BOB), roles=["sp.Full Control"]),
    ]
    space.ingest()
    assert allowed(space, file) == {OWNER, BOB}


@pytest.mark.parametrize("account", ["ONEDRIVE"], indirect=True)
def test_a_file_of_another_drive_is_for_whom_it_is_shared_with_there(space, account):
    account.grant(account.folder("shared"), BOB)
    file, foreign_file = account.share("shared/added.txt", "Of another drive."), next(iter(account.foreign))
    account.grants[foreign_file] = [role(granted_to(user={"id": "e", "email": EVE}))]
    space.ingest()
    assert allowed(space, file) == {EVE}


@pytest.mark.parametrize("account", ["BOX"], indirect=True)
def test_a_link_of_another_enterprise_and_a_collaboration_that_has_ended(space, account):
    own_file, theirs, ended = (account.put(f"{name}.txt", f"The text {name}.") for name in ("ours", "theirs", "ended"))
    account.foreign.add(theirs)
    for file in (own_file, theirs):
        account.grant(file, public=True, effective_access="company")
    account.grant(ended, BOB, expires_at="2020-01-01T00:00:00Z")
    space.ingest()
    readers = [allowed(space, file) - {OWNER} for file in (own_file, theirs, ended)]
    assert readers == [{"box:company"}, set(), set()]


@pytest.mark.parametrize("account", ["DROPBOX"], indirect=True)
def test_a_link_of_another_team_and_one_that_shows_nothing(space, account):
    own_file, theirs, shut = (account.put(f"{name}.txt", f"The text {name}.") for name in ("ours", "theirs", "shut"))
    account.owner_teams[theirs] = "dbtid:other"
    for file in (own_file, theirs):
        account.grant(file, current_audience="team")
    account.grant(shut, public=True, access_level={".tag": "no_access"})
    space.ingest()
    readers = [allowed(space, file) - {OWNER} for file in (own_file, theirs, shut)]
    assert readers == [{"dropbox:team"}, set(), set()]


@pytest.mark.parametrize("account", ["GOOGLE_DRIVE"], indirect=True)
def test_permissions_of_google_drive_that_show_nothing(space, account):
    file = account.put("plain.txt", "The plain file.")
    names = ("viewed", "odd", "cut", "kept", "direct")
    account.grant(file, *(f"{name}@example.com" for name in names))
    viewed, odd, cut, inherited_permission, direct = account.grants[file]
    viewed["view"], odd["role"] = "metadata", "publishedReader"
    for permission, inherited in ((cut, True), (inherited_permission, True), (direct, False)):
        permission["inheritedPermissionsDisabled"] = True
        permission["permissionDetails"] = [{"inherited": inherited, "role": "reader", "permissionType": "file"}]
    inherited_permission["role"] = "organizer"
    space.ingest()
    assert allowed(space, file) == {OWNER, "kept@example.com", "direct@example.com"}


@pytest.mark.parametrize("account", ["GOOGLE_DRIVE"], indirect=True)
def test_what_is_withdrawn_from_a_file_that_cannot_be_had_any_more_arrives_too(space, account):
    file = account.put("plain.txt", "The plain file.")
    account.grant(file, BOB)
    space.ingest()
    assert allowed(space, file) == {OWNER, BOB}
    account.nodes[file]["capabilities"] = {"canDownload": False}
    account.grant(file)
    space.ingest()
    assert allowed(space, file) == {OWNER}


@pytest.mark.parametrize("account", ["GOOGLE_DRIVE"], indirect=True)
def test_what_is_withdrawn_in_a_drive_that_cannot_be_listed_arrives_too(space, account):
    drive = account.shared_drive("Team")
    file = account.put("plain.txt", "The plain file.", drive=drive)
    account.grant(file, BOB)
    space.ingest()
    assert allowed(space, file) == {OWNER, BOB}
    account.barred.add(drive)
    account.grant(file)
    space.ingest()
    assert allowed(space, file) == {OWNER}
    account.untold.add(file)
    space.ingest()
    assert allowed(space, file) == set()
    assert "may see this file" in space.documents()[file]["access_reason"]


@pytest.mark.parametrize("account", ["GOOGLE_DRIVE"], indirect=True)
@pytest.mark.parametrize("is_changed", [True, False])
def test_who_gains_an_unlisted_file_sees_it_unless_it_has_changed(space, account, is_changed):
    # The new permission applies to the current file, not to the stored one.
    drive = account.shared_drive("Team")
    file = account.put("plain.txt", "Not for Eve.", drive=drive)
    account.grant(file, BOB)
    space.ingest()
    account.barred.add(drive)
    if is_changed:
        account.change(file, "For Eve.")
    account.grant(file, BOB, EVE)
    for _ in range(2):
        space.ingest()
        assert allowed(space, file) == ({OWNER, BOB} if is_changed else {OWNER, BOB, EVE})
    generation_before = space.documents()[file]["active_generation"]
    account.barred.clear()
    space.ingest()
    assert allowed(space, file) == {OWNER, BOB, EVE}
    assert (space.documents()[file]["active_generation"] > generation_before) is is_changed


@pytest.mark.parametrize("account", ["BOX", "DROPBOX", "GOOGLE_DRIVE", "ONEDRIVE"], indirect=True)
def test_what_is_gone_and_waits_for_a_person_is_nobodys_until_it_is_there_again(space, account):
    files = [account.put(f"{number}.txt", f"The text {number}.") for number in range(4)]
    for file in files:
        account.grant(file, BOB)
    space.ingest()
    for file in files[:2]:
        account.delete(file)
    run = space.ingest()
    assert run.progress["awaitingConfirmation"] == 2
    assert [allowed(space, file) for file in files] == [set(), set(), {OWNER, BOB}, {OWNER, BOB}]
    assert "does not show this file" in space.documents()[files[0]]["access_reason"]
