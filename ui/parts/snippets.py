"""A request as a program would send it, ready to paste. The key stays out: it is read from the environment."""

from __future__ import annotations

import json
import shlex

import streamlit as st

from ui import session
from ui.client import Json


def show(who: session.Person, path: str, body: Json) -> None:
    """The request in two languages."""
    curl, python = st.tabs(["curl", "Python"])
    curl.code(as_curl(who.api.base, who.api.tenant, path, body), language="bash")
    python.code(as_python(who.api.base, who.api.tenant, path, body), language="python")


def as_curl(base: str, tenant: str, path: str, body: Json) -> str:
    """For a POSIX shell, whatever the body holds."""
    headers = ['-H "Authorization: Bearer $API_KEY"', "-H 'Content-Type: application/json'"]
    if tenant:
        headers.append(f"-H {shlex.quote(f'X-Tenant-ID: {tenant}')}")
    lines = [f"curl -s {shlex.quote(base + path)}", *headers, f"-d {shlex.quote(json.dumps(body))}"]
    return " \\\n  ".join(lines)


def as_python(base: str, tenant: str, path: str, body: Json) -> str:
    """With httpx, and nothing else."""
    tenant_line = f', "X-Tenant-ID": {tenant!r}' if tenant else ""
    return (
        "import os\n\nimport httpx\n\n"
        f"answer = httpx.post(\n    {base + path!r},\n"
        f'    headers={{"Authorization": f"Bearer {{os.environ[\'API_KEY\']}}"{tenant_line}}},\n'
        f"    json={body!r},\n)\n"
        'answer.raise_for_status()\nfor result in answer.json()["data"]["results"]:\n'
        '    print(round(result["score"], 3), result["content"][:80])\n'
    )
