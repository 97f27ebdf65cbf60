"""An instance of the service in a temporary home of its own, which goes away again with all that it started."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

COMMAND = Path(sys.executable).with_name("retrieval")
NAMESPACE = {
    "fileStorageConfig": {"type": "LOCAL"},
    "vectorStorageConfig": {"provider": "PGVECTOR"},
    "embeddingModelConfig": {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"},
}
"""What a namespace of a benchmark is made of; its name is missing."""


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
        found: dict[str, str] = json.loads((self.home / "service.json").read_text())
        return found

    @property
    def state(self) -> dict[str, Any]:
        """The supervisor's view: its own process, and each role's."""
        found: dict[str, Any] = json.loads((self.home / "state.json").read_text())
        return found

    @property
    def root(self) -> int:
        """The process from which all others descend."""
        return int(self.state["pid"])

    @property
    def roles(self) -> dict[str, int]:
        """The process of each role that runs."""
        return {role["name"]: int(role["pid"]) for role in self.state["roles"] if role["pid"] and role["state"] == "up"}

    @property
    def database(self) -> str:
        from local import postgres

        return postgres.url(self.home)

    def client(self, key: str = "") -> httpx.Client:
        """Of the API, with a key, or with the instance's."""
        info = self.info
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
        headers = {"Authorization": f"Bearer {key or info['apiKey']}"}
        return httpx.Client(base_url=info["api"], headers=headers, timeout=120, limits=limits)

    def organization(self, name: str) -> tuple[str, str]:
        """Id and key of a new one, whose requests no rate holds up."""
        made = self.command("org", "create", name, "--requests", "1000000", "--namespaces", "1000")
        organization = next(word for word in made.split() if word.startswith("org_"))
        key = self.command("key", "create", "--name", name, "--org", organization)
        return organization, next(word for word in key.split() if word.startswith("rtr_"))

    def prefect(self) -> httpx.Client:
        """Of Prefect's server, signed in."""
        login = base64.b64encode(self.info["prefectLogin"].encode()).decode()
        address = self.state["addresses"]["prefect"]
        return httpx.Client(base_url=address, headers={"Authorization": f"Basic {login}"}, timeout=120)


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
