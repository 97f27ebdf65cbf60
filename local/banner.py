"""What `up` shows once all is ready."""

from __future__ import annotations

from typing import Any

INGEST = """curl "$API/v1/ingest/text" \\
  -H "Authorization: Bearer $API_KEY" -H "Content-Type: application/json" \\
  -d '{"namespaceId": "'$NAMESPACE'", "ingestConfig": {"source": "TEXT",
       "config": {"name": "seals", "text": "The harbour seal dives for up to thirty minutes."}}}'"""
SEARCH = """curl "$API/v1/search" \\
  -H "Authorization: Bearer $API_KEY" -H "Content-Type: application/json" \\
  -d '{"namespaceId": "'$NAMESPACE'", "query": "how long can a marine mammal hold its breath"}'"""
"""The two requests of README.md, letter by letter."""


def text(service: dict[str, Any]) -> str:
    """Addresses, the key, the variables that the documentation's requests use, and two of these requests."""
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
        f"export API={api} API_KEY={key or '<API_KEY>'} NAMESPACE={namespace}",
        "",
        INGEST,
        "",
        SEARCH,
        "",
    ]
    return "\n".join(lines)
