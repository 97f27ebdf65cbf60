"""Commands and manual steps of docs/guides/backup.md."""

import copy
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
import psycopg
import pytest

from local import postgres
from tests.e2e.conftest import Service

PROJECT = Path(__file__).resolve().parents[2]
GUIDE = (PROJECT / "docs" / "guides" / "backup.md").read_text()


def block(title: str) -> str:
    """Commands of the guide after this comment."""
    (match,) = re.findall(rf"```sh\n( *# {re.escape(title)}\n.*?)```", GUIDE, re.DOTALL)
    return match


def run(script: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["sh", "-eu", "-c", script], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


QUERIES = ("what do owls eat?", "sleeping seals", "hexagonal columns")
HALF = {"semanticWeight": 0.5, "keywordWeight": 0.5}


def hits(instance):
    """Hits of each query without the names of this instance."""
    rankings = [instance.search(query, topK=5, hybridConfig=HALF) for query in QUERIES]
    return [
        [(hit["document"]["id"], hit["score"], hit["chunk"], hit["content"]) for hit in ranking] for ranking in rankings
    ]


def run_command(instance, *arguments):
    """Output of a successful command."""
    done = instance.run(*arguments, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def findings(instance, *namespaces):
    """Findings of the check in these namespaces."""
    done = instance.run("fsck", "--json", timeout=300)
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return [finding for finding in json.loads(done.stdout)["findings"] if finding["namespace"] in namespaces]


def entered(instance, api_key, namespace):
    """View of a started service with a key of the backed-up one."""
    instance.info = json.loads((instance.home / "service.json").read_text()) | {"namespaceId": namespace}
    instance.client.close()
    instance.client = httpx.Client(
        base_url=instance.info["api"], headers={"Authorization": f"Bearer {api_key}"}, timeout=90
    )


@pytest.mark.slow
def test_backup_restore_export_import_and_fsck_as_commands(service, tmp_path):
    """Restore a backup into a fresh home: same hits, same keys, and new work."""
    receipts = [service.file("owls.html", b"<p>Owls hunt mice at night.</p>")]
    receipts += [service.text(f"Seals sleep under water, and {n} of them sing.", name=f"seals {n}") for n in range(4)]
    receipts.append(service.text("Basalt columns are hexagonal.", name="basalt"))
    service.wait(*(row["ingestJobRunId"] for row in receipts))
    hits_before = hits(service)
    assert all(hits_before)
    backup, file, home = tmp_path / "backup", tmp_path / "namespace.tar", Path(tempfile.mkdtemp(prefix="rt-"))
    run_command(service, "backup", str(backup))
    assert "6 documents" in run_command(service, "export", service.namespace, str(file))
    fresh = Service(home)
    fresh.environment = service.environment | {"RETRIEVAL_HOME": str(home)}
    try:
        run_command(fresh, "restore", str(backup))
        fresh.up()
        refused = fresh.run("restore", str(backup))
        assert (refused.returncode, "is running in" in refused.stderr) == (1, True)
        entered(fresh, service.info["apiKey"], service.namespace)
        assert hits(fresh) == hits_before
        moved = run_command(
            fresh, "import", str(file), "--name", "copy", "--org", service.info["organizationId"]
        ).split()[0]
        beside = copy_of(fresh, moved)
        assert [[hit[1:] for hit in row] for row in hits(beside)] == [[hit[1:] for hit in row] for row in hits_before]
        assert findings(fresh, service.namespace, moved) == []
        receipt = beside.text("Copper conducts.", name="copper")
        beside.wait(receipt["ingestJobRunId"])
        assert beside.search("copper")[0]["document"]["name"] == "copper"
        some_file(home, service.namespace).unlink()
        assert [row["kind"] for row in findings(fresh, service.namespace)] == ["MISSING_FILE"]
        assert fresh.unexpected_errors() == []
    finally:
        fresh.remove()


def copy_of(instance, namespace):
    """View of the same instance with another namespace."""
    view = copy.copy(instance)
    view.info = instance.info | {"namespaceId": namespace}
    return view


def some_file(home, namespace):
    """A referenced file of the namespace."""
    return next(path for path in sorted((home / "files" / namespace).rglob("*")) if path.is_file())


@pytest.mark.slow
def test_a_dump_by_hand_is_restored_as_the_guide_says(service, tmp_path):
    # Reading the database and the folder is quicker than a whole service.
    accepted = service.text("Otters crack shells with stones.", name="otters")
    service.wait(accepted["ingestJobRunId"])
    backup, home = tmp_path / "backup", Path(tempfile.mkdtemp(prefix="rt-"))
    backup.mkdir()
    try:
        places = service.environment | {"PROJECT": str(PROJECT), "BACKUP": str(backup)}
        run(block("back up a running instance"), places)
        run(block("restore into a fresh home"), places | {"RETRIEVAL_HOME": str(home)})
        with psycopg.connect(postgres.start(home)) as connection:
            row = connection.execute("select raw_key from documents where name = 'otters'").fetchone()
        assert row is not None
        assert (home / "files" / row[0]).is_file()
    finally:
        postgres.stop(home)
        shutil.rmtree(home, ignore_errors=True)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on this machine")
def test_the_unit_file_is_one(tmp_path):
    unit = (PROJECT / "local" / "retrieval.service").read_text()
    unit_here = unit.replace("/opt/retrieval/.venv/bin/retrieval", str(Path(sys.executable).with_name("retrieval")))
    (tmp_path / "retrieval.service").write_text(unit_here)
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "retrieval.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
