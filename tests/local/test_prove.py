"""`retrieval prove`: questions made from documents, drawn files, the page, and a whole quick run each night."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from local.prove import judge_promises, measures, page
from retrieval.settings import PROJECT_ROOT

GUIDE = """# Handbook of the northern harbour pilots

Every vessel that is longer than eighty metres takes a pilot on board before it passes the outer lighthouse. Then more.

## Fees for towing in heavy weather

| Tug | Power | Fee |
|---|---|---|
| Otter | 900 kW | 410.50 |
| Heron | 1200 kW | 530.00 |
| Gannet | 700 kW | 380.25 |
"""


def figures(**changed):
    defaults = {
        "command": "retrieval prove",
        "quick": False,
        "seconds": 125,
        "machine": {
            "at": "2026-11-26T20:00:00+00:00", "cpu": "<cpu>", "cores": 2, "memoryGiB": 8, "system": "Linux",
            "python": "3.11", "packages": {"prefect": "3"}, "load": [1.0],
        },
        "benchV0": {
            "questions": 50, "score": 88.0, "low": 82.0, "high": 93.0, "recall": 0.9, "precision": 0.8,
            "p50Milliseconds": 20.0, "cost": {"documents": 81},
            "reranked": {
                "score": 89.0, "low": 83.0, "high": 94.0, "recall": 0.9, "precision": 0.8, "p50Milliseconds": 300,
            },
        },
        "reading": {"files": 18, "tables": 1.0, "columns": 1.0, "right to left": 1.0},
        "rows": {"rows": 400, "questions": 40, "first1": 0.9, "first3": 1.0, "first5": 1.0},
        "isolation": {"answers": 74, "differing": 0, "hidden": 24},
        "kills": {"documents": 60, "lost": 0, "doubled": 0, "notFoundOnce": 0, "findings": ""},
        "cost": {
            "documentBytes": 12000, "cpuSeconds": 100, "seconds": 90, "diskMegabytes": 50, "memoryMegabytes": 1000,
        },
    }  # fmt: skip
    return defaults | changed


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        ({}, 0),
        ({"isolation": {"answers": 74, "differing": 1, "hidden": 24}}, 1),
        ({"benchV0": figures()["benchV0"] | {"score": 83.9}}, 1),
        ({"kills": figures()["kills"] | {"lost": 1, "findings": "a file without a row"}}, 1),
    ],
)
def test_each_promise_is_judged_and_shown(changed, broken):
    report = figures(**changed)
    report["promises"] = judge_promises(report)
    assert sum(not promise["holds"] for promise in report["promises"]) == broken
    html = page.build_page(report)
    assert html.count(">broken<") == broken
    assert all(system in html for system, *_ in measures.HOSTED_RESULTS)
    assert "89.0 (83.0 to 94.0)" in html
    assert "busy" not in html
    assert "busy" in page.build_page(report | {"machine": report["machine"] | {"load": [9.0]}})
    assert "&lt;cpu&gt;" in html
    assert "src=" not in html
    assert "href=" not in html


@pytest.mark.slow
@pytest.mark.service
@pytest.mark.timeout(900)
@pytest.mark.parametrize("is_mine", [False, True])
def test_a_quick_run_writes_page_and_json(tmp_path, is_mine):
    folder, out = tmp_path / "papers", tmp_path / "out"
    folder.mkdir()
    (folder / "guide.md").write_text(GUIDE)
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    command = [sys.executable, "-m", "local.cli", "prove", "--quick", "--out", out]
    command += ["--mine", folder] if is_mine else []
    environment = dict(os.environ) | {"RETRIEVAL_HOME": str(tmp_path / "home")}
    ended = subprocess.run(command, cwd=PROJECT_ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = json.loads((out / "prove.json").read_text())
    assert all(promise["holds"] for promise in report["promises"])
    assert (out / "prove.html").read_text().startswith("<!doctype html>")
    assert not (tmp_path / "home" / "prove").exists()
    if is_mine:
        assert report["mine"]["unread"].keys() == {"broken.pdf"}
