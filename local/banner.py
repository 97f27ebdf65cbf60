"""Banner that `up` shows once everything is ready."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

INGEST = """RUN=$(curl -sS "$API/v1/ingest/text" \\
  -H "Authorization: Bearer $API_KEY" -H "Content-Type: application/json" \\
  -d '{"namespaceId": "'$NAMESPACE'", "ingestConfig": {"source": "TEXT",
       "config": {"name": "seals", "text": "The harbour seal dives for up to thirty minutes."}}}' |
  grep -o 'ijr_[a-z0-9]*')"""
WAIT = """until curl -sS "$API/v1/ingest-job-runs/$RUN?namespaceId=$NAMESPACE&waitSeconds=10" \\
  -H "Authorization: Bearer $API_KEY" | grep COMPLETED; do sleep 0.1; done"""
SEARCH = """curl -sS "$API/v1/search" \\
  -H "Authorization: Bearer $API_KEY" -H "Content-Type: application/json" \\
  -d '{"namespaceId": "'$NAMESPACE'", "query": "how long can a marine mammal hold its breath"}'"""
"""The requests of README.md, letter by letter."""


def variables(service: dict[str, Any]) -> str:
    """Lines for a shell: variables of the documentation's requests, those of `prefect`, and the commands' folder."""
    shown_variables = {
        "API": service["api"],
        "API_KEY": service["apiKey"] or "<API_KEY>",
        "NAMESPACE": service["namespaceId"],
        "PREFECT_API_URL": f"{service['prefect']}/api",
        "PREFECT_API_AUTH_STRING": service.get("prefectLogin"),
    }
    lines = [f"export {name}={shlex.quote(value)}" for name, value in shown_variables.items() if value]
    programs = shlex.quote(str(Path(sys.executable).parent))
    return "\n".join([*lines, f'export PATH={programs}:"$PATH"'])


def text(service: dict[str, Any]) -> str:
    """Addresses, the key, the variables that the documentation's requests use, and the first of these requests."""
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
        "Put a text in, wait until it is ingested, and find it:",
        "",
        f"export API={api} API_KEY={key or '<API_KEY>'} NAMESPACE={namespace}",
        "",
        INGEST,
        "",
        WAIT,
        "",
        SEARCH,
        "",
        "In another terminal, this sets the variables, and finds the commands `retrieval` and `prefect`:",
        "",
        f'eval "$({shlex.quote(str(Path(sys.executable).with_name("retrieval")))} env)"',
        "",
    ]
    return "\n".join(lines)
