"""A document deleted during its run ends as cancelled, without advice."""

from __future__ import annotations

import pytest

from tests.flows.configured import STEPS, Configured


@pytest.fixture
def house(db):
    return Configured(db)


@pytest.mark.slow
@pytest.mark.parametrize("step", [step.__name__ for step in STEPS])
@pytest.mark.parametrize("kind", ["text", "file"])
def test_a_document_that_is_deleted_and_cleared_before_a_step_is_cancelled(house, step, kind):
    runs = []
    for name in ("gone", "stays"):
        content = f"The {name} one speaks of seals and of tides, at some length."
        accepted = house.text(content, name) if kind == "text" else house.file(f"{name}.txt", content.encode())
        runs.append(accepted.job_run_id)
    (deleted,) = house.db.rows(
        "select document_id as id from run_documents where job_run_id = %(run)s", {"run": runs[0]}
    )

    def delete_before_step(name):
        if name == step:
            house.delete(deleted["id"])
            house.sweep()

    house.work(before_step=delete_before_step)
    entries = house.db.rows(
        "select d.status, d.error from run_documents d join job_runs r on r.id = d.job_run_id"
        " where d.job_run_id = any(%(runs)s) order by r.number",
        {"runs": runs},
    )
    assert [tuple(entry.values()) for entry in entries] == [("CANCELLED", None), ("SUCCESS", None)]
    assert [house.run(run).outcome for run in runs] == ["CANCELLED", "SUCCEEDED"]
