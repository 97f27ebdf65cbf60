"""Prefect's engine, driven on the calling thread of a warm child for one flow run after another."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from uuid import UUID

    from prefect import Flow
    from prefect.client.schemas.objects import FlowRun

    Logger = logging.Logger | logging.LoggerAdapter[logging.Logger]

MODULES = ("prefect.engine", "prefect.flow_engine")
"""What takes long to import, for whoever forks."""


def engine_signals(run_id: UUID) -> AbstractContextManager[None]:
    """Reports a run as crashed where the block ends by a signal or an exception, which become SystemExit."""
    from prefect.engine import handle_engine_signals

    return handle_engine_signals(run_id)


def run_logger(run: FlowRun) -> Logger:
    """Writes to the log of the run that Prefect's server keeps."""
    from prefect.logging.loggers import flow_run_logger

    return flow_run_logger(run)


def execute(flow: Flow[..., Any], run: FlowRun, log: Logger) -> None:
    """Execute one run on this thread, so that the engine can catch SIGTERM. A failed flow raises nothing."""
    from prefect.flow_engine import run_flow

    outcome: Any = run_flow(flow, flow_run=run, error_logger=log, return_type="state")  # type: ignore[arg-type]
    if inspect.iscoroutine(outcome):
        asyncio.run(outcome)


def end_as_cancelled() -> NoReturn:
    """From a signal handler: end the flow run like SIGTERM does, without the engine reporting a crash."""
    from prefect._internal.control_listener import _set_intent
    from prefect.exceptions import TerminationSignal

    _set_intent("cancel")
    raise TerminationSignal(signal.SIGTERM)


def parameters(flow: Flow[..., Any]) -> dict[str, Any]:
    """The JSON schema of a flow's parameters, as a deployment carries it."""
    from prefect.utilities.callables import parameter_schema

    return parameter_schema(flow).model_dump()
