"""From 0.1.0 to this version under load: processes of both side by side on one database and one Prefect server."""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from tests.e2e.conftest import COMMAND
from tests.faults.own_postgres import OwnPostgres
from tests.faults.own_prefect import LOGIN, OwnPrefect

PROJECT = Path(__file__).resolve().parents[2]
OLD = "c253bb3ecf8a0bcb56500a992de7ea326970e47e"
"""The newest commit with the schema of 0.1.0 (0012). Of its packages this version lacks Granian alone."""
CLIENTS = 4
ALONE, TOGETHER = 6.0, 10.0
"""Seconds of load with one version, and with both."""
READY_SECONDS = 120.0
DONE_SECONDS = 300.0
"""What the old worker left unfinished is taken up again text by text: it tells an end in order as a crash."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def place(tmp_path):
    """A database and a Prefect server of the operator's, and the old version's code."""
    known = subprocess.run(["git", "cat-file", "-e", OLD], cwd=PROJECT, capture_output=True, check=False)
    if known.returncode:
        pytest.skip(f"0.1.0 is not run: this copy of the project has no history with its commit {OLD[:7]}")
    archive = subprocess.run(["git", "archive", OLD], cwd=PROJECT, capture_output=True, check=True).stdout
    (tmp_path / "old.tar").write_bytes(archive)
    with tarfile.open(tmp_path / "old.tar") as packed:
        packed.extractall(tmp_path / "old", filter="data")
    # Prefect finds the type of worker by the metadata of the package, which is this version's.
    metadata = tmp_path / "old" / "retrieval_service-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: retrieval-service\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text("[prefect.collections]\nretrieval_service = flows.worker\n")
    (tmp_path / "files").mkdir()
    with ExitStack() as stack:
        data = Path(tempfile.mkdtemp(prefix="rt-rolling-"))  # PostgreSQL, which is not root's, reads its own
        stack.callback(shutil.rmtree, data, ignore_errors=True)
        data.chmod(0o755)
        postgres = OwnPostgres(data)
        stack.callback(postgres.remove)
        postgres.start()
        prefect = OwnPrefect(tmp_path / "prefect")
        stack.callback(prefect.kill)
        prefect.start()
        yield Place(stack, tmp_path, postgres.url(), f"http://127.0.0.1:{prefect.port}/api")


class Place:
    def __init__(self, stack: ExitStack, folder: Path, database_url: str, prefect_url: str) -> None:
        self.folder, self._stack = folder, stack
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RETRIEVAL_", "PREFECT_"))}
        self._environment = kept | {
            "RETRIEVAL_DATABASE_URL": database_url,
            "RETRIEVAL_SECRET_KEY": "1:" + base64.b64encode(random.Random(1).randbytes(32)).decode(),
            "RETRIEVAL_PREFECT_API_URL": prefect_url,
            "RETRIEVAL_FILES_DIRECTORY": str(folder / "files"),
            "DO_NOT_TRACK": "1",
        }

    def environment(self, version: str, port: int = 0) -> dict[str, str]:
        own = {"RETRIEVAL_HOME": str(self.folder / f"home-{version}"), "RETRIEVAL_API_PORT": str(port)}
        if version == "old":
            own |= {"PYTHONPATH": str(self.folder / "old"), "PREFECT_API_AUTH_STRING": LOGIN}
            return self._environment | own | {"PREFECT_API_URL": self._environment["RETRIEVAL_PREFECT_API_URL"]}
        return self._environment | own | {"RETRIEVAL_PREFECT_LOGIN": LOGIN}

    def start(self, version: str, role: str, port: int = 0) -> subprocess.Popen[bytes]:
        """`retrieval <role>` of that version; the old API with Uvicorn, as Granian is no package of this version."""
        command = [str(COMMAND), role]
        if version == "old":
            command = [sys.executable, "-m", "local.cli", role]
        if (version, role) == ("old", "api"):
            command = [sys.executable, "-m", "uvicorn", "--factory", "api.__main__:application", f"--port={port}"]
            command += ["--no-access-log", "--timeout-graceful-shutdown=10"]
        with (self.folder / f"{version}-{role}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder / "old" if version == "old" else PROJECT,
                env=self.environment(version, port),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._stack.callback(self._kill, process)
        return process

    @staticmethod
    def _kill(process: subprocess.Popen[bytes]) -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)

    def run(self, version: str, *command: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder / "old" if version == "old" else PROJECT,
            env=self.environment(version),
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    def ready(self, api: str) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                answer = httpx.get(f"{api}/ready", params={"for": "requests"}, timeout=5, trust_env=False)
                if answer.status_code == 200:
                    return
                told = answer.text
            except httpx.HTTPError as error:
                told = type(error).__name__
            assert time.monotonic() < deadline, told
            time.sleep(0.2)


class Load:
    """Clients that send texts and search, each time at the next of the APIs that are in use."""

    def __init__(self, api: str, key: str, namespace: str) -> None:
        self.apis = [api]
        self.failed: Counter[str] = Counter()
        self.taken: dict[str, str] = {}
        """Word by job run."""
        self.searches = 0
        self._headers, self._namespace = {"Authorization": f"Bearer {key}"}, namespace
        self._done, self._lock = threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(CLIENTS)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        for thread in self._threads:
            thread.join()

    def ask(self, client: httpx.Client, method: str, path: str, turn: int, **options):
        apis = self.apis
        api = apis[turn % len(apis)]
        try:
            answer = client.request(method, api + path, **options)
        except httpx.HTTPError as error:
            with self._lock:
                self.failed[f"{type(error).__name__} {path}"] += 1
            return None
        if answer.status_code != 200:
            with self._lock:
                self.failed[f"{answer.status_code} {path}: {answer.text[:300]}"] += 1
            return None
        return answer.json()["data"]

    def _send(self, number: int) -> None:
        turn, chance = number, random.Random(number)
        with httpx.Client(headers=self._headers, timeout=30, trust_env=False) as client:
            while not self._done.is_set():
                turn += 1
                word = f"w{number}x{turn}q{chance.randrange(10**9)}"
                config = {"name": word, "text": f"The harbour keeps a text with the word {word}. " * 20}
                body = {"namespaceId": self._namespace, "ingestConfig": {"source": "TEXT", "config": config}}
                made = self.ask(client, "POST", "/v1/ingest/text", turn, json=body)
                if made:
                    with self._lock:
                        self.taken[made["ingestJobRunId"]] = word
                query = {"namespaceId": self._namespace, "query": "what does the harbour keep"}
                if self.ask(client, "POST", "/v1/search", turn + 1, json=query) is not None:
                    self.searches += 1
                time.sleep(0.15)

    def finish(self, api: str) -> tuple[list[str], list[str]]:
        """Job runs that did not come to a good end, and words that are not found, by one API."""
        deadline = time.monotonic() + DONE_SECONDS
        stuck, lost, waiting = [], [], dict(self.taken)
        with httpx.Client(base_url=api, headers=self._headers, timeout=30, trust_env=False) as client:
            while waiting and time.monotonic() < deadline:
                for run in list(waiting):
                    where = {"namespaceId": self._namespace}
                    found = client.get(f"/v1/ingest-job-runs/{run}", params=where).json()["data"]
                    if found["status"] == "COMPLETED":
                        del waiting[run]
                        if found.get("outcome") != "SUCCEEDED":
                            stuck.append(f"{run}: {json.dumps(found)[:500]}")
                time.sleep(0.2)
            stuck += [f"{run} is not COMPLETED" for run in waiting]
            for word in self.taken.values():
                query = {"namespaceId": self._namespace, "query": word, "topK": 3}
                query["hybridConfig"] = {"semanticWeight": 0, "keywordWeight": 1}
                found = client.post("/v1/search/hybrid", json=query).json()["data"]["results"]
                if {hit["document"]["name"] for hit in found} != {word}:
                    lost.append(f"{word}: {json.dumps(found)[:500]}")
        return stuck, lost


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_request_fails_and_nothing_is_lost(place):
    python = (sys.executable, "-m")
    made = json.loads(place.run("old", *python, "local.first_steps").splitlines()[-1])
    place.run("old", *python, "flows.register")
    place.run("old", *python, "local.cli", "org", "update", made["organizationId"], "--requests", "1000000")
    port, later_port = free_port(), free_port()
    before = [place.start("old", "api", port), place.start("old", "dispatcher"), place.start("old", "worker")]
    old, new = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{later_port}"
    place.ready(old)
    with Load(old, made["apiKey"], made["namespaceId"]) as load:
        time.sleep(ALONE)
        place.run("new", str(COMMAND), "migrate")
        time.sleep(ALONE)
        place.run("new", str(COMMAND), "register")
        place.start("new", "api", later_port)
        place.start("new", "dispatcher")
        place.start("new", "worker")
        place.ready(new)
        load.apis = [old, new]
        time.sleep(TOGETHER)
        load.apis = [new]
        time.sleep(1)
        for process in before:
            process.terminate()
        for process in before:
            process.wait(60)
        time.sleep(ALONE)
    ended = time.monotonic()
    stuck, lost = load.finish(new)
    print(f"{len(load.taken)} texts, {load.searches} searches, {time.monotonic() - ended:.0f} s to the last text")  # noqa: T201
    assert load.failed == {}
    assert (stuck[:3], lost[:3]) == ([], [])
    assert len(load.taken) > 50
    checked = subprocess.run(
        [COMMAND, "fsck"], env=place.environment("new"), capture_output=True, text=True, timeout=120, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"documents: {len(load.taken)}, namespaces: 1" in checked.stdout
