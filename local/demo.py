"""`retrieval demo`: start an instance of its own, ingest, search and stop, over the HTTP API as any client."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local import LocalError, instance
from local.demo_client import DemoClient, Hit
from retrieval.settings import PROJECT, SECRETS

_CORPUS = Path(__file__).parent / "corpus"
_MEDIA_TYPES = {
    ".md": "text/markdown",
    ".txt": "text/plain",
    ".html": "text/html",
    ".pdf": "application/pdf",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
_AS_TEXT = {".md", ".txt"}
_INGEST_SECONDS = 180.0
_QUERIES = (
    ("semantic", "How do I know that a change made the search better, and that it was not chance?"),
    ("hybrid", "default port of the Prefect server"),
)
# What the demo must not inherit: it is always embedded, in a home of its own, on free ports.
_ISOLATED = {
    **{f"RETRIEVAL_{name.upper()}{end}": "" for name in SECRETS for end in ("", "_FILE")},
    "RETRIEVAL_PREFECT_API_URL": "",
    "RETRIEVAL_API_PORT": "0",
    "RETRIEVAL_PREFECT_PORT": "0",
    "RETRIEVAL_UI_PORT": "0",
    "RETRIEVAL_API_HOST": "127.0.0.1",
    "RETRIEVAL_PREFECT_HOST": "127.0.0.1",
    "RETRIEVAL_UI_HOST": "127.0.0.1",
}


def run(home: Path | None = None) -> int:
    """Start, ingest, search, stop. 0 if every step did what it should, else LocalError with the reason."""
    home = home or PROJECT / ".retrieval" / "demo"
    began = time.monotonic()
    try:
        with _instance(home) as client:
            _tell(client)
    except LocalError as error:
        raise LocalError(f"The demo failed: {error}\n  Logs: {home / 'logs'}") from error
    print(f"Done in {time.monotonic() - began:.0f} s. Everything is stopped; `make up` starts a service that stays.")
    return 0


def _tell(client: DemoClient) -> None:
    namespace = _create_namespace(client)
    print(f"Created namespace {namespace} on the embedded defaults.")
    runs = {}
    for file in sorted(_CORPUS.iterdir()):
        if file.suffix in _MEDIA_TYPES and file.stem != "LICENSE":
            runs[file.name] = _ingest(client, namespace, file)
    if not runs:
        raise LocalError(f"There is no document in {_CORPUS}.")
    _follow(client, namespace, runs)
    for kind, query in _QUERIES:
        hits = client.search(namespace, query, kind)
        print(f"\n{kind.capitalize()} search: {query}\n")
        if not hits:
            raise LocalError(f"The {kind} search found nothing.")
        for hit in hits:
            print(_readable(hit))


def _create_namespace(client: DemoClient) -> str:
    """The API tries a model for five seconds when a namespace is created; a slow machine loads it in the second try."""
    for _ in range(2):
        try:
            return client.create_namespace("demo")
        except LocalError as error:
            if "EMBEDDING_CONFIG_ERROR" not in str(error):
                raise
            print("The embedding model is still being loaded; once more.")
    return client.create_namespace("demo")


def _ingest(client: DemoClient, namespace: str, file: Path) -> str:
    """Text goes in as text, everything else as a file; the id of the job run."""
    if file.suffix in _AS_TEXT:
        return client.ingest_text(namespace, file.name, file.read_text())
    return client.ingest_file(namespace, file, _MEDIA_TYPES[file.suffix])


def _follow(client: DemoClient, namespace: str, runs: dict[str, str]) -> None:
    """Wait for every document, saying how each ended."""
    print(f"Ingesting {len(runs)} documents:")
    began, waiting = time.monotonic(), dict(runs)
    while waiting:
        for name, run_id in list(waiting.items()):
            outcome = client.outcome(namespace, run_id)
            if outcome is None:
                continue
            del waiting[name]
            print(f"  [{len(runs) - len(waiting)}/{len(runs)}] {name}: {outcome}", flush=True)
            if outcome != "SUCCESS":
                raise LocalError(f"{name} was not ingested: {outcome}")
        if time.monotonic() > began + _INGEST_SECONDS:
            raise LocalError(f"{', '.join(waiting)} did not finish within {_INGEST_SECONDS:.0f} s.")
        time.sleep(0.2)
    print(f"All searchable after {time.monotonic() - began:.1f} s.")


def _readable(hit: Hit) -> str:
    location = f"{hit.source}, page {hit.page}" if hit.page else hit.source
    text = " ".join(hit.content.split())
    excerpt = text if len(text) <= 200 else text[:200].rsplit(" ", 1)[0] + " …"
    return f"  {hit.score:.3f}  {location}\n         {excerpt}\n"


@contextmanager
def _instance(home: Path) -> Iterator[DemoClient]:
    """A fresh instance in this home, whatever an earlier demo left there; stopped in any case."""
    environment = dict(os.environ) | _ISOLATED | {"RETRIEVAL_HOME": str(home)}
    _retrieval("down", environment)
    shutil.rmtree(home, ignore_errors=True)
    print("Starting the service …", flush=True)
    try:
        _retrieval("up", environment, "--detach")
        service = instance.service(home)
        print(f"It is ready: API {service['api']}, Prefect {service['prefect']} (sign in: {service['prefectLogin']})")
        with DemoClient(service["api"], service["apiKey"]) as client:
            yield client
    finally:
        print("Stopping …", flush=True)
        _retrieval("down", environment)


def _retrieval(command: str, environment: dict[str, str], *options: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "local.cli", command, *options],
        env=environment,
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LocalError(f"`retrieval {command}` failed.\n{done.stderr.strip()}")
