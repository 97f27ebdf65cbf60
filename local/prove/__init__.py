"""Measurements of the service's promises in a fresh instance: `retrieval prove`.

`--mine FOLDER` measures search quality on the files of a folder.
"""

from __future__ import annotations

import json
import shutil
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

from local import LocalError
from local.machine import describe_machine
from retrieval.settings import Settings


def run(options: Namespace, settings: Settings) -> int:
    """Measure and write prove.html and prove.json; return 1 for a broken promise."""
    from local.prove import documents, mine, page
    from local.scratch import start_scratch
    from retrieval_client import RetrievalError

    folder, home, began = Path(options.out), settings.home.resolve() / "prove", time.monotonic()
    if options.mine and not Path(options.mine).is_dir():
        raise LocalError(f"{options.mine} is no folder.", exit_code=2)
    folder.mkdir(parents=True, exist_ok=True)
    command = "retrieval prove" + (f" --mine {options.mine}" if options.mine else "")
    figures: dict[str, Any] = {"command": command + (" --quick" if options.quick else ""), "quick": options.quick}
    try:
        with start_scratch(home) as scratch:
            bench = documents.open_bench(scratch, is_quick=options.quick)
            bench.started = began
            bench.report("the service is ready")
            if options.mine:
                figures["mine"] = mine.measure_folder(bench, Path(options.mine))
                figures["promises"] = []
            else:
                figures |= _measure_all(bench)
                figures["promises"] = judge_promises(figures)
    except (LocalError, RetrievalError) as error:
        raise LocalError(f"The proof failed: {error}\n  Logs: {home / 'logs'}") from error
    shutil.rmtree(home, ignore_errors=True)
    figures |= {"seconds": round(time.monotonic() - began), "machine": describe_machine()}
    (folder / "prove.json").write_text(json.dumps(figures, indent=1, default=str) + "\n")
    (folder / "prove.html").write_text(page.build_page(figures))
    for promise in figures["promises"]:
        print(f"{'holds ' if promise['holds'] else 'BROKEN'}  {promise['promise']}: {promise['measured']}")
    print(f"Took {figures['seconds']} s. {folder / 'prove.html'} and prove.json are written.")
    return 0 if all(promise["holds"] for promise in figures["promises"]) else 1


def _measure_all(bench: Any) -> dict[str, Any]:
    from local.prove import measures

    figures: dict[str, Any] = {}
    for name, measure in (
        ("benchV0", measures.measure_bench_v0),
        ("reading", measures.measure_reading),
        ("rows", measures.measure_rows),
        ("isolation", measures.measure_isolation),
        ("kills", measures.measure_kills),
    ):
        figures[name] = measure(bench)
        printed = {key: value for key, value in figures[name].items() if key != "cost"}
        bench.report(f"{name}: {json.dumps(printed)}")
    figures["cost"] = measures.measure_cost(bench, figures["benchV0"]["cost"])
    bench.report(f"cost of 1,000 documents: {json.dumps(figures['cost'])}")
    return figures


def judge_promises(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Return each promise with its measurement and verdict; a quick run omits hosted services."""
    from local.prove.measures import HOSTED_RESULTS

    bench, reading, rows = figures["benchV0"], figures["reading"], figures["rows"]
    isolation, kills = figures["isolation"], figures["kills"]
    damage = kills["lost"] + kills["doubled"] + kills["notFoundOnce"]
    best = max(row[1] for row in HOSTED_RESULTS)
    judged = [
        (
            f"bench-v0 scores no less than the best hosted service ({best})",
            f"{bench['score']} ({bench['low']} to {bench['high']})",
            bench["score"] >= best,
        ),
        (
            "tables, columns and Hebrew are read as they are drawn (.97 each)",
            ", ".join(f"{kind} {reading[kind]:.3f}" for kind in ("tables", "columns", "right to left")),
            min(reading[kind] for kind in ("tables", "columns", "right to left")) >= 0.97,
        ),
        (
            "a row of a table is among the first three results (.95)",
            f"{rows['first3'] * rows['questions']:.0f} of {rows['questions']} rows",
            rows["first3"] >= 0.95,
        ),
        (
            "hidden documents change no answer",
            f"{isolation['differing']} of {isolation['answers']} answers differ",
            isolation["differing"] == 0,
        ),
        (
            "a killed worker and a killed API lose and double nothing",
            f"{damage} of {kills['documents']} texts; {kills['findings'] or 'tables, files and vectors agree'}",
            damage == 0 and not kills["findings"],
        ),
    ]
    promises = judged[1:] if figures["quick"] else judged
    return [{"promise": promise, "measured": measured, "holds": holds} for promise, measured, holds in promises]
