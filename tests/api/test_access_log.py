"""Access log: same fields in both formats, buffered for successes, immediate for errors."""

from __future__ import annotations

import asyncio
import io

import pytest

from api.access_log import AccessLog


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
