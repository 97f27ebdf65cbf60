"""Authenticated GET and POST of a text, against the same two routes by hand with FastAPI, SQLModel and Uvicorn.

    .venv/bin/python bench/api.py [--rounds 5] [--seconds 4] [--clients 8] [--only ours]

Both servers are one process with uvloop and httptools, on one embedded PostgreSQL, with the settings that people use
and their log in a file; ours has every protection on. The load comes from a process of its own over connections that
are kept. Rounds alternate between the two; told are requests a second and the CPU time of a request: of the API
process, and with PostgreSQL. Results go to bench/results/api.json. On a busy machine trust CPU time and ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import uvloop

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from bench import report  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
SENTENCE = "The harbour seal dives for up to thirty minutes and then rests on the sand for hours. "
KINDS = ("GET", "POST")


@dataclass(frozen=True)
class Server:
    """A server under test: its port, its process, and how it is addressed."""

    name: str
    port: int
    pid: int
    key: str
    namespace: str


@dataclass(frozen=True)
class Round:
    """Milliseconds of CPU are those of one request."""

    server: str
    kind: str
    requests: int
    per_second: float
    p50: float
    p95: float
    cpu: float
    cpu_postgres: float


class Client(asyncio.Protocol):
    """One connection that asks again as soon as it is answered, until the deadline."""

    def __init__(self, head: bytes, body: bytes, deadline: float, ended: asyncio.Future[None]) -> None:
        self.head, self.body, self.deadline, self.ended = head, body, deadline, ended
        self.times: list[float] = []
        self.buffer = b""
        self.number = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        self.number += 1
        self.asked = time.perf_counter()
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
        self.times.append(time.perf_counter() - self.asked)
        if not head.startswith(b"HTTP/1.1 200"):
            self.ended.set_exception(RuntimeError(self.buffer.decode()))
            self.transport.close()
            return
        self.buffer = b""
        if time.perf_counter() < self.deadline:
            self.ask()
        else:
            self.ended.set_result(None)
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(error or ConnectionError("the server closed the connection"))


async def load(port: int, head: bytes, body: bytes, clients: int, seconds: float) -> list[float]:
    """Seconds that each request took."""
    loop = asyncio.get_running_loop()
    deadline = time.perf_counter() + seconds
    made = [Client(head, body, deadline, loop.create_future()) for _ in range(clients)]
    waiting = iter(made)
    for _ in made:
        await loop.create_connection(lambda: next(waiting), "127.0.0.1", port)
    await asyncio.gather(*(client.ended for client in made))
    return [took for client in made for took in client.times]


def request(server: Server, kind: str) -> tuple[bytes, bytes]:
    """Head and body; `@@` in the body becomes another text each time, of the same length."""
    said = f"Host: 127.0.0.1\r\nAuthorization: Bearer {server.key}\r\n"
    if kind == "GET":
        return f"GET /v1/namespaces/{server.namespace} HTTP/1.1\r\n{said}\r\n".encode(), b""
    text = "@@ " + (SENTENCE * 24)[:2000]
    config = {"source": "TEXT", "config": {"name": "text @@", "text": text, "metadata": {"manual": "A-7"}}}
    body = json.dumps({"namespaceId": server.namespace, "ingestConfig": config}).encode()
    length = len(body) + 2 * (24 - 2)
    head = f"POST /v1/ingest/text HTTP/1.1\r\n{said}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    return head.encode(), body


def measure(server: Server, kind: str, postgres: int, clients: int, seconds: float) -> Round:
    """One round, its load from a process of its own."""
    head, body = request(server, kind)
    command = [sys.executable, __file__, "--load", str(server.port), str(clients), str(seconds)]
    before, before_postgres = cpu(server.pid), cpu_of_postgres(postgres)
    sent = head + b"\n@@@@\n" + body
    done = subprocess.run(command, input=sent, stdout=subprocess.PIPE, check=True, timeout=seconds + 60)
    said = json.loads(done.stdout)
    count = said["requests"]
    own, database = cpu(server.pid) - before, cpu_of_postgres(postgres) - before_postgres
    return Round(
        server.name, kind, count, count / said["seconds"], said["p50"], said["p95"], own / count, database / count
    )


def cpu(pid: int) -> float:
    """Milliseconds of CPU that a process has used, its threads and ended children included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(fields[place]) for place in (11, 12, 13, 14)) * 1000 / TICKS


def cpu_of_postgres(postmaster: int) -> float:
    """Of the server and all that it has started."""
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    total = cpu(postmaster)
    for child in children:
        try:
            total += cpu(int(child))
        except FileNotFoundError:
            continue
    return total


def memory(pid: int) -> float:
    """Resident megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


@contextmanager
def process(command: list[str], environment: dict[str, str], log: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server, from its first answer to the end of the block."""
    with log.open("wb") as output:
        started = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=output, stderr=output)
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
        yield started
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


