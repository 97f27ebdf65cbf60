"""A full disk for over a minute during requests: below PostgreSQL only, or below the whole home."""

import shutil
import subprocess
import time
from contextlib import contextmanager, suppress

import httpx
import psycopg
import pytest

from local import LocalError, postgres
from tests.e2e.conftest import Service
from tests.faults.faults import fill

DISK = "700m"
# Longer than the supervisor's minute of counted deaths.
FULL_SECONDS = 70.0
# Seconds with room in PostgreSQL's WAL.
LOG_AFTER = 20.0
GOES_ON_SECONDS = 120.0


@contextmanager
def mounted(folder, mode):
    """Mount a small disk."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode={mode}", "full", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted on this machine: that takes root")
    try:
        yield folder / "filler"
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


@contextmanager
def running(service):
    """Start and stop a service; its logs stay after a failure."""
    service.expects_kills()
    service.up()
    try:
        yield
    finally:
        (service.home / "filler").unlink(missing_ok=True)
        (service.home / "postgres" / "filler").unlink(missing_ok=True)
        shutil.copytree(service.home / "logs", service.home.parent / "logs", dirs_exist_ok=True)
        with suppress(Exception):
            service.down()


@pytest.fixture
def service(tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    started = Service(home)
    yield started
    started.remove()


@pytest.fixture
def disk(service):
    """Small disk for PostgreSQL's data; yields its filler file."""
    folder = service.home / "postgres"
    service.up()
    service.down()
    folder.rename(service.home / "aside")
    folder.mkdir(mode=0o700)
    with mounted(folder, "0700") as filler:
        subprocess.run(["cp", "-a", f"{service.home}/aside/.", str(folder)], check=True)
        with running(service):
            yield filler


@pytest.fixture
def disk_of_all(service):
    """A small disk for the whole home."""
    with mounted(service.home, "0755") as filler, running(service):
        yield filler


class Sender:
    """Send texts one by one with their own keys; `acknowledged` maps job runs to numbers."""

    def __init__(self, service):
        self.service, self.number = service, 0
        self.acknowledged, self.refused = {}, []

    def send(self):
        """The answer, None if there was none."""
        text = f"word{self.number}x " + "text " * 2000
        config = {"text": text, "name": str(self.number)}
        body = {"namespaceId": self.service.namespace, "ingestConfig": {"source": "TEXT", "config": config}}
        key = {"Idempotency-Key": f"key-{self.number}"}
        answer = None
        with suppress(httpx.HTTPError):
            answer = self.service.client.post("/v1/ingest/text", json=body, headers=key)
        if answer is not None and answer.status_code == 200:
            self.acknowledged[answer.json()["data"]["ingestJobRunId"]] = self.number
            self.number += 1
            return answer
        self.refused.append(answer)
        return None


def use_up_the_log(home):
    """Delete PostgreSQL's spare WAL segments; the next write ends the server."""
    with suppress(psycopg.Error), psycopg.connect(postgres.url(home), autocommit=True, connect_timeout=5) as connection:
        for number in range(100):
            connection.execute("select pg_logical_emit_message(false, 'full', %s)", [str(number)])
            connection.execute("select pg_switch_wal()")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_full_disk_refuses_loses_nothing_and_is_over_by_itself(service, disk):
    is_over_by_itself(service, disk, [lambda: use_up_the_log(service.home)])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_full_home_is_over_by_itself_too(service, disk_of_all):
    # Worker, children and Prefect's server cannot write logs or state either.
    is_over_by_itself(service, disk_of_all, [])


def is_over_by_itself(service, filler, later):
    """Check recovery; `later` runs once while the disk is full."""
    sender = Sender(service)
    while sender.number < 10:
        assert sender.send()
    fill(filler)
    began = time.monotonic()
    while (elapsed := time.monotonic() - began) < FULL_SECONDS:
        if elapsed > LOG_AFTER and later:
            later.pop()()
        if not sender.send():
            time.sleep(1)
    status = service.run("status").stdout
    assert status.startswith("not writing"), status
    refused = sender.refused
    assert refused, "the disk was never full"
    assert {response and response.status_code for response in refused} == {503}, refused[-1].text
    errors = [response.json()["error"] for response in refused]
    assert {response["code"] for response in errors} == {"SERVICE_UNAVAILABLE"}
    assert "disk_full" in {response["details"].get("reason") for response in errors}, errors[:3]
    filler.unlink()
    freed = time.monotonic()
    service.until(sender.send, seconds=GOES_ON_SECONDS)
    accepts = time.monotonic() - freed
    done = service.wait(*sender.acknowledged, seconds=GOES_ON_SECONDS)
    ended = time.monotonic() - freed
    figures = f"{len(sender.acknowledged)} acknowledged, {len(refused)} refused, accepts after {accepts:.1f} s"
    figures += f", ended after {ended:.1f} s"
    assert all(response["outcome"] == "SUCCEEDED" for response in done), figures
    names = {document["name"] for document in service.documents()}
    assert {str(response) for response in sender.acknowledged.values()} <= names
    (service.home.parent / "figures").write_text(f"{figures}\n{status}")


def test_a_disk_too_small_for_the_first_start_is_a_sentence(tmp_path):
    # initdb prints lines about a transaction, a child and an exit code.
    folder = tmp_path / "small"
    folder.mkdir()
    with mounted(folder, "0755") as filler:
        free = shutil.disk_usage(folder).free
        with filler.open("wb") as file:
            for _ in range(free // (1 << 20) - 20):
                file.write(bytes(1 << 20))
        with pytest.raises(LocalError) as caught:
            postgres.start(folder / "home")
        assert str(caught.value) == (
            f"The disk of {folder / 'home'} is full: the embedded Postgres could not create its data."
            " Make room, or choose another RETRIEVAL_HOME."
        )
        filler.unlink()
        try:
            assert postgres.start(folder / "home")
        finally:
            postgres.stop(folder / "home")
