"""Hints of content services: signatures, challenges, and what a person enters at the service."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

# Slack: a request older than five minutes may be a replay.
TIMESTAMP_WINDOW_SECONDS = 300
MAX_CHALLENGE_LENGTH = 500
_MAX_TOKEN_LENGTH = 200
_VERIFICATION_FIELD = "verification_token"
_REAUTHORIZATION_EVENT = "reauthorizationRequired"


class SecretOrigin(StrEnum):
    """Where the secret of a push address comes from."""

    GENERATED = "GENERATED"
    SENT = "SENT"
    APP = "APP"
    RECEIVED = "RECEIVED"
    # Of a subscription that the dispatcher creates; nobody else needs it.
    SUBSCRIPTION = "SUBSCRIPTION"


@dataclass(frozen=True, slots=True)
class PushRequest:
    """Request to a push address; header names in lower case. `moment`: seconds since 1970."""

    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    moment: float
    # Token by which Microsoft checks an address.
    validation_token: str | None = None


@dataclass(frozen=True, slots=True)
class PushAnswer:
    """Answer to the service. `is_hint`: content may have changed. `secret`: to keep, sent by the service."""

    content: str = ""
    is_hint: bool = True
    secret: str | None = field(default=None, repr=False)
    # The request proves nothing about its sender.
    is_unsigned: bool = False
    # The subscription must be renewed or created again now.
    needs_renewal: bool = False


class WrongSignature(Exception):
    """Signature missing, wrong or expired."""


@dataclass(frozen=True, slots=True)
class PushVendor:
    """Service with push. `page`: the service's documentation; `setup`: what a person enters there."""

    read: Callable[[PushRequest, str | None, str | None], PushAnswer]
    secret_origin: SecretOrigin
    page: str
    setup: str
    # Answers a GET request with the parameter `challenge`.
    has_get_challenge: bool = False


def _read_github(request: PushRequest, secret: str | None, _account: str | None) -> PushAnswer:
    _require(request.headers.get("x-hub-signature-256"), "sha256=" + _sign(secret, request.body))
    return PushAnswer(is_hint=request.headers.get("x-github-event") != "ping")


def _read_slack(request: PushRequest, secret: str | None, _account: str | None) -> PushAnswer:
    timestamp = request.headers.get("x-slack-request-timestamp", "")
    is_number = timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12
    if not is_number or abs(request.moment - int(timestamp)) > TIMESTAMP_WINDOW_SECONDS:
        raise WrongSignature
    signed = _sign(secret, f"v0:{timestamp}:".encode() + request.body)
    _require(request.headers.get("x-slack-signature"), "v0=" + signed)
    content = _read_object(request.body)
    if content.get("type") != "url_verification":
        return PushAnswer()
    challenge = content.get("challenge")
    return PushAnswer(challenge[:MAX_CHALLENGE_LENGTH] if isinstance(challenge, str) else "", is_hint=False)


def _read_dropbox(request: PushRequest, secret: str | None, account: str | None) -> PushAnswer:
    _require(request.headers.get("x-dropbox-signature"), _sign(secret, request.body))
    # Dropbox sends the changes of all users of an app to each of its addresses.
    folder = _read_object(request.body).get("list_folder")
    accounts = folder.get("accounts") if isinstance(folder, dict) else None
    is_other = isinstance(accounts, list) and (account or "").startswith("dbid:") and account not in accounts
    return PushAnswer(is_hint=not is_other)


def _read_notion(request: PushRequest, secret: str | None, _account: str | None) -> PushAnswer:
    token = _read_object(request.body).get(_VERIFICATION_FIELD)
    if isinstance(token, str) and "x-notion-signature" not in request.headers:
        # The first token is kept; a later one could be anybody's.
        if not 16 <= len(token) <= _MAX_TOKEN_LENGTH or (secret is not None and not _equals(token, secret)):
            raise WrongSignature
        return PushAnswer(is_hint=False, secret=token if secret is None else None)
    _require(request.headers.get("x-notion-signature"), "sha256=" + _sign(secret, request.body))
    return PushAnswer()


def _read_drive(request: PushRequest, secret: str | None, _account: str | None) -> PushAnswer:
    _require(request.headers.get("x-goog-channel-token"), secret or "")
    # The first request of a channel is no change.
    return PushAnswer(is_hint=request.headers.get("x-goog-resource-state") != "sync")


