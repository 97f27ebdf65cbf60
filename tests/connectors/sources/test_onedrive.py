"""OneDrive: links to other hosts, feeds with gaps or without end, facets."""

from __future__ import annotations

import logging

import pytest

from connectors import registry
from retrieval.errors import Fatal, Retryable, Skippable
from tests.standins import faults, onedrive
from tests.standins.place import APP
from tests.standins.secure import secured

CONNECTOR, STANDIN = "ONEDRIVE", onedrive


@pytest.fixture(params=["told", "asked for"])
def address(request, account):
    """Source of the signed download address: the item itself or a request for the content."""
    account.told = request.param == "told"


@pytest.fixture
def secure(tmp_path):
    with secured(tmp_path) as secure_server:
        yield secure_server


def pages(connector, tokens, cursor=None):
    return list(connector.iter_changes(tokens, cursor))


def items(listing):
    return {item.external_id: item for page in listing for item in page.items}


def fetched(connector, tokens, item, tmp_path):
    return connector.fetch(tokens, item, tmp_path / "raw").path.read_text()


@pytest.mark.parametrize("link", ["@odata.nextLink", "@odata.deltaLink"])
def test_the_feed_leads_to_no_other_server(account, connector, tokens, elsewhere, link):
    def twist(body):
        plain_fields = {name: value for name, value in body.items() if "Link" not in name}
        return {**plain_fields, link: elsewhere.base + "/v1.0/me/drive/root/delta?token=x"}

    account.put("one.txt", "x")
    account.twist = twist
    with pytest.raises(Fatal, match="another server"):
        pages(connector, tokens)
    assert elsewhere.requests == []


@pytest.mark.parametrize(
    "spelled", ["{base}@host/v1.0/x", "{base}0/v1.0/x", "{base}/v1.0@host/x", "//host/v1.0", 5, None]
)
def test_no_spelling_of_a_link_leads_elsewhere(account, connector, tokens, spelled):
    link = spelled.format(base=account.base) if isinstance(spelled, str) else spelled
    account.twist = lambda body: {**body, "@odata.deltaLink": link}
    with pytest.raises(Fatal, match="another server"):
        pages(connector, tokens)


@pytest.mark.usefixtures("address")
def test_a_download_goes_without_the_token_and_not_in_the_clear(account, connector, tokens, elsewhere, tmp_path):
    file_id = account.put("one.txt", "x")
    listing = items(pages(connector, tokens))
    assert fetched(connector, tokens, listing[file_id], tmp_path) == "x"
    account.locations = [
        elsewhere.base + "/signed/one",
        "ftp://127.0.0.1/one",
        "https://u:p@127.0.0.1/one",
        "https:///x",
    ]
    for _ in range(4):
        with pytest.raises(Skippable, match="not https"):
            connector.fetch(tokens, listing[file_id], tmp_path / "raw")
    assert elsewhere.requests == []


@pytest.mark.usefixtures("address")
def test_a_download_from_another_host_is_encrypted_and_goes_without_the_token(account, tokens, tmp_path, secure):
    file_id = account.put("one.txt", "x" * len(secure.text))
    endpoint = account.settings.endpoints["ONEDRIVE"].model_copy(update={"ca_bundle": secure.certificate})
    trusting = account.settings.model_copy(update={"endpoints": {"ONEDRIVE": endpoint}})
    connector = registry.make_connector("ONEDRIVE", APP, trusting)
    file_item = items(pages(connector, tokens))[file_id]
    account.locations = [secure.base + "/one?sig=canary"]
    assert fetched(connector, tokens, file_item, tmp_path) == secure.text
    assert secure.seen == [("/one?sig=canary", None)]
    stranger = registry.make_connector("ONEDRIVE", APP, account.settings)
    account.locations = [secure.base + "/one?sig=canary"] * 9
    with pytest.raises(Retryable, match="could not be reached"):
        stranger.fetch(tokens, file_item, tmp_path / "raw")
    assert len(secure.seen) == 1


