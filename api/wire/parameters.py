"""What the parameters of paths and queries mean, where no struct describes them: for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrieval.sources import CONNECTORS, slug

EXAMPLE = next(name for name in CONNECTORS if slug(name) != name.lower())
"""A content service whose spellings differ."""

PARAMETERS: Mapping[str, str] = {
    "namespace_id": "The namespace's id.",
    "ingest_job_run_id": "The job run's id.",
    "document_id": "The document's id.",
    "connection_id": "The connection's id.",
    "deletion_id": "The id of the deletion.",
    "from": "The first day (UTC); the first of this month without it.",
    "to": "The last day (UTC); today without it.",
    "waitSeconds": "How long to wait for another status; the answer comes as soon as it is there.",
    "since": "The status that is known already: with waitSeconds, the answer comes once it is another.",
    "group_id": "The group's name.",
    "key": "The id of the key with which the link ends.",
    "groups": "The groups of that user's token.",
    "principal": "The user for whom the link was made.",
    "evaluation_id": "The evaluation's id.",
    "run_id": "The run's id.",
    "key_id": "The API key's id.",
    "tenant_id": "The tenant's name.",
    "webhook_id": "The webhook's id.",
    "delivery_id": "The delivery's id.",
    "connector": f"The content service, such as `{slug(EXAMPLE)}` or `{EXAMPLE}`.",
    "kind": "The file as it came, or the parsed text.",
    "state": "What the service gave the content service to send back.",
    "code": "What the content service gives in exchange for tokens.",
    "error": "Why the content service refused.",
    "expires": "When the link ends, in Unix seconds.",
    "signature": "What proves that the service made the link.",
    "page": "The page of the document, counted from 1.",
}
"""What a parameter of a path, or of a query that no struct describes, means."""


def describe(paths: Mapping[str, Any]) -> None:
    """Describe the parameters of every operation, which clients show instead of their schemas."""
    for operation in (operation for methods in paths.values() for operation in methods.values()):
        for parameter in operation.get("parameters", []):
            if word := parameter["schema"].get("description") or PARAMETERS.get(parameter["name"]):
                parameter.setdefault("description", word)
