"""Organizations at Box, Dropbox, Google Drive and Gmail: people who leave, tokens that end, wrong configs, secrets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from connectors import registry
from tests.connectors.sources.reading import is_missing, walk
from tests.standins import box_enterprise, dropbox_team, google_mailboxes, google_workspace

if TYPE_CHECKING:
    from types import ModuleType


@dataclass(frozen=True)
class Vendor:
    """Stand-in of an organization, its set of suspended people, and secrets."""

    standin: ModuleType
    suspended: str
    secrets: tuple[str, ...]


GOOGLE_KEY = google_workspace.make_key(1)[0].splitlines()[1]
VENDORS = {
    "BOX": Vendor(box_enterprise, "inactive", (box_enterprise.SECRET, "canary-access")),
    "DROPBOX": Vendor(dropbox_team, "suspended", (dropbox_team.SECRET, dropbox_team.REFRESH, "canary-access")),
    "GOOGLE_DRIVE": Vendor(google_workspace, "suspended", (GOOGLE_KEY,)),
    "GMAIL": Vendor(google_mailboxes, "suspended", (GOOGLE_KEY,)),
}


@pytest.fixture(params=VENDORS)
def vendor(request):
    return VENDORS[request.param]


@pytest.fixture
def account(vendor):
    with vendor.standin.serving() as served_account:
        yield served_account


@pytest.fixture
def connector(account):
    return make_connector(account)


def make_connector(account):
    return registry.make_connector(account.connector, {}, account.settings)


def put(account, person, name):
    return account.put(account.home(person) if account.connector == "DROPBOX" else person, name, "x")


EVENTS = [*((name, event) for name in VENDORS for event in ("dismissed", "suspended")), ("BOX", "outside")]


@pytest.mark.parametrize(("vendor", "event"), EVENTS, indirect=["vendor"])
def test_files_of_a_person_who_leaves_are_missing_and_of_a_suspended_one_stay(
    vendor, account, connector, tokens, event
):
    ada, ben = vendor.standin.ADA, vendor.standin.BEN
    plan, notes = put(account, ada, "plan.txt"), put(account, ben, "notes.txt")
    _, _, last = walk(connector, tokens)
    if event == "suspended":
        getattr(account, vendor.suspended).add(ben)
    else:
        account.dismiss(ben, **({"outside": True} if event == "outside" else {}))
    again = make_connector(account)
    for cursor in (last.cursor, None):
        items, skipped, last_page = walk(again, tokens, cursor)
        assert is_missing(notes, items, last_page) == (event != "suspended")
        assert sum(skipped.values()) == (event == "suspended")
        assert all(reason.startswith(f"drive {ben}: ") for reason in skipped)
    assert again.is_deleted(tokens, notes) == (event != "suspended")
    assert not again.is_deleted(tokens, plan)


def test_access_tokens_that_end_are_requested_again(vendor, account, connector, tokens):
    put(account, vendor.standin.ADA, "plan.txt")
    _, _, last = walk(connector, tokens)
    account.expire()
    walk(connector, tokens, last.cursor)
    minted = account.minted
    assert (minted if isinstance(minted, int) else minted.count(vendor.standin.ADA)) == 2
    assert not tokens.failed


def test_the_secrets_are_in_no_representation(vendor, account, connector, tokens):
    put(account, vendor.standin.ADA, "plan.txt")
    pages = list(connector.iter_changes(tokens, None))
    stored = registry.read_config(account.connector, account.config, account.settings)
    organization = connector.organization_of(tokens)
    texts = [repr(value) for value in (connector, stored, organization, organization.organization, pages)]
    assert not any(secret in text for text in texts for secret in vendor.secrets)


GOOGLE_CREDENTIALS: list[tuple[dict[str, Any], str]] = [
    ({"user": "admin"}, "credentials.user"),
    ({"privateKey": "no JSON"}, "credentials.privateKey"),
    ({"privateKey": json.dumps({"type": "authorized_user"})}, "credentials.privateKey"),
    ({"token": "t"}, "credentials"),
]
WRONG_CONFIGS = [
    ("BOX", {"url": "https://box.com.example"}, "url"),
    ("BOX", {"enterpriseId": "none"}, "enterpriseId"),
    ("BOX", {"tenantId": "x"}, "tenantId"),
    ("BOX", {"credentials": {"clientId": box_enterprise.CLIENT}}, "credentials"),
    ("DROPBOX", {"url": "https://dropbox.com.example"}, "url"),
    ("BOX", {"credentials": {"clientId": "a", "clientSecret": "b", "token": "t"}}, "credentials"),
    ("DROPBOX", {"url": "https://www.dropbox.com/home"}, "url"),
    ("DROPBOX", {"enterpriseId": "1"}, "enterpriseId"),
    ("DROPBOX", {"credentials": {"clientId": "a", "clientSecret": "b"}}, "credentials"),
    ("GOOGLE_DRIVE", {"url": "https://drive.google.com.example/a/b"}, "url"),
    ("GOOGLE_DRIVE", {"region": "eu"}, "region"),
    ("GMAIL", {"url": "https://drive.google.com/a/example.com"}, "url"),
    ("GMAIL", {"people": True}, "people"),
    *(("GOOGLE_DRIVE", {"credentials": change}, field) for change, field in GOOGLE_CREDENTIALS),
]


@pytest.mark.parametrize(("vendor", "change", "field"), WRONG_CONFIGS, indirect=["vendor"])
def test_a_wrong_config_names_its_field(account, change, field):
    config = account.config
    if account.connector == "GOOGLE_DRIVE" and "credentials" in change:
        change = {"credentials": config["credentials"] | change["credentials"]}
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the arguments are checked
        registry.read_config(account.connector, config | change, account.settings)
    assert raised.value.args[0] == field
