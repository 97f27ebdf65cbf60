"""Threads of an Outlook mailbox as people read them: messages, quotes, files, folders, deletions and requests."""

from __future__ import annotations

import email
import email.policy
import re

import pytest

from connectors import mail_threads, registry
from connectors.http import retries
from connectors.sources.outlook_mail import listing
from retrieval.errors import Fatal, Retryable
from retrieval.settings import PROJECT_ROOT
from retrieval.sync_filter import SyncFilter
from tests.connectors.sources.test_connectors import list_items
from tests.standins import faults, outlook_mail
from tests.standins.outlook_mail import BOB, DELETED, DRAFTS, INBOX, JUNK, SENT
from tests.standins.place import APP, TestTokens

THREAD = "AAQkAG'owls=="
FORWARDED = (
    "FYI\n\n-----Original Message-----\nFrom: Cyd <c@example.com>\nSent: Monday\nTo: Bob\n\nOwls eat mice at night."
)


@pytest.fixture
def account(monkeypatch):
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.01)
    with outlook_mail.serving() as served:
        served.page = 1000
        yield served


@pytest.fixture
def connector(account):
    return registry.make_connector("OUTLOOK_MAIL", APP, account.settings)


@pytest.fixture
def tokens(account):
    return TestTokens(account)


def read(connector, tokens, item, tmp_path):
    """Return the text of a thread, and its files by name."""
    raw = connector.fetch(tokens, item, tmp_path / "raw")
    assert raw.version == item.version
    mail = email.message_from_bytes(raw.path.read_bytes(), policy=email.policy.default)
    body = mail.get_body(("plain",))
    return body.get_content().strip(), {part.get_filename(): part.get_content() for part in mail.iter_attachments()}


def test_a_thread_has_people_dates_and_messages_in_time_order_without_repeated_quotes(
    account, connector, tokens, tmp_path
):
    account.receive(THREAD, "Where do owls nest?\n\nRegards,\nAda", subject="Owls")
    quoted = "\n".join(
        [
            "In old church towers.",
            "",
            "________________________________",
            "From: Ada Berg <ada@example.com>",
            "Sent: Thursday, May 14, 2026 10:32 AM",
            "To: Bob Lund <bob@example.com>",
            "Subject: Owls",
            "",
            "Where do owls nest?",
            "",
            "Regards,",
            "Ada",
        ]
    )
    account.receive(THREAD, quoted, subject="RE: Owls", folder=SENT, sender=BOB, to=(outlook_mail.ADA,))
    (item,) = list_items(connector, tokens)[0].values()
    text, files = read(connector, tokens, item, tmp_path)
    assert text == (
        "Owls\n\nPeople: Ada Berg <ada@example.com>, Bob Lund <bob@example.com>\n\n"
        "Ada Berg, 14 May 2026 10:32: Where do owls nest?\n\nRegards,\nAda\n\n"
        "Bob Lund, 14 May 2026 10:33: In old church towers."
    )
    assert (item.name, item.properties["path"], files) == ("Owls", "Gesendete Elemente/Owls", {})
    assert item.properties["createdAt"] == "2026-05-14T10:32:00Z"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes.\n\nOn Thu, May 14, 2026 at 10:32 Ada Berg <ada@example.com>\nwrote:\n> Where do owls\n> nest?", "Yes."),
        ("> Where do owls nest?\nIn towers.\n\n> Do they sing?\nNo.", "In towers.\n\n> Do they sing?\nNo."),
        ("See these:\n\n> Where do owls nest?\n\nThanks", "See these:\n\nThanks"),
        (FORWARDED, FORWARDED),
        ("Name: Owl\nFood: Mice\nHome: Tower", "Name: Owl\nFood: Mice\nHome: Tower"),
    ],
    ids=["wrapped", "answers between", "own words before", "forwarded", "own list"],
)
def test_only_quotes_that_an_earlier_message_holds_are_left_out(text, expected):
    assert mail_threads.drop_quotes(text, "where do owls nest? regards, ada") == expected


def test_files_are_attached_and_links_are_named(account, connector, tokens, tmp_path):
    message = account.receive(THREAD, "See the plan.", subject="Plan")
    account.attach(message, "plan.txt", b"Towers first.", "text/plain")
    account.attach(message, "Old mail", b"Subject: Mice\r\n\r\nThey sleep.", "message/rfc822", of="item")
    account.attach(message, "logo.png", b"png", "image/png", inline=True)
    account.attach(message, "Budget", b"", "", of="reference")
    (item,) = list_items(connector, tokens)[0].values()
    text, files = read(connector, tokens, item, tmp_path)
    assert files.keys() == {"plan.txt", "Old mail.eml"}
    assert files["plan.txt"].strip() == "Towers first."
    assert "Attachment Budget was not read: It is a link to a file of a drive." in text
    parsed = registry.make_parser().parse(connector.fetch(tokens, item, tmp_path / "raw"), "BASIC_PARSER")
    assert [member.path for member in parsed.members] == ["plan.txt", "Old mail.eml"]
    assert "Ada Berg, 14 May 2026 10:32: See the plan." in parsed.text


def test_drafts_junk_and_deleted_mails_are_left_out_in_any_language(account, connector, tokens, tmp_path):
    account.receive(THREAD, "Kept.", subject="Owls")
    for folder in (DRAFTS, JUNK, DELETED, account._new_folder("Old", DELETED)):
        account.receive(THREAD, f"SECRET {folder}", folder=folder)
        account.receive(f"only in {folder}", "SECRET", folder=folder)
    items, _ = list_items(connector, tokens)
    assert items.keys() == {THREAD}
    assert "SECRET" not in read(connector, tokens, items[THREAD], tmp_path)[0]
    assert [entry.name for entry in connector.browse(tokens, None, None).entries] == [
        "Posteingang",
        "Gesendete Elemente",
    ]


