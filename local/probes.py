"""Is a role ready? One short HTTP question, without proxies and without a vendor's client."""

from __future__ import annotations

import base64
import http.client
import json
import socket
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

_SECONDS = 2.0


def answers(url: str) -> bool:
    """Tell whether a GET is answered with 200."""
    return _ask("GET", url, {})[0] == 200


def listens(host: str, port: int) -> bool:
    """Tell whether connections are accepted there."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    try:
        with socket.create_connection((reachable.strip("[]"), port), timeout=_SECONDS):
            return True
    except OSError:
        return False


def pool_exists(prefect_api_url: str, pool: str, environment: Mapping[str, str]) -> bool:
    return _ask("GET", f"{prefect_api_url}/work_pools/{pool}", _authorization(environment))[0] == 200


def worker_online(prefect_api_url: str, pool: str, name: str, environment: Mapping[str, str], since: datetime) -> bool:
    """Tell whether the Prefect server lists this worker of the pool as online, with a heartbeat after `since`."""
    mine = [worker for worker in _online(prefect_api_url, pool, environment) if worker.get("name") == name]
    return any(datetime.fromisoformat(worker["last_heartbeat_time"]) >= since for worker in mine)


def a_worker_online(prefect_api_url: str, pool: str, host: str, environment: Mapping[str, str]) -> bool:
    """Tell whether the Prefect server lists a worker of this host, by the prefix of its name, as online."""
    online = _online(prefect_api_url, pool, environment)
    return any(str(worker.get("name", "")).startswith(f"{host}-") for worker in online)


def _online(prefect_api_url: str, pool: str, environment: Mapping[str, str]) -> list[Any]:
    url = f"{prefect_api_url}/work_pools/{pool}/workers/filter"
    status, body = _ask("POST", url, _authorization(environment), {"workers": {}})
    workers = body if status == 200 and isinstance(body, list) else []
    return [worker for worker in workers if worker.get("status") == "ONLINE"]


def _authorization(environment: Mapping[str, str]) -> dict[str, str]:
    if key := environment.get("PREFECT_API_KEY"):
        return {"Authorization": f"Bearer {key}"}
    if login := environment.get("PREFECT_API_AUTH_STRING"):
        return {"Authorization": "Basic " + base64.b64encode(login.encode()).decode()}
    return {}


def _ask(method: str, url: str, headers: Mapping[str, str], body: object = None) -> tuple[int, Any]:
    """Status and decoded body; status 0 without an answer."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_SECONDS)
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
