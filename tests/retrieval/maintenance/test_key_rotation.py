"""Stored secrets get a new key while the service goes on writing, and the old key is not needed afterwards."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import LargeBinary
from sqlmodel import SQLModel

import retrieval.database.schema  # noqa: F401  (fills the metadata)
from local import cli
from retrieval import ids, settings
from retrieval.accounts import idempotency
from retrieval.connections import connections, pushes
from retrieval.database.database import Database
from retrieval.maintenance import key_rotation
from retrieval.namespaces import namespaces
from retrieval.ports import Tokens
from retrieval.security import secrets
from retrieval.security.secrets import KeyRing, SecretError

OLD, NEW = (base64.b64encode(os.urandom(32)).decode() for _ in range(2))
BEFORE = KeyRing.parse(f"old:{OLD}")
BOTH = KeyRing.parse(f"new:{NEW},old:{OLD}")
AFTER = KeyRing.parse(f"new:{NEW}")


@pytest.fixture(scope="module")
def rotated_url(fresh_database):
    return str(fresh_database("rotation"))


@pytest.fixture
def db(rotated_url):
    opened = Database(rotated_url, size=4)
    yield opened
    for table in ("oauth_states", "connections", "partitions", "namespaces", "organizations", "idempotent_answers"):
        opened.rows(f"with gone as (delete from {table} returning 1) select count(*) from gone")
    opened.rows("with gone as (delete from server_secrets returning 1) select count(*) from gone")
    opened.close()


def make(db, ring, count):
    """Store `count` sealed values of each kind and one pepper."""
    organization = ids.new_id("org_")
    db.row("insert into organizations (id, name) values (%(id)s, 'o') returning id", {"id": organization})
    stored = []
    for _ in range(count):
        space, digest = ids.namespace_id(), os.urandom(32)
        hidden = {"webScraperConfig.apiKey": "scraper-key"}
        db.row(
            "insert into namespaces (id, organization_id, name, config, secrets)"
            " values (%(id)s, %(org)s, 'n', %(config)s, %(secrets)s) returning id",
            {"id": space, "org": organization, "config": config(), "secrets": sealed_secrets(ring, space, hidden)},
        )
        partition = db.row("insert into partitions (namespace_id) values (%(space)s) returning id", {"space": space})[
            "id"
        ]
        connection = ids.connection_id()
        db.row(
            "insert into connections (id, partition_id, name, connector, status, credentials)"
            " values (%(id)s, %(partition)s, 'c', 'BOX', 'ACTIVE', %(sealed)s) returning id",
            {
                "id": connection,
                "partition": partition,
                "sealed": connections.seal_tokens(ring, connection, Tokens("access-token")),
            },
        )
        db.row(
            "insert into pushes (connection_id, address, secret) values (%(id)s, %(id)s, %(sealed)s) returning address",
            {"id": connection, "sealed": ring.seal(b"push-secret", row=pushes.row_name(connection))},
        )
        db.row(
            "insert into oauth_states (hash, connection_id, connector, verifier, expires_at)"
            " values (%(hash)s, %(connection)s, 'BOX', %(sealed)s, now() + interval '9 minutes') returning hash",
            {
                "hash": digest,
                "connection": connection,
                "sealed": ring.seal(b"verifier", row=connections.state_row_name(digest)),
            },
        )
        db.row(
            "insert into idempotent_answers (caller, key, request_hash, sealed)"
            " values (%(caller)s, 'k', %(hash)s, %(sealed)s) returning key",
            {
                "caller": space,
                "hash": digest,
                "sealed": ring.seal(b"answer", row=idempotency.row_name(space, "k")),
            },
        )
        stored.append((space, connection, digest))
    return secrets.server_secret(db, ring, secrets.PEPPER_NAME), stored


def config():
    scraped = {**namespaces.EMBEDDED_CONFIGS, namespaces.WEB_SCRAPER: {"provider": "FIRECRAWL"}}
    return json.dumps(scraped)


def sealed_secrets(ring, space, hidden):
    return ring.seal(json.dumps(hidden).encode(), row=namespaces.row_name(space))


def assert_opens(db, ring, pepper, stored):
    assert secrets.server_secret(db, ring, secrets.PEPPER_NAME) == pepper
    for space, connection, digest in stored:
        assert namespaces.load_namespace(db, ring, space).web_scraper["apiKey"] == "scraper-key"
        row = db.row("select credentials from connections where id = %(id)s", {"id": connection})
        assert connections.open_tokens(ring, connection, row["credentials"], None).access_token == "access-token"
        row = db.row("select secret from pushes where connection_id = %(id)s", {"id": connection})
        assert ring.open(row["secret"], row=pushes.row_name(connection)) == b"push-secret"
        row = db.row("select verifier from oauth_states where hash = %(hash)s", {"hash": digest})
        assert ring.open(row["verifier"], row=connections.state_row_name(digest)) == b"verifier"
        row = db.row("select sealed from idempotent_answers where caller = %(caller)s", {"caller": space})
        assert ring.open(row["sealed"], row=idempotency.row_name(space, "k")) == b"answer"


def test_afterwards_the_old_key_is_not_needed(db, monkeypatch):
    monkeypatch.setattr(key_rotation, "PAGE_ROWS", 2)
    pepper, stored = make(db, BEFORE, 5)
    with pytest.raises(SecretError):
        assert_opens(db, AFTER, pepper, stored)
    assert key_rotation.reseal_secrets(db, BOTH) == key_rotation.RotationOutcome(resealed=5 * 5 + 1, left=0)
    assert_opens(db, AFTER, pepper, stored)
    stamps = [namespaces.load_namespace(db, AFTER, space).updated_at for space, *_ in stored]
    assert key_rotation.reseal_secrets(db, BOTH) == key_rotation.RotationOutcome(resealed=0, left=0)
    assert [namespaces.load_namespace(db, AFTER, space).updated_at for space, *_ in stored] == stamps


def test_what_no_key_opens_is_counted_and_left_alone(db):
    lost_ring = KeyRing.parse("lost:" + base64.b64encode(os.urandom(32)).decode())
    pepper, stored = make(db, BEFORE, 1)
    make_lost = ids.new_id("lost_")
    db.row(
        "insert into idempotent_answers (caller, key, request_hash, sealed)"
        " values (%(caller)s, 'k', '', %(sealed)s) returning key",
        {"caller": make_lost, "sealed": lost_ring.seal(b"x", row=idempotency.row_name(make_lost, "k"))},
    )
    assert key_rotation.reseal_secrets(db, BOTH) == key_rotation.RotationOutcome(resealed=6, left=1)
    assert_opens(db, AFTER, pepper, stored)


def test_what_is_stored_meanwhile_stays(db, rotated_url):
    """Namespaces change and rotate at the same time: no change is lost, and in the end only the new key is needed."""
    pepper, stored_spaces = make(db, BEFORE, 30)
    spaces, ended, written = [space for space, *_ in stored_spaces], threading.Event(), {}

    async def change_all() -> None:
        mine = Database(rotated_url, size=2)
        try:
            for turn in range(1, 8):
                for space in spaces:
                    await rename(mine, space, f"name {turn}")
                    written[space] = f"name {turn}"
        finally:
            await mine.async_close()
            mine.close()
            ended.set()

    async def rename(mine, space, name):
        stored = namespaces.load_namespace(mine, BOTH, space)
        scraper = {"provider": "FIRECRAWL", "apiKey": f"key of {name}"}
        changed = replace(stored, name=name, web_scraper=scraper)
        await namespaces.update_namespace(mine, BOTH, changed)

    writer = threading.Thread(target=lambda: asyncio.run(change_all()))
    writer.start()
    resealed = key_rotation.reseal_secrets(db, BOTH).resealed
    while not ended.is_set():
        resealed += key_rotation.reseal_secrets(db, BOTH).resealed
    writer.join(20)
    assert resealed >= 1
    assert key_rotation.reseal_secrets(db, BOTH).left == 0
    assert len(written) == 30, "a change was refused"
    for space in spaces:
        namespace = namespaces.load_namespace(db, AFTER, space)
        assert (namespace.name, namespace.web_scraper["apiKey"]) == ("name 7", "key of name 7")
    assert secrets.server_secret(db, AFTER, secrets.PEPPER_NAME) == pepper


def test_every_sealed_column_is_known():
    binary = {
        f"{table.name}.{column.name}"
        for table in SQLModel.metadata.tables.values()
        for column in table.columns
        if isinstance(column.type, LargeBinary)
    }
    sealed_columns = {f"{sealed.table}.{sealed.column}" for sealed in key_rotation.SEALED_COLUMNS}
    assert sealed_columns <= binary
    plain = {"posting_blocks.body", "uploaded_files.sha256", "uploaded_pieces.content"}  # counts of words, uploads
    unknown = {name for name in binary - sealed_columns - plain if not re.search(r"hash$|fingerprint$|key$", name)}
    assert not unknown, "is it sealed? Then it belongs into rotation.SEALED"


def test_the_command(db, rotated_url, tmp_path, monkeypatch, capsys):
    pepper, stored = make(db, BEFORE, 2)
    for name in [name for name in os.environ if name.startswith("RETRIEVAL_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(Path.cwd())
    monkeypatch.setenv("RETRIEVAL_HOME", str(tmp_path))
    monkeypatch.setenv("RETRIEVAL_DATABASE_URL", rotated_url)
    monkeypatch.setenv("RETRIEVAL_SECRET_KEY", f"new:{NEW},old:{OLD}")
    settings.load_settings.cache_clear()
    mask = os.umask(0o022)
    try:
        assert cli.main(["rotate-secrets"]) == 0
        output = capsys.readouterr().out
        assert output == "11 stored secrets are sealed anew, with the key new.\nNo other key is in use.\n"
        assert_opens(db, AFTER, pepper, stored)
        monkeypatch.setenv("RETRIEVAL_SECRET_KEY", f"old:{OLD}")
        settings.load_settings.cache_clear()
        assert cli.main(["rotate-secrets"]) == 1
        assert "11 still need another key" in capsys.readouterr().err
    finally:
        os.umask(mask)
        settings.load_settings.cache_clear()
