"""What docs/guides/backup.md tells an operator: commands as processes, steps by hand as they stand there."""

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
    """The commands of the guide that begin with this comment."""
    (found,) = re.findall(rf"```sh\n( *# {re.escape(title)}\n.*?)```", GUIDE, re.DOTALL)
    return found


def run(script: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["sh", "-eu", "-c", script], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


QUERIES = ("what do owls eat?", "sleeping seals", "hexagonal columns")
HALF = {"semanticWeight": 0.5, "keywordWeight": 0.5}


def hits(place):
    """What a client is shown for each query, without what names this instance's objects."""
    found = [place.search(query, topK=5, hybridConfig=HALF) for query in QUERIES]
    return [[(hit["document"]["id"], hit["score"], hit["chunk"], hit["content"]) for hit in one] for one in found]


def told(place, *arguments):
    """What a command printed; it ended well."""
    done = place.run(*arguments, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def findings(place, *namespaces):
    """What the check says of these namespaces; those of other tests have vendors that are gone."""
    done = place.run("fsck", "--json", timeout=300)
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return [one for one in json.loads(done.stdout)["findings"] if one["namespace"] in namespaces]


def entered(place, api_key, namespace):
    """A service that came up, spoken to with a key of the one that was backed up."""
    place.info = json.loads((place.home / "service.json").read_text()) | {"namespaceId": namespace}
    place.client.close()
    place.client = httpx.Client(base_url=place.info["api"], headers={"Authorization": f"Bearer {api_key}"}, timeout=30)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_backup_restore_export_import_and_fsck_as_commands(service, tmp_path):
    """Of a running instance into a fresh home: the same hits, the same keys, and the work goes on."""
    sent = [service.file("owls.html", b"<p>Owls hunt mice at night.</p>")]
    sent += [service.text(f"Seals sleep under water, and {n} of them sing.", name=f"seals {n}") for n in range(4)]
    sent.append(service.text("Basalt columns are hexagonal.", name="basalt"))
    service.wait(*(one["ingestJobRunId"] for one in sent))
    before = hits(service)
    assert all(before)
    backup, file, home = tmp_path / "backup", tmp_path / "namespace.tar", Path(tempfile.mkdtemp(prefix="rt-"))
    told(service, "backup", str(backup))
    assert "6 documents" in told(service, "export", service.namespace, str(file))
    fresh = Service(home)
    fresh.environment = service.environment | {"RETRIEVAL_HOME": str(home)}
    try:
        told(fresh, "restore", str(backup))
        fresh.up()
        refused = fresh.run("restore", str(backup))
        assert (refused.returncode, "is running in" in refused.stderr) == (1, True)
        entered(fresh, service.info["apiKey"], service.namespace)
        assert hits(fresh) == before
        moved = told(fresh, "import", str(file), "--name", "copy", "--org", service.info["organizationId"]).split()[0]
        beside = copy_of(fresh, moved)
        assert [[hit[1:] for hit in one] for one in hits(beside)] == [[hit[1:] for hit in one] for one in before]
        assert findings(fresh, service.namespace, moved) == []
        again = beside.text("Copper conducts.", name="copper")
        beside.wait(again["ingestJobRunId"])
        assert beside.search("copper")[0]["document"]["name"] == "copper"
        some_file(home, service.namespace).unlink()
        assert [one["kind"] for one in findings(fresh, service.namespace)] == ["MISSING_FILE"]
        assert fresh.unexpected_errors() == []
    finally:
        fresh.remove()


def copy_of(place, namespace):
    """The same instance, spoken to about another namespace."""
    view = copy.copy(place)
    view.info = place.info | {"namespaceId": namespace}
    return view


def some_file(home, namespace):
    """One file of the namespace that a document refers to."""
    return next(path for path in sorted((home / "files" / namespace).rglob("*")) if path.is_file())


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_dump_by_hand_is_restored_as_the_guide_says(service, tmp_path):
    """Without starting the whole service once more: its database holds the document, its folder the file."""
    accepted = service.text("Otters crack shells with stones.", name="otters")
    service.wait(accepted["ingestJobRunId"])
    backup, home = tmp_path / "backup", Path(tempfile.mkdtemp(prefix="rt-"))
    backup.mkdir()
    try:
        places = service.environment | {"PROJECT": str(PROJECT), "BACKUP": str(backup)}
        run(block("back up a running instance"), places)
        run(block("restore into a fresh home"), places | {"RETRIEVAL_HOME": str(home)})
        with psycopg.connect(postgres.start(home)) as connection:
            found = connection.execute("select raw_key from documents where name = 'otters'").fetchone()
        assert found is not None
        assert (home / "files" / found[0]).is_file()
    finally:
        postgres.stop(home)
        shutil.rmtree(home, ignore_errors=True)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on this machine")
def test_the_unit_file_is_one(tmp_path):
    unit = (PROJECT / "local" / "retrieval.service").read_text()
    here = unit.replace("/opt/retrieval/.venv/bin/retrieval", str(Path(sys.executable).with_name("retrieval")))
    (tmp_path / "retrieval.service").write_text(here)
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "retrieval.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
