"""Prefect's engine, driven on the calling thread of a warm child for one flow run after another."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
from contextlib import AbstractContextManager
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, NoReturn, Self

import structlog

from flows.prefect_client import SILENT

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from uuid import UUID

    import httpx
    from prefect import Flow
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import FlowRun
    from prefect.context import AsyncClientContext, SyncClientContext

    Logger = logging.Logger | logging.LoggerAdapter[logging.Logger]

log = structlog.get_logger()

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


class Engine:
    """Executes flow runs on this thread, so that it can catch SIGTERM, one after the other.

    All on one event loop, with one client of Prefect's server for it and one for the threads of tasks, made for the
    first run and kept: a new one costs certificates, a connection and a look at the server's version, for which each
    short flow run and each of its tasks would wait.
    """

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._context = Context()
        self._made: tuple[AsyncClientContext, SyncClientContext] | None = None
        self._client: _Client | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def execute(self, flow: Flow[..., Any], run: FlowRun, log: Logger) -> None:
        """A failed flow raises nothing. `run`: as its worker took it; what the server keeps of it is not read again."""
        from prefect.filesystems import LocalFileSystem
        from prefect.flow_engine import run_flow
        from prefect.settings import PREFECT_LOCAL_STORAGE_PATH

        if flow.persist_result is False and flow.result_storage is None:
            # Else the server is asked each time where results are kept that nobody keeps.
            flow.result_storage = LocalFileSystem(basepath=str(PREFECT_LOCAL_STORAGE_PATH.value()))
        outcome: Any = run_flow(flow, flow_run=run, error_logger=log, return_type="state")  # type: ignore[arg-type]
        if inspect.iscoroutine(outcome):
            self._await(outcome, run)

    def close(self) -> None:
        """After the last run or a lost one: what goes on ends by the clients that it has, then these and the loop."""
        runner, made = self._runner, self._made
        self._runner, self._made, self._client = None, None, None
        if runner is None:
            return
        try:
            if made is not None:
                runner.run(self._leave(*made), context=self._context)
        finally:
            runner.close()

    def _await(self, outcome: Coroutine[Any, Any, Any], run: FlowRun) -> None:
        if self._runner is None:
            self._runner, self._context = asyncio.Runner(), copy_context()
            try:
                self._runner.run(self._open(), context=self._context)
            except BaseException:
                outcome.close()
                self.close()
                raise
        try:
            # A context of its own: what one run binds is not the next one's.
            self._runner.run(self._through(outcome, run), context=self._context.copy())
        except BaseException:  # a signal, from whatever the loop was doing: the run is told of it by its cancellation
            self.close()
            raise

    async def _leave(self, beside: AsyncClientContext, in_threads: SyncClientContext) -> None:
        await self._end_others()
        in_threads.__exit__(None, None, None)
        await beside.__aexit__(None, None, None)

    async def _open(self) -> None:
        from prefect.context import AsyncClientContext, SyncClientContext

        beside = await AsyncClientContext().__aenter__()
        self._made = beside, SyncClientContext().__enter__()
        self._client = _Client(beside.client)

    async def _through(self, outcome: Coroutine[Any, Any, Any], run: FlowRun) -> None:
        """The run, then nothing of it goes on."""
        if self._client is not None:
            self._client.begin(run)
        await outcome
        if self._client is not None:
            await self._client.end()
        await self._end_others()

    @staticmethod
    async def _end_others() -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


class _Client:
    """Spares a run two requests that it would wait for: it is not read again, and its version is noted beside it."""

    def __init__(self, client: PrefectClient) -> None:
        self._read, self._update = client.read_flow_run, client.update_flow_run
        self._run: FlowRun | None = None
        self._beside: asyncio.Task[None] | None = None
        client.read_flow_run = self.read_flow_run  # type: ignore[method-assign]
        client.update_flow_run = self.update_flow_run  # type: ignore[method-assign, assignment]

    def begin(self, run: FlowRun) -> None:
        self._run = run

    async def end(self) -> None:
        self._run = None
        if self._beside is not None:
            await self._beside

    async def read_flow_run(self, flow_run_id: UUID) -> FlowRun:
        """The first time, the engine's own object: it has just set its state."""
        known, self._run = self._run, None
        return known if known is not None and known.id == flow_run_id else await self._read(flow_run_id)

    async def update_flow_run(self, flow_run_id: UUID, *args: Any, **changes: Any) -> httpx.Response | None:
        if args or changes.keys() != {"flow_version", "empirical_policy"}:
            return await self._update(flow_run_id, *args, **changes)
        self._beside = asyncio.create_task(self._note(flow_run_id, changes))
        return None

    async def _note(self, flow_run_id: UUID, changes: dict[str, Any]) -> None:
        try:
            await self._update(flow_run_id, **changes)
        except SILENT as error:
            log.warning("run.version_not_noted", flow_run_id=str(flow_run_id), reason=type(error).__name__)


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
