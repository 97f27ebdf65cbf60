"""No room below PostgreSQL, for longer than a minute and really: a small disk is filled while texts are sent."""

import shutil
import subprocess
import time
from contextlib import suppress

import httpx
import psycopg
import pytest

from local import postgres
from tests.e2e.conftest import Service
from tests.faults.faults import fill

DISK = "700m"
FULL_SECONDS = 70.0
"""Longer than the minute in which the supervisor counts the deaths of a role."""
LOG_AFTER = 20.0
"""Seconds for which there is room in PostgreSQL's log of writes yet, and after which there is none."""
GOES_ON_SECONDS = 120.0


@pytest.fixture
def disk(tmp_path):
    """A small disk for PostgreSQL's data alone."""
    home = tmp_path / "home"
    mounted = home / "postgres"
    service = Service(home)
    service.expects_kills()
    home.mkdir(mode=0o755)
    service.up()
    service.down()
    mounted.rename(home / "aside")
    mounted.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0700", "full", str(mounted)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted on this machine: that takes root")
    try:
        subprocess.run(["cp", "-a", f"{home}/aside/.", str(mounted)], check=True)
        service.up()
        yield service, mounted / "filler"
    finally:
        (mounted / "filler").unlink(missing_ok=True)
        shutil.copytree(home / "logs", tmp_path / "logs")  # for whoever wants to know why it failed
        with suppress(Exception):
            service.down()
        subprocess.run(["umount", "--lazy", str(mounted)], check=False)
        service.remove()


class Sender:
    """Sends texts one after the other, each by a key of its own. `acknowledged`: by job run, the number of the text."""

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
    """Segments of the log that PostgreSQL kept for later: the next one cannot be made, and it ends."""
    with suppress(psycopg.Error), psycopg.connect(postgres.url(home), autocommit=True, connect_timeout=5) as connection:
        for number in range(100):
            connection.execute("select pg_logical_emit_message(false, 'full', %s)", [str(number)])
            connection.execute("select pg_switch_wal()")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.decision("H374")
def test_a_full_disk_refuses_loses_nothing_and_is_over_by_itself(disk):
    service, filler = disk
    sender = Sender(service)
    while sender.number < 10:
        assert sender.send()
    fill(filler)
    began, log_is_full = time.monotonic(), False
    while (now := time.monotonic() - began) < FULL_SECONDS:
        if now > LOG_AFTER and not log_is_full:
            use_up_the_log(service.home)
            log_is_full = True
        if not sender.send():
            time.sleep(1)
    said = service.run("status").stdout
    refused = sender.refused
    assert refused, "the disk was never full"
    assert {one and one.status_code for one in refused} == {503}, refused[-1].text
    told = [one.json()["error"] for one in refused]
    assert {one["code"] for one in told} == {"SERVICE_UNAVAILABLE"}
    assert "disk_full" in {one["details"].get("reason") for one in told}, told[:3]
    filler.unlink()
    freed = time.monotonic()
    service.until(sender.send, seconds=GOES_ON_SECONDS)
    accepts = time.monotonic() - freed
    done = service.wait(*sender.acknowledged, seconds=GOES_ON_SECONDS)
    ended = time.monotonic() - freed
    figures = f"{len(sender.acknowledged)} acknowledged, {len(refused)} refused, accepts after {accepts:.1f} s"
    figures += f", ended after {ended:.1f} s"
    assert all(one["outcome"] == "SUCCEEDED" for one in done), figures
    names = {document["name"] for document in service.documents()}
    assert {str(one) for one in sender.acknowledged.values()} <= names
    (service.home.parent / "figures").write_text(f"{figures}\n{said}")
