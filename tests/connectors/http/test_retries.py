"""Retry-After and waits for a rate limit, shared by all vendors."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from connectors.http.retries import MAX_RETRY_AFTER_SECONDS, Bucket, Retries, retry_after
from retrieval.errors import Retryable

CONNECTORS = Path(__file__).resolve().parents[3] / "connectors"


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


def test_without_the_header_there_is_no_delay():
    assert retry_after({}) is None


def test_milliseconds_go_before_seconds():
    assert retry_after({"Retry-After-Ms": "300", "Retry-After": "7"}) == pytest.approx(0.3)
    assert retry_after({"retry-after-ms": "soon", "retry-after": "7"}) == 7


def test_a_date_is_so_many_seconds_from_now():
    stamp = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert 85 < retry_after({"retry-after": stamp}) <= 90


def call_without_waiting(bucket):
    return Retries("Vendor", bucket, seconds=0, tries=1).call(lambda: "answer")


def test_an_empty_bucket_is_this_services_own_limit():
    bucket = Bucket(per_minute=1, burst=1)
    assert call_without_waiting(bucket) == "answer"
    with pytest.raises(Retryable, match="this service's own rate limit") as refusal:
        call_without_waiting(bucket)
    assert "429" not in str(refusal.value)
    assert 0 < refusal.value.after <= 60


def test_a_pause_after_a_429_is_the_vendors_limit():
    bucket = Bucket(per_minute=600, burst=10)
    bucket.pause(30)
    with pytest.raises(Retryable, match=r"Vendor takes no more requests for now \(429\)"):
        call_without_waiting(bucket)


def test_nobody_else_reads_the_header():
    """Five readers once disagreed about fractions, dates and the longest wait."""
    readers = [
        str(path.relative_to(CONNECTORS))
        for path in CONNECTORS.rglob("*.py")
        if '"retry-after' in path.read_text().lower()
    ]
    assert readers == ["http/retries.py"]
