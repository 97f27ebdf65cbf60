"""HubSpot as people read it: names in place of ids, custom properties, emails and notes, files."""

from __future__ import annotations

import re

from tests.connectors.sources.reading import file_host, list_items, read, texts
from tests.standins import services_sales

SERVICE = "HUBSPOT"


def put_ticket(account):
    key = account.put("Owls in the tower", "They <hoot>.\nAll night.")
    account.fields[key] = {
        "hs_pipeline": "0",
        "hs_pipeline_stage": "2",
        "hs_ticket_priority": "HIGH",
        "hubspot_owner_id": "31",
        "createdate": "2026-05-14T10:32:00Z",
        "habitat": "barn;wood",
        "secret": "not requested",
    }
    sender = {"hs_email_from_firstname": "Ada", "hs_email_from_lastname": "Berg", "hs_email_subject": "Help"}
    account.activities[key, "emails"] = [
        {"hs_timestamp": "2026-05-14T11:00:00Z", "hs_email_html": "<p>Who can help?</p>", **sender}
    ]
    account.activities[key, "notes"] = [
        {"hs_timestamp": "2026-05-15T09:00:00Z", "hs_note_body": "<p>Called the keeper.</p>", "hubspot_owner_id": "31"}
        for _ in range(3)
    ]
    account.activities[key, "calls"] = [
        {"hs_timestamp": "2026-05-16T09:00:00Z", "hs_call_body": "<p>No answer.</p>", "hubspot_owner_id": "30"}
    ]
    account.activities[key, "meetings"] = [
        {"hs_timestamp": "2026-05-17T09:00:00Z", "hs_meeting_title": "Visit", "hs_internal_meeting_notes": "<p>Up.</p>"}
    ]
    return key


def test_a_ticket_has_people_status_and_custom_properties_by_name_and_its_activities(account, tmp_path):
    key, plain = put_ticket(account), account.put("No notes", "x")
    account.page = 2
    text = texts(account, tmp_path)[account.locate(key)]
    for line in (
        "Pipeline: Support",
        "Status: Waiting for us",
        "Priority: High",
        "Owner: Bob Lund",
        "Created: 14 May 2026",
        "Company: Owl Ltd",
        "Natural habitat: Old barn; Wood",
    ):
        assert f"{line}<br>" in text
    assert text.count("Contact: Ada Berg<br>") == 1
    assert "<p>They &lt;hoot&gt;.<br>All night.</p>" in text
    assert "<h2>Email of Ada Berg, 14 May 2026 11:00: Help</h2>\n<p>Who can help?</p>" in text
    assert text.count("<h2>Note of Bob Lund, 15 May 2026 09:00</h2>\n<p>Called the keeper.</p>") == 3
    assert "<h2>Call of cleo@example.com, 16 May 2026 09:00</h2>\n<p>No answer.</p>" in text
    assert re.search(r"<h2>Visit, 17 May 2026 09:00</h2>\s+<p>Up\.</p>", text)
    assert "not requested" not in text
    account.requests.clear()
    assert "Natural habitat" not in texts(account, tmp_path)[account.locate(plain)]
    assert sum("/notes/search" in request for request in account.requests) == 2  # pages of the notes of one ticket


def test_deals_and_companies_are_read_and_a_deleted_one_is_noticed_by_its_number(account, tmp_path):
    deal = {"dealname": "A new tower", "pipeline": "default", "dealstage": "closedwon", "amount": "900"}
    account.records = {"deals": {"d1": deal}, "companies": {"c1": {"name": "Owl Ltd", "domain": "owl.example"}}}
    note = {"hs_timestamp": "2026-05-15T09:00:00Z", "hs_note_body": "<p>Signed.</p>"}
    for key in ("d1", "c1"):
        for kind in ("emails", "notes", "calls", "meetings"):
            account.activities[key, kind] = [note]
    contents = texts(account, tmp_path)
    prefix = "https://app.hubspot.com/contacts/4711/record"
    assert contents.keys() == {f"{prefix}/0-3/d1", f"{prefix}/0-2/c1"}
    assert "Pipeline: Sales<br>\nStage: Won<br>\nAmount: 900" in contents[f"{prefix}/0-3/d1"]
    assert "<h1>Owl Ltd</h1>\n<p>\nDomain: owl.example<br>" in contents[f"{prefix}/0-2/c1"]
    assert all("<h2>Note, 15 May 2026 09:00</h2>\n<p>Signed.</p>" in text for text in contents.values())
    _, last = list_items(account)
    account.requests.clear()
    assert list_items(account, last.cursor)[0] == {}
    assert len(account.requests) == 5  # the changes of three lists, and the numbers of tickets and companies
    del account.records["companies"]["c1"]
    items, last = list_items(account, last.cursor)
    assert (items.keys(), last.whole) == ({f"{prefix}/0-3/d1"}, True)


def test_more_changes_than_a_search_answers_list_everything(account, monkeypatch):
    keys = [account.put(f"Ticket {number}", "x") for number in range(3)]
    last = list_items(account)[1]
    monkeypatch.setattr(services_sales.HubSpot, "_search", lambda *_: [{"properties": {}}] * 10_001)
    items, last = list_items(account, last.cursor)
    assert (items.keys(), last.whole) == (set(map(account.locate, keys)), True)


def test_files_of_notes_are_members_with_their_names(account, tmp_path):
    key = put_ticket(account)
    account.activities[key, "notes"][0]["hs_attachment_ids"] = "81;82"
    with file_host({"/81": b"a plan"}) as (account.host, received):
        text, files = read(account, tmp_path)[account.locate(key)]
    assert files == {"plan.txt": b"a plan"}
    assert received == [None, None]  # no credentials to another host
    assert "Attachment 82 was not read" in text
