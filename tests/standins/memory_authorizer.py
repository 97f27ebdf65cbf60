"""The Authorizer port in memory, for tests without HTTP."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from retrieval.errors import Fatal
from retrieval.ports import Tokens

if TYPE_CHECKING:
    from retrieval.errors import StepError


class MemoryAuthorizer:
    """Authorizer with single-use refresh tokens, as at Box; `trouble` is raised instead of an answer."""

    pkce = True

    def __init__(self, lasts: timedelta = timedelta(hours=1)) -> None:
        self.lasts = lasts
        self.trouble: StepError | None = None
        self.refreshes = 0
        self.revoked: list[Tokens] = []
        self._good: set[str] = set()
        self._numbers = itertools.count(1)

    @property
    def authorizer(self) -> MemoryAuthorizer:
        """This object, for callers of a connector's authorizer."""
        return self

    def authorize_url(self, *, redirect_uri: str, state: str, challenge: str | None) -> str:
        return f"https://memory.example/authorize?redirect_uri={redirect_uri}&state={state}&code_challenge={challenge}"

    def exchange_code(self, code: str, *, redirect_uri: str, verifier: str | None) -> Tokens:
        self._stumble()
        if code != "good" or not redirect_uri or not verifier:
            raise Fatal("Memory refused the code.")
        return self._fresh()

    def refresh(self, tokens: Tokens) -> Tokens:
        self._stumble()
        self.refreshes += 1
        if tokens.refresh_token not in self._good:
            raise Fatal("Memory refused the refresh token.")
        self._good.discard(tokens.refresh_token)
        return self._fresh()

    def revoke(self, tokens: Tokens) -> None:
        self._stumble()
        self.revoked.append(tokens)

    def _fresh(self) -> Tokens:
        number = next(self._numbers)
        self._good.add(f"refresh-{number}")
        return Tokens(f"access-{number}", f"refresh-{number}", datetime.now(UTC) + self.lasts)

    def _stumble(self) -> None:
        if self.trouble is not None:
            raise self.trouble
