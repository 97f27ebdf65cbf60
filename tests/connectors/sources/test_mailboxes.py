"""Mailboxes at Dovecot: the contract of connectors for OBJECTS over IMAP."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from connectors.http import sessions
from retrieval.errors import Fatal, Skippable
from retrieval.settings import Settings
from tests.connectors.sources.reading import list_by_processes
from tests.connectors.sources.test_objects import fetched, list_items, opened
from tests.standins import mail_server

pytestmark = pytest.mark.slow
MAIL = """Subject: {subject}\r\nFrom: ada@example.com\r\nDate: Fri, 27 Nov 2026 08:00:00 +0000\r\n\r\n{text}\r\n"""


class Mailbox:
    """A user's mailbox; `config` is the whole configuration."""

    connector = "OBJECTS"

    def __init__(self, server, user):
        self.server, self.session = server, server.sign_in(user)
        credentials = {"user": user, "password": mail_server.PASSWORD}
        self.config = {"url": f"imap://127.0.0.1:{server.port}", "credentials": credentials}
        self.settings = Settings(_env_file=None, fetch_allow="127.0.0.1/32", max_file_bytes=2**23)

    def put(self, subject, text="Owls hunt at night.", folder="INBOX", flags=None):
        mail = MAIL.format(subject=subject, text=text).encode()
        assert self.session.append(folder, flags, None, mail)[0] == "OK"

    def delete(self, uid, folder="INBOX"):
        self.session.select(folder)
        assert self.session.uid("STORE", str(uid), "+FLAGS", r"(\Deleted)")[0] == "OK"
        self.session.expunge()


@pytest.fixture(scope="module")
def server():
    folder = Path(tempfile.mkdtemp(prefix="mail-", dir="/tmp"))  # open to Dovecot's user, and short enough for a socket
    folder.chmod(0o755)
    with mail_server.serve_mail(folder) as served:
        yield served
    shutil.rmtree(folder)


@pytest.fixture
def mailbox(server, tmp_path):
    new_mailbox = Mailbox(server, tmp_path.name.strip("_0123456789"))
    yield new_mailbox
    new_mailbox.session.shutdown()


def names(items):
    return sorted(item.name for item in items.values())


def test_mails_of_all_folders_are_listed_and_fetched(mailbox, tmp_path):
    mailbox.session.create('"Pl&AOQ-ne.A &- B"')
    mailbox.session.create('"Quote\\"d"')
    mailbox.put("=?utf-8?q?Gr=C3=BC=C3=9Fe?= an\r\n alle")
    mailbox.put("large", "x" * 100 + "\r\n" + ("y" * 900 + "\r\n") * 2500)
    mailbox.put("In a folder", folder='"Pl&AOQ-ne.A &- B"')
    mailbox.put("Quoted", folder='"Quote\\"d"')
    mailbox.put("Marked", flags=r"(\Deleted)")
    items, page = list_items(mailbox)
    assert names(items) == ["Grüße an alle", "In a folder", "Quoted", "large"]
    assert page.whole
    by_name = {item.name: item for item in items.values()}
    assert by_name["In a folder"].above == ("Pläne", "Pläne/A & B")
    assert by_name["In a folder"].properties["modifiedAt"].endswith("Z")
    large = fetched(mailbox, by_name["large"], tmp_path)
    assert (large.media_type, large.version) == ("message/rfc822", by_name["large"].version)
    assert large.path.read_bytes().endswith(b"y\r\n" * 1 + b"\r\n")
    assert large.size == large.path.stat().st_size > 2**21
    connector, tokens = opened(mailbox)
    top = {entry.path: entry.is_folder for entry in connector.browse(tokens, None, None).entries}
    assert top == {"INBOX": True, "Pläne": True, 'Quote"d': True}
    inside = connector.browse(tokens, "INBOX", None).entries
    assert [entry.id for entry in inside] == [item.external_id for item in items.values() if item.above == ("INBOX",)]
    mailbox.config["url"] += "/Pl%C3%A4ne"
    assert names(list_items(mailbox)[0]) == ["In a folder"]
    mailbox.config["url"] += "/nowhere"
    with pytest.raises(Fatal, match="no such folder"):
        list_items(mailbox)


def test_new_and_removed_mails_and_folders_are_seen(mailbox, tmp_path):
    mailbox.session.create("Old")
    for subject, folder in (("kept", "INBOX"), ("removed", "INBOX"), ("with its folder", "Old")):
        mailbox.put(subject, folder=folder)
    initial, last = list_items(mailbox)
    by_name = {item.name: item for item in initial.values()}
    mailbox.delete(2)
    mailbox.session.delete("Old")
    mailbox.put("new")
    changes, _ = list_items(mailbox, last.cursor)
    assert names(changes) == ["kept", "new"]
    assert {item.version for item in changes.values()} > {by_name["kept"].version}
    connector, tokens = opened(mailbox)
    deletions = {name: connector.is_deleted(tokens, item.external_id) for name, item in by_name.items()}
    assert deletions == {"kept": False, "removed": True, "with its folder": True}
    with pytest.raises(Skippable):
        fetched(mailbox, by_name["removed"], tmp_path)
    mailbox.session.create("Old")
    mailbox.put("another", folder="Old")
    assert connector.is_deleted(tokens, by_name["with its folder"].external_id)  # another UIDVALIDITY, the same UID


def test_a_listing_goes_on_behind_any_page_in_another_process(mailbox, monkeypatch):
    monkeypatch.setattr("connectors.sources.objects.imap.BATCH", 2)
    for folder in ("INBOX", "Other"):
        mailbox.session.create(folder)
        for number in range(3):
            mailbox.put(f"{folder} {number}", folder=folder)
    items, _ = list_by_processes(lambda: opened(mailbox))
    assert [item.name for item in items] == [
        f"{folder} {number}" for folder in ("INBOX", "Other") for number in range(3)
    ]


def test_refusals_end_the_listing_without_secrets(mailbox, monkeypatch):
    mailbox.config["credentials"]["password"] = "canary-wrong"
    with pytest.raises(Fatal, match="does not accept") as refused:
        list_items(mailbox)
    assert "canary" not in str(refused.value)
    mailbox.config["credentials"]["password"] = mail_server.PASSWORD
    mailbox.config["url"] = f"imaps://127.0.0.1:{mailbox.server.tls_port}"
    with pytest.raises(Fatal, match="certificate"):
        list_items(mailbox)
    trusted = sessions.ssl.create_default_context(cafile=mailbox.server.certificate)
    monkeypatch.setattr(sessions, "trusted_certificates", lambda *_: trusted)
    mailbox.put("over TLS")
    assert names(list_items(mailbox)[0]) == ["over TLS"]
    mailbox.settings = Settings(_env_file=None)
    with pytest.raises(Fatal, match="RETRIEVAL_FETCH_ALLOW"):
        list_items(mailbox)
