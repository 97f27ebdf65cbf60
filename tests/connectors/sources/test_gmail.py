"""Threads of a Gmail mailbox as people read them: messages, files, labels, deletions, refusals and requests."""

from __future__ import annotations

import dataclasses
import email
import email.policy
import json
import re
import time

import pytest

from connectors import registry
from connectors.sources.gmail import client, listing
from retrieval.errors import Fatal, Retryable
from retrieval.settings import PROJECT_ROOT
from retrieval.sync_filter import SyncFilter
from tests.connectors.sources.reading import ConfigTokens, walk
from tests.connectors.sources.test_connectors import list_items
from tests.standins import gmail, google_mailboxes
from tests.standins.gmail import ADA, BOB, mixed, text_part
from tests.standins.google_drive_files import Refusal

CONNECTOR, STANDIN = "GMAIL", gmail
THREAD = "18f0000000000aaa"
OTHER = "18f0000000000bbb"


@pytest.fixture
def mailbox(account):
    account.page = 1000
    return account


def read(connector, tokens, item, tmp_path):
    """Return the text of a thread, and its files by name."""
    raw = connector.fetch(tokens, item, tmp_path / "raw")
    assert raw.version == item.version
    return parse(raw.path.read_bytes())


def parse(data):
    mail = email.message_from_bytes(data, policy=email.policy.default)
    body = mail.get_body(("plain",))
    return body.get_content().strip(), {part.get_filename(): part.get_content() for part in mail.iter_attachments()}


def refuse(*answers):
    """Refuse requests for threads in turn; None answers one."""
    pending = list(answers)

    def fault(request):
        if not re.search(r"/threads/[^/]+$", request) or not pending or (answer := pending.pop(0)) is None:
            return None
        return lambda handler: handler.reply(answer.status, answer.body) or True

    return fault


def test_a_thread_has_people_dates_and_messages_in_time_order_without_repeated_quotes(
    mailbox, connector, tokens, tmp_path
):
    mailbox.receive(THREAD, "Where do owls nest?\n\nRegards,\nAda", subject="Owls")
    quoted = (
        "<div dir=ltr>In old <b>church</b> towers.</div><br><div class=gmail_quote>"
        "<div class=gmail_attr>On Thu, May 14, 2026 at 10:32 AM Ada Berg &lt;ada@example.com&gt; wrote:<br></div>"
        "<blockquote>Where do owls nest?<br><br>Regards,<br>Ada</blockquote></div>"
    )
    mailbox.receive(THREAD, "", subject="Re: Owls", sender=BOB, to=ADA, payload=text_part(quoted, "text/html"))
    (item,) = list_items(connector, tokens)[0].values()
    text, files = read(connector, tokens, item, tmp_path)
    assert text == (
        "Owls\n\nPeople: Ada Berg <ada@example.com>, Bob Lund <bob@example.com>\n\n"
        "Ada Berg, 14 May 2026 10:32: Where do owls nest?\n\nRegards,\nAda\n\n"
        "Bob Lund, 14 May 2026 10:33: In old church towers."
    )
    assert (item.name, item.properties["path"], files) == ("Owls", "Inbox/Owls", {})
    assert item.properties["createdAt"] == "2026-05-14T10:32:00Z"
    assert item.properties["url"].endswith(f"#all/{THREAD}")


def test_a_mail_of_html_is_read_without_its_hidden_parts(mailbox, connector, tokens, tmp_path):
    page = (
        "<html><head><title>no</title><style>p {}</style></head><body><div style='display: none'>no</div>"
        "<table><tr><td>Owls</td><td>12</td></tr></table><ul><li>Mice</li></ul><p>Caf\u00e9</p></body></html>"
    )
    parts = mixed(text_part(" "), text_part(page, "text/html", "iso-8859-1"), kind="alternative")
    mailbox.receive(THREAD, "", subject="=?utf-8?q?Caf=C3=A9?=", payload=parts)
    (item,) = list_items(connector, tokens)[0].values()
    text, _ = read(connector, tokens, item, tmp_path)
    assert item.name == "Caf\u00e9"
    assert text.endswith("Ada Berg, 14 May 2026 10:32: Owls 12\n- Mice\n\nCaf\u00e9")


