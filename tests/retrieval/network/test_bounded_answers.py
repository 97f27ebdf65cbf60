"""Responses are bounded in bytes and time for both HTTP clients of the SDKs."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any, ClassVar

import httpx
import pytest

from retrieval.network.transport import BoundedTransport
from tests.standins import faults
from tests.standins.faults import Handler, served

MAX_ANSWER_BYTES = 1_000_000


@pytest.fixture
def http() -> ModuleType:
    return httpx


class _Site(Handler):
    answer: Any = None
    calls: ClassVar[list[str | None]]

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        self.calls.append(self.headers["Accept-Encoding"])
        self.answer()


@pytest.fixture
def site() -> Iterator[tuple[type[_Site], str]]:
    class Bound(_Site):
        calls: ClassVar[list[str | None]] = []

    with served(Bound) as port:
        yield Bound, f"http://127.0.0.1:{port}/"


def got(http: ModuleType, url: str, seconds: float = 10) -> Any:
    transport = BoundedTransport(ssl.create_default_context(), max_bytes=MAX_ANSWER_BYTES)
    with http.Client(transport=transport, timeout=seconds, trust_env=False) as client:
        return client.get(url)


@pytest.mark.parametrize("size", [0, MAX_ANSWER_BYTES])
def test_what_is_not_too_large_comes_as_it_is(http: ModuleType, site: tuple[Any, str], size: int) -> None:
    server, url = site
    server.answer = lambda self: self.reply(200, b"x" * size)
    assert got(http, url).content == b"x" * size
    assert server.calls == ["identity"]


def test_a_larger_answer_is_broken_off(http: ModuleType, site: tuple[Any, str]) -> None:
    server, url = site
    server.answer = lambda self: self.reply(200, b"x" * (MAX_ANSWER_BYTES + 1))
    with pytest.raises(http.DecodingError, match="too large"):
        got(http, url)


@pytest.mark.parametrize("times", [1, 2])
def test_a_packed_answer_is_refused(http: ModuleType, site: tuple[Any, str], times: int) -> None:
    server, url = site
    server.answer = faults.packed(b"x", times=times)
    with pytest.raises(http.DecodingError, match="packed"):
        got(http, url)


def test_an_answer_that_drips_ends_in_time(http: ModuleType, site: tuple[Any, str]) -> None:
    server, url = site
    server.answer = faults.drips
    started = time.monotonic()
    with pytest.raises(http.ReadTimeout):
        got(http, url, seconds=1)
    assert time.monotonic() - started < 2.9
