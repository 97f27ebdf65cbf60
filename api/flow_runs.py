"""States of flow runs from the operator's Prefect server."""

from __future__ import annotations

import base64
from datetime import datetime
from urllib.parse import urlsplit

import httpx
import msgspec
import structlog

from api.wire.common import Timestamp
from api.wire.runs import FlowRun, FlowRunState
from retrieval.settings import Settings

log = structlog.get_logger()

# The request for a job run continues without Prefect's answer.
PREFECT_SECONDS = 2.0


class _PrefectState(msgspec.Struct):
    """State of a flow run in Prefect's response."""

    type: str
    name: str
    timestamp: datetime
    message: str | None = None


async def read_flow_run(settings: Settings, flow_run_id: str) -> FlowRun:
    """Return the states of a flow run, not `reachable` if Prefect refuses or does not answer."""
    url = f"{(settings.prefect_api_url or '').rstrip('/')}/flow_run_states/"
    try:
        async with httpx.AsyncClient(headers=_authorize(settings), timeout=PREFECT_SECONDS, trust_env=False) as client:
            response = await client.get(url, params={"flow_run_id": flow_run_id})
            states = msgspec.json.decode(response.raise_for_status().content, type=list[_PrefectState])
    except (httpx.HTTPError, httpx.InvalidURL, msgspec.DecodeError) as error:
        log.warning("prefect.no_states", reason=type(error).__name__)
        return FlowRun(reachable=False, states=[])
    states.sort(key=lambda state: state.timestamp)
    return FlowRun(
        reachable=True,
        states=[
            FlowRunState(state.type, state.name, state.message, Timestamp.from_datetime(state.timestamp))
            for state in states
        ],
    )


def _authorize(settings: Settings) -> dict[str, str]:
    if settings.prefect_api_key:
        return {"Authorization": f"Bearer {settings.prefect_api_key.get_secret_value()}"}
    login = settings.prefect_login.get_secret_value() if settings.prefect_login else ""
    return {"Authorization": "Basic " + base64.b64encode(login.encode()).decode()} if login else {}


def build_prefect_url(settings: Settings, path: str) -> str | None:
    """Return a page of Prefect, without credentials of the API's address."""
    if not settings.prefect_api_url:
        return None
    api = urlsplit(settings.prefect_api_url)
    base = f"{api.scheme}://{api.netloc.rpartition('@')[2]}{api.path.rstrip('/').removesuffix('/api')}"
    return f"{base}/{path}"
