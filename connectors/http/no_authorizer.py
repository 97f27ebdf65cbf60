"""`Authorizer` for credentials from a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from retrieval.errors import Fatal

if TYPE_CHECKING:
    from retrieval.ports import Tokens

REFUSED: Final = "The service refuses the credentials: send the connection's config again."


class NoAuthorizer:
    """Authorizer that refuses all authorizations."""

    pkce = False

    def authorize_url(self, *, redirect_uri: str, state: str, challenge: str | None) -> str:  # noqa: ARG002
        raise Fatal(REFUSED)

    def exchange_code(self, code: str, *, redirect_uri: str, verifier: str | None) -> Tokens:  # noqa: ARG002
        raise Fatal(REFUSED)

    def refresh(self, tokens: Tokens) -> Tokens:  # noqa: ARG002
        raise Fatal(REFUSED)

    def revoke(self, tokens: Tokens) -> None:
        """Keep the credentials."""


class MissingApp(NoAuthorizer):
    """Authorizer of a service whose app the namespace does not have; `message` advises."""

    def __init__(self, message: str) -> None:
        self.message = message

    def revoke(self, tokens: Tokens) -> None:
        """Keep an organization's credentials. Fatal for tokens of a person."""
        if not tokens.is_config:
            raise Fatal(self.message)
