"""A slow file delays no neighbour, archive member or newcomer of its batch."""

import asyncio
import threading
import zipfile
from io import BytesIO

import pytest

from connectors import registry
from flows import pipeline
from flows.run_context import RunContext
from retrieval.jobs.queries import batches
from tests.flows.configured import Configured
from tests.flows.plain_steps import without_prefect

SECONDS = 60


class Held:
    """The real parser; files named `slow` wait until they are released."""

    def __init__(self):
        self.released = threading.Event()
        self._parser = registry.make_parser()

    def parse(self, raw, ocr, should_continue):
        if raw.name.startswith("slow"):
            assert self.released.wait(SECONDS * 2)
        return self._parser.parse(raw, ocr, should_continue)

    def warm(self, files):
        self._parser.warm(files)


@pytest.fixture
def space(db, monkeypatch):
    space = Configured(db)
    without_prefect(monkeypatch, db, space.ring)
    monkeypatch.setattr(pipeline, "SLOW_FILE_SECONDS", 0.2)
    return space


def packed(name, content):
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, content)
    return file.getvalue()


def test_what_is_done_is_completed_and_found_while_another_file_of_its_batch_is_read(db, space, monkeypatch):
    slow_parser = Held()
    monkeypatch.setattr(registry, "make_parser", lambda: slow_parser)
    slow = space.file("slow.txt", b"The slow one speaks of glaciers.").job_run_id
    quick = [
        space.file("quick.txt", b"The quick one speaks of rivers.").job_run_id,
        space.file("all.zip", packed("member.txt", "The member speaks of lakes.")).job_run_id,
        space.file("broken.pdf", b"no PDF at all").job_run_id,
    ]
    lease = space.lease()

    def work():
        asyncio.run(pipeline.ingest_documents(RunContext(db, space.ring, lease)))

    worker = threading.Thread(target=work)
    worker.start()
    try:
        until(lambda: {space.run(run).outcome for run in quick} == {"SUCCEEDED", "FAILED"})
        assert {"quick.txt", "member.txt", "all.zip"} <= set(space.search("rivers and lakes", top_k=10))
        quick.append(space.file("late.txt", b"The late one speaks of springs.").job_run_id)
        if lease.grows:
            until(lambda: space.run(quick[-1]).outcome == "SUCCEEDED")
        assert space.run(slow).outcome is None
    finally:
        slow_parser.released.set()
        worker.join(SECONDS)
    assert space.run(slow).outcome == "SUCCEEDED"
    batches.finish_batch(db, lease)


def until(condition):
    event = threading.Event()
    for _ in range(SECONDS * 5):
        if condition():
            return
        event.wait(0.2)
    raise AssertionError("It did not come about.")
