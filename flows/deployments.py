"""Names, version and `prefect.yaml` of the deployments."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import yaml

from retrieval import settings
from retrieval.sources import CONNECTED_SOURCES, source_slug

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

# Ingestion source to flow; the deployment has the flow's name.
FLOW_NAMES: Final = {
    "TEXT": "ingest-text",
    "LOCAL_FILE": "ingest-file",
    "URLS_LIST": "ingest-urls",
    "SITEMAP": "ingest-sitemap",
    "WEBSITE": "ingest-website",
    **{name: f"ingest-{source_slug(name)}" for name in CONNECTED_SOURCES},
    "REEMBED": "reembed",
    "DRY_RUN": "dry-run",
}

# Each machine has a second worker with this suffix for the queue of short flow runs.
SHORT_WORKER_SUFFIX: Final = "-short"

# Prefect's own work pool types, whose workers can also execute the deployments.
STOCK_POOL_TYPES: Final = ("process", "docker", "kubernetes")


@lru_cache(maxsize=1)
def read_plan() -> dict[str, Any]:
    """Read the work pool and deployments of `prefect.yaml`."""
    plan: dict[str, Any] = yaml.safe_load((settings.PROJECT_ROOT / "prefect.yaml").read_text())
    return plan


@lru_cache(maxsize=1)
def compute_version() -> str:
    """Hash the deployments and the code of the flows."""
    files = [settings.PROJECT_ROOT / "prefect.yaml", *sorted((settings.PROJECT_ROOT / "flows").rglob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


async def find_registered_pool(client: PrefectClient) -> str:
    """Return the work pool of the registered deployments; RETRIEVAL_WORK_POOL without any."""
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName

    names = DeploymentFilter(name=DeploymentFilterName(any_=list(FLOW_NAMES.values())))
    registered = await client.read_deployments(deployment_filter=names, limit=1)
    return (registered[0].work_pool_name if registered else None) or settings.load_settings().work_pool
