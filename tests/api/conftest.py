"""API server over PostgreSQL, with organizations and clients."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from connectors.parsers.parser import document_parser
from retrieval import settings
from retrieval.accounts import api_keys
from retrieval.accounts.queries import organizations
from retrieval.database.database import Database
from retrieval.ports import Scope
from retrieval.security.secrets import KeyRing
from retrieval.settings import Settings
from tests.api.support import Organization, client_of, serve
from tests.library import Library

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def ring() -> KeyRing:
    return KeyRing.parse("1:" + base64.b64encode(os.urandom(32)).decode())


@pytest.fixture(scope="session")
def api_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings with small limits, short deadlines and a session folder for files."""
    home = tmp_path_factory.mktemp("home")
    document_parser()  # with the usual limits: other tests of this process use the same children
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVAL_HOME", str(home))
        patch.setenv("RETRIEVAL_CHECK_CONFIGS", "false")
        patch.setenv("RETRIEVAL_MAX_FILE_BYTES", str(3 * 1024 * 1024))
        patch.setenv("RETRIEVAL_MAX_BODY_BYTES", str(1024 * 1024))
        patch.setenv("RETRIEVAL_MAX_TEXT_BYTES", str(512 * 1024))
        patch.setenv("RETRIEVAL_BODY_SECONDS", "1.5")
        patch.setenv("RETRIEVAL_SEARCH_SECONDS", "120")  # the first search loads the model, beside other tests
        patch.setenv("RETRIEVAL_WEAK_SEARCH_DAYS", "30")
        settings.load_settings.cache_clear()
        yield settings.load_settings()
    settings.load_settings.cache_clear()


@pytest.fixture(scope="session")
def api_database(fresh_database) -> str:
    """Database URL for API tests; the key ring of these tests seals the pepper."""
    return str(fresh_database("api"))


@pytest.fixture(scope="session")
def base(api_settings: Settings, api_database: str, ring: KeyRing) -> Iterator[str]:
    with serve(api_settings, api_database, ring) as address:
        yield address


@pytest.fixture(scope="session")
def api_db(api_database: str) -> Iterator[Database]:
    opened = Database(api_database, size=4)
    yield opened
    opened.close()


@pytest.fixture
def organization(base: str, api_db: Database, ring: KeyRing):
    """Return a factory of organizations; arguments as in `organizations.create_organization`."""
    clients: list[httpx.Client] = []

    def make(**limits: Any) -> Organization:
        owner = organizations.create_organization(api_db, "test", **limits)
        api_key = api_keys.create_key(api_db, ring, owner.id, "test").api_key
        client = client_of(base, api_key)
        clients.append(client)
        return Organization(owner.id, client, api_key, api_db, ring, base)

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def org(organization) -> Organization:
    return organization()


@pytest.fixture
def space(org: Organization) -> str:
    """Namespace of the organization."""
    return org.namespace()


@pytest.fixture
def library(org: Organization, space: str) -> Library:
    """Documents of the namespace, without vectors."""
    return Library(org.db, Scope(org.id, space, ""), None)


@pytest.fixture
def anonymous(base: str) -> Iterator[httpx.Client]:
    """Client without a key."""
    with httpx.Client(base_url=base, timeout=30, trust_env=False, verify=False) as client:
        yield client
