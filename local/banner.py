"""What `up` shows once all is ready."""

from __future__ import annotations

import json
from typing import Any


def text(service: dict[str, Any]) -> str:
    """Addresses, the key, and two requests ready to paste."""
    api, key, namespace = service["api"], service["apiKey"], service["namespaceId"]
    login = service.get("prefectLogin")
    lines = [
        "",
        "The retrieval service is ready.",
        "",
        f"  API        {api}",
        f"  API docs   {api}/docs",
        f"  Prefect    {service['prefect']}",
        *([f"             sign in with {login}"] if login else []),
        *([f"  Admin app  {service['ui']}"] if service["ui"] else []),
        f"  API key    {key or 'not known here: make one with `retrieval key create`'}",
        f"  Namespace  {namespace}",
        "",
        "Put a text in, and find it a second later:",
        "",
        _curl(f"{api}/v1/ingest/text", key, _ingest(namespace)),
        "",
        _curl(f"{api}/v1/search", key, {"namespaceId": namespace, "query": "What do owls hunt?"}),
        "",
    ]
    return "\n".join(lines)


def _ingest(namespace: str) -> dict[str, Any]:
    config = {"name": "Owls", "text": "Owls hunt mice at night and hear them under the snow."}
    return {"namespaceId": namespace, "ingestConfig": {"source": "TEXT", "config": config}}


def _curl(url: str, key: str | None, body: dict[str, Any]) -> str:
    return (
        f"curl -s {url} \\\n"
        f"  -H 'Authorization: Bearer {key or '<API_KEY>'}' -H 'Content-Type: application/json' \\\n"
        f"  -d '{json.dumps(body)}'"
    )
