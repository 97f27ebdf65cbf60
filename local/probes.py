"""HTTP probes of the roles by the standard library: the supervisor needs neither SDKs nor the database's modules."""

from __future__ import annotations

import base64
import http.client
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

_PROBE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Registration:
    """Required queues and deployments in Prefect, with their version."""

    queues: frozenset[str]
    deployments: frozenset[str]
    version: str


def is_answering(url: str) -> bool:
    """Return whether a GET returns 200."""
    return _request("GET", url, {})[0] == 200


def is_listening(host: str, port: int) -> bool:
    """Return whether connections are accepted."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    try:
        with socket.create_connection((reachable.strip("[]"), port), timeout=_PROBE_SECONDS):
            return True
    except OSError:
        return False


def pool_exists(prefect_api_url: str, pool: str, login: Mapping[str, str]) -> bool:
    return _request("GET", f"{prefect_api_url}/work_pools/{pool}", _login_headers(login))[0] == 200


def is_registered(prefect_api_url: str, pool: str, login: Mapping[str, str], plan: Registration) -> bool:
    """Check that Prefect has the plan's queues and deployments, the latter in the current version."""
    headers = _login_headers(login)
    status, queues = _request("POST", f"{prefect_api_url}/work_pools/{pool}/queues/filter", headers, {})
    if status != 200 or not plan.queues <= {queue["name"] for queue in queues}:
        return False
    status, deployments = _request("POST", f"{prefect_api_url}/deployments/filter", headers, {"limit": 200})
    return status == 200 and plan.deployments <= {
        deployment["name"] for deployment in deployments if deployment["version"] == plan.version
    }


def is_worker_online(prefect_api_url: str, pool: str, prefix: str, login: Mapping[str, str], since: datetime) -> bool:
    """Return whether Prefect lists a worker with this name prefix as online with a heartbeat after `since`."""
    url = f"{prefect_api_url}/work_pools/{pool}/workers/filter"
    status, workers = _request("POST", url, _login_headers(login), {"workers": {}})
    return status == 200 and any(
        worker["status"] == "ONLINE"
        and worker["name"].startswith(prefix)
        and datetime.fromisoformat(worker["last_heartbeat_time"]) >= since
        for worker in workers
    )


def _login_headers(login: Mapping[str, str]) -> dict[str, str]:
    """Return the authorization headers of Prefect's variables."""
    if key := login.get("PREFECT_API_KEY"):
        return {"Authorization": f"Bearer {key}"}
    text = login.get("PREFECT_API_AUTH_STRING", "")
    return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()} if text else {}


def _request(method: str, url: str, headers: Mapping[str, str], body: object = None) -> tuple[int, Any]:
    """Return status and decoded body; status 0 without an answer."""
    # The standard library: no proxy is used, and no SDK is imported.
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_PROBE_SECONDS)
    try:
        data = None if body is None else json.dumps(body)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection.request(method, target, data, {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if body is not None and response.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        return 0, None
    finally:
        connection.close()
