"""Contract of every described service, generated from its description: faults of the service, and editions covered.

Kills are in `tests/flows/connections/test_killed_at_any_page.py`, permissions in `test_described_permissions.py`, ends
of authorizations in `tests/api/routes/test_oauth_of_services.py`; the rest is in `test_described_services.py`.
"""

from __future__ import annotations

import copy
import re

import pytest

from connectors.http import responses
from connectors.sources.described import description, service
from connectors.sources.described.fields import read_field
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.sources import DESCRIBED_SOURCES
from tests.connectors.sources.reading import list_items, list_pages, open_connector
from tests.connectors.sources.test_described_services import fill, find_stream, of_items
from tests.standins import described_services, faults
from tests.standins.accounts import serving_account

OF_OWN_TESTS = {
    ("GITHUB", "organization"): "test_github.py",
    ("GITLAB", "group"): "test_described_depth.py",
    ("DISCOURSE", "category"): "the lists of the forum, of one category",
    ("FRESHDESK", "tickets"): "the lists of `site`",
    ("FRESHDESK", "articles"): "the lists of `site`",
    ("SERVICENOW", "incidents"): "the lists of `site`",
    ("SERVICENOW", "knowledge"): "the lists of `site`",
    ("JIRA", "data_center_site"): "the lists of `data_center` without a project",
    ("CONFLUENCE", "data_center_site"): "the lists of `data_center` without a space",
}
"""Editions without a stand-in of this suite, and what holds for them."""


@pytest.fixture(params=["GITHUB", *described_services.SERVICES])
def account(request):
    with serving_account(request.param) as made:
        yield made


def test_every_edition_is_in_the_suite_or_named():
    covered = {("GITHUB", "repository")}
    for make in described_services.SERVICES.values():
        about, url = description.read_description(make.connector), make.config_url.format(base="https://x.example")
        covered.add((make.connector, about.find_edition(url)[0].name))
    described = {
        (name, edition.name) for name in DESCRIBED_SOURCES for edition in description.read_description(name).editions
    }
    assert described - covered == OF_OWN_TESTS.keys()


def test_an_error_of_the_service_is_tried_again_and_removes_nothing(account):
    keys = fill(account)
    troubles = [faults.status(503), faults.status(500)]
    account.fault = lambda _request: troubles.pop() if troubles else None
    items, last = list_items(account)
    assert (set(of_items(account, items)), last.whole, troubles) == (set(keys), True, [])
    account.fault = lambda _request: faults.status(503)
    connector, tokens = open_connector(account)
    with pytest.raises(Retryable):
        list_pages(account)
    with pytest.raises(Retryable):
        connector.is_deleted(tokens, account.locate(keys[0]))


def test_an_answer_that_is_too_large_fails_the_list_or_the_item_alone(account, monkeypatch, tmp_path):
    fill(account, 2)
    key = account.put("Large", "x" * 200_000)
    list_items(account)
    monkeypatch.setattr(responses, "MAX_BODY_BYTES", 100_000)
    connector, tokens = open_connector(account)
    seen, reason = [], ""
    try:
        seen.extend(connector.iter_changes(tokens, None))
    except Fatal as error:
        reason = str(error)
    if reason:  # the list has the texts
        assert not any(page.whole for page in seen)
        assert re.search('larger than .* To leave out the whole list: "exclude": ', reason)
    else:
        item = next(item for page in seen for item in page.items if item.external_id == account.locate(key))
        with pytest.raises(Skippable, match="larger than"):
            connector.fetch(tokens, item, tmp_path / "large")
    assert connector.is_deleted(tokens, account.locate(key)) is False


class Rewriter:
    """A handler whose answers of a list lack a field of the first entry."""

    def __init__(self, handler, items, field):
        self._handler, self._items, self._field = handler, items, field

    def __getattr__(self, name):
        return getattr(self._handler, name)

    def reply(self, code, body, headers=None):
        body = copy.deepcopy(body)
        entries = read_field(body, self._items) if code == 200 else None
        if isinstance(entries, list) and entries and isinstance(entries[0], dict):
            above, _, name = self._field.rpartition(".")
            read_field(entries[0], above).pop(name, None)
        return self._handler.reply(code, body, headers)


def test_an_item_without_an_id_is_reported_and_the_others_are_listed(account):
    keys = fill(account)
    list_items(account)
    stream, answer = find_stream(account), account.answer
    field = next(field for field in stream.fields.values() if "|" not in field)

    def rewrite(handler, method, path, query, body):
        site = service.open_site(
            account.connector,
            description.read_description(account.connector),
            account.config["url"],
            account.settings,
        )
        name = re.sub(r"\{[^}]*\}", "[^/]+", re.split(r"[?\n]", stream.list)[0].rpartition("/")[2])
        is_list = f"{account.base}{path}".startswith(site.base) and re.search(f"{name}$", path)
        return answer(Rewriter(handler, stream.items, field) if is_list else handler, method, path, query, body)

    account.answer = rewrite
    items, _ = list_items(account)
    broken = [item for item in items.values() if item.error]
    assert broken, "The list names an entry without its id."
    assert all(f"lists it without its {field}" in item.error for item in broken)
    assert len(of_items(account, {name: item for name, item in items.items() if not item.error})) == len(keys) - 1
    account.answer = answer
    connector, tokens = open_connector(account)
    assert not any(connector.is_deleted(tokens, account.locate(key)) for key in keys)
