"""Few frames lie between a flow and its fetching line."""

import asyncio
import traceback

from flows import report, sources, steps
from retrieval.jobs.queries import batches
from tests.flows.configured import Configured
from tests.flows.plain_steps import without_prefect

FLOWS = f"{sources.__file__.rpartition('/')[0]}/"


def awaited(coroutine):
    """Names of flow functions in the coroutine chain of a task."""
    names = []
    while coroutine is not None and getattr(coroutine, "cr_frame", None) is not None:
        if coroutine.cr_code.co_filename.startswith(FLOWS):
            names.append(coroutine.cr_code.co_name)
        coroutine = coroutine.cr_await
    return names


async def no_report(*_):
    pass


def test_at_most_seven_functions_lie_between_the_flow_and_the_download(db, monkeypatch):
    space = Configured(db)
    space.text("Owls hunt mice at night.", "owls.txt")
    without_prefect(monkeypatch, db, space.ring)
    monkeypatch.setattr(report, "report_results", no_report)
    batches.form_batches(db, size=64, batches=8)
    (batch,) = batches.undispatched_batches(db)
    batches.record_flow_run(db, batch, "run")
    fetch_documents, chains = steps.fetching.fetch_documents, []

    async def ingest():
        loop = asyncio.get_running_loop()

        def watched(*arguments, **keywords):
            stack = [frame.name for frame in traceback.extract_stack() if frame.filename.startswith(FLOWS)]
            tasks = [awaited(task.get_coro()) for task in asyncio.all_tasks(loop)]
            chains.append([*sorted(tasks, key=lambda names: "ingest_text" not in names), stack])
            fetch_documents(*arguments, **keywords)

        monkeypatch.setattr(steps.fetching, "fetch_documents", watched)
        return await sources.ingest_text.fn(batch.id, batch.attempt)

    asyncio.run(ingest())
    (chain,) = chains
    names = [name for part in chain for name in part]
    names = names[names.index("ingest_text") :]  # after the frame that makes its parameters
    assert names[0] == "ingest_text"
    assert names[-1] == "fetch"
    assert len(names) <= 7, names  # the flow function and six between it and `fetch_documents`
