"""Logging on a full disk loses lines only."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, sys
import structlog
from api.access_log import AccessLog
from retrieval import logs
from retrieval.settings import Settings

logs.configure_logs(Settings(), role="api")
structlog.get_logger().warning("disk.full", what="a line")
structlog.get_logger().error("disk.full", what="another")

async def answered():
    lines = AccessLog("console")
    lines.add_request("req_1", "GET", "/v1/namespaces", 200, None, 1.0)
    lines.write_lines()

asyncio.run(answered())
print("went on")
"""
OF_OTHERS = """
import os, sys
from retrieval import logs

logs.drop_failed_output()
for number in range(1000):
    print("a line of a library", number)
    print("another", number, file=sys.stderr, flush=True)
assert not sys.stdout.isatty()
os.dup2(os.open(sys.argv[1], os.O_WRONLY), sys.stdout.fileno())
print("went on")
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_line_that_cannot_be_written_ends_nothing():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=full, text=True, check=False
        )
    assert (done.returncode, done.stdout) == (0, "went on\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_line_of_a_library_that_cannot_be_written_ends_nothing_and_what_comes_later_is_written(tmp_path):
    freed = tmp_path / "freed"
    freed.touch()
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", OF_OTHERS, freed], stdout=full, stderr=full, check=False)
    assert (done.returncode, freed.read_text()) == (0, "went on\n")
