"""What docs/guides/backup.md tells an operator to do, done as it stands there."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
import pytest

from tests.e2e.conftest import Service

PROJECT = Path(__file__).resolve().parents[2]
GUIDE = (PROJECT / "docs" / "guides" / "backup.md").read_text()


def block(title: str) -> str:
    """The commands of the guide that begin with this comment."""
    (found,) = re.findall(rf"```sh\n( *# {re.escape(title)}\n.*?)```", GUIDE, re.DOTALL)
    return found


def run(script: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["sh", "-eu", "-c", script], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_backup_of_a_running_instance_is_restored_into_a_fresh_home(new_service):
    old = new_service()
    accepted = old.file("owls.html", b"<p>Owls hunt mice at night.</p>")
    old.wait(accepted["ingestJobRunId"])
    backup, home = (Path(tempfile.mkdtemp(prefix="rt-")) for _ in range(2))
    try:
        places = old.environment | {"PROJECT": str(PROJECT), "BACKUP": str(backup)}
        run(block("back up a running instance"), places)
        old.down()
        fresh = Service(home)
        try:
            run(block("restore into a fresh home"), places | fresh.environment)
            fresh.info = json.loads((home / "service.json").read_text()) | {"namespaceId": old.namespace}
            key = {"Authorization": f"Bearer {old.info['apiKey']}"}
            fresh.client = httpx.Client(base_url=fresh.info["api"], headers=key, timeout=30)
            assert "Owls hunt mice" in fresh.search("what do owls eat?")[0]["content"]
            again = fresh.text("Seals sleep under water.", name="seals")
            fresh.wait(again["ingestJobRunId"])
            assert fresh.search("sleeping seals")[0]["document"]["name"] == "seals"
            assert fresh.unexpected_errors() == []
        finally:
            fresh.client.close()
            fresh.down()
    finally:
        for folder in (backup, home):
            shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on this machine")
def test_the_unit_file_is_one(tmp_path):
    unit = (PROJECT / "local" / "retrieval.service").read_text()
    here = unit.replace("/opt/retrieval/.venv/bin/retrieval", str(Path(sys.executable).with_name("retrieval")))
    (tmp_path / "retrieval.service").write_text(here)
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "retrieval.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
