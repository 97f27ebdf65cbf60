"""Microsoft Teams as people read it: posts with replies, people, mentions, files; changes by the next listing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from connectors import registry
from connectors.sources.described.filters import teams as messages
from retrieval.settings import Settings
from retrieval.sync_filter import SyncFilter
from tests.connectors.sources.reading import list_items, open_connector
from tests.standins import described_services, services_mail

NOON = datetime(2026, 5, 14, 12, 0, tzinfo=UTC)


@pytest.fixture(params=["TEAMS", "TEAMS_ORGANIZATION"])
def teams(request):
    with described_services.serving(request.param) as account:
        yield account


def texts(account, tmp_path):
    """Text of each listed item by its external id, from the list and by a request."""
    connector, tokens = open_connector(account)
    read = {}
    for page in connector.iter_changes(tokens, None):
        for item in page.items:
            if item.deleted:
                continue
            fetched = connector.fetch(tokens, item, tmp_path / "fetched").path.read_text()
            assert item.content is None or item.content.path.read_text() == fetched
            read[item.external_id] = fetched
    return read


def post_with_replies(teams):
    key = teams.put("Release", 'Shall we ship, <at id="0">Bob Lund</at>?')
    file = {"contentType": "reference", "contentUrl": "https://acme.sharepoint.com/Plan.docx", "name": "Plan.docx"}
    teams.fields[key] = {"attachments": [file], "importance": "urgent"}
    teams.reply(key, 'Yes <emoji id="x" alt="🙂" title="Smile"></emoji>', NOON)
    teams.reply(key, "Shipped.", NOON + timedelta(hours=1), "Ada Berg")
    teams.reply(key, "", NOON + timedelta(hours=2), deletedDateTime="2026-05-14T15:00:00.000Z")
    return key


def test_a_post_with_its_replies_is_a_document_with_people_mentions_and_files(teams, tmp_path):
    key = post_with_replies(teams)
    day = f"{teams.items[key].created:%-d %B %Y}"
    expected = (
        "<h1>Release</h1>\n"
        f"<p>Engineering / General, by Ada Berg on {day}, urgent</p>\n"
        "<p>Shall we ship, @Bob Lund?</p>\n"
        '<p>File: <a href="https://acme.sharepoint.com/Plan.docx">Plan.docx</a></p>\n\n'
        "<h2>Bob Lund, 14 May 2026 12:00</h2>\nYes 🙂\n\n"
        "<h2>Ada Berg, 14 May 2026 13:00</h2>\nShipped."
    )
    assert texts(teams, tmp_path) == {teams.locate(key): expected}
    teams.expanded = 1  # more replies than an expanded list has
    assert texts(teams, tmp_path) == {teams.locate(key): expected}
    item = list_items(teams)[0][teams.locate(key)]
    assert (item.name, item.properties["owner"]) == ("Release", "Ada Berg")
    assert item.properties["path"] == f"Engineering/General/{key}"
    assert item.properties["url"] == f"{teams.locate(key)}&parentMessageId={key}"


def test_replies_edits_and_deletions_are_seen_by_a_request_for_each_channel(teams):
    replied, edited, deleted, kept = (teams.put(f"Post {number}", "x") for number in range(4))
    before, last = list_items(teams)
    teams.requests.clear()
    assert list_items(teams, last.cursor)[0] == {}
    assert len(teams.requests) == 3  # teams, channels, changes
    teams.reply(replied, "A late reply.", datetime.now(UTC))
    teams.change(edited, "other words")
    teams.delete(deleted)
    changes, _ = list_items(teams, last.cursor)
    assert changes.keys() == {teams.locate(key) for key in (replied, edited, deleted)}
    assert {name for name, item in changes.items() if item.deleted} == {teams.locate(deleted)}
    for key in (replied, edited):
        assert changes[teams.locate(key)].version != before[teams.locate(key)].version
    assert teams.locate(kept) in before


def test_new_channels_are_read_and_chosen_by_path(teams):
    teams.put("General post", "x")
    _, last = list_items(teams)
    teams.teams["second"], teams.channels["second"] = "Sales", {"19:new@thread.tacv2": "Deals"}
    body = {"contentType": "text", "content": "Won <all> deals"}
    old = services_mail.make_message("7", body, "Eve", NOON, NOON, subject=None)
    teams.others["19:new@thread.tacv2"] = [old, {**old, "id": "8", "messageType": "systemEventMessage"}]
    new = "https://teams.microsoft.com/l/message/19%3Anew%40thread.tacv2/7?groupId=second"
    items, _ = list_items(teams, last.cursor)
    assert {name: item.name for name, item in items.items()} == {new: "Won <all> deals"}
    connector, tokens = open_connector(teams)
    chosen = connector.with_choice(SyncFilter(include=({"path": "Sales/*"},)))
    assert [item.external_id for page in chosen.iter_changes(tokens, None) for item in page.items] == [new]


def test_quoted_messages_and_cards_are_text_and_broken_ones_are_left_out():
    quoted = {"contentType": "messageReference", "content": '{"messagePreview": "Is <it> done?"}'}
    card = {
        "content": '{"body": [{"type": "TextBlock", "text": "Build 7"}, {"facts": [{"title": "On", "value": "ok"}]}]}'
    }
    body = {"contentType": "html", "content": '<attachment id="1"></attachment><p>Yes</p>'}
    assert messages.read_body(body, [quoted, card, {"content": "{"}, None]) == (
        "<p>Yes</p>\n<blockquote>Is &lt;it&gt; done?</blockquote>\n<p>Build 7</p><p>On</p><p>ok</p>"
    )
    assert messages.read_body("no body") == ""


@pytest.mark.parametrize(
    ("url", "by_person"), [("https://teams.microsoft.com", True), (services_mail.TeamsOfOrganization.config_url, False)]
)
def test_an_app_is_authorized_by_a_person_or_has_access_to_its_organization(url, by_person):
    settings = Settings(_env_file=None)
    credentials = {"clientId": "app", "clientSecret": "canary"}
    tokens = registry.read_config("TEAMS", {"url": url, "credentials": credentials}, settings)
    assert tokens.by_person is by_person
    if by_person:
        authorizer = registry.make_authorizer("TEAMS", {}, settings).with_access_token(tokens.access_token)
        address = authorizer.authorize_url(redirect_uri="http://localhost/x", state="s", challenge="c")
        assert address.startswith("https://login.microsoftonline.com/organizations/oauth2/v2.0/authorize?")
        assert "ChannelMessage.Read.All" in address
        assert "canary" not in address
