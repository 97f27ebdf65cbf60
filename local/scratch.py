"""An instance for one command, such as the demo: in a home of its own, on free ports, stopped at the end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local import LocalError, instance
from retrieval.settings import PROJECT, SECRETS
from retrieval_client import RetrievalClient, RetrievalError

_ISOLATED = {
    **{f"RETRIEVAL_{name.upper()}{end}": "" for name in SECRETS for end in ("", "_FILE")},
    "RETRIEVAL_PREFECT_API_URL": "",
    **{f"RETRIEVAL_{role}_PORT": "0" for role in ("API", "PREFECT", "UI")},
    **{f"RETRIEVAL_{role}_HOST": "127.0.0.1" for role in ("API", "PREFECT", "UI")},
}
"""What such an instance must not inherit: it is always embedded, in its own home, on free ports."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """A running instance in `home`."""

    home: Path
    environment: Mapping[str, str]

    @property
    def service(self) -> dict[str, Any]:
        """Addresses, key and namespace, as `service.json` has them."""
        return instance.read_service(self.home)

    def run_command(self, *arguments: str) -> str:
        """Standard output of `retrieval ARGUMENTS …` for this instance. LocalError: its exit code is not 0."""
        command = [sys.executable, "-m", "local.cli", *arguments]
        process = subprocess.run(
            command, env=self.environment, cwd=PROJECT, capture_output=True, text=True, check=False
        )
        if process.returncode:
            raise LocalError(f"`retrieval {arguments[0]}` failed.\n{process.stderr.strip() or process.stdout.strip()}")
        return process.stdout

    def connect(self, key: str = "", **options: Any) -> RetrievalClient:
        """Client with the instance's key or another one."""
        return RetrievalClient(self.service["api"], key or self.service["apiKey"], **options)


@contextmanager
def start_scratch(home: Path) -> Iterator[Scratch]:
    """Start a fresh instance in this home, whatever an earlier one left there; it is stopped in any case."""
    scratch = Scratch(home, dict(os.environ) | _ISOLATED | {"RETRIEVAL_HOME": str(home)})
    scratch.run_command("down")
    shutil.rmtree(home, ignore_errors=True)
    print("Starting the service …", flush=True)
    try:
        scratch.run_command("up", "--detach")
        yield scratch
    finally:
        print("Stopping …", flush=True)
        scratch.run_command("down")


def create_namespace(client: RetrievalClient, name: str) -> str:
    """The API tries a model for five seconds when a namespace is created; a slow machine loads it in a later try."""
    for _ in range(4):
        try:
            return client.namespaces.create(name).id
        except RetrievalError as error:
            if error.code != "EMBEDDING_CONFIG_ERROR":
                raise
            print("The embedding model is still being loaded; once more.")
    return client.namespaces.create(name).id
