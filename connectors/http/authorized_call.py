"""Requests in the name of a connection: a refused token is renewed once, a rate limit is waited for.

policy.call(tokens, request)
    └─ retries: 429 pauses every thread of the connection, passing trouble is tried again, both end
        └─ token: fresh from the connection's row; after a 401 renewed under its lock, then FAILED
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from connectors.http.retries import Bucket, Retries
from retrieval.ports import TokenSource

T = TypeVar("T")


class Refused(Exception):
    """The service does not accept this access token (401)."""


@dataclass(frozen=True, slots=True)
class ServicePolicy:
    """How one content service wants to be asked, a connection. `seconds`: how long one call may wait for its turn."""

    service: str
    per_minute: float = 600
    burst: int = 10
    seconds: float = 120
    tries: int = 4

    def call(self, tokens: TokenSource, request: Callable[[str], T]) -> T:
        """What `request(access token)` returns. It raises Refused, Busy, Passing, or one of the port's errors."""
        retries = Retries(self.service, self._bucket(tokens.connection_id), self.seconds, self.tries)
        return retries.ask(lambda: self._with_token(tokens, request))

    def _with_token(self, tokens: TokenSource, request: Callable[[str], T]) -> T:
        token = tokens.token()
        try:
            return request(token)
        except Refused:
            token = tokens.renewed(token)
        try:
            return request(token)
        except Refused:
            raise tokens.ended(
                f"{self.service} refuses the access, also after it was renewed: authorize the connection again.", token
            ) from None

    def _bucket(self, connection_id: str) -> Bucket:
        return _bucket(self.service, connection_id, self.per_minute, self.burst)


@lru_cache(maxsize=1024)
def _bucket(_service: str, _connection_id: str, per_minute: float, burst: int) -> Bucket:
    """One for each connection that this process speaks for."""
    return Bucket(per_minute, burst)
