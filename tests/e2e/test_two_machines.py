"""Two machines as in docs/operations/several-machines.md: PostgreSQL with TLS, Prefect with a login, a bucket; a
service and a remote worker.
"""

import os
import shutil
import signal
import ssl
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.e2e.conftest import COMMAND, Service
from tests.e2e.test_own_prefect import OWN_LOGIN, own_prefect  # noqa: F401
from tests.faults.network import Network
from tests.faults.own_postgres import OwnPostgres
from tests.standins import s3_server, secure

KEY = "1:" + "A" * 43 + "="


@pytest.fixture
def own_postgres(tmp_path):
    """Address of a PostgreSQL with TLS and a private certificate; it refuses plain connections."""
    home, certificate, key = Path(tempfile.mkdtemp(prefix="rt-")), tmp_path / "certificate.pem", tmp_path / "key.pem"
    secure.certify(certificate, key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    started = OwnPostgres(home)
    try:
        started.start()
        with Network(started.port, tls=context) as network:
            yield f"{started.url(network.port)}?sslmode=verify-full&sslrootcert={certificate}"
    finally:
        started.remove()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def machines(own_prefect, own_postgres):  # noqa: F811
    """Two homes with the same settings and files in a bucket."""
    started = []
    for _ in range(2):
        home = Path(tempfile.mkdtemp(prefix="rt-"))
        settings = {
            "database_url": own_postgres,
            "secret_key": KEY,
            "prefect_api_url": own_prefect,
            "prefect_login": OWN_LOGIN,
            "files_directory": str(home / "files"),
        }
        started.append(Service(home, fetch_allow="127.0.0.0/8", **settings))
    yield started
    for machine in started:
        machine.remove()


def in_a_bucket(machine, storage):
    """View of the machine with a namespace in a bucket."""
    bucket = storage.config(s3_server.bucket(storage))
    return machine.in_a_new_namespace("bucket", fileStorageConfig=bucket)


@pytest.mark.slow
def test_a_worker_on_another_machine_takes_over_and_ends_in_order(machines, own_postgres):
    first, second = machines
    first.up()
    own_folder = second.run("worker", timeout=60)
    assert own_folder.returncode == 1
    assert "Traceback" not in own_folder.stderr
    assert str(second.home / "files") in own_folder.stderr
    second.environment["RETRIEVAL_ALLOW_LOCAL_FILES"] = "false"
    second.environment["RETRIEVAL_DATABASE_URL"] = own_postgres.partition("?")[0] + "?sslmode=disable"
    refused = second.run("migrate", "--check", timeout=60)
    assert (refused.returncode, "Traceback" in refused.stderr) == (1, False)
    assert "RETRIEVAL_DATABASE_URL" in refused.stderr
    second.environment["RETRIEVAL_DATABASE_URL"] = own_postgres
    with s3_server.running() as storage, (second.home / "worker.log").open("wb") as log:
        view = in_a_bucket(first, storage)
        worker = subprocess.Popen([COMMAND, "worker"], env=second.environment, cwd=second.home, stdout=log, stderr=log)
        stopped = first.pid("worker")
        try:
            second.until(lambda: b"started" in (second.home / "worker.log").read_bytes())
            os.kill(stopped, signal.SIGSTOP)
            run = view.file("owls.html", b"<p>Owls hunt mice at night.</p>")["ingestJobRunId"]
            view.wait(run)
            assert view.search("what do owls hunt?")[0]["document"]["name"] == "owls.html"
            assert not [path for path in (second.home / "files").rglob("*") if path.is_file()]
        finally:
            os.kill(stopped, signal.SIGCONT)
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 0, (second.home / "worker.log").read_text()[-2000:]
        assert first.run("fsck").returncode == 0
