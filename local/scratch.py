"""Temporary instance for one command: own home, free ports, stopped at the end."""

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
from retrieval.settings import PROJECT_ROOT, SECRET_FIELDS
from retrieval_client import RetrievalClient, RetrievalError

# A temporary instance is embedded, whatever the environment says.
_ISOLATED_VARIABLES = {
    **{f"RETRIEVAL_{name.upper()}{end}": "" for name in SECRET_FIELDS for end in ("", "_FILE")},
    "RETRIEVAL_PREFECT_API_URL": "",
    **{f"RETRIEVAL_{role}_PORT": "0" for role in ("API", "PREFECT", "UI")},
    **{f"RETRIEVAL_{role}_HOST": "127.0.0.1" for role in ("API", "PREFECT", "UI")},
}


@dataclass(frozen=True, slots=True)
class ScratchInstance:
    """Running instance in `home`."""

    home: Path
    environment: Mapping[str, str]

    @property
    def service(self) -> dict[str, Any]:
        """Addresses, key and namespace of `service.json`."""
        return instance.read_service(self.home)

    def run_command(self, *arguments: str) -> str:
        """Return the standard output of `retrieval ARGUMENTS`; raise LocalError for an exit code other than 0."""
        command = [sys.executable, "-m", "local.cli", *arguments]
        process = subprocess.run(
            command, env=self.environment, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
        )
        if process.returncode:
            raise LocalError(f"`retrieval {arguments[0]}` failed.\n{process.stderr.strip() or process.stdout.strip()}")
        return process.stdout

    def connect(self, key: str = "", **options: Any) -> RetrievalClient:
        """Return a client with the instance's key or another one."""
        return RetrievalClient(self.service["api"], key or self.service["apiKey"], **options)


@contextmanager
def start_scratch(home: Path) -> Iterator[ScratchInstance]:
    """Start a fresh instance in this home, and stop it at the end."""
    scratch = ScratchInstance(home, dict(os.environ) | _ISOLATED_VARIABLES | {"RETRIEVAL_HOME": str(home)})
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
    """Create a namespace; retry while a slow machine loads the model."""
    # The API checks a model for five seconds.
    for _ in range(4):
        try:
            return client.namespaces.create(name).id
        except RetrievalError as error:
            if error.code != "EMBEDDING_CONFIG_ERROR":
                raise
            print("The embedding model is still being loaded; once more.")
    return client.namespaces.create(name).id
