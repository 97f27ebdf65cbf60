"""What every kind of test may ask for: one real PostgreSQL for the session, and scopes of one's own in it."""

import functools
import gc
import logging
import os
import shutil
import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path

import hypothesis
import psycopg
import pytest
import structlog
from xdist.scheduler import LoadScopeScheduling

from local import postgres
from retrieval import ids
from retrieval.database import revisions
from retrieval.ports import Scope
from tests.loops import close_database, open_database

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in the background of a script: Prefect's workers need it
    signal.signal(signal.SIGINT, signal.default_int_handler)
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
# What one example takes says how busy the machine is; what must be fast has a bound of its own in its test.
# The same examples at each run: a change is judged by what it changes. `.ci/proofs` explores others each night by
# `--hypothesis-profile=explore`.
hypothesis.settings.register_profile("tests", deadline=None, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None, derandomize=False, print_blob=True)
hypothesis.settings.load_profile("tests")

PROJECT = Path(__file__).resolve().parents[1]
SHARED = PROJECT.parent / "shared" / "data"


HASTE = {"fsync": "off", "full_page_writes": "off"}
"""Of the tests' PostgreSQL, which need not outlive its machine. A kill of its processes costs nothing committed; what
fsync is for is proved in tests/e2e/test_local.py with the service's own settings."""


@functools.cache
def asks_prefect(file: str) -> bool:
    """Whether tests of a file, by its path below the project, speak to the Prefect server of their worker."""
    return file.startswith("tests/flows/") and "prefect_server" in (PROJECT / file).read_text()


WHOLE = ("tests/e2e/", "tests/faults/")
"""Where whole services run."""


def unit_of(nodeid: str) -> str:
    """What stays in one worker: whole services, never two of them at once; all files for which a Prefect server must be
    started, once; any other file."""
    file = nodeid.partition("::")[0]
    return "services" if file.startswith(WHOLE) else "prefect" if asks_prefect(file) else file


SERVICE_FIXTURES = {"browser", "new_service", "prefect_server_environment", "service_of_module", "shared_service"}


def mark_of(item) -> str:
    """Return `service`, `db` or `unit`: the most expensive thing that a test starts, by the fixtures that it asks for.

    A file whose tests start processes without a fixture sets `pytestmark = pytest.mark.service`.
    """
    fixtures = set(getattr(item, "fixturenames", ()))
    if item.get_closest_marker("service") or item.nodeid.startswith(WHOLE) or fixtures & SERVICE_FIXTURES:
        return "service"
    return "db" if "postgres_home" in fixtures else "unit"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark each test by what it needs; the longest first: whole services, the shared one before those that tests start
    for themselves, then Prefect."""
    for item in items:
        item.add_marker(mark_of(item))
    longest = ["prefect", "services"]

    def order(item):
        unit = unit_of(item.nodeid)
        return -longest.index(unit) if unit in longest else 1, "shared_service" not in getattr(item, "fixturenames", ())

    items.sort(key=order)


def pytest_collection_finish():
    """What was made until here lives to the end: no garbage collection need look at it, or each takes a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def no_leaks():
    """What a file left open fails its own last test, not whichever one runs at the next garbage collection."""
    yield
    gc.collect()


@pytest.fixture(autouse=True, scope="session")
def unhurried_services():
    """Content services on loopback take any number of requests a minute: at Notion's three a second, its tests would
    wait for minutes. In processes of their own, connections keep to their rates."""
    from connectors.http import retries
    from connectors.http.retries import Bucket

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retries, "Bucket", lambda per_minute, burst: Bucket(1000 * per_minute, burst))
        yield


class ByFile(LoadScopeScheduling):
    """Shares tests out among workers by what stays together."""

    def _split_scope(self, nodeid):
        return unit_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Two more than cores: the whole services and Prefect keep a worker each, which mostly waits for processes."""
    return (os.cpu_count() or 1) + 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return ByFile(config, log)


@pytest.fixture(scope="session")
def postgres_home():
    """A folder in which the embedded PostgreSQL runs, its databases empty."""
    home = Path(tempfile.mkdtemp(prefix="rt-"))
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in HASTE.items():
                patch.setitem(postgres._SERVER_SETTINGS, name, value)
            postgres.start(home)
        yield home
    finally:
        postgres.stop(home)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_url(postgres_home):
    """The service's database there."""
    return postgres.url(postgres_home)


@pytest.fixture(scope="session")
def database_url(postgres_url):
    """The same with the newest schema. Tests share it: each makes an organization of its own."""
    revisions.upgrade_schema(postgres_url)
    with psycopg.connect(postgres_url.replace("/retrieval?", "/postgres?"), autocommit=True) as connection:
        connection.execute("create database migrated template retrieval strategy file_copy")
    return postgres_url


@pytest.fixture(scope="session")
def fresh_database(database_url):
    """A function that makes another migrated database, for tests that need one to themselves."""

    def make(name: str) -> str:
        copied = psycopg.sql.SQL("create database {} template migrated strategy file_copy")
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(copied.format(psycopg.sql.Identifier(name)))
        return str(database_url.replace("/retrieval?", f"/{name}?"))

    return make


@pytest.fixture(scope="session")
def db(database_url):
    """Pools of the session: a pool for each test would take 17 ms of CPU of it and of PostgreSQL."""
    opened = open_database(database_url)
    yield opened
    close_database(opened)


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
