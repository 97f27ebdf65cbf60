"""Error lines in the logs of all programs, and detection of repeated errors."""

from __future__ import annotations

import pytest

from local.logs import list_errors

ERRORS = {
    "prefect": "02:11:09.512 | ERROR   | prefect.server.services.scheduler - Can't evaluate bulk DML statement",
    "structlog": "2026-11-22T02:10:00.123456Z [error    ] dispatcher.failed              loop=recovery role=dispatcher",
    "json": '{"loop": "recovery", "event": "dispatcher.failed", "level": "error", "timestamp": "2026-11-22T02:10:00Z"}',
    "postgres": "2026-11-22 02:10:00.123 UTC [4711] ERROR:  deadlock detected",
    "granian": "[ERROR] Unable to start the worker",
    "uvicorn": "ERROR:    Exception in ASGI application",
    "python": "2026-11-22 02:10:00,123 - asyncio - ERROR - Task exception was never retrieved",
}
OTHERS = """\
02:11:09.512 | WARNING | prefect.server - ERROR is only a word here
2026-11-22T02:10:00.123456Z [info     ] document.failed  error=no role=worker
2026-11-22 02:10:00.123 UTC [4711] FATAL:  the database system is starting up
2026-11-22 02:10:00.123 UTC [4711] LOG:  checkpoint complete
[INFO] Started worker-1
"""
TRACE = """\
Traceback (most recent call last):
  File "x.py", line 1, in <module>
    1 / 0
ZeroDivisionError: division by zero
"""


@pytest.mark.parametrize("program", ERRORS)
def test_an_error_line_is_told_from_others_and_counted_once_with_its_traceback(program):
    (error,) = list_errors(OTHERS + ERRORS[program] + "\n" + TRACE + OTHERS)
    assert error in ERRORS[program]
    assert len(error) > 10
