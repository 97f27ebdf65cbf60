"""`make bench`: what it shows, and that nothing is left of a benchmark however it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from bench.goals import GOALS, Goal

PROJECT = Path(__file__).resolve().parents[2]
DAEMON = """
import os, subprocess, sys, tempfile, time
from pathlib import Path
home = Path(tempfile.mkdtemp())
code = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.setsid(); time.sleep(100)"
left = subprocess.Popen(["sh", "-c", f"{sys.executable} -c '{code}' >/dev/null 2>&1 & echo $!"], stdout=subprocess.PIPE)
Path(os.environ["TOLD"]).write_text(f"{left.communicate()[0].decode().strip()} {home} {home.parent}")
"""
"""Starts a daemon of a session of its own that does not heed SIGTERM, and leaves it and a folder behind."""


def suite(folder, benches, *, minutes=1.0, goals="()"):
    """Run a suite of benches given as source, in a process of its own."""
    code = f"""
import sys
from bench import suite
from bench.goals import Goal
from bench.suite import Bench
suite.GRACE_SECONDS, suite.PATIENCE_SECONDS = 1.0, 0.3
sys.exit(suite.run([{benches}], {goals}, minutes={minutes}))
"""
    environment = os.environ | {"BENCH_RESULTS": str(folder / "results"), "TOLD": str(folder / "told")}
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=PROJECT, env=environment, stdout=subprocess.PIPE, text=True
    )


def bench(code, *, name="sample", seconds=30):
    return f"Bench({name!r}, 'about it', seconds={seconds}, command=(sys.executable, '-c', {code!r}))"


def told(folder, *, within=20):
    """The daemon's process, its folder, and the folder of the benchmark."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        with suppress(FileNotFoundError):
            pid, *folders = (folder / "told").read_text().split()
            return int(pid), [Path(one) for one in folders]
        time.sleep(0.05)
    raise AssertionError("The benchmark did not start.")


def gone(folder):
    pid, folders = told(folder)
    return not Path(f"/proc/{pid}").exists() and not any(one.exists() for one in folders)


def test_goals_stand_beside_figures_and_the_machine_in_json(tmp_path):
    code = "from bench import report; report.write('sample', {'ratio': 4.5})"
    goals = (
        "[Goal('sample', 'a ratio', '4 times', lambda r: r['ratio'], least=4),"
        " Goal('sample', 'its CPU', 'a quarter', lambda r: r['ratio'], most=.25),"
        " Goal('sample', 'another', '1 s', lambda r: r['never']['told'], most=1)]"
    )
    process = suite(tmp_path, bench(code), goals=goals)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    rows = {row[0]: row for line in out.splitlines() if len(row := [cell.strip() for cell in line.split("|")]) == 4}
    assert rows["a ratio"] == ["a ratio", "4 times", "4.50 times", "reached"]
    assert rows["its CPU"][3] == "missed"
    assert rows["another"] == ["another", "1 s", "", "not measured"]
    machine = json.loads((tmp_path / "results" / "sample.json").read_text())["machine"]
    assert machine["cores"] == os.cpu_count()
    assert machine["memoryGiB"] > 0.1
    assert machine["cpu"]
    assert machine["packages"]["psycopg"]
    assert machine["at"].startswith("20")
    verdicts = json.loads((tmp_path / "results" / "suite.json").read_text())["goals"]
    assert verdicts["a ratio"] == {"goal": "4 times", "measured": "4.50 times", "verdict": "reached"}


def test_a_real_benchmark_of_a_tiny_size_runs_within_the_frame(tmp_path):
    benches = "Bench('openai_requests', 'about it', ('--chunks', '40', '--delay', '0'))"
    goals = "[one for one in __import__('bench.goals').goals.GOALS if one.bench == 'openai_requests']"
    process = suite(tmp_path, benches, goals=goals)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    assert "1.00 times" in out
    assert "reached" in out


@pytest.mark.decision("H135")
def test_what_a_benchmark_leaves_running_ends_with_it(tmp_path):
    process = suite(tmp_path, bench(DAEMON))
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert gone(tmp_path)


@pytest.mark.decision("H135")
def test_a_benchmark_that_takes_too_long_is_ended_and_the_next_one_runs(tmp_path):
    after = "from pathlib import Path; import os; Path(os.environ['TOLD'] + '2').touch()"
    process = suite(tmp_path, f"{bench(DAEMON + 'time.sleep(100)', seconds=3)}, {bench(after, name='next')}")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "sample: ended after 3 s" in out
    assert gone(tmp_path)
    assert (tmp_path / "told2").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_suite_with_all_that_it_started(tmp_path, number):
    process = suite(tmp_path, bench(DAEMON + "time.sleep(100)"))
    told(tmp_path)
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130, out
    assert gone(tmp_path)


def test_the_next_suite_clears_what_a_killed_one_left(tmp_path):
    process = suite(tmp_path, bench(DAEMON + "time.sleep(100)"))
    told(tmp_path)
    process.kill()
    process.wait()
    process.stdout.close()  # the benchmark still holds the other end
    again = suite(tmp_path, bench("pass", name="next"))
    again.communicate(timeout=60)
    until = time.monotonic() + 5
    while not gone(tmp_path) and time.monotonic() < until:
        time.sleep(0.05)
    assert gone(tmp_path)


def test_a_suite_without_time_runs_nothing(tmp_path):
    process = suite(tmp_path, bench(DAEMON), minutes=0)
    out, _ = process.communicate(timeout=60)
    assert "no time was left" in out
    assert not (tmp_path / "told").exists()


def test_every_goal_is_of_a_benchmark_of_the_suite_and_has_a_bound():
    from bench.__main__ import MORE, SUITE

    names = {bench.name for bench in (*SUITE, *MORE)}
    assert {goal.bench for goal in GOALS} <= names
    assert all((goal.least is None) != (goal.most is None) for goal in GOALS)
    assert all((PROJECT / "bench" / f"{bench.name}.py").is_file() for bench in (*SUITE, *MORE))
    assert isinstance(GOALS[0], Goal)
