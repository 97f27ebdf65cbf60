"""A good client beside idle connections, guessed keys and stalled uploads, against the same client on a quiet API.

    .venv/bin/python bench/idle.py [--idle 2000] [--wrong 600] [--stalled 300] [--seconds 30]

Starts an API with the settings that people use on a PostgreSQL of its own. The good client is sent in turn: a listing
with a key on a connection that it keeps, the same on a fresh one, and /health on a fresh one. The load comes from a
process and addresses of its own, and opens again whatever the server closes. Told are the 95th percentiles under load
as ratios of those measured before and after it, so that a busy machine shows in both.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import os
import resource
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path

import httpx

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from bench import report  # noqa: E402

GUESSER, UPLOADER = "127.0.5.1", "127.0.5.2"
IDLE = [f"127.0.6.{number}" for number in range(1, 6)]
"""Addresses of the load, so many that none of them reaches its own bound; the good client has the usual one."""


@dataclass
class Load:
    """What strangers, and one careless client, do all at once. `key` is valid: uploads without one end at once."""

    address: tuple[str, int]
    key: str = field(repr=False)
    idle: int = 2000
    wrong: int = 600
    stalled: int = 300

    def run(self, ended: threading.Event, ready: threading.Event) -> None:
        """Until `ended`; `ready` once every connection has been tried for the first time."""
        guessing = threading.Thread(target=self._guess, args=(ended,), daemon=True)
        guessing.start()
        with selectors.DefaultSelector() as selector:
            missing = [(IDLE[number % len(IDLE)], b"") for number in range(self.idle)]
            missing += [(UPLOADER, self._upload())] * self.stalled
            while not ended.is_set():
                for source, first in missing:
                    with contextlib.suppress(OSError):
                        made = socket.create_connection(self.address, 10, source_address=(source, 0))
                        made.sendall(first)
                        selector.register(made, selectors.EVENT_READ, (source, first))
                missing = []
                ready.set()
                for key, _ in selector.select(0.5):
                    if _has_ended(key.fileobj):  # type: ignore[arg-type]
                        selector.unregister(key.fileobj)
                        key.fileobj.close()  # type: ignore[union-attr]
                        missing.append(key.data)
            for key in list(selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]
        guessing.join(5)

    def _guess(self, ended: threading.Event) -> None:
        transport = httpx.HTTPTransport(local_address=GUESSER)
        with httpx.Client(base_url="http://{}:{}".format(*self.address), transport=transport, timeout=30) as client:
            number = 0
            while not ended.wait(60 / self.wrong):
                number += 1
                with contextlib.suppress(httpx.HTTPError):
                    client.get("/v1/namespaces", headers={"Authorization": f"Bearer rtr_wrong{number}"})

    def _upload(self) -> bytes:
        return (
            "POST /v1/ingest/file HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n"
            f"Authorization: Bearer {self.key}\r\nContent-Length: 1000000\r\n\r\n"
            '--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nsome of it'
        ).encode()


def _has_ended(made: socket.socket) -> bool:
    try:
        return not made.recv(65536)
    except OSError:
        return True


@contextmanager
def under(load: Load) -> Iterator[subprocess.Popen[str]]:
    """The load, from a process of its own, while the block runs."""
    command = [sys.executable, str(Path(__file__).resolve()), "--under", f"{load.address[0]}:{load.address[1]}"]
    numbers = ["--idle", str(load.idle), "--wrong", str(load.wrong), "--stalled", str(load.stalled)]
    with subprocess.Popen(
        [*command, *numbers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "KEY": load.key},
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.stdin.close()
            process.wait(30)


def be_the_load(load: Load) -> None:
    """Until standard input ends."""
    wanted = load.idle + load.stalled + 64
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(wanted, hard)), hard))
    ended, ready = threading.Event(), threading.Event()
    running = threading.Thread(target=load.run, args=(ended, ready))
    running.start()
    ready.wait()
    print("ready", flush=True)
    sys.stdin.read()
    ended.set()
    running.join(30)


def percentiles(base: str, key: str, seconds: float) -> dict[str, float]:
    """Milliseconds at the 95th percentile, by what was asked."""
    headers = {"Authorization": f"Bearer {key}"}
    took: dict[str, list[float]] = {"kept connection": [], "fresh connection": [], "health": []}
    with httpx.Client(base_url=base, headers=headers, trust_env=False, timeout=30) as kept:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for name, times in took.items():
                started = time.perf_counter()
                if name == "kept connection":
                    status = kept.get("/v1/namespaces").status_code
                else:
                    status = _fresh(base, "/health" if name == "health" else "/v1/namespaces", headers)
                assert status == 200, (name, status)
                times.append((time.perf_counter() - started) * 1000)
            time.sleep(0.02)
    return {name: sorted(all_of)[int(len(all_of) * 0.95)] for name, all_of in took.items()}


def _fresh(base: str, path: str, headers: dict[str, str]) -> int:
    """The status of a request on a connection of its own, without what a client library prepares for it."""
    with contextlib.closing(HTTPConnection(base.removeprefix("http://"), timeout=30)) as made:
        made.request("GET", path, headers=headers)
        answer = made.getresponse()
        answer.read()
        return answer.status


@contextmanager
def service() -> Iterator[tuple[str, str]]:
    """An API of its own: its address and a key."""
    from local import postgres
    from retrieval.accounts import api_keys, organizations
    from retrieval.database import database
    from retrieval.database.database import Database
    from retrieval.security.secrets import KeyRing

    with ExitStack() as stack:
        home = Path(tempfile.mkdtemp(prefix="ri-"))
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        url = postgres.start(home)
        stack.callback(postgres.stop, home)
        database.migrate(url)
        secret = "1:" + base64.b64encode(os.urandom(32)).decode()
        db = Database(url)
        stack.callback(db.close)
        owner = organizations.create(db, "bench", requests_per_minute=1_000_000)
        key = api_keys.create(db, KeyRing.parse(secret), owner.id, "bench").api_key
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        mine = {name: value for name, value in os.environ.items() if not name.startswith("RETRIEVAL_")} | {
            "RETRIEVAL_HOME": str(home),
            "RETRIEVAL_DATABASE_URL": url,
            "RETRIEVAL_SECRET_KEY": secret,
            "RETRIEVAL_API_PORT": str(port),
        }
        log = stack.enter_context((home / "api.log").open("wb"))
        api = subprocess.Popen([sys.executable, "-m", "api"], cwd=PROJECT, env=mine, stdout=log, stderr=log)
        stack.callback(api.wait, 15)
        stack.callback(api.terminate)
        base = f"http://127.0.0.1:{port}"
        while True:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{base}/ready", trust_env=False).status_code == 200:
                    break
            assert api.poll() is None, (home / "api.log").read_text()
            time.sleep(0.1)
        yield base, key


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    for name, default in (("--idle", 2000), ("--wrong", 600), ("--stalled", 300), ("--seconds", 30)):
        options.add_argument(name, type=int, default=default)
    options.add_argument("--under", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.under:
        host, _, port = chosen.under.rpartition(":")
        be_the_load(Load((host, int(port)), os.environ["KEY"], chosen.idle, chosen.wrong, chosen.stalled))
        return
    report.end_in_order()
    with service() as (base, key):
        percentiles(base, key, 3)
        before = percentiles(base, key, chosen.seconds / 2)
        host, _, port = base.removeprefix("http://").rpartition(":")
        with under(Load((host, int(port)), key, chosen.idle, chosen.wrong, chosen.stalled)):
            loaded = percentiles(base, key, chosen.seconds)
        time.sleep(3)
        after = percentiles(base, key, chosen.seconds / 2)
    print(
        f"{chosen.idle} idle connections, {chosen.wrong} wrong keys a minute, {chosen.stalled} stalled uploads at once"
    )
    print(f"{'p95, ms':<18}{'quiet':>9}{'loaded':>9}{'ratio':>8}")
    for name, value in loaded.items():
        quiet = (before[name] + after[name]) / 2
        print(f"{name:<18}{quiet:>9.1f}{value:>9.1f}{value / quiet:>8.1f}")
    report.write("idle", {"p95_ms": {"before": before, "loaded": loaded, "after": after}})


if __name__ == "__main__":
    main()