def _read_graph(request: PushRequest, secret: str | None, _account: str | None) -> PushAnswer:
    if request.validation_token is not None:
        if len(request.validation_token) > MAX_CHALLENGE_LENGTH:
            raise WrongSignature
        return PushAnswer(request.validation_token, is_hint=False, is_unsigned=True)
    entries = _read_object(request.body).get("value")
    if not isinstance(entries, list) or not entries:
        raise WrongSignature
    for entry in entries:
        state = entry.get("clientState") if isinstance(entry, dict) else None
        _require(state if isinstance(state, str) else None, secret or "")
    events = {entry.get("lifecycleEvent") for entry in entries}
    return PushAnswer(
        is_hint=bool(events - {_REAUTHORIZATION_EVENT}),
        needs_renewal=not events.isdisjoint({_REAUTHORIZATION_EVENT, "subscriptionRemoved"}),
    )


_SUBSCRIBED_WORDS = (
    "Nothing: the Retrieval Service subscribes to changes by the connection, and renews that. RETRIEVAL_PUBLIC_URL must"
    " be an address of the API that {name} reaches by https."
)


def _make_graph_vendor(name: str) -> PushVendor:
    return PushVendor(
        _read_graph,
        SecretOrigin.SUBSCRIPTION,
        "https://learn.microsoft.com/graph/change-notifications-delivery-webhooks",
        _SUBSCRIBED_WORDS.format(name=name),
    )


PUSH_VENDORS: Mapping[str, PushVendor] = {
    "GITHUB": PushVendor(
        _read_github,
        SecretOrigin.GENERATED,
        "https://docs.github.com/en/webhooks/using-webhooks/creating-webhooks",
        "In the settings of the repository or organization, under Webhooks, add a webhook: the address as Payload URL, "
        "application/json as Content type, the secret as Secret, and the events that you ingest, such as Issues, Issue "
        "comments, Pull requests, Pushes, Releases and Wiki.",
    ),
    "SLACK": PushVendor(
        _read_slack,
        SecretOrigin.SENT,
        "https://docs.slack.dev/apis/events-api/using-http-request-urls",
        "In the settings of the Slack app, under Basic Information, copy the Signing Secret and send it here as "
        "`secret`. Then enable Event Subscriptions with the address as Request URL, subscribe to the bot events "
        "message.channels and message.groups, and reinstall the app.",
    ),
    "DROPBOX": PushVendor(
        _read_dropbox,
        SecretOrigin.APP,
        "https://www.dropbox.com/developers/reference/webhooks",
        "In the settings of the app in Dropbox's App Console, under Webhooks, add the address as Webhook URI.",
        has_get_challenge=True,
    ),
    "NOTION": PushVendor(
        _read_notion,
        SecretOrigin.RECEIVED,
        "https://developers.notion.com/reference/webhooks",
        "In the settings of the integration, under Webhooks, create a subscription with the address and the events of "
        "pages and data sources. Notion sends a token to the address: turn push on again to receive it as `secret`, "
        "and enter it in Notion to verify the subscription.",
    ),
    "GOOGLE_DRIVE": PushVendor(
        _read_drive,
        SecretOrigin.SUBSCRIPTION,
        "https://developers.google.com/workspace/drive/api/guides/push",
        _SUBSCRIBED_WORDS.format(name="Google"),
    ),
    "ONEDRIVE": _make_graph_vendor("Microsoft"),
    "OUTLOOK_MAIL": _make_graph_vendor("Microsoft"),
}


def _sign(secret: str | None, content: bytes) -> str:
    # Without a secret no signature is right; the work is the same.
    if secret is None:
        hmac.digest(b"none", content, hashlib.sha256)
        return ""
    return hmac.digest(secret.encode(), content, hashlib.sha256).hex()


def _require(signature: str | None, expected: str) -> None:
    """Raise WrongSignature unless equal; an expected signature without a digest equals none."""
    if signature is None or expected.rpartition("=")[2] == "" or not _equals(signature, expected):
        raise WrongSignature


def _equals(signature: str, expected: str) -> bool:
    return hmac.compare_digest(signature.encode(), expected.encode())


def _read_object(body: bytes) -> Mapping[str, Any]:
    """Parse a JSON object; empty for anything else."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