def test_files_are_attached_and_pictures_within_the_text_are_not(mailbox, connector, tokens, tmp_path):
    inner = {**text_part("They sleep."), "headers": [{"name": "Subject", "value": "Mice"}]}
    attached_mail = {"partId": "4", "mimeType": "message/rfc822", "filename": "old.eml", "body": {}, "parts": [inner]}
    parts = mixed(
        text_part("See the plan."),
        mailbox.attach(b"Towers first.", "plan.txt", "text/plain"),
        mailbox.attach(b"png", "logo.png", "image/png", inline=True),
        attached_mail,
    )
    mailbox.receive(THREAD, "", subject="Plan", payload=parts)
    (item,) = list_items(connector, tokens)[0].values()
    text, files = read(connector, tokens, item, tmp_path)
    assert text.endswith("See the plan.")
    assert files.keys() == {"plan.txt", "old.eml"}
    assert files["plan.txt"].strip() == "Towers first."
    parsed = registry.make_parser().parse(connector.fetch(tokens, item, tmp_path / "raw"), "BASIC_PARSER")
    assert [member.path for member in parsed.members] == ["plan.txt", "old.eml"]


def test_a_file_beyond_the_limit_is_named(mailbox, tokens, tmp_path):
    settings = mailbox.settings.model_copy(update={"max_file_bytes": 2000})
    connector = registry.make_connector(CONNECTOR, {"clientId": "c", "clientSecret": "s"}, settings)
    parts = mixed(text_part("See."), mailbox.attach(b"x" * 3000, "plan.bin", "application/octet-stream"))
    mailbox.receive(THREAD, "", subject="Plan", payload=parts)
    (item,) = list_items(connector, tokens)[0].values()
    text, files = read(connector, tokens, item, tmp_path)
    assert "Attachment plan.bin was not read: With it the thread is too large." in text
    assert files == {}


def test_drafts_spam_and_trash_are_left_out(mailbox, connector, tokens, tmp_path):
    mailbox.receive(THREAD, "Kept.", subject="Owls")
    for number, label in enumerate(("DRAFT", "SPAM", "TRASH")):
        mailbox.receive(THREAD, f"SECRET {label}", labels=(label,))
        mailbox.receive(f"18f000000000000{number}", "SECRET", labels=(label,))
    items, _ = list_items(connector, tokens)
    assert items.keys() == {THREAD}
    assert "SECRET" not in read(connector, tokens, items[THREAD], tmp_path)[0]
    names = [entry.name for entry in connector.browse(tokens, None, None).entries]
    assert names[:2] == ["Inbox", "Sent"]
    assert not {"TRASH", "SPAM", "DRAFT", "UNREAD"} & set(names)


def test_an_answer_a_label_the_trash_and_a_deletion_change_their_thread_at_the_next_listing(mailbox, connector, tokens):
    first = mailbox.receive(THREAD, "Where?", subject="Owls")
    other = mailbox.receive(OTHER, "By itself.", subject="Mice")
    before, last = list_items(connector, tokens)
    answer = mailbox.receive(THREAD, "There.", labels=("SENT",))
    mailbox.relabel(other, add=(mailbox.label("Clients/Acme"),))
    items, last = list_items(connector, tokens, last.cursor)
    assert items[THREAD].version != before[THREAD].version
    assert items[OTHER].properties["path"] == "Clients/Acme/Mice"
    assert items[OTHER].version == before[OTHER].version
    mailbox.relabel(answer, add=("TRASH",))
    items, last = list_items(connector, tokens, last.cursor)
    assert (items[THREAD].version, last.whole) == (before[THREAD].version, False)
    mailbox.relabel(first, add=("SPAM",))
    mailbox.erase(other)
    items, last = list_items(connector, tokens, last.cursor)
    assert all(items[name].deleted for name in (THREAD, OTHER))
    assert not last.whole
    assert connector.is_deleted(tokens, OTHER)


def test_a_mail_that_is_only_read_costs_no_request_for_its_thread(mailbox, connector, tokens):
    message = mailbox.receive(THREAD, "a", subject="Owls")
    _, last = list_items(connector, tokens)
    mailbox.requests.clear()
    mailbox.relabel(message, remove=("UNREAD",))
    mailbox.receive(THREAD, "not yet", labels=("DRAFT",))
    assert list_items(connector, tokens, last.cursor)[0] == {}
    assert len(mailbox.requests) == 2


