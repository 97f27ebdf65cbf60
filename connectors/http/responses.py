"""What vendors' answers and failures mean, in the same words for all: a rate limit, a transient error, no answer.

A refusal that is a vendor's own (a scope, a spoilt cursor, no credit) is read where the vendor is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager

from connectors.http.retries import Busy, Late, Passing, retry_after

PASSING = frozenset({408, 425})
"""Statuses below 500 that pass by themselves everywhere: a request timeout, and "too early"."""
BUSY = frozenset({429})


def transient_error(
    service: str,
    status: int,
    headers: Mapping[str, str],
    *,
    passing: AbstractSet[int] = frozenset(),
    busy: AbstractSet[int] = frozenset(),
    busy_if_asked: AbstractSet[int] = frozenset(),
) -> Busy | Passing | None:
    """Busy for 429, Passing for 408, 425 and 5xx; None for any other answer.

    A vendor's own: more statuses that are `passing` or `busy`, or are `busy_if_asked`, with a Retry-After.
    """
    after = retry_after(headers)
    if status in BUSY | busy or (status in busy_if_asked and after is not None):
        return Busy(after)
    if status in PASSING | passing or status >= 500:
        return Passing(f"{service} answered with an error of its own ({status}).")
    return None


def unreadable(service: str) -> Passing:
    """The answer is not what this service answers with."""
    return Passing(f"{service}'s answer cannot be read; another server may answer at its address.")


@contextmanager
def reached(service: str, seconds: float) -> Iterator[None]:
    """Failures of httpx: Late for no answer within `seconds`, Passing for no connection, one that broke off, or an
    answer that cannot be unpacked or is too large."""
    import httpx

    try:
        yield
    except httpx.TimeoutException as error:
        raise late(service, seconds) from error
    except httpx.DecodingError as error:
        raise unreadable(service) from error
    except httpx.HTTPError as error:
        raise unreached(service) from error


@contextmanager
def reached_by_requests(service: str, seconds: float) -> Iterator[None]:
    """The same for `requests`. No cause is kept: it may repeat an address that opens a file."""
    import requests
    from urllib3.exceptions import HTTPError

    try:
        yield
    except requests.Timeout:
        raise late(service, seconds) from None
    except (requests.RequestException, HTTPError):
        raise unreached(service) from None


def late(service: str, seconds: float) -> Late:
    """No answer in time."""
    return Late(f"{service} did not answer within {seconds:.0f} s.")


def unreached(service: str) -> Passing:
    """No connection, or one that broke off."""
    return Passing(f"{service} could not be reached, or its answer broke off.")
