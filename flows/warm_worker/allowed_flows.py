"""Which flows a worker executes: those of prefect.yaml and of content services, and what its operator names besides.

Whoever can write to Prefect's server can put a deployment into the pool. A worker holds the database's password and
the key of stored secrets, so it runs nothing that a deployment brings along: no pull steps, no storage, no command and
no variables. What it refuses ends as Failed, named Refused, with the reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import yaml

from connectors import registry
from retrieval import settings
from retrieval.sources import source_slug

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import DeploymentResponse

JOB_VARIABLES = frozenset({"grace_seconds"})
"""What a deployment or a run may set; the rest would be for workers that start programs."""


@lru_cache(maxsize=1)
def read_plan() -> dict[str, Any]:
    """prefect.yaml: the work pool, and the deployments with their entrypoints; those of content services beside it."""
    found: dict[str, Any] = yaml.safe_load((settings.PROJECT / "prefect.yaml").read_text())
    return {**found, "deployments": [*found["deployments"], *_connectors(found["work_pool"]["name"])]}


@lru_cache(maxsize=1)
def compute_version() -> str:
    """Version of the deployments: a hash of what they are made from, the code of the flows included."""
    files = [settings.PROJECT / "prefect.yaml", *sorted((settings.PROJECT / "flows").rglob("*.py"))]
    names = ",".join(deployment["name"] for deployment in read_plan()["deployments"])
    return hashlib.sha256(b"".join([names.encode(), *(file.read_bytes() for file in files)])).hexdigest()[:12]


def _connectors(pool: str) -> Iterator[dict[str, Any]]:
    for name, info in registry.source_infos().items():
        yield {
            "name": f"ingest-{source_slug(name)}",
            "entrypoint": f"flows.ingest.ingest_{name.lower()}",
            "description": f"{info.documents}. What there is to ingest is found out first.",
            "tags": ["ingestion"],
            "work_pool": {"name": pool},
        }


@lru_cache(maxsize=1)
def allowed_entrypoints() -> frozenset[str]:
    return frozenset(deployment["entrypoint"] for deployment in read_plan()["deployments"]) | frozenset(
        settings.load_settings().worker_entrypoints
    )


def refusal_reason(flow_run: FlowRun, deployment: DeploymentResponse | None) -> str | None:
    """Why a run is not executed; None if it is one of ours."""
    if deployment is None:
        return "Refused: a run without a deployment is none of this service's."
    if deployment.entrypoint not in allowed_entrypoints():
        return f"Refused: the entrypoint {deployment.entrypoint!r} is none of this service's (prefect.yaml)."
    if deployment.pull_steps:
        return "Refused: its deployment has pull steps, which these workers never execute."
    if deployment.storage_document_id or deployment.infrastructure_document_id:
        return "Refused: its deployment names a storage or infrastructure block, which these workers never load."
    strange = sorted({*(deployment.job_variables or {}), *(flow_run.job_variables or {})} - JOB_VARIABLES)
    if strange:
        return f"Refused: the job variables {', '.join(strange)} may not be set; these may: {_allowed()}."
    return None


def _allowed() -> str:
    return ", ".join(sorted(JOB_VARIABLES))