def test_only_threads_of_chosen_labels_are_read(mailbox, connector, tokens):
    acme, secret = mailbox.label("Clients/Acme"), mailbox.label("Private")
    mailbox.receive(THREAD, "For all.", subject="Owls", labels=("INBOX", acme))
    mailbox.receive(OTHER, "SECRET", subject="Mice")
    mailbox.receive("18f0000000000ccc", "SECRET", subject="Bees", labels=(acme, secret))
    for include in ({"path": "Clients"}, {"id": mailbox.label("Clients")}):
        chosen = connector.with_choice(SyncFilter((include,), ({"path": "private"},)))
        paths = {item.properties["path"] for item in list_items(chosen, tokens)[0].values()}
        assert paths == {"Clients/Acme/Owls", "Private/Bees"}  # the second is left out by its path
    assert OTHER not in mailbox.read


def test_a_renamed_label_lists_its_threads_and_a_deleted_one_everything(mailbox, connector, tokens):
    acme = mailbox.label("Clients/Acme")
    labelled = mailbox.receive(THREAD, "a", subject="Owls", labels=(acme,))
    mailbox.receive(OTHER, "b", subject="Mice")
    _, last = list_items(connector, tokens)
    mailbox.labels[acme] = "Customers/Acme", "user"
    items, last = list_items(connector, tokens, last.cursor)
    assert {key: item.properties["path"] for key, item in items.items()} == {THREAD: "Customers/Acme/Owls"}
    assert not last.whole
    del mailbox.labels[acme]
    mailbox.messages[labelled]["labelIds"].remove(acme)
    items, last = list_items(connector, tokens, last.cursor)
    assert (items[THREAD].properties["path"], last.whole) == ("All mail/Owls", True)


def test_texts_come_with_the_first_listing_and_are_not_read_again(mailbox, connector, tokens, monkeypatch):
    mailbox.receive(THREAD, "Owls hunt at night.", subject="Owls")
    mailbox.receive(OTHER, "", payload=mixed(text_part("See."), mailbox.attach(b"x", "plan.txt", "text/plain")))
    texts = {}
    for page in connector.iter_changes(tokens, None):
        texts |= {item.external_id: item.content and item.content.path.read_bytes() for item in page.items}
    assert parse(texts[THREAD])[0].endswith("Owls hunt at night.")
    assert texts[OTHER] is None
    mailbox.read.clear()
    start = time.time()
    monkeypatch.setattr(time, "time", lambda: start + 8 * 86400)
    items, last = list_items(connector, tokens, page.cursor)
    assert (set(items), last.whole, mailbox.read) == ({THREAD, OTHER}, True, [])


@pytest.mark.parametrize("is_first", [True, False])
def test_a_mailbox_is_listed_on_behind_each_page_of_threads(mailbox, connector, tokens, monkeypatch, is_first):
    monkeypatch.setattr(listing, "THREADS_PER_PAGE", 2)
    mailbox.page = 2
    cursor = None if is_first else list_items(connector, tokens)[1].cursor
    expected = {mailbox.put(f"{number}.txt", "x") for number in range(5)}
    listed_ids, pages = set(), []
    while not pages or not pages[-1].done:
        pages.append(next(iter(connector.iter_changes(tokens, cursor))))
        listed_ids |= {item.external_id for item in pages[-1].items}
        cursor = pages[-1].cursor
        if len(pages) == 2:
            late = mailbox.put("late.txt", "x")
    assert (listed_ids - {late}, len(pages), pages[-1].whole) == (expected, 3, is_first)
    assert late in list_items(connector, tokens, cursor)[0]


def test_a_thread_that_is_missing_without_a_deletion_lists_everything(mailbox, connector, tokens):
    message = mailbox.receive(THREAD, "a", subject="Owls")
    mailbox.receive(OTHER, "b", subject="Mice")
    _, last = list_items(connector, tokens)
    mailbox.relabel(message, add=("STARRED",))
    mailbox.fault = refuse(Refusal(404, "notFound"))
    items, last = list_items(connector, tokens, last.cursor)
    assert (set(items), last.whole) == ({THREAD, OTHER}, True)


@pytest.mark.parametrize("refusal", [Refusal(429, "rateLimitExceeded"), Refusal(403, "userRateLimitExceeded")])
def test_only_the_threads_that_a_batch_refuses_are_requested_again(mailbox, connector, tokens, refusal):
    expected = {mailbox.put(f"{number}.txt", "x") for number in range(4)}
    mailbox.fault = refuse(None, refusal, None, refusal)
    items, _ = list_items(connector, tokens)
    assert items.keys() == expected
    assert len(mailbox.inner) == 6


