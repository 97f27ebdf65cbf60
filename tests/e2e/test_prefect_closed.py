"""The bundled Prefect server against strangers on the same machine, and the secrets of each process."""

import contextlib
import json
import stat
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from local import postgres

STEAL = {"prefect.deployments.steps.run_shell_script": {"script": "env > stolen"}}


@pytest.fixture(scope="module")
def address(service):
    return service.info["prefect"]


@pytest.mark.parametrize("login", [None, "retrieval:wrong", "admin:pass", "rétrieval:ü"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/flows/"), ("POST", "/deployments/filter"), ("POST", "/logs/filter"), ("GET", "/admin/settings")],
)
def test_nobody_speaks_with_prefect_without_its_login(address, login, method, path):
    auth = tuple(part.encode() for part in login.split(":")) if login else None
    answer = httpx.request(method, f"{address}/api{path}", json={"name": "x"} if method == "POST" else None, auth=auth)
    assert answer.status_code == 401
    assert httpx.get(f"{address}/api/health").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "rebound.example:4200"},
        {"Host": "127.0.0.1.example"},
        {"Host": "127.0.0.1@evil.example"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost.evil.example"},
    ],
)
def test_another_host_and_another_origin_are_refused_even_with_the_login(service, address, headers):
    with service.prefect() as client:
        assert client.post("/flows/filter", json={}).status_code == 200
        for path in ("/api/flows/filter", "/api/health", "/", "/ui-settings"):
            assert client.post(address + path, json={}, headers=headers).status_code == 403, path


def test_a_page_of_prefects_own_may_and_a_foreign_one_gets_no_permission(address):
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    own_response = httpx.options(
        f"{address}/api/flows/", headers=asks | {"Origin": address.replace("127.0.0.1", "localhost")}
    )
    assert own_response.headers["Access-Control-Allow-Origin"] == address.replace("127.0.0.1", "localhost")
    foreign_response = httpx.options(f"{address}/api/flows/", headers=asks | {"Origin": "http://127.0.0.1:1"})
    assert "Access-Control-Allow-Origin" not in foreign_response.headers


@pytest.mark.parametrize("path", ["/events/in", "/events/out", "/logs/out", "/work_pools/retrieval/workers/connect"])
def test_a_websocket_asks_as_well(address, path):
    url = address.replace("http:", "ws:") + "/api" + path
    with pytest.raises((ConnectionClosed, InvalidStatus)), connect(url) as socket:
        socket.recv(timeout=10)
    with connect(url, subprotocols=["prefect"]) as socket:
        socket.send(json.dumps({"type": "auth", "token": "retrieval:wrong"}))
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=10)
    with pytest.raises(InvalidStatus), connect(url, origin="https://evil.example", subprotocols=["prefect"]):
        pass


def test_a_strange_deployment_in_the_pool_runs_nothing(service):
    # The attack once ran a shell as the service, by a user with the login.
    with service.prefect() as prefect:
        flow = prefect.post("/flows/", json={"name": "strange"}).json()["id"]
        body = {
            "name": "strange",
            "flow_id": flow,
            "work_pool_name": "retrieval",
            "entrypoint": "flows.sources.ingest_text",
        }
        deployment = prefect.post("/deployments/", json=body | {"pull_steps": [STEAL]}).json()["id"]
        run = prefect.post(f"/deployments/{deployment}/create_flow_run", json={}).json()["id"]
        assert service.text("Meanwhile others are served.", name="meanwhile")
        state = service.until(lambda: ended(prefect, run))
    assert (state["name"], state["type"]) == ("Refused", "FAILED")
    assert "pull steps" in state["message"]


def ended(prefect, run):
    state = prefect.get(f"/flow_runs/{run}").json()["state"]
    return state if state["type"] in ("FAILED", "CRASHED", "COMPLETED") else None


def test_no_process_holds_a_secret_that_its_role_does_not_need(service):
    """Compare each process's environment with the needs of its role."""
    home = service.home
    login = (home / "prefect.login").read_text().strip()
    assert service.info["prefectLogin"] == login
    for name in ("prefect.login", "secret.key", "postgres.password", "service.json"):
        assert stat.S_IMODE((home / name).stat().st_mode) == 0o600, name
    data = {"api", "worker", "dispatcher"}
    allowed = {
        (home / "secret.key").read_text().strip(): data,
        (home / "postgres.password").read_text().strip(): data,
        urlsplit(postgres.prefect_url(home)).password: {"prefect"},
        login: data | {"prefect"},
        service.info["apiKey"]: set(),
        "canary-of-another-program": set(),
    }
    status = json.loads(service.run("status", "--json").stdout)
    roles_by_pid = {entry["pid"]: entry["role"] for entry in status["roles"] if entry["pid"]}
    seen_pids = set()

    def all_seen():
        """Check the current processes; a parser lives as long as its flow run."""
        for pid, role, command in processes(roles_by_pid):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                environment = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
                seen_pids.add("parser" if "connectors.parsers" in command else role)
                for secret, roles in allowed.items():
                    may = role in roles and "connectors.parsers" not in command
                    assert may or secret not in environment, f"{role}: {command[:100]} holds {secret[:4]}…"
        return seen_pids >= {"api", "worker", "dispatcher", "prefect", "postgres", "ui", "parser"}

    run = service.file("a.html", b"<p>Parsed in a child of its own.</p>" * 20_000)["ingestJobRunId"]
    service.until(all_seen)
    service.wait(run)


def processes(pids):
    """Process id, role and command line of every living descendant of the roles, given by process id."""
    parents = {int(entry.name): parent(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    for pid in parents:
        above = pid
        while above not in pids and above in parents:
            above = parents[above]
        if above in pids and Path(f"/proc/{pid}/environ").exists():
            yield pid, pids[above], Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def parent(entry):
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
