"""Shared fixtures: one PostgreSQL per session, with a separate organization for each test."""

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
from retrieval.settings import PROJECT_ROOT
from tests.loops import close_database, open_database

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in the background of a script: Prefect's workers need it
    signal.signal(signal.SIGINT, signal.default_int_handler)
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
# What one example takes says how busy the machine is; what must be fast has a bound of its own in its test.
# The same few examples at each run: a change is judged by what it changes. `.ci/proofs` explores many others each night
# by `--hypothesis-profile=explore`.
USUAL = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.function_scoped_fixture]}
hypothesis.settings.register_profile("tests", derandomize=True, max_examples=25, **USUAL)
hypothesis.settings.register_profile("explore", derandomize=False, print_blob=True, max_examples=400, **USUAL)
hypothesis.settings.load_profile("tests")

SHARED = PROJECT_ROOT.parent / "shared" / "data"


# Kills of the processes lose no committed rows, even without fsync; tests/e2e/test_local.py covers the service's own
# settings.
HASTE = {"fsync": "off", "full_page_writes": "off"}


@functools.cache
def asks_prefect(file: str) -> bool:
    """Return whether a test file uses the Prefect server of its worker."""
    return file.startswith("tests/flows/") and "prefect_server" in (PROJECT_ROOT / file).read_text()


# Folders of tests that start whole services.
WHOLE = ("tests/e2e/", "tests/faults/")


def unit_of(nodeid: str) -> str:
    """Return the worker group of a test: services, Prefect, or the test's own file."""
    file = nodeid.partition("::")[0]
    return "services" if file.startswith(WHOLE) else "prefect" if asks_prefect(file) else file


SERVICE_FIXTURES = {"browser", "new_service", "prefect_server_environment", "service_of_module", "shared_service"}


def mark_of(item) -> str:
    """Return `service`, `db` or `unit`, the most expensive fixture of a test."""
    fixtures = set(getattr(item, "fixturenames", ()))
    if item.get_closest_marker("service") or item.nodeid.startswith(WHOLE) or fixtures & SERVICE_FIXTURES:
        return "service"
    return "db" if "postgres_home" in fixtures else "unit"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark each test by cost and sort by duration: services first, then Prefect."""
    for item in items:
        item.add_marker(mark_of(item))
    longest = ["prefect", "services"]

    def order(item):
        unit = unit_of(item.nodeid)
        return -longest.index(unit) if unit in longest else 1, "shared_service" not in getattr(item, "fixturenames", ())

    items.sort(key=order)


def pytest_collection_finish():
    # Objects created until here live to the end; without freezing, each garbage collection takes a second.
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def no_leaks():
    """Attribute unclosed resources to the test file that left them open."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def unhurried_services():
    # At Notion's three requests a second, the tests would wait for minutes. Separate processes keep their rates.
    from connectors.http import retries
    from connectors.http.retries import Bucket

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retries, "Bucket", lambda per_minute, burst: Bucket(1000 * per_minute, burst))
        yield


class ByFile(LoadScopeScheduling):
    """Distribute tests to workers by group."""

    def _split_scope(self, nodeid):
        return unit_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    # One more than cores: services and Prefect mostly wait for processes. A fourth on two cores costs a fifth more CPU.
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return ByFile(config, log)


@pytest.fixture(scope="session")
def postgres_home():
    """Start the embedded PostgreSQL with empty databases and return its folder."""
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
    """Return the URL of a shared database with the newest schema."""
    revisions.upgrade_schema(postgres_url)
    with psycopg.connect(postgres_url.replace("/retrieval?", "/postgres?"), autocommit=True) as connection:
        connection.execute("create database migrated template retrieval strategy file_copy")
    return postgres_url


@pytest.fixture(scope="session")
def fresh_database(database_url):
    """Return a function that creates another migrated database."""

    def make(name: str) -> str:
        copied = psycopg.sql.SQL("create database {} template migrated strategy file_copy")
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(copied.format(psycopg.sql.Identifier(name)))
        return str(database_url.replace("/retrieval?", f"/{name}?"))

    return make


@pytest.fixture(scope="session")
def db(database_url):
    # Pools for each test would cost 17 ms of CPU.
    opened = open_database(database_url)
    yield opened
    close_database(opened)


@pytest.fixture(scope="session")
def new_scope(db):
    """Return a function that creates an organization with one namespace."""

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
    """Return a function that starts a Pinecone stand-in; teardown validates the requests."""
    from tests.standins import pinecone

    with ExitStack() as opened:
        yield lambda **options: opened.enter_context(pinecone.running(**options))


@pytest.fixture(scope="session")
def shared_data():
    """Return the folder of shared test data, or skip the test."""
    if not SHARED.is_dir():
        pytest.skip(f"the shared test data is not there: {SHARED}")
    return SHARED
