"""What every kind of test may ask for: one real PostgreSQL for the session, and scopes of one's own in it."""

import gc
import logging
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

import psycopg
import pytest
import structlog
from xdist.scheduler import LoadScopeScheduling

from local import postgres
from retrieval import ids
from retrieval.database import database
from retrieval.database.database import Database
from retrieval.ports import Scope

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


ALONE = {"e2e", "browser"}
"""Folders whose tests start services of their own: never two of them at once."""


def pytest_collection_modifyitems(items):
    """Services are started first: they take the longest."""
    items.sort(key=lambda item: item.path.parent.name not in ALONE)


def pytest_collection_finish():
    """What was made until here lives to the end: no garbage collection need look at it, or each takes a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def no_leaks():
    """What a file left open fails its own last test, not whichever one runs at the next garbage collection."""
    yield
    gc.collect()


class ByFile(LoadScopeScheduling):
    """Shares tests out among workers: a file stays together, and whole services run one by one."""

    def _split_scope(self, nodeid):
        path = PurePosixPath(nodeid.partition("::")[0])
        return "services" if path.parent.name in ALONE else str(path)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return ByFile(config, log)


@pytest.fixture(scope="session")
def postgres_url():
    """The embedded PostgreSQL in a folder of its own, empty."""
    home = Path(tempfile.mkdtemp(prefix="rt-"))
    try:
        yield postgres.start(home)
    finally:
        postgres.stop(home)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def database_url(postgres_url):
    """The same with the newest schema. Tests share it: each makes an organization of its own."""
    database.migrate(postgres_url)
    return postgres_url


@pytest.fixture(scope="session")
def fresh_database(postgres_url):
    """A function that makes another migrated database, for tests that need one to themselves."""

    def make(name: str) -> str:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(psycopg.sql.SQL("create database {}").format(psycopg.sql.Identifier(name)))
        url = postgres_url.replace("/retrieval?", f"/{name}?")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create extension if not exists vector")
        database.migrate(url)
        return url

    return make


@pytest.fixture
def db(database_url):
    """A pool for one test."""
    opened = Database(database_url)
    yield opened
    opened.close()


@pytest.fixture
def new_scope(db):
    """A function that makes an organization with one namespace, and answers its scope for a tenant."""

    def make(tenant: str = "") -> Scope:
        scope = Scope(ids.organization_id(), ids.namespace_id(), tenant)
        values = {"organization": scope.organization, "namespace": scope.namespace}
        db.rows("insert into organizations (id, name) values (%(organization)s, 'test')", values)
        db.rows(
            "insert into namespaces (id, organization_id, name, secrets)"
            " values (%(namespace)s, %(organization)s, 'test', '')",
            values,
        )
        return scope

    return make


@pytest.fixture
def pinecone_index():
    """A function that starts an index at Pinecone on loopback; each judges what it was sent when the test is over."""
    from tests.standins import pinecone

    with ExitStack() as opened:
        yield lambda **options: opened.enter_context(pinecone.running(**options))


@pytest.fixture(scope="session")
def shared_data():
    """The shared test data beside the project; a test that needs it says so when it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"the shared test data is not there: {SHARED}")
    return SHARED
