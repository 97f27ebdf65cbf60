"""Reading of stand-in accounts: tokens, listings, texts and files by external id."""

from __future__ import annotations

import email
import re
from collections import Counter
from contextlib import contextmanager

from connectors import registry
from retrieval.errors import Fatal
from tests.standins import faults


def walk(connector, tokens, cursor=None):
    """Return the listed items by id, the numbers of skipped ones by reason, and the last page."""
    pages = list(connector.iter_changes(tokens, cursor))
    assert [page.done for page in pages] == [False] * (len(pages) - 1) + [True]
    skipped = Counter()
    for page in pages:
        skipped.update(page.skipped)
    return {item.external_id: item for page in pages for item in page.items}, dict(skipped), pages[-1]


class ConfigTokens:
    """`TokenSource` of a connection with a config, that of the account by default."""

    def __init__(self, account, **changes):
        self.connection_id = f"conn_{id(self)}"
        self.failed = ""
        config = {**account.config, **changes}
        self._token = registry.read_config(account.connector, config, account.settings).access_token

    def token(self):
        return self._token

    def end_authorization(self, reason, refused):
        assert refused == self._token
        self.failed = reason
        return Fatal(reason)


def list_by_processes(open_source):
    """Return the items of pages that a new connector each lists behind the last cursor, and the last cursor."""
    items, cursor = [], None
    for _ in range(50):
        connector, tokens = open_source()
        page = next(connector.iter_changes(tokens, cursor))
        items += page.items
        cursor = page.cursor
        if page.done:
            return items, cursor
    raise AssertionError("The listing has no end.")


def is_missing(external_id, items, last):
    """Check whether the run found the item to be missing."""
    return external_id not in items and (last.whole or bool(re.fullmatch(last.whole_pattern, external_id)))


class Tokens:
    """A `TokenSource` of a connection with a config."""

    def __init__(self, account, settings=None):
        self.connection_id = f"conn_{id(account)}"
        self.failed = ""
        self._token = registry.read_config(account.connector, account.config, settings or account.settings).access_token

    def token(self):
        return self._token

    def replace(self, token):
        self._token = token

    def renew(self, refused):
        return refused

    def end_authorization(self, reason, _refused):
        self.failed = reason
        return Fatal(reason)


def open_connector(account):
    return registry.make_connector(account.connector, {}, account.settings), Tokens(account)


def list_pages(account, cursor=None):
    connector, tokens = open_connector(account)
    return list(connector.iter_changes(tokens, cursor))


def list_items(account, cursor=None):
    """Return the items by external id, and the last page."""
    pages = list_pages(account, cursor)
    assert [page.done for page in pages] == [False] * (len(pages) - 1) + [True]
    return {item.external_id: item for page in pages for item in page.items}, pages[-1]


def texts(account, tmp_path, choice=None, cursor=None):
    """Text of each listed item by its external id, with the content that the list has or a request fetches."""
    connector, tokens = open_connector(account)
    connector = connector.with_choice(choice) if choice else connector
    read = {}
    for page in connector.iter_changes(tokens, cursor):
        for item in page.items:
            raw = item.content or connector.fetch(tokens, item, tmp_path / "fetched")
            read[item.external_id] = raw.path.read_text()
    return read


@contextmanager
def file_host(files):
    """Serve files at another host than the service, which must not get credentials."""
    received = []

    class Host(faults.Handler):
        def do_GET(self):  # noqa: N802 - the name that http.server calls
            received.append(self.headers.get("authorization"))
            data = files.get(self.path)
            self.reply(200 if data else 404, data or b"", {"Content-Type": "text/plain"})

    with faults.served(Host) as port:
        yield f"http://127.0.0.1:{port}", received


def read(account, tmp_path):
    """Text and files of each item by its external id."""
    connector, tokens = open_connector(account)
    contents = {}
    for name, item in list_items(account)[0].items():
        raw = item.content or connector.fetch(tokens, item, tmp_path / "fetched")
        if raw.media_type != "message/rfc822":
            contents[name] = "", {}
            continue
        assert item.content is None
        text, *files = list(email.message_from_bytes(raw.path.read_bytes()).walk())[1:]
        named = {file.get_filename(): file.get_payload(decode=True) for file in files}
        contents[name] = text.get_payload(decode=True).decode(), named
    return contents
