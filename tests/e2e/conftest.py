"""Services of real processes, started by their command and used over HTTP.

Tests share `service`, with a namespace per file; tests with kills or stops start their own by `new_service`.
"""

import copy
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from local import logs
from retrieval.namespaces.namespaces import EMBEDDED_CONFIGS
from retrieval.sources import APP_CONFIGS
from tests.standins import embedding_server

# Generous for a slow machine under load; no assertion about speed.
WAIT_SECONDS = 180
REQUEST_SECONDS = 90
COMMAND = Path(sys.executable).with_name("retrieval")


class Service:
    def __init__(self, home: Path, **settings: str) -> None:
        self.home = home
        mine = {name: value for name, value in os.environ.items() if not name.startswith(("RETRIEVAL_", "PREFECT_"))}
        self.environment = mine | {
            "ANOTHER_PROGRAMS_TOKEN": "canary-of-another-program",
            "RETRIEVAL_HOME": str(home),
            "RETRIEVAL_API_PORT": "0",
            "RETRIEVAL_PREFECT_PORT": "0",
            "RETRIEVAL_UI_PORT": "0",
            **{f"RETRIEVAL_{name.upper()}": value for name, value in settings.items()},
        }
        self.client = httpx.Client(timeout=REQUEST_SECONDS)
        # Error lines already reported.
        self.told: set[str] = set()
        # How runs and their tasks ended is told by Prefect at this level; it is no error of the worker's.
        self._expected: list[tuple[str, str]] = [
            ("worker", r"(Flow|Task) run '.*' - (\[[\w-]+\] )?(Finished in state|Engine execution exited)")
        ]

    def expects(self, role: str, error: str) -> None:
        """Expect error lines in this role's log; others fail the test at its end."""
        self._expected.append((role, error))

    def expects_kills(self) -> None:
        # After a kill, the log lines of the other roles vary too much for a list.
        for role in ("postgres", "prefect", "worker", "dispatcher", "up"):
            self.expects(role, "")

    def unexpected_errors(self) -> list[str]:
        """Error lines in the logs of all roles, without the expected ones."""
        errors = []
        for file in sorted((self.home / "logs").glob("*.log")):
            patterns = [pattern for role, pattern in self._expected if role == file.stem]
            lines = logs.list_errors(file.read_text(errors="replace"))
            errors += [
                f"{file.stem}: {line[:400]}"
                for line in lines
                if not any(re.search(pattern, line) for pattern in patterns)
            ]
        return [error for error in errors if error not in self.told]

    def run(self, *arguments: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, *arguments],
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def up(self) -> None:
        done = self.run("up", "--detach", timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        self.info = json.loads((self.home / "service.json").read_text())
        self.client.close()
        self.client = httpx.Client(
            base_url=self.info["api"],
            headers={"Authorization": f"Bearer {self.info['apiKey']}"},
            timeout=REQUEST_SECONDS,
        )

    def down(self) -> None:
        done = self.run("down")
        assert done.returncode == 0, done.stdout + done.stderr

    def remove(self) -> None:
        """Stop the service and delete its home; repeated calls do nothing."""
        self.client.close()
        if self.home.exists():
            self.run("down")
            shutil.rmtree(self.home, ignore_errors=True)

    def in_a_new_namespace(self, name: str, **configs) -> "Service":
        """View of the same instance with its own namespace and the given configuration."""
        created = self.ok(self.client.post("/v1/namespaces", json={"name": name, **EMBEDDED_CONFIGS, **configs}))
        view = copy.copy(self)
        view.info = self.info | {"namespaceId": created["namespace"]["id"]}
        return view

    def prefect(self) -> httpx.Client:
        """New client of Prefect's API, signed in; the caller closes it."""
        name, _, password = self.info["prefectLogin"].partition(":")
        return httpx.Client(base_url=self.info["prefect"] + "/api", auth=(name, password), timeout=REQUEST_SECONDS)

    def pid(self, role: str) -> int:
        status = json.loads(self.run("status", "--json").stdout)
        return next(entry["pid"] for entry in status["roles"] if entry["role"] == role)

    @property
    def namespace(self) -> str:
        return self.info["namespaceId"]

    def text(self, text: str, **config) -> dict:
        """Post a text; the answer's data."""
        return self.ok(
            self.client.post(
                "/v1/ingest/text",
                json={
                    "namespaceId": self.namespace,
                    "ingestConfig": {"source": "TEXT", "config": {"text": text, **config}},
                },
            )
        )

    def file(self, name: str, content: bytes, **fields: str) -> dict:
        return self.ok(
            self.client.post(
                "/v1/ingest/file",
                data={"namespaceId": self.namespace, "source": "FILE", **fields},
                files={"file": (name, content)},
            )
        )

    def job_run(self, job_run_id: str, namespace: str = "") -> dict:
        parameters = {"namespaceId": namespace or self.namespace}
        return self.ok(self.client.get(f"/v1/ingest-job-runs/{job_run_id}", params=parameters))

    def wait(self, *job_run_ids: str, seconds: float = WAIT_SECONDS, namespace: str = "") -> list[dict]:
        """Until all are COMPLETED; their data."""
        deadline = time.monotonic() + seconds
        done: dict[str, dict] = {}
        while len(done) < len(job_run_ids):
            for job_run in set(job_run_ids) - done.keys():
                data = self.job_run(job_run, namespace)
                if data["status"] == "COMPLETED":
                    done[job_run] = data
            if time.monotonic() > deadline:
                unfinished = [self.job_run(one, namespace) for one in list(set(job_run_ids) - done.keys())[:3]]
                pytest.fail(f"{len(job_run_ids) - len(done)} job runs not COMPLETED after {seconds} s: {unfinished}")
            time.sleep(0.1)
        return [done[job_run] for job_run in job_run_ids]

    @staticmethod
    def until(fact, *, seconds: float = WAIT_SECONDS):
        """First non-empty result of `fact`."""
        deadline = time.monotonic() + seconds
        while not (value := fact()):
            assert time.monotonic() < deadline, f"not within {seconds} s"
            time.sleep(0.2)
        return value

    def search(self, query: str, **fields) -> list[dict]:
        body = {"namespaceId": self.namespace, "query": query, **fields}
        path = "/v1/search/hybrid" if "hybridConfig" in fields else "/v1/search"
        return self.ok(self.client.post(path, json=body))["results"]

    def documents(self, **filters) -> list[dict]:
        config = {"documentIds": [], "documentExternalIds": [], "documentTypes": [], **filters}
        body = {"namespaceId": self.namespace, "filterConfig": config}
        return self.ok(self.client.post("/v1/documents", json=body))["documents"]

    @staticmethod
    def ok(answer: httpx.Response) -> dict:
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]


