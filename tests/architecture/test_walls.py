"""The import contracts of pyproject.toml hold, and each contract fails for a planted import."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from retrieval.settings import PROJECT_ROOT

PRODUCT_PACKAGES = ("api", "connectors", "flows", "local", "retrieval", "ui")
CONTRACTS = [
    contract["name"]
    for contract in tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
]
# Contract, importing module, and imported module; None plants a module outside every layer.
PLANTED = [
    ("Imports go down only", "retrieval.jobs.runs", "connectors.registry"),
    ("Imports go down only", "api.auth", "flows.context"),
    ("Flows know of the API how it accepts a request", "flows.dispatch.dispatcher", "api.auth"),
    ("Imports go down only", "connectors.registry", "local.cli"),
    ("The admin app knows the API by HTTP alone", "ui.client", "retrieval.errors"),
    (
        "The API and the flows reach connectors through the registry alone",
        "api.config_check",
        "connectors.sources.box.client",
    ),
    (
        "The API and the flows reach connectors through the registry alone",
        "api.routes.ingest_sources",
        "connectors.http.html",
    ),
    (
        "The API and the flows reach connectors through the registry alone",
        "flows.steps",
        "connectors.web.crawl.website",
    ),
    (
        "Connectors know the ports, settings and values of retrieval",
        "connectors.rerankers.jina",
        "retrieval.documents.documents",
    ),
    ("Layers within the flows", "flows.steps", "flows.pipeline"),
    ("Only flows speak Prefect", "retrieval.jobs.queries.batches", "prefect"),
    ("Layers within retrieval", "retrieval.search.queries", "retrieval.documents.documents"),
    ("Layers within retrieval", "retrieval.database.pagination", "retrieval.settings"),
    ("Layers within retrieval", "retrieval.jobs.runs", "retrieval.connections.schedules"),
    ("Layers within retrieval", "retrieval.ingestion.fetch", "retrieval.connections.tokens"),
    ("Layers within retrieval", "retrieval.a_new_room", None),
    ("Ports: what travels does not know its ports", "retrieval.ports.values", "retrieval.ports.stores"),
    ("Layers within connectors", "connectors.http.retries", "connectors.registry"),
    ("Layers within connectors", "connectors.web.crawl.website", "connectors.parsers.messages"),
    ("Content services do not know each other", "connectors.sources.dropbox.listing", "connectors.sources.box.client"),
    (
        "Content services do not know each other",
        "connectors.sources.memory.connector",
        "connectors.sources.notion.pages",
    ),
    ("File stores do not know each other", "connectors.files.local", "connectors.files.s3.store"),
    ("Vector stores do not know each other", "connectors.vectors.pinecone.store", "connectors.vectors.pgvector"),
    ("Embedders do not know each other", "connectors.embedders.jina", "connectors.embedders.cohere"),
    ("Rerankers do not know each other", "connectors.rerankers.jina", "connectors.rerankers.cohere"),
    ("Scrapers do not know each other", "connectors.web.jina", "connectors.web.firecrawl.client"),
    ("Layers within the parsers", "connectors.parsers.messages", "connectors.parsers.pool"),
    ("Layers within the API", "api.wire.search", "api.routes.search"),
    ("Layers within the API", "api.auth", "api.middleware"),
]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Run the linter on a copy of the tree with all violations."""
    copy = tmp_path_factory.mktemp("planted")
    for package in PRODUCT_PACKAGES:
        shutil.copytree(PROJECT_ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT_ROOT / "pyproject.toml", copy)
    for _, module, imported in PLANTED:
        path = copy / Path(*module.split(".")).with_suffix(".py")
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            (path.parent / "__init__.py").touch()
            path.touch()
        if imported:
            path.write_text(path.read_text() + f"\nimport {imported}\n")
    return linted(copy)


def linted(folder):
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_imports_go_down_only():
    code, output = linted(PROJECT_ROOT)
    assert code == 0, output


@pytest.mark.parametrize(("contract", "module", "imported"), PLANTED)
def test_a_forbidden_import_is_refused(planted, contract, module, imported):
    code, output = planted
    assert code == 1
    assert f"{contract} BROKEN" in output
    assert (f"{module} -> {imported} (l." if imported else f"{module} ") in output


def test_every_contract_has_an_import_that_breaks_it():
    assert {contract for contract, *_ in PLANTED} == set(CONTRACTS), (
        "Add a line to PLANTED in tests/architecture/test_walls.py for each contract of pyproject.toml."
    )
