"""Rows of PostgreSQL and MariaDB: listings in pages, texts, changes, deletions, refusals."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from connectors import registry
from connectors.sources.sql import database
from retrieval.errors import Fatal, ItemMissing, Retryable
from retrieval.settings import PROJECT_ROOT, Settings
from tests.connectors.sources.reading import Tokens, list_by_processes, list_items, open_connector
from tests.standins import database_servers

# By URL scheme; MariaDB stands for MySQL.
SERVERS = {"postgresql": database_servers.serve_postgresql, "mysql": database_servers.serve_mariadb}


@pytest.fixture(scope="module", params=["postgresql", pytest.param("mysql", marks=pytest.mark.slow)])
def server(request):
    folder = Path(tempfile.mkdtemp(prefix="db-", dir="/tmp"))
    # The server runs as another user.
    folder.chmod(0o755)
    with SERVERS[request.param](folder) as served:
        yield served
    shutil.rmtree(folder, ignore_errors=True)


class Account:
    """Account of a connection with the table `articles`."""

    connector = "SQL"

    def __init__(self, server):
        self.server = server
        self.config = {
            "url": f"{server.scheme}://127.0.0.1:{server.port}/handbook",
            "query": "SELECT * FROM articles WHERE title NOT LIKE '%draft%' -- not 10:30 :ready\n;",
            "key": "ID",
            "title": "title",
            "credentials": {"user": database_servers.USER, "password": database_servers.PASSWORD},
        }
        self.settings = Settings(_env_file=None, fetch_allow="127.0.0.1/32", max_file_bytes=2**20)
        self.execute("drop table if exists articles")
        self.execute(
            "create table articles (id int primary key, title varchar(100), body text, price decimal(8,2), raw "
            + ("bytea" if server.scheme == "postgresql" else "blob")
            + ", updated timestamp null)"
        )

    def execute(self, *statements):
        self.server.execute(*statements)

    def put(self, key, title="Owls", body="They hunt at night.", updated="2026-11-27 08:00:00"):
        self.execute(
            f"insert into articles values ({key}, '{title}', '{body}', 12.50, null, '{updated}')",
        )

    def locate(self, key):
        return f"{self.config['url']}/{key}"


@pytest.fixture
def account(server):
    return Account(server)


def fetch_text(account, key, to):
    connector, tokens = open_connector(account)
    return connector.fetch(tokens, list_items(account)[0][account.locate(key)], to / "a").path.read_text()


def test_a_row_is_a_document_of_its_columns_or_of_its_text(account, tmp_path):
    account.put(1)
    account.put(2, "a draft")
    items, last = list_items(account)
    assert list(items) == [account.locate(1)]
    item = items[account.locate(1)]
    assert (item.name, item.media_type, item.properties["path"], last.whole) == ("Owls", "text/plain", "1", True)
    expected = "id: 1\ntitle: Owls\nbody: They hunt at night.\nprice: 12.50\nupdated: 2026-11-27 08:00:00\n"
    assert fetch_text(account, 1, tmp_path) == expected
    account.config |= {"text": "body", "changed": "updated"}
    items, _ = list_items(account)
    assert items[account.locate(1)].media_type == "text/markdown"
    assert items[account.locate(1)].properties["modifiedAt"] == "2026-11-27T08:00:00Z"
    assert fetch_text(account, 1, tmp_path) == "# Owls\n\nThey hunt at night.\n"
    connector, tokens = open_connector(account)
    assert [(entry.id, entry.name) for entry in connector.browse(tokens, None, None).entries] == [
        (account.locate(1), "Owls")
    ]


def test_changed_and_deleted_rows_are_seen_by_the_next_run(account, tmp_path):
    account.put(1)
    account.put(2)
    before, last = list_items(account)
    account.execute("update articles set body = 'other' where id = 1", "delete from articles where id = 2")
    after, last = list_items(account, last.cursor)
    assert (list(after), last.whole) == ([account.locate(1)], True)
    assert after[account.locate(1)].version != before[account.locate(1)].version
    connector, tokens = open_connector(account)
    assert [connector.is_deleted(tokens, account.locate(key)) for key in (1, 2, "x", "1%20")] == [
        False,
        True,
        True,
        True,
    ]
    with pytest.raises(ItemMissing):
        connector.fetch(tokens, before[account.locate(2)], tmp_path / "a")
    account.config["changed"] = "updated"
    before, _ = list_items(account)
    account.execute("update articles set body = 'third', updated = updated")
    assert list_items(account)[0][account.locate(1)].version == before[account.locate(1)].version
    account.execute("update articles set updated = '2026-11-28 08:00:00'")
    assert list_items(account)[0][account.locate(1)].version != before[account.locate(1)].version


@pytest.mark.parametrize("key_type", ["int", "varchar(20)", "date"])
def test_another_process_continues_a_listing_after_any_page(account, monkeypatch, key_type):
    monkeypatch.setattr(database, "BATCH", 2)
    formats = {"int": "{}", "date": "'2026-01-0{}'", "varchar(20)": "'ä%:b/{}'"}
    account.execute("drop table if exists keyed", f"create table keyed (id {key_type} primary key, body text)")
    for number in range(1, 8):
        account.execute(f"insert into keyed values ({formats[key_type].format(number)}, 'text {number}')")
    account.config |= {"query": "select id, body from keyed", "title": "body"}
    items, _ = list_by_processes(lambda: open_connector(account))
    assert [item.name for item in items] == [f"text {number}" for number in range(1, 8)]
    connector, tokens = open_connector(account)
    assert not any(connector.is_deleted(tokens, item.external_id) for item in items)


def test_a_thousand_rows_take_the_documented_statements(account):
    values = ", ".join(f"({number}, 'Owls', 'text', 1, null, null)" for number in range(1000))
    account.execute(f"insert into articles values {values}")
    statements = []

    def record(_connection, _cursor, statement, *_more):
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", record)
    try:
        assert len(list_items(account)[0]) == 1000
    finally:
        event.remove(Engine, "before_cursor_execute", record)
    count = len([statement for statement in statements if "AS documents" in statement])
    lines = (PROJECT_ROOT / "docs" / "connectors.md").read_text(encoding="utf-8").splitlines()
    documented = [line for line in lines if line.startswith("| SQL |")]
    assert any(line.endswith(f"| {count} / {count} |") for line in documented), count


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"query": "select id, tilte from articles"}, "column that does not exist"),
        ({"query": "select id, title from article"}, "table or view that does not exist"),
        ({"query": "select id, from articles where"}, "syntax error"),
        ({"query": "select * from articles, articles as others"}, "two columns of one name"),
        ({"key": "number"}, r"no column number for key; it returns id, title, body, price, raw, updated"),
        ({"query": "select 1 as id, title from articles", "key": "id"}, "Two rows have the same id"),
        ({"query": "select nullif(id, 1) as id, title from articles"}, "has no id"),
        ({"credentials": {"user": "reader", "password": "canary-wrong"}}, "does not accept this user"),
        ({"query": "select * from secrets"}, "grant SELECT"),
        (
            {"query": "with gone as (delete from articles returning id) select * from gone"},
            r"must be one SELECT|syntax",
        ),
    ],
)
def test_a_refusal_says_what_to_do_without_data(account, config, problem):
    account.execute("drop table if exists secrets", "create table secrets (id int)")
    if account.server.scheme == "postgresql":
        account.execute(f"revoke all on secrets from {database_servers.USER}")
    elif "secrets" in config.get("query", ""):
        account.execute("create database if not exists closed", "create table if not exists closed.secrets (id int)")
        config = {"query": "select * from closed.secrets"}
    account.put(1, "canary-data")
    account.put(2, "canary-data")
    account.config |= config
    with pytest.raises(Fatal, match=problem) as refused:
        list_items(account)
    assert "canary" not in str(refused.value)


def test_a_slow_statement_is_fatal_and_a_stopped_server_is_retried(account, monkeypatch):
    monkeypatch.setattr(database, "STATEMENT_SECONDS", 1)
    sleep = "pg_sleep(3)" if account.server.scheme == "postgresql" else "sleep(3)"
    account.config |= {"query": f"select 1 as id, 'x' as title, {sleep} as waited"}
    with pytest.raises(Fatal, match="add an index"):
        list_items(account)
    account.config["url"] = account.config["url"].replace(str(account.server.port), "1999")
    with pytest.raises(Retryable, match="could not be reached"):
        list_items(account)


def test_a_statement_that_writes_changes_nothing(account):
    account.put(1)
    if account.server.scheme == "postgresql":
        account.execute("create sequence if not exists numbers", "grant all on sequence numbers to reader")
        account.config["query"] = "select nextval('numbers') as id, title from articles"
    else:
        account.execute(
            "drop function if exists spoil",
            "create function spoil() returns int begin delete from articles; return 1; end",
            "grant execute on handbook.* to reader@localhost",
        )
        account.config["query"] = "select spoil() as id, 'x' as title"
    with pytest.raises(Fatal, match="only statements that read"):
        list_items(account)
    account.config["query"] = "select 1 as id) as x; delete from articles; select * from (select 2 as id"
    with pytest.raises(Fatal, match="syntax error"):
        list_items(account)
    account.config["query"] = "select id, title from articles"
    assert len(list_items(account)[0]) == 1


def test_a_blocked_address_is_refused_without_a_connection(account):
    account.put(1)
    with pytest.raises(ValueError, match="cannot be used"):
        Tokens(account, Settings(_env_file=None))
    tokens = Tokens(account)
    connector = registry.make_connector("SQL", {}, Settings(_env_file=None))
    with pytest.raises(Fatal, match="RETRIEVAL_FETCH_ALLOW"):
        list(connector.iter_changes(tokens, None))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"url": "oracle://host/db"}, "url"),
        ({"url": "mysql://user:secret@host/db"}, "url"),
        ({"url": "mysql://host"}, "url"),
        ({"url": "postgresql://host/db?sslmode=disable"}, "url"),
        ({"query": "delete from articles"}, "query"),
        ({"query": "/* select */ update articles set id = 1"}, "query"),
        ({"key": None}, "key"),
        ({"credentials": {"user": "reader"}}, "credentials"),
        ({"fullListingMinutes": 60}, "fullListingMinutes"),
    ],
)
def test_a_config_is_refused_with_the_field(change, name):
    config = {
        "url": "mysql://127.0.0.1/db",
        "query": "-- all\nselect 1",
        "key": "id",
        "credentials": {"user": "reader", "password": "x"},
    }
    settings = Settings(_env_file=None, fetch_allow="127.0.0.1/32")
    assert registry.read_config("SQL", config, settings).account == "mysql://127.0.0.1/db"
    with pytest.raises(ValueError, match=r".") as refused:
        registry.read_config("SQL", config | change, settings)
    assert refused.value.args[0] == name