def test_requests_keep_to_the_units_of_a_minute(mailbox, connector, tokens, monkeypatch):
    # Rates are a thousand times as high in tests.
    policy = dataclasses.replace(client.SERVICE_POLICY, service="Gmail paced", per_minute=6, burst=100)
    monkeypatch.setattr(client, "SERVICE_POLICY", policy)
    for number in range(4):
        mailbox.put(f"{number}.txt", "x")
    for number in range(2):
        began = time.monotonic()
        list_items(connector, tokens)
        assert number == 0 or time.monotonic() - began >= 1


def test_a_thread_is_seen_by_the_owner_of_the_mailbox_only(mailbox, connector, tokens):
    access = connector.access(tokens, mailbox.put("a.txt", "x"))
    assert (access.users, access.groups, access.public) == (("ada@example.com",), (), False)


def test_a_person_without_a_mailbox_reads_why(mailbox, connector, tokens):
    mailbox.fault = lambda _request: lambda handler: handler.reply(400, Refusal(400, "failedPrecondition").body) or True
    with pytest.raises(Fatal, match="Gmail is switched off"):
        list_items(connector, tokens)


def test_a_listing_that_leads_in_a_circle_ends(mailbox, connector, tokens):
    mailbox.put("a.txt", "x")
    circle = {"resultSizeEstimate": 1, "threads": [], "nextPageToken": "1"}

    def repeat(handler):
        handler.reply(200, circle)
        return True

    mailbox.fault = lambda request: repeat if request.endswith("/threads") else None
    with pytest.raises(Retryable, match="circle"):
        list_items(connector, tokens)


def test_a_thousand_threads_take_the_documented_requests(mailbox, connector, tokens):
    for number in range(1000):
        mailbox.receive(f"18f1{number:012x}", "x", subject=f"{number}")
    items, last = list_items(connector, tokens)
    first = len(mailbox.requests) + sum(item.content is None for item in items.values())
    mailbox.requests.clear()
    _, last = list_items(connector, tokens, last.cursor)
    unchanged = len(mailbox.requests)
    rows = (PROJECT_ROOT / "docs" / "connectors.md").read_text(encoding="utf-8").splitlines()
    (row,) = [row for row in rows if re.match(r"\| Gmail \| thread", row)]
    assert row.endswith(f"| {first} / {unchanged} |")
    assert (len(items), unchanged) == (1000, 2)


@pytest.fixture
def workspace():
    with google_mailboxes.serving() as served:
        yield served


def test_mailboxes_of_an_organization_are_read_as_their_owners(workspace, tmp_path):
    connector, tokens = registry.make_connector(CONNECTOR, {}, workspace.settings), ConfigTokens(workspace)
    ids = {workspace.put(f"{name}@example.com", "plan.txt", f"{name}'s plan"): name for name in ("ada", "ben")}
    items, skipped, last = walk(connector, tokens)
    paths = {key: item.properties["path"] for key, item in items.items()}
    assert paths == {key: f"{name}@example.com/Projects/plan.txt" for key, name in ids.items()}
    assert (skipped, last.whole) == ({}, True)
    for key, name in ids.items():
        assert connector.access(tokens, key).users == (f"{name}@example.com",)
        assert read(connector, tokens, items[key], tmp_path)[0].endswith(f"{name}'s plan")
    ada = next(key for key, name in ids.items() if name == "ada")
    workspace.mailboxes["ada@example.com"].delete(ada.partition("/")[2])
    items, _, _ = walk(connector, tokens, last.cursor)
    assert {key: item.deleted for key, item in items.items()} == {ada: True}


def test_a_person_of_an_organization_without_gmail_is_counted(workspace):
    connector, tokens = registry.make_connector(CONNECTOR, {}, workspace.settings), ConfigTokens(workspace)
    plan = workspace.put("ada@example.com", "plan.txt", "x")
    closed = json.dumps(Refusal(400, "failedPrecondition").body).encode()
    workspace.mailboxes["ben@example.com"].answer = lambda handler, *_: handler.reply(400, closed)
    items, skipped, _ = walk(connector, tokens)
    assert items.keys() == {plan}
    assert list(skipped) == ["drive ben@example.com: Gmail is switched off for the connected account"]
