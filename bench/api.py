"""GET and POST of a text, compared with FastAPI, SQLModel and Uvicorn.

    python -m bench.api [--rounds 5] [--seconds 4] [--clients 8] [--baseline 1]

Each server is one process with uvloop, httptools and usual settings; both use one embedded PostgreSQL. Another process
sends the requests over kept connections; the rounds of the servers alternate. The figures are requests per second and
CPU time per request, with and without PostgreSQL. `--baseline 0` skips the baseline. On a busy machine only CPU
time and ratios count.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import uvloop

from bench.harness import (
    NAMESPACE_CONFIG,
    PROJECT_FOLDER,
    measure_memory,
    migrated_database,
    parse_options,
    process_seconds,
    tree_seconds,
    write_figures,
)

SAMPLE_SENTENCE = "The harbour seal dives for up to thirty minutes and then rests on the sand for hours. "
REQUEST_KINDS = ("GET", "POST")


@dataclass(frozen=True)
class Server:
    """Running server, with an API key and a namespace in it."""

    name: str
    port: int
    pid: int
    key: str
    namespace: str


@dataclass(frozen=True)
class Round:
    """Figures of one round: latencies, and CPU time per request, in milliseconds."""

    server: str
    kind: str
    requests: int
    per_second: float
    p50: float
    p95: float
    cpu: float
    cpu_postgres: float


class Client(asyncio.Protocol):
    """Connection with one request after the other until the deadline; `ended` is done after the last answer."""

    def __init__(self, head: bytes, body: bytes, deadline: float, ended: asyncio.Future[None]) -> None:
        self.head, self.body, self.deadline, self.ended = head, body, deadline, ended
        self.times: list[float] = []
        self.buffer = b""
        self.number = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.send_request()

    def send_request(self) -> None:
        self.number += 1
        self.sent_at = time.perf_counter()
        body = self.body.replace(b"@@", b"%08d%s" % (self.number, secrets.token_hex(8).encode())) if self.body else b""
        self.transport.write(self.head + body)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, separator, body = self.buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(body) < length:
            return
        self.times.append(time.perf_counter() - self.sent_at)
        if not head.startswith(b"HTTP/1.1 200"):
            self.ended.set_exception(RuntimeError(self.buffer.decode()))
            self.transport.close()
            return
        self.buffer = b""
        if time.perf_counter() < self.deadline:
            self.send_request()
        else:
            self.ended.set_result(None)
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(error or ConnectionError("the server closed the connection"))


async def run_load(port: int, head: bytes, body: bytes, clients: int, seconds: float) -> list[float]:
    """Send requests over `clients` connections; return the duration of each request in seconds."""
    loop = asyncio.get_running_loop()
    deadline = time.perf_counter() + seconds
    load_clients = [Client(head, body, deadline, loop.create_future()) for _ in range(clients)]
    next_clients = iter(load_clients)
    for _ in load_clients:
        await loop.create_connection(lambda: next(next_clients), "127.0.0.1", port)
    await asyncio.gather(*(client.ended for client in load_clients))
    return [seconds_taken for client in load_clients for seconds_taken in client.times]


def make_request(server: Server, kind: str) -> tuple[bytes, bytes]:
    """Return head and body of a request; the client replaces each `@@` by 24 other characters."""
    common = f"Host: 127.0.0.1\r\nAuthorization: Bearer {server.key}\r\n"
    if kind == "GET":
        return f"GET /v1/namespaces/{server.namespace} HTTP/1.1\r\n{common}\r\n".encode(), b""
    text = "@@ " + (SAMPLE_SENTENCE * 24)[:2000]
    config = {"source": "TEXT", "config": {"name": "text @@", "text": text, "metadata": {"manual": "A-7"}}}
    body = json.dumps({"namespaceId": server.namespace, "ingestConfig": config}).encode()
    # The body has two of them.
    length = len(body) + 2 * (24 - 2)
    head = (
        f"POST /v1/ingest/text HTTP/1.1\r\n{common}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
    return head.encode(), body


def measure_round(server: Server, kind: str, postgres_pid: int, clients: int, seconds: float) -> Round:
    """Measure one round; another process sends the requests."""
    head, body = make_request(server, kind)
    command = [sys.executable, "-m", "bench.api", "--load", str(server.port), str(clients), str(seconds)]
    cpu_before, postgres_before = process_seconds(server.pid), tree_seconds(postgres_pid)
    completed = subprocess.run(
        command,
        cwd=PROJECT_FOLDER,
        input=head + b"\n@@@@\n" + body,
        stdout=subprocess.PIPE,
        check=True,
        timeout=seconds + 60,
    )
    load = json.loads(completed.stdout)
    milliseconds_per_request = 1000 / load["requests"]
    return Round(
        server=server.name,
        kind=kind,
        requests=load["requests"],
        per_second=load["requests"] / load["seconds"],
        p50=load["p50"],
        p95=load["p95"],
        cpu=(process_seconds(server.pid) - cpu_before) * milliseconds_per_request,
        cpu_postgres=(tree_seconds(postgres_pid) - postgres_before) * milliseconds_per_request,
    )


@contextmanager
def run_process(command: list[str], environment: dict[str, str], log: Path, port: int) -> Iterator[int]:
    """Run a server; yield the process id after its first answer."""
    with log.open("wb") as output:
        started = subprocess.Popen(command, cwd=PROJECT_FOLDER, env=environment, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False, timeout=5)
                break
            except httpx.TransportError:
                time.sleep(0.1)
            if started.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text())
        yield started.pid
    finally:
        started.terminate()
        try:
            started.wait(15)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait(5)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_service(stack: ExitStack, home: Path, url: str) -> Server:
    """Start `python -m api` with defaults and a high rate limit."""
    from retrieval.accounts import api_keys
    from retrieval.accounts.queries import organizations
    from retrieval.database.database import Database
    from retrieval.security.secrets import KeyRing

    secret = "1:" + base64.b64encode(os.urandom(32)).decode()
    db = Database(url, size=1)
    owner = organizations.create_organization(db, "bench", requests_per_minute=1_000_000_000)
    key = api_keys.create_key(db, KeyRing.parse(secret), owner.id, "bench").api_key
    db.close()
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RETRIEVAL_")} | {
        "RETRIEVAL_HOME": str(home),
        "RETRIEVAL_DATABASE_URL": url,
        "RETRIEVAL_SECRET_KEY": secret,
        "RETRIEVAL_API_PORT": str(port),
        "RETRIEVAL_LOG_FORMAT": "json",
        "RETRIEVAL_CHECK_CONFIGS": "0",
    }
    pid = stack.enter_context(run_process([sys.executable, "-m", "api"], environment, home / "ours.log", port))
    headers = {"Authorization": f"Bearer {key}"}
    address = f"http://127.0.0.1:{port}/v1/namespaces"
    response = httpx.post(
        address, json={"name": "bench", **NAMESPACE_CONFIG}, headers=headers, timeout=60, trust_env=False
    )
    return Server("ours", port, pid, key, response.raise_for_status().json()["data"]["namespace"]["id"])


def start_baseline(stack: ExitStack, home: Path, url: str) -> Server:
    """Start bench/api_baseline.py in another database of the same PostgreSQL."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create database baseline")
    parameters = conninfo_to_dict(url)
    login = ":".join(str(parameters[name]) for name in ("user", "password") if parameters.get(name))
    environment = {**os.environ, "DATABASE": f"postgresql+asyncpg://{login}@/baseline?host={parameters['host']}"}
    key, port = "rtr_" + secrets.token_urlsafe(32), free_port()
    command = [sys.executable, "-m", "bench.api_baseline"]
    prepared = subprocess.run(
        [*command, "prepare", key], cwd=PROJECT_FOLDER, env=environment, stdout=subprocess.PIPE, check=True
    )
    pid = stack.enter_context(run_process([*command, str(port)], environment, home / "baseline.log", port))
    return Server("baseline", port, pid, key, prepared.stdout.decode().strip())