@pytest.fixture
def new_service():
    """Return a function: start a service, removed at the end."""
    yield from _starting()


@pytest.fixture(scope="module")
def service_of_module():
    """Return a function: start a service for all tests of a file."""
    yield from _starting()


def _starting():
    started: list[Service] = []

    def make(**settings: str) -> Service:
        service = Service(Path(tempfile.mkdtemp(prefix="rt-e2e-")), **settings)
        started.append(service)
        service.up()
        return service

    yield make
    errors = []
    for service in started:
        errors += service.unexpected_errors()
        service.remove()
    assert not errors, "\n".join(errors)


@pytest.fixture(scope="session")
def accounts():
    """An account on loopback at each content service, all in this process."""
    from tests.standins.accounts import serving_account

    with ExitStack() as stack:
        yield {name: stack.enter_context(serving_account(name)) for name in APP_CONFIGS}


@pytest.fixture(scope="session")
def openai():
    with embedding_server.running("OPENAI") as server:
        yield server


@pytest.fixture(scope="session")
def shared_service(accounts, openai):
    """The service for files without side effects; its settings lead to the stand-ins."""
    endpoints, logins = {"OPENAI": {"base_url": openai.base_url}}, {}
    for account in accounts.values():
        endpoints |= {name: value.model_dump(mode="json") for name, value in account.settings.endpoints.items()}
        logins |= {name: value.model_dump(mode="json") for name, value in account.settings.oauth_endpoints.items()}
    started = Service(
        Path(tempfile.mkdtemp(prefix="rt-e2e-")),
        endpoints=json.dumps(endpoints),
        oauth_endpoints=json.dumps(logins),
        fetch_allow="127.0.0.0/8",
        fetch_host_delay="0",
    )
    try:
        started.up()
        yield started
    finally:
        started.remove()


@pytest.fixture(scope="module")
def service(shared_service, request):
    """The shared service with a namespace per file; unexpected errors in its logs fail the file."""
    yield shared_service.in_a_new_namespace(request.path.stem)
    errors = shared_service.unexpected_errors()
    shared_service.told.update(errors)
    users = [item for item in request.session.items if "shared_service" in item.fixturenames]
    if users[-1].path == request.path:
        shared_service.remove()
    assert not errors, "\n".join(errors)
