"""Access log: same fields in both formats, buffered for successes, immediate for errors."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import json
import time

import httpx
import pytest

from api.access_log import MAX_WAITING_LINES, AccessLog
from tests.api.process import running


def test_lines_wait_for_others_a_fifth_of_a_second_and_are_written_whole():
    async def work() -> list[str]:
        stream = io.StringIO()
        access = AccessLog("json", stream)
        for number in range(MAX_WAITING_LINES - 1):
            access.add_request(f"req_{number}", "GET", "/v1/a", 200, "org_1", 1.5)
        assert stream.getvalue() == ""
        await asyncio.sleep(0.5)
        assert len(stream.getvalue().splitlines()) == MAX_WAITING_LINES - 1
        for number in range(MAX_WAITING_LINES):
            access.add_request(f"more_{number}", "GET", "/v1/a", 200, None, 1.5)
        return stream.getvalue().splitlines()

    lines = [json.loads(line) for line in asyncio.run(work())]
    assert [line["request_id"] for line in lines[:2]] == ["req_0", "req_1"]
    assert len(lines) == 2 * MAX_WAITING_LINES - 1
    assert (
        lines[0].items()
        >= {
            "role": "api",
            "method": "GET",
            "path": "/v1/a",
            "status": 200,
            "code": None,
            "organization": "org_1",
            "milliseconds": 1.5,
            "event": "request.answered",
            "level": "info",
        }.items()
    )


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_path_makes_a_line_of_its_own_or_shows_a_login(form):
    async def work() -> str:
        stream = io.StringIO()
        access = AccessLog(form, stream)
        access.add_request(
            "req_1", "GET", "/v1/a\nrequest.answered https://user:password@host/x?signature=1", 200, None, 1.0
        )
        access.write_lines()
        return stream.getvalue()

    written = asyncio.run(work())
    assert written.count("\n") == 1
    assert "password" not in written
    assert "signature" not in written


class FullDisk(io.StringIO):
    """Stream without free space."""

    full = True

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


def test_lines_that_a_full_disk_refuses_do_not_pile_up():
    async def work() -> list[str]:
        stream = FullDisk()
        access = AccessLog("json", stream)
        for number in range(5 * MAX_WAITING_LINES):
            with contextlib.suppress(OSError):
                access.add_request(f"lost_{number}", "GET", "/v1/a", 200, None, 1.0)
        stream.full = False
        access.add_request("req_1", "GET", "/v1/a", 200, None, 1.0)
        access.write_lines()
        return [json.loads(line)["request_id"] for line in stream.getvalue().splitlines()]

    assert asyncio.run(work()) == ["req_1"]


def test_every_request_of_a_process_has_its_line_and_errors_come_in_order(api_database, ring, organization, tmp_path):
    org = organization()
    with running(tmp_path, api_database, ring) as (address, process, log):
        headers = {"Authorization": f"Bearer {org.api_key}"}
        with httpx.Client(base_url=address, headers=headers, trust_env=False, timeout=30) as client:
            for number in range(5):
                client.get("/v1/keys/current", headers={"X-Request-Id": f"fine-{number}"})
            client.get("/v1/nothing", headers={"X-Request-Id": "wrong"})
            logged_ids = _ids(log)
            assert logged_ids[-6:] == [*(f"fine-{number}" for number in range(5)), "wrong"]
            client.get("/v1/keys/current", headers={"X-Request-Id": "last"})
        process.terminate()
        process.wait(30)
        assert _ids(log)[-1] == "last"


def _ids(log) -> list[str]:
    deadline = time.monotonic() + 5
    while "wrong" not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [line["request_id"] for line in lines if line["event"] == "request.answered"]
