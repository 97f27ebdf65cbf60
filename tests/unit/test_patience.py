"""What a vendor's Retry-After says."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from connectors.http.retries import LONGEST_ASKED, seconds_asked


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        ("3", 3),
        (" 0 ", 0),
        ("999999999", LONGEST_ASKED),
        ("9" * 400, LONGEST_ASKED),
        ("-5", None),
        ("soon", None),
        ("", None),
        (None, None),
        ("\u0663", None),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
    ],
)
def test_seconds_asked(stamp, seconds):
    assert seconds_asked(stamp) == seconds


def test_a_date_is_so_many_seconds_from_now():
    stamp = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert 85 < seconds_asked(stamp) <= 90
