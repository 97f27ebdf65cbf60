"""Deployments of the service: names, `prefect.yaml` and version."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import yaml

from retrieval import settings
from retrieval.sources import CONNECTED, source_slug

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

FLOWS: Final = {
    "TEXT": "ingest-text",
    "LOCAL_FILE": "ingest-file",
    "URLS_LIST": "ingest-urls",
    "SITEMAP": "ingest-sitemap",
    "WEBSITE": "ingest-website",
    **{name: f"ingest-{source_slug(name)}" for name in CONNECTED},
    "REEMBED": "reembed",
    "DRY_RUN": "dry-run",
}
"""Ingestion source to its flow; the deployment has the flow's name."""

SHORT_WORKER: Final = "-short"
"""Suffix of the worker name that serves the queue of short flow runs."""

STOCK_TYPES: Final = ("process", "docker", "kubernetes")
"""Types of Prefect's own work pools whose workers can execute the deployments."""


@lru_cache(maxsize=1)
def read_plan() -> dict[str, Any]:
    """Read the work pool and deployments of `prefect.yaml`."""
    plan: dict[str, Any] = yaml.safe_load((settings.PROJECT / "prefect.yaml").read_text())
    return plan


@lru_cache(maxsize=1)
def compute_version() -> str:
    """Hash the deployments and the code of the flows."""
    files = [settings.PROJECT / "prefect.yaml", *sorted((settings.PROJECT / "flows").rglob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


async def find_registered_pool(client: PrefectClient) -> str:
    """Return the name of the work pool that the deployments are registered to, or RETRIEVAL_WORK_POOL without any."""
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName

    names = DeploymentFilter(name=DeploymentFilterName(any_=list(FLOWS.values())))
    registered = await client.read_deployments(deployment_filter=names, limit=1)
    return (registered[0].work_pool_name if registered else None) or settings.load_settings().work_pool
