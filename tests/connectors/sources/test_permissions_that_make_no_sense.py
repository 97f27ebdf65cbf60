"""Malformed permissions of vendors never grant access beyond the whole answer, and raise no unexpected error."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from connectors import registry
from connectors.http import retries
from retrieval.connections.connected_source import read_access
from retrieval.errors import Retryable, Skippable
from retrieval.sources import DESCRIBED_SOURCES
from tests.connectors.sources.reading import Tokens
from tests.standins import github
from tests.standins.accounts import ACCOUNTS, serving_account
from tests.standins.place import APP, TestTokens

# Of Gmail, no answer says who may read a mailbox.
VENDORS = (*(name for name in ACCOUNTS if name != "GMAIL"), "GITHUB", "CONFLUENCE", "JIRA", "SLACK")
ADA, BOB, CYD, EVE, STAFF = (f"{name}@example.com" for name in ("ada", "bob", "cyd", "eve", "staff"))
ENDS = {"BOX": "expires_at", "GOOGLE_DRIVE": "expirationTime", "ONEDRIVE": "expirationDateTime"}
NAME_FIELDS = {
    *("emailAddress", "domain", "email", "userPrincipalName", "loginName", "login", "id", "group_id", "account_id"),
    *(
        "display_name",
        "@odata.nextLink",
        "accountId",
        "members",
        "cursor",
        "next_cursor",
        "nextPageToken",
        "next_marker",
    ),
}
"""Fields of names or continuations: another text would be another name."""
LIMITS = {"private", "visibility", "is_private", "restrictions", "ancestors", "access_level"}
LIMITS |= {"expires_at", "expirationTime", "expirationDateTime"}
"""Restricting fields: without the field there is no restriction, as at the vendors."""
DROPPED = ()
STRANGE = [None, "", "unheardOf", 7, True, [], {}, ["unheardOf"], [None]]


class Vendor:
    """An account with one shared item; `change` alters the bodies of its answers."""

    def __init__(self, account, external_id):
        self.account, self.external_id = account, external_id
        self.connector = registry.make_connector(account.connector, APP, account.settings)
        self.answers = {}
        self.change = lambda body: body
        account.fault = lambda _request: self.intercept

    def intercept(self, handler):
        def reply(code, body, headers=None):
            if not isinstance(body, bytes) and code == 200:
                self.answers[handler.path] = body
                body = self.change(body)
            type(handler).reply(handler, code, body, headers)

        handler.reply = reply
        return False

    def read(self):
        if self.account.connector in DESCRIBED_SOURCES:
            tokens = Tokens(self.account)
            self.connector.answers.forget(tokens.connection_id)
        else:
            tokens = TestTokens(self.account)
        return read_access(self.connector, tokens, self.external_id)


@contextmanager
def sharing(name) -> Iterator[Vendor]:
    with github.serving() if name == "GITHUB" else serving_account(name) as account:
        if name in DESCRIBED_SOURCES:
            key = account.put("Plan", "text")
            account.show_to(key, ADA, BOB)
            yield Vendor(account, account.locate(key))
            return
        file_id = account.put("plans/plan.txt", "text")
        if name == "NOTION":
            account.people = [ADA, BOB]
        elif name == "OUTLOOK_MAIL":
            account.owner = {"mail": ADA, "userPrincipalName": BOB}
        else:
            account.grant(file_id, BOB, groups=[STAFF])
            account.grant(account.folder("plans"), CYD)
        if name in ENDS:
            ended = json.loads(json.dumps(account.grants[file_id][0]).replace(BOB, EVE))
            account.grants[file_id].append({**ended, ENDS[name]: "2020-01-01T00:00:00Z"})
        yield Vendor(account, file_id)
        getattr(account, "complaints", []).clear()


@pytest.fixture(scope="module", params=VENDORS)
def vendor(request):
    with pytest.MonkeyPatch.context() as patch, sharing(request.param) as shared:
        patch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.0)
        yield shared


def list_fields(body):
    """Return the names of all fields of an answer."""
    inner = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    return {*(body if isinstance(body, dict) else ()), *(name for value in inner for name in list_fields(value))}


def alter(body, field, value):
    """Return an answer with a field altered wherever it is; no restriction is removed and no name made up."""
    if isinstance(body, list):
        return [alter(entry, field, value) for entry in body]
    if not isinstance(body, dict):
        return body
    altered = {name: alter(entry, field, value) for name, entry in body.items()}
    if (
        field not in body
        or (field in NAME_FIELDS and (value == "" or "unheardOf" in str(value)))
        or (field in LIMITS and not value)
    ):
        return altered
    del altered[field]
    return altered if value is DROPPED else {**altered, field: value}


def test_malformed_answers_grant_no_access_and_raise_no_error(vendor):
    whole = vendor.read()
    assert len({*whole.users, *whole.groups}) >= 2
    assert EVE not in whole.users
    texts = json.dumps(vendor.answers)
    for field, value in itertools.product(sorted(list_fields([*vendor.answers.values()])), [DROPPED, *STRANGE]):
        vendor.change = partial(alter, field=field, value=value)
        try:
            access = vendor.read()
        except (Skippable, Retryable) as error:  # an empty object may be another server's answer, so it is asked again
            assert str(error)  # noqa: PT017 - the reason that stands on the document
            continue
        assert set(access.users) <= set(whole.users), (field, value)
        # A person without an address is named by an id of the answer.
        new_groups = [name.rpartition(":")[2] for name in set(access.groups) - set(whole.groups)]
        assert all(name in texts for name in new_groups), (field, value)
        assert not access.public, (field, value)


def test_a_member_with_an_empty_address_is_no_user(vendor):
    for field in ("email", "emailAddress", "userPrincipalName", "login"):
        vendor.change = partial(empty, field=field)
        try:
            access = vendor.read()
        except (Skippable, Retryable):
            continue
        assert "" not in {*access.users, *access.groups}, field


def empty(body, field):
    """Return an answer with an empty text in a field wherever it is."""
    if isinstance(body, list):
        return [empty(entry, field) for entry in body]
    if not isinstance(body, dict):
        return body
    return {name: "" if name == field else empty(value, field) for name, value in body.items()}
