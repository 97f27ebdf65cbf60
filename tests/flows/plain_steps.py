"""The pipeline without a Prefect server: steps are plain function calls, and no artifact is made."""

from __future__ import annotations

import contextlib
import logging

from flows import context, pipeline, reembed, report, run_context, step_outcome, tasks


class _NoBar:
    async def add(self, _documents):
        pass


@contextlib.asynccontextmanager
async def _no_listing(*_):
    yield


def without_prefect(monkeypatch, db, ring, *, before_step=lambda _step, _work: None):
    """Run the steps in this process; `before_step(step, work)` is called ahead of each."""

    def plain(step, _label, _source=""):
        def call(work, *futures):
            before_step(step.name, work)
            return step.fn(work, *futures)

        return call

    monkeypatch.setattr(context, "open_database", lambda: db)
    monkeypatch.setattr(context, "load_keys", lambda: ring)
    monkeypatch.setattr(tasks, "name_task", plain)
    monkeypatch.setattr(report, "ProgressBar", lambda _namespace, _total: _NoBar())
    monkeypatch.setattr(report, "report_listing", _no_listing)
    for module in (pipeline, reembed, run_context, step_outcome):
        monkeypatch.setattr(module, "get_run_logger", lambda: logging.getLogger("flow run"))