@pytest.mark.usefixtures("address")
def test_no_address_that_opens_a_file_is_logged(account, connector, tokens, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    file_id = account.put("one.txt", "x")
    fetched(connector, tokens, items(pages(connector, tokens))[file_id], tmp_path)
    assert "canary" not in caplog.text


@pytest.mark.usefixtures("address")
def test_an_expired_download_address_is_requested_again_without_a_renewal(account, connector, tokens, tmp_path):
    file_id = account.put("one.txt", "x")
    listing = items(pages(connector, tokens))
    account.locations = [account.base + "/v1.0/me/drive/root/delta"]
    assert fetched(connector, tokens, listing[file_id], tmp_path) == "x"
    assert tokens.renewals == 0


@pytest.mark.usefixtures("address")
def test_an_oversized_file_is_not_requested(account, tokens, tmp_path):
    file_id = account.put("one.txt", "x" * 2000)
    settings = account.settings.model_copy(update={"max_file_bytes": 1000})
    connector = registry.make_connector("ONEDRIVE", APP, settings)
    with pytest.raises(Skippable, match="larger than"):
        connector.fetch(tokens, items(pages(connector, tokens))[file_id], tmp_path / "raw")
    assert not any("/signed/" in request or request.endswith("/content") for request in account.requests)


def test_a_deleted_folder_has_everything_listed_again(account, connector, tokens):
    # The feed names only the folder; the whole listing lacks its files.
    kept_id, inside = account.put("kept.txt", "x"), account.put("folder/deep/inside.txt", "x")
    first_pages = pages(connector, tokens)
    account.delete(account.items[account.items[inside]["parent"]]["parent"])
    next_pages = pages(connector, tokens, first_pages[-1].cursor)
    assert inside not in items(next_pages)
    assert kept_id in items(next_pages)
    assert [page.done for page in next_pages] == [False, True]
    assert next_pages[-1].whole
    assert connector.is_deleted(tokens, inside)
    assert not pages(connector, tokens, next_pages[-1].cursor)[-1].whole


def test_what_changes_while_it_is_listed_is_in_the_next_listing(account, connector, tokens):
    account.page = 1
    first, second = account.put("1.txt", "x"), account.put("2.txt", "x")
    listing = connector.iter_changes(tokens, None)
    listed_pages = [next(listing)]
    account.change(first, "changed meanwhile")
    third = account.put("3.txt", "x")
    listed_pages += list(listing)
    assert second in items(listed_pages)
    later = items(pages(connector, tokens, listed_pages[-1].cursor))
    assert {first, third} <= set(later)
    assert later[first].version != items(listed_pages)[first].version


@pytest.mark.parametrize("kind", ["work", "work, without hashes", "private", "private, without hashes"])
def test_work_and_private_accounts_mark_content(account, connector, tokens, tmp_path, kind):
    """A work account's feed has no cTag, and some files have no hash: whatever is there marks the content."""
    account.personal, account.hashed = kind.startswith("private"), "without" not in kind
    file_id, deleted_id = account.put("one.txt", "x"), account.put("gone.txt", "x")
    first_pages = pages(connector, tokens)
    account.change(file_id, "y")
    account.delete(deleted_id)
    changes = items(pages(connector, tokens, first_pages[-1].cursor))
    assert "" != changes[file_id].version != items(first_pages)[file_id].version
    assert changes[deleted_id].deleted
    raw = connector.fetch(tokens, changes[file_id], tmp_path / "raw")
    assert raw.version == changes[file_id].version or kind == "work, without hashes"


def test_malware_is_a_failed_entry_and_never_fetched(account, connector, tokens, tmp_path):
    good, bad = account.put("good.txt", "x"), account.put("bad.txt", "x")
    first_items = items(pages(connector, tokens))
    account.items[bad]["more"] = {"malware": {"description": "SECRET VENDOR WORDS"}}
    listing = items(pages(connector, tokens))
    assert "malware" in listing[bad].error
    assert not listing[good].error
    with pytest.raises(Skippable, match="malware"):
        connector.fetch(tokens, first_items[bad], tmp_path / "raw")
    assert "SECRET" not in listing[bad].error


def test_a_file_of_another_drive_is_fetched_there_and_leaves_by_its_entry_here(account, connector, tokens, tmp_path):
    shared = account.share("From Bob/report.txt", "shared words")
    first_pages = pages(connector, tokens)
    item = items(first_pages)[shared]
    assert (item.properties["path"], item.media_type) == ("From Bob/report.txt", "text/plain")
    assert fetched(connector, tokens, item, tmp_path) == "shared words"
    account.delete(shared)
    assert items(pages(connector, tokens, first_pages[-1].cursor))[shared].deleted
    assert connector.is_deleted(tokens, shared)


@pytest.mark.parametrize("broken", [{}, {"value": {}}, {"value": None}])
def test_an_answer_without_items_is_no_empty_listing(account, connector, tokens, broken):
    account.twist = lambda _body: broken
    with pytest.raises(Retryable, match="broke off"):
        pages(connector, tokens)


def test_out_of_reach_is_gone_and_trouble_is_not(account, connector, tokens):
    file_id = account.put("one.txt", "x")
    assert connector.is_deleted(tokens, "no such / item")
    account.fault = lambda _request: faults.status(403)
    assert connector.is_deleted(tokens, file_id)
    account.fault = lambda _request: faults.status(500)
    with pytest.raises(Retryable):
        connector.is_deleted(tokens, file_id)
