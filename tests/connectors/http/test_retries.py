"""Retry-After and waits for a rate limit, shared by all vendors."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from connectors.http.retries import MAX_RETRY_AFTER_SECONDS, retry_after


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        ("3", 3),
        (" 0 ", 0),
        ("1.5", 1.5),
        ("86400", MAX_RETRY_AFTER_SECONDS),
        ("9" * 400, MAX_RETRY_AFTER_SECONDS),
        ("-5", None),
        ("1e9", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("Thu, 99 Xyz", None),
        ("", None),
        ("\u0663", None),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Thu, 01 Jan 1970 00:00:00 -0000", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", MAX_RETRY_AFTER_SECONDS),
    ],
)
@pytest.mark.parametrize("name", ["retry-after", "Retry-After"])
def test_retry_after(name, stamp, seconds):
    assert retry_after({name: stamp, "content-type": "text/plain"}) == seconds


def test_milliseconds_go_before_seconds():
    assert retry_after({"Retry-After-Ms": "300", "Retry-After": "7"}) == pytest.approx(0.3)
    assert retry_after({"retry-after-ms": "soon", "retry-after": "7"}) == 7


def test_a_date_is_so_many_seconds_from_now():
    stamp = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert 85 < retry_after({"retry-after": stamp}) <= 90
