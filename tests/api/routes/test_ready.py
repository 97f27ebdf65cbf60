"""`/ready`: schema version, file folder with free space, and progress of work."""

from __future__ import annotations

import base64
import signal
import time
from argparse import Namespace

import httpx
import pytest

from local import LocalError
from retrieval import readiness
from retrieval.database import revisions
from retrieval.database.database import Database
from retrieval.readiness import LoopReport, files_folder, roles
from retrieval.settings import Settings
from tests.api import process
from tests.api.support import serve


@pytest.fixture
def own_db(fresh_database, request):
    """Disposable database."""
    opened = Database(fresh_database("ready_" + str(abs(hash(request.node.name)))))
    yield opened
    opened.close()


@pytest.fixture
def at(own_db, tmp_path, ring, monkeypatch):
    """Settings of a separate instance, and a function for asking an uncached API."""
    monkeypatch.setattr("api.routes.operations._READY_CACHE_SECONDS", 0.0)
    configured = Settings(home=tmp_path, max_file_bytes=1024)
    with serve(configured, own_db.url, ring) as base, httpx.Client(base_url=base, trust_env=False) as client:
        yield configured, lambda **query: client.get("/ready", params=query)


def reason(answer: httpx.Response) -> str:
    assert answer.status_code == 503, answer.text
    assert answer.json()["status"] == "unavailable"
    assert answer.headers["retry-after"]
    return str(answer.json()["reason"])


def test_a_schema_of_another_version_is_not_ready(at, own_db):
    _, ask = at
    assert ask().status_code == 200
    for revision, words in (("0050", "is of version 0.1.0"), ("9999", "of a newer version")):
        own_db.rows("update alembic_version set version_num = %(revision)s", {"revision": revision})
        assert words in reason(ask())
        assert revision in reason(ask())
    own_db.rows("update alembic_version set version_num = '0050'")
    assert "is of version 0.1.0" in reason(ask(**{"for": "requests"}))


def test_requests_are_served_while_the_next_version_is_about_to_start(at, own_db):
    # Migrations run first: a load balancer must not remove all processes of this version.
    _, ask = at
    own_db.rows("update alembic_version set version_num = '9999'")
    assert ask(**{"for": "requests"}).status_code == 200
    assert ask().status_code == 503


@pytest.mark.parametrize("role", [roles.worker_problems, roles.dispatcher_problems])
def test_work_goes_on_while_the_next_version_is_about_to_start(at, own_db, role, monkeypatch):
    # A rolling upgrade ends unready processes first, before a replacement exists.
    configured, _ = at
    own_db.rows("update alembic_version set version_num = '9999'")
    assert role(own_db, configured) == ()
    own_db.rows("update alembic_version set version_num = %(revision)s", {"revision": revisions.newest_revision()})
    monkeypatch.setattr(revisions, "newest_revision", lambda: "9999")
    (reason,) = role(own_db, configured)
    assert "run `retrieval migrate`" in reason


def test_a_full_or_foreign_folder_of_files_is_not_ready(at, own_db):
    configured, ask = at
    assert files_folder.claim_folder(own_db, configured) is None
    assert files_folder.claim_folder(own_db, configured) is None, "the same folder again"
    assert ask().status_code == 200
    marker = configured.files_folder / files_folder.MARKER_NAME
    marker.write_text("files_of_another_service\n")
    assert "is not the files folder of this service" in reason(ask())
    marker.unlink()
    assert f"echo {own_db.row('select id from files_folder')['id']} >" in reason(ask(**{"for": "requests"}))
    huge = configured.model_copy(update={"max_file_bytes": 1 << 60})
    marker.write_text(str(own_db.row("select id from files_folder")["id"]))
    assert "is full" in str(files_folder.folder_problem(huge, own_db.row("select id from files_folder")["id"]))


def test_stalled_dispatch_is_not_ready_but_serves_requests(at, own_db):
    _, ask = at
    readiness.record_loops(own_db, "here:1", [LoopReport("dispatch", 500.0, 600.0, "PoolTimeout")])
    assert "has not succeeded for 500 s, since then: PoolTimeout" in reason(ask())
    assert ask(**{"for": "requests"}).status_code == 200


def test_a_second_machine_with_a_folder_of_its_own_is_refused(own_db, tmp_path):
    first, second = Settings(home=tmp_path / "one"), Settings(home=tmp_path / "two")
    assert files_folder.claim_folder(own_db, first) is None
    refused = files_folder.claim_folder(own_db, second)
    assert refused is not None
    assert "Mount the same folder on every machine" in refused
    assert not (second.files_folder / files_folder.MARKER_NAME).exists()
    shared = Settings(home=tmp_path / "two", files_directory=first.files_folder)
    assert files_folder.claim_folder(own_db, shared) is None
    assert files_folder.claim_folder(own_db, Settings(home=tmp_path / "two", allow_local_files=False)) is None


def test_a_role_does_not_start_with_another_folder(own_db, tmp_path, ring, monkeypatch):
    # `retrieval worker` on a machine with a different folder.
    from local import run_role

    assert files_folder.claim_folder(own_db, Settings(home=tmp_path / "one")) is None
    key = ",".join(f"{name}:{base64.b64encode(value).decode()}" for name, value in ring.keys.items())
    settings = Settings(
        home=tmp_path / "two",
        database_url=own_db.url,
        secret_key=key,
        prefect_api_url="http://127.0.0.1:9",
        api_port=process.free_port(),
    )
    for role in ("worker", "dispatcher", "api"):
        with pytest.raises(LocalError, match="is not the files folder of this service"):
            run_role.run(Namespace(command=role), settings)


def test_a_process_that_ends_says_so_before_it_stops_listening(api_database, ring, tmp_path):
    # A load balancer with a check per second notices before any request is refused.
    with process.running(tmp_path, api_database, ring, RETRIEVAL_DRAIN_SECONDS="3") as (address, started, _):
        with httpx.Client(base_url=address, trust_env=False, timeout=10) as client:
            assert client.get("/ready?for=requests").status_code == 200
            started.send_signal(signal.SIGTERM)
            signalled_at = time.monotonic()
            while client.get("/ready?for=requests").status_code == 200:
                assert time.monotonic() - signalled_at < 1
            assert "about to end" in client.get("/ready").json()["reason"]
            while time.monotonic() - signalled_at < 2:
                assert client.get("/health").status_code == 200
                time.sleep(0.05)
        assert started.wait(15) == 0
