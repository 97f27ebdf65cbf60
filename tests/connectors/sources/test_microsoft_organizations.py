"""SharePoint and OneDrive of an organization, by an app's secret or certificate."""

from __future__ import annotations

import pytest

from connectors import registry
from retrieval.errors import Fatal
from tests.connectors.sources.reading import ConfigTokens, is_missing, walk
from tests.standins import microsoft365
from tests.standins.microsoft365 import ADA, BEN, CLIENT, SECRET, TENANT, PeopleOrganization, SitesOrganization
from tests.standins.sharepoint import HOME, HOST, SITE_PATH

SALES = "sites/sales"
SALES_LIBRARY = f"{SALES}/Shared Documents"


@pytest.fixture
def sites():
    with microsoft365.serving(SitesOrganization) as account:
        yield account


@pytest.fixture
def people():
    with microsoft365.serving(PeopleOrganization) as account:
        yield account


def connect(account, **config):
    connector = registry.make_connector(account.connector, {}, account.settings)
    return connector, ConfigTokens(account, **config)


def test_every_library_of_every_site_is_listed_but_no_personal_one(sites, tmp_path):
    sites.page = 1
    sites.add_site(SALES)
    sites.add_site("personal/ada_contoso_com")
    sites.put("mine.txt", "x", "personal/ada_contoso_com/Shared Documents")
    ids = {
        sites.put("a/one.txt", "words"): f"{HOME}/a/one.txt",
        sites.put("two.txt", "words", SALES_LIBRARY): f"{SALES_LIBRARY}/two.txt",
    }
    connector, tokens = connect(sites)
    items, skipped, last = walk(connector, tokens)
    assert {key: item.properties["path"] for key, item in items.items()} == ids
    assert (skipped, last.whole) == ({}, True)
    for item in items.values():
        assert connector.fetch(tokens, item, tmp_path / "raw").path.read_text() == "words"


def test_a_new_site_arrives_and_a_removed_one_is_missing(sites):
    sites.add_site(SALES)
    kept, sold = sites.put("kept.txt", "x"), sites.put("sold.txt", "x", SALES_LIBRARY)
    connector, tokens = connect(sites)
    _, _, first = walk(connector, tokens)
    sites.add_site("sites/new")
    new = sites.put("new.txt", "x", "sites/new/Shared Documents")
    items, _, second = walk(connector, tokens, first.cursor)
    assert set(items) == {new}
    sites.remove_site(SALES)
    items, _, last = walk(connector, tokens, second.cursor)
    assert is_missing(sold, items, last)
    assert not is_missing(kept, items, last)
    assert connector.is_deleted(tokens, sold)
    assert not connector.is_deleted(tokens, kept)


@pytest.mark.parametrize("closed", [SALES, SALES_LIBRARY])
def test_a_closed_site_or_library_is_counted_and_keeps_its_documents(sites, closed):
    sites.add_site(SALES)
    sites.put("kept.txt", "x")
    held = sites.put("held.txt", "x", SALES_LIBRARY)
    connector, tokens = connect(sites)
    _, _, first = walk(connector, tokens)
    sites.closed |= {closed, SALES_LIBRARY}
    again = registry.make_connector("SHAREPOINT", {}, sites.settings)
    for cursor in (first.cursor, None):
        items, skipped, last = walk(again, tokens, cursor)
        assert sum(skipped.values()) == 1
        assert cursor is None or not is_missing(held, items, last)
        assert not again.is_deleted(tokens, held)
    sites.closed.clear()
    sites.change(held, "y")
    assert held in walk(again, tokens, last.cursor)[0]


def test_granted_sites_are_named_where_the_listing_is_refused(sites):
    sites.add_site(SALES)
    sites.put("other.txt", "x")
    offer = sites.put("offer.txt", "x", SALES_LIBRARY)
    sites.granted.discard("Sites.Read.All")
    with pytest.raises(Fatal, match=r"Sites\.Read\.All.*Sites\.Selected.*`sites`"):
        walk(*connect(sites))
    items, _, last = walk(*connect(sites, sites=f"https://{HOST}/{SALES}\n"))
    assert (set(items), last.whole) == ({offer}, True)


def test_the_onedrive_of_each_person_is_listed(people, tmp_path):
    people.page = 1
    ids = {
        people.put(ADA, "plans/launch.txt", "words"): f"{ADA}/plans/launch.txt",
        people.put(BEN, "notes.txt", "words"): f"{BEN}/notes.txt",
    }
    connector, tokens = connect(people)
    items, skipped, last = walk(connector, tokens)
    assert {key: item.properties["path"] for key, item in items.items()} == ids
    assert (skipped, last.whole) == ({}, True)
    for item in items.values():
        assert connector.fetch(tokens, item, tmp_path / "raw").path.read_text() == "words"


