"""Responses are bounded in bytes and time for the HTTP client of the SDKs."""

import ssl
import time

import httpx
import pytest

from retrieval.network.transport import BoundedTransport
from tests.standins import faults
from tests.standins.faults import Handler, served

MAX_ANSWER_BYTES = 1_000_000


@pytest.fixture
def fetch():
    """Return a function: fetch the given answer; the request must ask for no compression."""

    def fetch_answer(answer, seconds=10):
        class Site(Handler):
            def do_GET(self):  # noqa: N802 - the name that http.server calls
                assert self.headers["Accept-Encoding"] == "identity"
                answer(self)

        transport = BoundedTransport(ssl.create_default_context(), max_bytes=MAX_ANSWER_BYTES)
        with served(Site) as port, httpx.Client(transport=transport, timeout=seconds, trust_env=False) as client:
            return client.get(f"http://127.0.0.1:{port}/").content

    return fetch_answer


@pytest.mark.parametrize("size", [0, MAX_ANSWER_BYTES])
def test_what_is_not_too_large_comes_as_it_is(fetch, size):
    assert fetch(lambda site: site.reply(200, b"x" * size)) == b"x" * size


def test_a_larger_answer_is_broken_off(fetch):
    with pytest.raises(httpx.DecodingError, match="too large"):
        fetch(lambda site: site.reply(200, b"x" * (MAX_ANSWER_BYTES + 1)))


@pytest.mark.parametrize("times", [1, 2])
def test_a_packed_answer_is_refused(fetch, times):
    with pytest.raises(httpx.DecodingError, match="packed"):
        fetch(faults.packed(b"x", times=times))


def test_an_answer_that_drips_ends_in_time(fetch):
    started = time.monotonic()
    with pytest.raises(httpx.ReadTimeout):
        fetch(faults.drips, seconds=1)
    assert time.monotonic() - started < 2.9