def ours(stack: ExitStack, home: Path, url: str, command: Sequence[str] = (sys.executable, "-m", "api")) -> Server:
    """`python -m api` with its defaults, an organization without a bound worth the name, and a namespace."""
    from retrieval.accounts import api_keys, organizations
    from retrieval.database.database import Database
    from retrieval.security.secrets import KeyRing

    secret = "1:" + base64.b64encode(os.urandom(32)).decode()
    db = Database(url, size=1)
    owner = organizations.create(db, "bench", requests_per_minute=1_000_000_000)
    key = api_keys.create(db, KeyRing.parse(secret), owner.id, "bench").api_key
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
    started = stack.enter_context(process(list(command), environment, home / "ours.log", port))
    config = {
        "name": "bench",
        "fileStorageConfig": {"type": "LOCAL"},
        "vectorStorageConfig": {"provider": "PGVECTOR"},
        "embeddingModelConfig": {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"},
    }
    print(f"ours: {memory(started.pid):.1f} MB resident before a model is needed", flush=True)
    headers = {"Authorization": f"Bearer {key}"}
    address = f"http://127.0.0.1:{port}/v1/namespaces"
    made = httpx.post(address, json=config, headers=headers, timeout=60, trust_env=False)
    return Server("ours", port, started.pid, key, made.raise_for_status().json()["data"]["namespace"]["id"])


def baseline(stack: ExitStack, home: Path, url: str) -> Server:
    """bench/api_baseline.py in a database of its own of the same PostgreSQL."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create database baseline")
    parts = conninfo_to_dict(url)
    address = (
        f"postgresql+asyncpg://{parts['user']}:{parts['password']}@/baseline?host={parts['host']}"
        if parts.get("password")
        else f"postgresql+asyncpg://{parts['user']}@/baseline?host={parts['host']}"
    )
    environment = {**os.environ, "DATABASE": address, "PYTHONPATH": str(PROJECT)}
    key = "rtr_" + secrets.token_urlsafe(32)
    code = f"import asyncio; from bench import api_baseline; print(asyncio.run(api_baseline.prepare({key!r})))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    port = free_port()
    command = [sys.executable, str(PROJECT / "bench" / "api_baseline.py"), str(port)]
    started = stack.enter_context(process(command, environment, home / "baseline.log", port))
    return Server("baseline", port, started.pid, key, done.stdout.strip())


def database(stack: ExitStack) -> tuple[Path, str, int]:
    """A home of its own with an embedded PostgreSQL: the folder, the database's address, the postmaster's pid."""
    from local import postgres
    from retrieval.database.revisions import upgrade_schema

    home = Path(tempfile.mkdtemp(prefix="rt-"))
    stack.callback(shutil.rmtree, home, ignore_errors=True)
    url = postgres.start(home)
    stack.callback(postgres.stop, home)
    upgrade_schema(url)
    return home, url, int((home / "postgres" / "postmaster.pid").read_text().splitlines()[0])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=4)
    options.add_argument("--clients", type=int, default=8)
    options.add_argument("--only", choices=("ours", "baseline"))
    options.add_argument("--load", nargs=3, help=argparse.SUPPRESS)
    told = options.parse_args()
    if told.load:
        _load(*told.load)
        return
    report.end_in_order()
    rounds: list[Round] = []
    resident: dict[str, float] = {}
    with ExitStack() as stack:
        home, url, postmaster = database(stack)
        servers = [made(stack, home, url) for name, made in MAKERS.items() if told.only in {None, name}]
        for kind in KINDS:
            for server in servers:
                measure(server, kind, postmaster, told.clients, 1)
            for number in range(told.rounds):
                for server in servers if number % 2 else servers[::-1]:
                    rounds.append(measure(server, kind, postmaster, told.clients, told.seconds))
                    _show(rounds[-1])
        resident |= {server.name: round(memory(server.pid), 1) for server in servers}
    _summarize(rounds, resident, told)


MAKERS = {"ours": ours, "baseline": baseline}


def _load(port: str, clients: str, seconds: str) -> None:
    head, _, body = sys.stdin.buffer.read().partition(b"\n@@@@\n")
    began = time.perf_counter()
    times = sorted(uvloop.run(load(int(port), head, body, int(clients), float(seconds))))
    took = time.perf_counter() - began
    milliseconds = {name: times[int(len(times) * part)] * 1000 for name, part in (("p50", 0.5), ("p95", 0.95))}
    print(json.dumps({"requests": len(times), "seconds": took, **milliseconds}))


def _show(one: Round) -> None:
    print(
        f"{one.kind:<5}{one.server:<10}{one.per_second:8.0f}/s  p50 {one.p50:6.2f} ms  p95 {one.p95:6.2f} ms"
        f"  CPU {one.cpu:.3f} ms, PostgreSQL {one.cpu_postgres:.3f} ms",
        flush=True,
    )


def _summarize(rounds: list[Round], resident: dict[str, float], told: argparse.Namespace) -> None:
    """Medians of the ratios of pairs, and everything in JSON."""
    ratios: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        pairs = list(
            zip(
                [one for one in rounds if one.server == "ours" and one.kind == kind],
                [one for one in rounds if one.server == "baseline" and one.kind == kind],
                strict=False,
            )
        )
        if not pairs:
            continue
        ratios[kind] = {
            "requests a second": round(statistics.median(a.per_second / b.per_second for a, b in pairs), 2),
            "CPU of the API": round(statistics.median(a.cpu / b.cpu for a, b in pairs), 3),
            "CPU with PostgreSQL": round(
                statistics.median((a.cpu + a.cpu_postgres) / (b.cpu + b.cpu_postgres) for a, b in pairs), 3
            ),
        }
        print(f"{kind}: " + ", ".join(f"{name} {value}" for name, value in ratios[kind].items()) + " of the baseline")
    print("resident MB: " + ", ".join(f"{name} {value}" for name, value in resident.items()))
    report.write(
        "api",
        {
            "options": {"rounds": told.rounds, "seconds": told.seconds, "clients": told.clients},
            "ratios": ratios,
            "resident": resident,
            "rounds": [asdict(one) for one in rounds],
        },
    )


if __name__ == "__main__":
    main()