@pytest.mark.parametrize("event", ["dismissed", "closed"])
def test_the_drive_of_a_person_who_leaves_is_missing_and_a_closed_one_stays(people, event):
    plan, notes = people.put(ADA, "plan.txt", "x"), people.put(BEN, "notes.txt", "x")
    connector, tokens = connect(people)
    _, _, first = walk(connector, tokens)
    if event == "dismissed":
        del people.people[BEN]
    else:
        people.closed.add(BEN)
    people.hire("cleo@contoso.com")
    letter = people.put("cleo@contoso.com", "letter.txt", "x")
    items, skipped, last = walk(connector, tokens, first.cursor)
    assert letter in items
    assert is_missing(notes, items, last) == connector.is_deleted(tokens, notes) == (event == "dismissed")
    assert not connector.is_deleted(tokens, plan)
    assert sum(skipped.values()) == (event == "closed")


def test_permissions_are_read_anew(sites, people):
    plan = people.put(ADA, "plan.txt", "x")
    connector, tokens = connect(people)
    people.people[ADA].grant(plan.partition("/")[2], BEN, groups=["crew"])
    before = connector.access(tokens, plan)
    assert BEN in before.users
    assert before.groups
    people.people[ADA].grant(plan.partition("/")[2])
    assert BEN not in connector.access(tokens, plan).users
    minutes = sites.put("minutes.txt", "x")
    sites.grant(minutes, BEN)
    connector, tokens = connect(sites)
    assert BEN in connector.access(tokens, minutes).users


@pytest.mark.parametrize("kind", ["secret", "certificate"])
def test_withdrawn_credentials_end_the_connection_with_advice(people, kind):
    people.put(ADA, "plan.txt", "x")
    people.has_certificate = True
    connector, tokens = connect(people, **(people.certificate_config if kind == "certificate" else {}))
    _, _, last = walk(connector, tokens)
    people.expire()
    walk(connector, tokens, last.cursor)
    assert people.minted == 2
    people.secret, people.has_certificate = "", False
    people.expire()
    with pytest.raises(Fatal, match=f"{CLIENT}.*create a client secret or upload a certificate"):
        walk(connector, tokens, last.cursor)
    assert "send the connection's config" in tokens.failed
    assert "AADSTS" not in tokens.failed


@pytest.mark.parametrize("kind", ["secret", "certificate"])
def test_an_app_reads_the_tenant_of_its_connection_only(people, kind):
    people.put(ADA, "plan.txt", "x")
    people.has_certificate = True
    config = people.certificate_config if kind == "certificate" else people.config
    connector, tokens = connect(people, **config)
    assert walk(connector, tokens)[0]
    assert {request for request in people.requests if "token" in request} == {f"POST /{TENANT}/oauth2/v2.0/token"}
    connector, tokens = connect(people, **{**config, "tenantId": "fabrikam.com"})
    with pytest.raises(Fatal, match=f"{CLIENT} in the tenant fabrikam.com"):
        walk(connector, tokens)
    assert people.requests[-1] == "POST /fabrikam.com/oauth2/v2.0/token"
    assert people.minted == 1


def test_a_missing_permission_is_named(people):
    people.granted.discard("User.Read.All")
    with pytest.raises(Fatal, match=r"User\.Read\.All and Files\.Read\.All"):
        walk(*connect(people))


def test_the_credentials_are_in_no_representation(people):
    people.put(ADA, "plan.txt", "x")
    people.has_certificate = True
    key = microsoft365.make_certificate()[0].splitlines()[1]
    for config in (people.config, people.certificate_config):
        connector, tokens = connect(people, **config)
        pages = list(connector.iter_changes(tokens, None))
        stored = registry.read_config("ONEDRIVE", config, people.settings)
        organization = connector.organization_of(tokens).organization
        texts = [repr(value) for value in (connector, stored, organization, organization.app, pages)]
        assert not any(secret in text for text in texts for secret in (SECRET, key, "canary-access"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"url": "https://contoso.sharepoint.com.example"}, "url"),
        ({"tenantId": "a/b"}, "tenantId"),
        ({"people": True}, "people"),
        ({"sites": f"https://other.sharepoint.com/{SITE_PATH}"}, "sites"),
        ({"credentials": {"clientId": CLIENT}}, "credentials"),
        ({"credentials": {"clientId": CLIENT, "privateKey": "x", "publicCertificate": "x"}}, "credentials.privateKey"),
    ],
)
def test_a_wrong_config_names_its_field(sites, change, problem):
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the arguments are checked
        registry.read_config("SHAREPOINT", {**sites.config, **change}, sites.settings)
    assert raised.value.args[0] == problem