def test_an_answer_a_moved_and_a_deleted_mail_change_their_thread_at_the_next_listing(account, connector, tokens):
    first = account.receive(THREAD, "Where?", subject="Owls")
    other = account.receive("other", "Alone.", subject="Mice")
    before, last = list_items(connector, tokens)
    answer = account.receive(THREAD, "There.", folder=SENT)
    account.move_mail(other, account.folder("Projects"))
    items, last = list_items(connector, tokens, last.cursor)
    assert items[THREAD].version != before[THREAD].version
    assert items["other"].properties["path"] == "Posteingang/Projects/Mice"
    assert items["other"].version == before["other"].version
    account.move_mail(answer, DELETED)
    items, last = list_items(connector, tokens, last.cursor)
    assert (items[THREAD].version, last.whole) == (before[THREAD].version, False)
    account.move_mail(first, JUNK)
    items, last = list_items(connector, tokens, last.cursor)
    assert items[THREAD].deleted
    account.move_mail(first, INBOX)
    items, last = list_items(connector, tokens, last.cursor)
    assert items[THREAD].version == before[THREAD].version


def test_an_erased_mail_lists_everything(account, connector, tokens):
    account.receive("kept", "a", subject="Kept")
    erased = account.receive(THREAD, "b", subject="Owls")
    _, last = list_items(connector, tokens)
    account.erase(erased)
    items, last = list_items(connector, tokens, last.cursor)
    assert (set(items), last.whole) == ({"kept"}, True)
    assert connector.is_deleted(tokens, THREAD)


def test_a_mail_that_is_only_read_keeps_the_version_of_its_thread(account, connector, tokens):
    message = account.receive(THREAD, "a", subject="Owls")
    before, last = list_items(connector, tokens)
    account.touch(message, read=True)
    items, _ = list_items(connector, tokens, last.cursor)
    assert items[THREAD].version == before[THREAD].version


def test_only_mails_of_chosen_folders_are_read(account, connector, tokens, tmp_path):
    account.receive(THREAD, "SECRET words", subject="Owls")
    account.receive(THREAD, "For all.", folder=account.folder("Clients/Acme"), sender=BOB)
    account.receive("elsewhere", "SECRET", subject="Mice")
    for include in ({"path": "Posteingang/Clients"}, {"id": account.folder("Clients")}):
        chosen = connector.with_choice(SyncFilter((include,)))
        items = {
            key: item for key, item in list_items(chosen, tokens)[0].items() if "Clients" in item.properties["path"]
        }
        assert items.keys() == {THREAD}
        text, _ = read(chosen, tokens, items[THREAD], tmp_path)
        assert "For all." in text
        assert "SECRET" not in text


def test_a_renamed_folder_lists_everything_with_the_new_path(account, connector, tokens):
    folder = account.folder("Clients")
    account.receive(THREAD, "a", subject="Owls", folder=folder)
    _, last = list_items(connector, tokens)
    account.folders[folder] = "Customers", INBOX
    items, last = list_items(connector, tokens, last.cursor)
    assert items[THREAD].properties["path"] == "Posteingang/Customers/Owls"
    assert last.whole


def test_a_mailbox_is_listed_on_behind_each_page_of_threads(account, connector, tokens, monkeypatch):
    monkeypatch.setattr(listing, "THREADS_PER_PAGE", 2)
    account.page = 2
    expected = {account.put(f"{number}.txt", "x") for number in range(5)}
    listed_ids, cursor, is_done = set(), None, False
    for _ in range(3):
        page = next(iter(connector.iter_changes(tokens, cursor)))
        listed_ids |= {item.external_id for item in page.items}
        cursor, is_done = page.cursor, page.done
    assert (listed_ids, is_done, page.whole) == (expected, True, True)
    assert list_items(connector, tokens, cursor)[0] == {}


def test_a_thread_is_seen_by_the_owner_of_the_mailbox_only(account, connector, tokens):
    key = account.put("a.txt", "x")
    access = connector.access(tokens, key)
    assert (access.users, access.groups, access.public) == (
        ("ada@example.com", "ada@contoso.onmicrosoft.com"),
        (),
        False,
    )


def test_a_listing_that_leads_in_a_circle_ends(account, connector, tokens):
    account.put("a.txt", "x")

    def circle(handler):
        link = f"{account.base}/v1.0/me/mailFolders/x/messages/delta?$skiptoken=1"
        handler.reply(200, {"value": [], "@odata.nextLink": link})
        return True

    account.fault = lambda request: circle if "/messages/delta" in request else None
    with pytest.raises(Retryable, match="circle"):
        list_items(connector, tokens)


def test_a_person_without_a_mailbox_reads_why(account, connector, tokens):
    account.fault = lambda request: faults.status(404) if "/mailFolders/delta" in request else None
    with pytest.raises(Fatal, match="no mailbox"):
        list_items(connector, tokens)


def test_a_thousand_threads_take_the_documented_requests(account, connector, tokens):
    for number in range(1000):
        account.put(f"{number}.txt", "x")
    items, last = list_items(connector, tokens)
    first = len(account.requests) + len(items)
    account.requests.clear()
    _, last = list_items(connector, tokens, last.cursor)
    unchanged = len(account.requests)
    rows = (PROJECT_ROOT / "docs" / "connectors.md").read_text(encoding="utf-8").splitlines()
    (row,) = [row for row in rows if re.match(r"\| Outlook mail \| thread", row)]
    assert row.endswith(f"| {first} / {unchanged} |")
    assert unchanged <= 5
