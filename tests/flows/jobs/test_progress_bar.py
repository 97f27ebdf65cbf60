"""The progress bar of a flow run in Prefect."""

import asyncio

import pytest

from flows import report


@pytest.fixture
def told(monkeypatch):
    """What Prefect is told, in order."""
    seen = []

    async def create(progress, key, description):
        assert key == "progress-ns-1"
        seen.append((progress, description))
        return "bar"

    async def update(artifact, progress):
        assert artifact == "bar"
        seen.append(progress)

    monkeypatch.setattr(report, "acreate_progress_artifact", create)
    monkeypatch.setattr(report, "aupdate_progress_artifact", update)
    return seen


def add(*documents, total):
    async def through():
        shown = report.ProgressBar("ns_1", total)
        for some in documents:
            await shown.add(some)

    asyncio.run(through())


def test_what_is_over_in_a_moment_has_none(told):
    add(64, 64, 2, total=130)
    assert told == []


def test_what_takes_longer_has_one_that_ends_at_a_hundred(told, monkeypatch):
    monkeypatch.setattr(report, "TELL_SECONDS", 0.0)
    add(1, 1, 2, total=4)
    assert told == [(0.0, "Documents through the pipeline: 4"), 25.0, 50.0, 100.0]