def main() -> None:
    options = parse_options(__doc__, rounds=5, seconds=4.0, clients=8, baseline=1)
    rounds: list[Round] = []
    with ExitStack() as stack:
        home, url = stack.enter_context(migrated_database())
        postmaster = int((home / "postgres" / "postmaster.pid").read_text().splitlines()[0])
        starters = (start_service, start_baseline) if options.baseline else (start_service,)
        servers = [start(stack, home, url) for start in starters]
        for kind in REQUEST_KINDS:
            for server in servers:
                # Warm-up.
                measure_round(server, kind, postmaster, options.clients, 1)
            for number in range(options.rounds):
                # An alternating order cancels drift of the machine.
                for server in servers if number % 2 else servers[::-1]:
                    rounds.append(measure_round(server, kind, postmaster, options.clients, options.seconds))
                    print_round(rounds[-1])
        megabytes = {server.name: measure_memory(server.pid) for server in servers}
    ratios = {kind: compute_ratios(kind, rounds) for kind in REQUEST_KINDS if options.baseline}
    print(f"resident MB: {megabytes}")
    write_figures(
        "api", {"options": vars(options), "ratios": ratios, "resident": megabytes, "rounds": list(map(asdict, rounds))}
    )


def run_load_process(port: str, clients: str, seconds: str) -> None:
    """Send the request on standard input, head and body around `@@@@`; print the figures as JSON."""
    head, _, body = sys.stdin.buffer.read().partition(b"\n@@@@\n")
    began = time.perf_counter()
    times = sorted(uvloop.run(run_load(int(port), head, body, int(clients), float(seconds))))
    spent = time.perf_counter() - began
    milliseconds = {name: times[int(len(times) * share)] * 1000 for name, share in (("p50", 0.5), ("p95", 0.95))}
    print(json.dumps({"requests": len(times), "seconds": spent, **milliseconds}))


def print_round(row: Round) -> None:
    print(
        f"{row.kind:<5}{row.server:<10}{row.per_second:8.0f}/s  p50 {row.p50:6.2f} ms  p95 {row.p95:6.2f} ms"
        f"  CPU {row.cpu:.3f} ms, PostgreSQL {row.cpu_postgres:.3f} ms",
        flush=True,
    )


def compute_ratios(kind: str, rounds: list[Round]) -> dict[str, float]:
    """Return the medians of the ratios service over baseline, round by round."""
    service_rounds, baseline_rounds = (
        [row for row in rounds if (row.server, row.kind) == (name, kind)] for name in ("ours", "baseline")
    )
    pairs = list(zip(service_rounds, baseline_rounds, strict=True))
    ratios = {
        "requests a second": [service.per_second / baseline.per_second for service, baseline in pairs],
        "CPU of the API": [service.cpu / baseline.cpu for service, baseline in pairs],
        "CPU with PostgreSQL": [
            (service.cpu + service.cpu_postgres) / (baseline.cpu + baseline.cpu_postgres) for service, baseline in pairs
        ],
    }
    medians = {name: round(statistics.median(values), 3) for name, values in ratios.items()}
    print(f"{kind} over the baseline's: {medians}")
    return medians


if __name__ == "__main__":
    run_load_process(*sys.argv[2:]) if sys.argv[1:2] == ["--load"] else main()
